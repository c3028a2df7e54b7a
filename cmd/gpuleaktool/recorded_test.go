// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// TestLeftOut warns of the lines of logs that are of no use, in the order of the files.
func TestLeftOut(t *testing.T) {
	const head = "timestamp, uuid, memory.used [MiB]\n2026/03/01 10:00:00.000, GPU-a, 10 MiB\n"
	messages := write(t, "messages.csv", head+"No devices were found\n2026/03/01 10:00:02")
	berlin := write(t, "berlin.csv", head+"2026/10/25 02:30:00.000, GPU-a, 10 MiB\n2026/10/25 02:10:00.000, GPU-a, 10 MiB\n")
	nothing := write(t, "nothing.csv", "timestamp, uuid, memory.used [MiB]\n2026/03/01 10:00")
	ofMessages := messages + ": left out 1 line, line 3: is no part of the log: \"No devices were found\"\n" +
		"gpuleaktool: " + messages + ": left out 1 line, line 4: the file ends inside it: \"2026/03/01 10:00:02\"\n"
	for _, c := range []struct {
		args, stderr string
		code         int
	}{
		{berlin + " " + messages, "gpuleaktool: " + berlin + ": left out 1 line, line 4: 2026/10/25 02:10:00.000 of GPU \"GPU-a\" is not after 2026/10/25 02:30:00.000, its row before: " +
			"the clock was set back, as where daylight saving ends and --timezone is not given, two recordings overlap, or several GPUs are taken for one\ngpuleaktool: " + ofMessages, unjudged},
		{"--timezone=Europe/Berlin " + berlin, "", unjudged},
		{nothing, "gpuleaktool: " + nothing + ": left out 1 line, line 2: the file ends inside it: \"2026/03/01 10:00\"\n" +
			"gpuleaktool: error: " + nothing + ": holds no samples: let the recording run longer\n", exitWrong},
	} {
		code, _, stderr := tool(t.Context(), append([]string{"backtest", "--output=json"}, strings.Fields(c.args)...)...)
		if code != c.code || stderr != c.stderr {
			t.Errorf("%s: exit code %d, stderr %s\nwant %d, %s", c.args, code, stderr, c.code, c.stderr)
		}
	}
}

// pipe makes a file the standard input of the test.
func pipe(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	testkit.Must(t, err)
	before := os.Stdin
	os.Stdin = file
	t.Cleanup(func() {
		os.Stdin = before
		file.Close()
	})
}

func TestStandardInput(t *testing.T) {
	bad := write(t, "bad", "timestamp,memory.used [MiB]\n2026/03/01 00:00:00.000,x\n")
	_, want, _ := tool(t.Context(), "backtest", "--output=json", "testdata/leak.csv")
	for _, args := range [][]string{{"-"}, {"--", "-"}} {
		pipe(t, "testdata/leak.csv")
		code, stdout, stderr := tool(t.Context(), append([]string{"backtest", "--output=json"}, args...)...)
		if code != exitLeak || stdout != want || stderr != "" {
			t.Errorf("from %q: exit code %d, %s", args, code, stderr)
		}
	}
	pipe(t, "testdata/leak.csv")
	if _, stdout, _ := tool(t.Context(), "backtest", "--output=json", "-", "testdata/healthy.csv"); !strings.Contains(stdout, `"file":"standard input"`) {
		t.Errorf("no line names the standard input: %.300s", stdout)
	}
	for _, c := range []struct {
		name, input string
		args        []string
		want        string
	}{
		{"a bad line", bad, []string{"-"}, `standard input:2: memory.used: cannot read "x" as memory such as 1234 MiB: "2026/03/01 00:00:00.000,x"`},
		{"twice", bad, []string{"-", "-"}, "standard input: can be read only once"},
		{"and a Prometheus", bad, []string{"-", "--prometheus.url=http://localhost:1", "--query=a", "--start=-1h"}, "either files or --prometheus.url, not both: -"},
		{"a device", os.DevNull, []string{"-"}, "standard input: nothing is piped into it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pipe(t, c.input)
			code, stdout, stderr := tool(t.Context(), append([]string{"backtest"}, c.args...)...)
			if code != exitWrong || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q, want %q", code, stdout, stderr, c.want)
			}
		})
	}
}

// TestSilentPipe has an input whose writer says nothing: a signal and an error in another file
// end the wait for it.
func TestSilentPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	testkit.Must(t, syscall.Mkfifo(path, 0o600))
	silent, err := os.OpenFile(path, os.O_RDWR, 0) // as a reader, too: that waits for nobody
	testkit.Must(t, err)
	defer silent.Close() // then the readers that were left behind end
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	for _, c := range []struct {
		ctx  context.Context
		args []string
		want string
	}{
		{ctx, []string{path}, "interrupted"},
		{t.Context(), []string{"testdata/missing", path}, "no such file"},
	} {
		code, stdout, stderr := 0, "", ""
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			code, stdout, stderr = tool(c.ctx, append([]string{"backtest"}, c.args...)...)
		}()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatalf("%q: does not end", c.args)
		}
		if code != exitWrong || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d, %q, want %q", c.args, code, stderr, c.want)
		}
	}
}
