// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/livesfile"
	"github.com/gpuleak/gpu_leak_exporter/collector"
	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
)

// livesOf returns how many lives the file holds.
func livesOf(t *testing.T, path string) (n int) {
	t.Helper()
	f, err := livesfile.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Book.Programs() {
		n += len(p.Lives)
	}
	return n
}

// keeping runs test beside a keeper, in a bubble whose clock is the test's.
func keeping(t *testing.T, path string, test func(k *livesKeeper, end func(), out *output)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		out := &output{}
		k := newLivesKeeper(path, log.NewLogfmtLogger(out))
		ctx, cancel := context.WithCancel(t.Context())
		go k.keep(ctx)
		test(k, cancel, out)
		cancel()
		k.finish()
	})
}

// after waits and lets everybody do what there is to do then.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func ended(k *livesKeeper, at lives.Seconds) {
	k.book().Add(lives.ID{Exact: 1, Program: "train.py"}, &lives.Life{Ended: at, Height: 5, Peak: 5}, 1<<62)
}

// The file is written at the start, when a life has ended, but not again within livesPause, and at the end.
func TestLivesAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lives")
	keeping(t, path, func(k *livesKeeper, end func(), _ *output) {
		after(0)
		state := k.with(func() *collector.State { return &collector.State{} })().LivesFile
		if livesOf(t, path) != 0 || state == nil || !state.Success || !state.Time.Equal(time.Now()) {
			t.Errorf("at the start: %+v", state)
		}
		for _, step := range []struct {
			wait time.Duration
			ends bool
			want int
		}{
			{0, true, 0},              // it has just been written
			{livesPause - 1, true, 0}, //
			{1, false, 2},
			{time.Hour, true, 3}, // at once
			{0, true, 3},
		} {
			time.Sleep(step.wait)
			if step.ends {
				ended(k, lives.SecondsOf(time.Since(time.Unix(0, 0))))
			}
			synctest.Wait()
			if n := livesOf(t, path); n != step.want {
				t.Errorf("%s later: %d lives, want %d", step.wait, n, step.want)
			}
		}
		end()
	})
	if n := livesOf(t, path); n != 4 {
		t.Errorf("at the end: %d lives", n)
	}
	keeping(t, path, func(k *livesKeeper, _ func(), out *output) {
		if p := k.book().Programs(); len(p) != 1 || len(p[0].Lives) != 4 || !strings.Contains(out.String(), "earlier lives of programs are known") {
			t.Errorf("after a restart: %+v, log %s", p, out)
		}
	})
}

func TestLivesFileThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "absent")
	keeping(t, filepath.Join(dir, "lives"), func(k *livesKeeper, _ func(), out *output) {
		ended(k, 1)
		after(10 * livesPause)
		if w := k.saved.Load(); w.Success || !w.Time.IsZero() {
			t.Errorf("%+v", w)
		}
		if n := strings.Count(out.String(), "would lose the lives"); n != 1 {
			t.Errorf("said %d times that it cannot be written", n)
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		after(livesPause)
		if w := k.saved.Load(); !w.Success || livesOf(t, k.path) != 1 {
			t.Errorf("once the directory is there: %+v", w)
		}
	})
}

func TestWithoutALivesFile(t *testing.T) {
	keeping(t, "", func(k *livesKeeper, _ func(), _ *output) {
		ended(k, 1)
		after(time.Minute)
		if k.saved.Load() != nil || len(k.book().Programs()) != 1 {
			t.Errorf("%+v", k.saved.Load())
		}
	})
}

// A file that is of no use keeps nobody from starting, and is not lost.
func TestLivesFileOfNoUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lives")
	f := livesfile.New()
	f.Book.Add(lives.ID{Exact: 1, Program: "train.py"}, &lives.Life{Ended: 100, Height: 5, Peak: 5}, 1<<62)
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	node, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		content []byte
		level   string // "" for none
		says    string
		lives   int
	}{
		"its own":            {node, "info", "are known", 1},
		"another program's":  {[]byte("hello\n"), "error", "is not a lives file of gpu_leak_exporter", 0},
		"the state file":     {[]byte("gpu_leak_exporter state v1 crc32c=00000000\n"), "error", "is not a lives file", 0},
		"empty":              {nil, "error", "it is empty", 0},
		"of a later version": {[]byte("gpu_leak_exporter lives v2 crc32c=00000000\n{}"), "error", "of another version", 0},
		"cut":                {node[:len(node)-5], "error", "checksum", 0},
	} {
		if err := os.WriteFile(path, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(path + ".bad")
		out := &output{}
		k := newLivesKeeper(path, log.NewLogfmtLogger(out))
		if strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "level="+c.level) || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: log %s", name, out)
			continue
		}
		if n := len(k.book().Programs()); n != c.lives {
			t.Errorf("%s: %d programs", name, n)
		}
		if made := k.namer.ID(lives.Identity{Program: "train.py"}); made != lives.NewNamer(k.file.Secret).ID(lives.Identity{Program: "train.py"}) {
			t.Errorf("%s: it makes other keys than those of the file", name)
		}
		if kept, err := os.ReadFile(path + ".bad"); (err == nil && bytes.Equal(kept, c.content)) == (c.lives > 0) {
			t.Errorf("%s: kept %q, %v", name, kept, err)
		}
	}
}

// TestLivesFile ends the program, which leaves what it knew behind.
func TestLivesFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lives")
	for _, says := range []string{"", "earlier lives of programs are known"} {
		r := startProgram(t, "--source=sim:crashloop", "--source.speed=100", "--detector.lives-file="+path)
		eventually(t, r.contains(t, "/metrics", "gpu_leak_exporter_lives_file_last_write_successful 1"))
		if code := r.end(); code != exitOK || !strings.Contains(r.stderr.String(), says) {
			t.Errorf("exit code %d, log %s", code, r.stderr)
		}
		livesOf(t, path)
	}
}
