// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// call runs the tool and returns its exit code and what it wrote to stderr.
func call(ctx context.Context, t *testing.T, args ...string) (int, string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, &stdout, &stderr)
	if stdout.Len() > 0 {
		t.Errorf("stdout %q", stdout.String())
	}
	return code, stderr.String()
}

// samples reads a recording: how many samples of each GPU it holds. It checks
// that they are an interval apart, and returns the last status of GPU 0.
func samples(t *testing.T, path string, interval time.Duration) (counts []int, status gpu.Status) {
	t.Helper()
	src, err := gpu.NewReplay(path, gpu.ReplayOptions{Speed: math.Inf(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	devices, err := src.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		n, last := 0, time.Duration(0)
		for {
			if _, err := d.Wait(t.Context()); errors.Is(err, io.EOF) {
				break
			}
			s, err := d.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n > 0 && s.T-last != interval {
				t.Fatalf("GPU %d: samples are %s apart", d.Info().Index, s.T-last)
			}
			n, last = n+1, s.T
			if d.Info().Index == 0 {
				if err := d.ReadGroup(t.Context(), gpu.GroupPower, &status); err != nil {
					t.Fatal(err)
				}
			}
		}
		counts = append(counts, n)
	}
	return counts, status
}

func TestRecord(t *testing.T) {
	for _, name := range []string{"plain", "compressed.gz"} {
		path := filepath.Join(t.TempDir(), name)
		code, stderr := call(t.Context(), t, "record", "--output="+path, "--source=sim:healthy", "--source.speed=inf", "--interval=2s", "--duration=5m")
		if code != exitOK || !strings.Contains(stderr, "samples 750, GPUs 5") {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		counts, status := samples(t, path, 2*time.Second)
		for i, n := range counts {
			if n != 150 {
				t.Errorf("%s: %d samples of GPU %d", name, n, i)
			}
		}
		if len(counts) != 5 || !status.Power.Watts.OK {
			t.Errorf("%s: %d GPUs, power %v", name, len(counts), status.Power)
		}
		text, err := os.ReadFile(path)
		if err != nil || bytes.HasPrefix(text, []byte{0x1f, 0x8b}) != strings.HasSuffix(name, ".gz") {
			t.Errorf("%s: begins with %x, %v", name, text[:2], err)
		}
		if left, err := filepath.Glob(path + ".*"); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

// TestRecordAgain records a recording, to its end.
func TestRecordAgain(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "1"), filepath.Join(dir, "2.gz")
	if code, stderr := call(t.Context(), t, "record", "--output="+first, "--source=sim:leak", "--source.speed=inf", "--duration=1m"); code != exitOK {
		t.Fatal(stderr)
	}
	if code, stderr := call(t.Context(), t, "record", "--output="+second, "--source=replay:"+first, "--source.speed=inf"); code != exitOK {
		t.Fatal(stderr)
	}
	if counts, _ := samples(t, second, time.Second); len(counts) != 1 || counts[0] != 60 {
		t.Errorf("samples %v", counts)
	}
}

// TestInterrupt ends a recording as Ctrl-C does.
func TestInterrupt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.gz")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type result struct {
		code   int
		stderr string
	}
	ended := make(chan result)
	go func() {
		code, stderr := call(ctx, t, "record", "--output="+path, "--source=sim:leak", "--source.speed=1000")
		ended <- result{code, stderr}
	}()
	for poll := time.NewTicker(10 * time.Millisecond); ; <-poll.C {
		// The compressor writes in large pieces.
		if info, err := os.Stat(path + ".partial"); err == nil && info.Size() > 1000 {
			break
		}
	}
	cancel()
	if r := <-ended; r.code != exitOK || !strings.Contains(r.stderr, "recorded "+path) {
		t.Errorf("%+v", r)
	}
	if counts, _ := samples(t, path, time.Second); len(counts) != 1 || counts[0] == 0 {
		t.Errorf("samples %v", counts)
	}
}

// TestFaultyGPUs ends though a GPU hangs, one is lost and one fails now and then.
func TestFaultyGPUs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r")
	code, stderr := call(t.Context(), t, "record", "--output="+path, "--source=sim:faulty", "--source.speed=inf", "--duration=5m", "--nvml.timeout=1s")
	if code != exitOK {
		t.Fatal(stderr)
	}
	for _, want := range []string{"GPU 2 cannot be read, will try again", "a GPU is left out from where its driver has not answered"} {
		if strings.Count(stderr, want) != 1 {
			t.Errorf("no %q once in\n%s", want, stderr)
		}
	}
}

func TestWrongCalls(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	half := filepath.Join(dir, "half")
	for _, path := range []string{there, half + ".partial"} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ args, want string }{
		{"", "choose a command; try --help"},
		{"rewind", `expected command but got "rewind"`},
		{"record", "required flag(s) '--output' not provided"},
		{"record --output=x --duration=1", "--duration=1: is not a duration, such as 500ms, 90s, 1h30m or 1d"},
		{"record --output=x --interval=0s", "--interval=0s: must be between 100ms and 1m"},
		{"record --output=x --source.speed=2", "--source.speed needs --source=sim:SCENARIO or --source=replay:FILE: a driver has no speed"},
		{"record --output=x --source=sim:y", `--source=sim:y: unknown scenario "y": choose one of node, leak, healthy, faulty, mig, churn, crashloop, nodriver`},
		{"record --source=sim:leak --output=" + there, "--output=" + there + ": exists already: choose another name or remove it"},
		{"record --source=sim:leak --output=" + half, "--output=" + half + ": " + half + ".partial exists: remove it unless another recording is under way"},
		{"record --source=sim:leak --output=/none/x", "--output=/none/x: open /none/x.partial: no such file or directory"},
	} {
		code, stderr := call(t.Context(), t, strings.Fields(tt.args)...)
		if want := program + ": error: " + tt.want + "\n"; code != exitWrong || stderr != want {
			t.Errorf("%q: exit code %d, stderr %q, want %q", tt.args, code, stderr, want)
		}
	}
}

// TestNothingRecorded leaves no file where no sample was taken.
func TestNothingRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, stderr := call(ctx, t, "record", "--output="+path, "--source=sim:leak")
	if code != exitWrong || stderr != "gpuleaktool: error: no sample was taken, so there is no recording\n" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if left, err := filepath.Glob(path + "*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestHelp(t *testing.T) {
	for flag, want := range map[string]string{"--help": "record", "--version": program + ", version "} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{flag}, &stdout, &stderr); code != exitOK || !strings.Contains(stdout.String(), want) || stderr.Len() > 0 {
			t.Errorf("%s: exit code %d, %s%s", flag, code, stdout.String(), stderr.String())
		}
	}
}
