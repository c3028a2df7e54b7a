// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package tracer

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// build compiles the libraries of testdata and a program that uses them, and returns the program.
func build(t *testing.T, marks bool) string {
	t.Helper()
	dir := t.TempDir()
	gcc := func(args ...string) {
		t.Helper()
		args = append([]string{"-pthread", "-O2", "-g0", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-Wall", "-Werror", "-L" + dir, "-Wl,-rpath," + dir}, args...)
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	library := func(name, source string, with ...string) {
		t.Helper()
		gcc(append([]string{"-shared", "-fPIC", "-Wl,-soname," + name, "-o", filepath.Join(dir, name), filepath.Join("testdata", source)}, with...)...)
	}
	library("libcuda.so.1", "libcuda.c")
	library("libcudart.so.12", "libcudart.c", "-l:libcuda.so.1")
	program := filepath.Join(dir, "program")
	args := []string{"-o", program, "testdata/program.c"}
	if marks {
		library("libc10_cuda.so", "libc10_cuda.c", "-l:libcudart.so.12")
		args = append(args, "-DMARKS", "-Wl,--no-as-needed", "-lc10_cuda")
	}
	gcc(append(args, "-l:libcudart.so.12", "-l:libcuda.so.1")...)
	return program
}

// start runs a program that prints a line and ends when its input does.
func start(t *testing.T, name string, args ...string) uint32 {
	t.Helper()
	c := exec.Command(name, args...)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it may have ended
		_, _ = io.Copy(io.Discard, out)
		if err := c.Wait(); err != nil {
			t.Errorf("%s %v: %v", name, args, err)
		}
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return uint32(c.Process.Pid)
}

// refused reports whether this kernel lets nobody trace; then it must say so in one line.
func refused(t *testing.T, err error) bool {
	t.Helper()
	if err == nil || !errors.Is(err, os.ErrPermission) && !strings.HasPrefix(err.Error(), "this kernel") {
		return false
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %v", err)
	}
	t.Logf("not tried: %v", err)
	return true
}

// TestTrace follows programs that leak beside work that frees what it takes, by each kind of functions, and
// by marks.
func TestTrace(t *testing.T) {
	plain, marked := build(t, false), build(t, true)
	for _, c := range []struct{ name, program, by string }{
		{"driver", plain, "functions"},
		{"runtime", plain, "functions"},
		{"marks", marked, "marks"},
		{"runtime, an older kernel", plain, "functions"},
		{"marks, an older kernel", marked, "marks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			by, older := strings.CutSuffix(c.name, ", an older kernel")
			follow := &trace{pid: start(t, c.program, by), single: older}
			if older {
				follow.kernel = 5<<16 | 8<<8
			}
			r, err := run(t.Context(), follow, "/proc", time.Second)
			if refused(t, err) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.By != c.by || r.Lost != 0 || r.Hits == 0 || len(r.Sites) != 1 || r.Unsure != 0 || r.Skipped != nil {
				t.Fatalf("%+v", r)
			}
			s := r.Sites[0]
			if s.Line != "program leak_here" || s.Blocks == 0 || s.Live != s.Blocks*65536 || s.Growth == 0 || s.Growth > s.Live {
				t.Errorf("%+v", s)
			}
			if all := strings.Join(s.Frames, "\n"); !strings.Contains(all, "program leak_here\nprogram main") {
				t.Errorf("the stack is\n%s", all)
			}
		})
	}
}

// TestTraceOfReplaced follows programs that also replace what they have from before, block by block: who leaks cannot
// be told from that.
func TestTraceOfReplaced(t *testing.T) {
	plain, marked := build(t, false), build(t, true)
	for name, program := range map[string]string{"driver": plain, "runtime": plain, "marks": marked} {
		r, err := Trace(t.Context(), "/proc", start(t, program, name, "replace"), time.Second)
		if refused(t, err) {
			return
		}
		// The line whose memory another thread frees may have one more block when the time is over.
		if err != nil || len(r.Sites) != 0 || r.Unsure < 2 || r.Unsure > 3 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestTraceOfDeleted follows a program whose library was replaced since it began.
func TestTraceOfDeleted(t *testing.T) {
	program := build(t, true)
	pid := start(t, program, "marks")
	library := filepath.Join(filepath.Dir(program), "libc10_cuda.so")
	if err := os.Remove(library); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(library, []byte("another one"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Trace(t.Context(), "/proc", pid, time.Second)
	if refused(t, err) {
		return
	}
	if err != nil || r.By != "marks" || len(r.Sites) != 1 || r.Sites[0].Line != "program leak_here" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestTraceFindsNothing follows programs that tell nothing.
func TestTraceFindsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		pid  uint32
		want error
	}{
		"one that allocates nothing": {start(t, build(t, false), "idle"), ErrNoHits},
		"one without CUDA":           {uint32(os.Getpid()), ErrNothing},
		"one that is not there":      {1 << 30, os.ErrNotExist},
	} {
		r, err := Trace(t.Context(), "/proc", c.pid, 100*time.Millisecond)
		if !errors.Is(err, c.want) && !refused(t, err) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}
