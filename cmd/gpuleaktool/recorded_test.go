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
)

// TestLeftOut warns of the lines of logs that are of no use, once for each reason.
func TestLeftOut(t *testing.T) {
	const head = "timestamp, uuid, memory.used [MiB]\n2026/03/01 10:00:00.000, GPU-a, 10 MiB\n"
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"good.csv": head,
		"messages.csv": head + strings.Repeat("Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error\n", 3) +
			"2026/03/01 10:00:01.000, GPU-a, 10 MiB\n2026/03/01 10:00:02",
		"berlin.csv":   head + "2026/10/25 02:30:00.000, GPU-a, 10 MiB\n2026/10/25 02:10:00.000, GPU-a, 10 MiB\n",
		"comments.csv": "# a\n# b\n",
		"nothing.csv":  "timestamp, uuid, memory.used [MiB]\n2026/03/01 10:00",
		"future.csv":   head + "2027/03/01 10:00:00.000, GPU-a, 10 MiB\n" + strings.Repeat("2026/03/01 10:00:01.000, GPU-a, 10 MiB\n", 3),
	} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const berlin = "berlin.csv: left out 1 line, line 4: 2026/10/25 02:10:00.000 of GPU \"GPU-a\" is not after 2026/10/25 02:30:00.000, its row before: " +
		"the clock was set back, as where daylight saving ends and the time zone is not known, or two recordings overlap; if it is daylight saving, give --timezone\n"
	messages := "gpuleaktool: DIR/messages.csv: left out 3 lines, the first is line 3: \"Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error\"\n" +
		"gpuleaktool: DIR/messages.csv: left out 1 line, line 7: the file ends inside it: \"2026/03/01 10:00:02\"\n"
	for _, c := range []struct {
		name, stderr string
		args         []string
		code         int
	}{
		{"nothing is left out", "", []string{path("good.csv")}, unjudged},
		{"two reasons", messages, []string{path("messages.csv")}, unjudged},
		{"in the order of the files", "gpuleaktool: DIR/" + berlin + messages, []string{path("berlin.csv"), path("good.csv"), path("messages.csv")}, unjudged},
		{"with the time zone", "", []string{"--timezone=Europe/Berlin", path("berlin.csv")}, unjudged},
		{
			"most is left out", "gpuleaktool: error: DIR/future.csv: has too many rows that cannot be used: " +
				"left out 3 lines, the first is line 4: 2026/03/01 10:00:01.000 of GPU \"GPU-a\" is not after 2027/03/01 10:00:00.000, its row before: " +
				"the clock was set back, as where daylight saving ends and the time zone is not known, or two recordings overlap: " +
				"take out the row before it, or split the file there\n",
			[]string{path("future.csv")},
			exitWrong,
		},
		{
			"nothing is left", "gpuleaktool: DIR/nothing.csv: left out 1 line, line 2: the file ends inside it: \"2026/03/01 10:00\"\n" +
				"gpuleaktool: error: DIR/nothing.csv: holds no samples: let the recording run longer\n",
			[]string{path("nothing.csv")},
			exitWrong,
		},
		{
			"only comments", "gpuleaktool: DIR/comments.csv: left out 2 lines, the first is line 1: is no part of the log: \"# a\"\n" +
				"gpuleaktool: error: DIR/comments.csv: holds no samples: let the recording run longer\n",
			[]string{path("comments.csv"), "--columns=timestamp,used[B]"},
			exitWrong,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _, stderr := tool(t.Context(), append([]string{"backtest", "--output=json"}, c.args...)...)
			if got := strings.ReplaceAll(stderr, dir, "DIR"); code != c.code || got != c.stderr {
				t.Errorf("exit code %d, stderr %s\nwant %d, %s", code, got, c.code, c.stderr)
			}
		})
	}
}

// pipe makes a file the standard input of the test.
func pipe(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stdin
	os.Stdin = file
	t.Cleanup(func() {
		os.Stdin = before
		file.Close()
	})
}

func TestStandardInput(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("timestamp,memory.used [MiB]\n2026/03/01 00:00:00.000,x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
		{"a bad line", bad, []string{"-"}, `standard input:2: memory.used: cannot read "x" as MiB: "2026/03/01 00:00:00.000,x"`},
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
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	silent, err := os.OpenFile(path, os.O_RDWR, 0) // as a reader, too: that waits for nobody
	if err != nil {
		t.Fatal(err)
	}
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

// TestUnreadable names what a file is that is often given instead of a log.
func TestUnreadable(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"gpu.csv.zst": {"\x28\xb5\x2f\xfd\x24\x03", "gpu.csv.zst: is compressed with zstd: unpack it, or compress it with gzip instead\n"},
		"gpu.csv.xz":  {"\xfd7zXZ\x00\x00\x04", "gpu.csv.xz: is compressed with xz: unpack it"},
		"gpu.csv.bz2": {"BZh91AY&SY", "gpu.csv.bz2: is compressed with bzip2: unpack it"},
		"gpu.zip":     {"PK\x03\x04\x14\x00", "gpu.zip: is a zip archive: unpack it"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, format := range []string{"auto", "nvidia-smi", "csv"} {
				args := []string{"backtest", "--format=" + format, path}
				if format == "csv" {
					args = append(args, "--columns=timestamp,used[B]")
				}
				code, _, stderr := tool(t.Context(), args...)
				if code != exitWrong || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
					t.Errorf("--format=%s: exit code %d, stderr %q, want %q", format, code, stderr, c.want)
				}
			}
		})
	}
}
