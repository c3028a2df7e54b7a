// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package allocator

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// leaking runs a program of testdata/leaks.py, and a reader that has found its page.
func leaking(t *testing.T, kind string, env ...string) (clock, gpu.ProcessID) {
	t.Helper()
	path, probe := interpreter(t)
	id := idFrom(t, program(t, "env", slices.Concat(env, []string{path, "testdata/leaks.py", probe, kind})...))
	c := newClock(t)
	find(t, c, id)
	return c, id
}

// askFor runs a program, and asks it where it allocates what stays.
func askFor(t *testing.T, kind string, env ...string) *Sites {
	t.Helper()
	c, id := leaking(t, kind, env...)
	return wait(t, c, id)
}

// wait asks a process, and waits for its answer.
func wait(t *testing.T, c clock, id gpu.ProcessID) *Sites {
	t.Helper()
	c.Ask(id, time.Second)
	if s := c.Sites(id); s == nil || s.State != SitesAsked {
		t.Fatalf("%+v", s)
	}
	c.at(1) // asks
	await(t, c, id, 2)
	return c.Sites(id)
}

// await waits for an answer.
func await(t *testing.T, c clock, id gpu.ProcessID, n int) {
	t.Helper()
	for c.Sites(id).State != SitesDone && c.Sites(id).State != SitesRefused {
		if time.Since(c.began) > hang {
			t.Fatalf("it does not answer: %+v", c.Sites(id))
		}
		c.processes[id].request.looked = time.Time{} // its 15 s are over
		c.at(n)
		time.Sleep(10 * time.Millisecond) // it is another process
	}
}

// leakingLine returns the line of testdata/leaks.py that leaks.
func leakingLine(t *testing.T, kind string) int {
	t.Helper()
	b, err := os.ReadFile("testdata/leaks.py")
	must(t, err)
	for i, line := range bytes.Split(b, []byte("\n")) {
		if bytes.HasSuffix(line, []byte("# LEAK "+kind)) {
			return i + 1
		}
	}
	t.Fatalf("no line leaks by %s", kind)
	return 0
}

// TestSites has programs leak in many ways beside what healthy programs do: each is named by the
// line that allocates what stays.
func TestSites(t *testing.T) {
	for _, kind := range []string{"list", "cache", "graph", "hook", "traceback", "cycle", "generator", "queue", "class"} {
		t.Run(kind, func(t *testing.T) {
			s := askFor(t, kind)
			if s.State != SitesDone || len(s.List) == 0 {
				t.Fatalf("%+v", s)
			}
			want := fmt.Sprintf("testdata/leaks.py:%d ", leakingLine(t, kind))
			top := s.List[0]
			if !strings.HasPrefix(top.Line, want) || top.Growth == 0 || top.Live < top.Growth || top.Blocks == 0 {
				t.Errorf("%+v, want %s", top, want)
			}
			if len(s.List) > 1 {
				t.Errorf("this does not leak: %+v", s.List[1:])
			}
			if !strings.Contains(top.Frames[0], "torch/functional.py:") || !strings.Contains(strings.Join(top.Frames, "\n"), want) {
				t.Errorf("%q", top.Frames)
			}
		})
	}
}

// TestSitesOutsidePython has memory stay that no Python code allocated.
func TestSitesOutsidePython(t *testing.T) {
	s := askFor(t, "library")
	if s.State != SitesDone || len(s.List) != 1 || s.List[0].Line != "" || s.List[0].Frames != nil {
		t.Fatalf("%+v", s)
	}
	// Memory from before does not count: there are 256 MiB of weights.
	if top := s.List[0]; top.Live != top.Blocks*65536 || top.Live < top.Growth || top.Live >= 256<<20 {
		t.Errorf("%+v", top)
	}
}

// TestSitesOfHealthy asks programs that do not leak; one forks meanwhile.
func TestSitesOfHealthy(t *testing.T) {
	for _, kind := range []string{"none", "larger", "fork"} {
		if s := askFor(t, kind); s.State != SitesDone || len(s.List) != 0 || s.Unsure != 0 || s.Pause <= 0 {
			t.Errorf("%s: %+v", kind, s)
		}
	}
}

// TestSitesOfReplaced asks programs that replace their memory again and again, more slowly than they record: what
// is replaced is never told for a leak.
func TestSitesOfReplaced(t *testing.T) {
	if s := askFor(t, "fifo"); s.State != SitesDone || len(s.List) != 0 || s.Unsure != 1 {
		t.Errorf("%+v", s)
	}
	// It cannot be told from what leaks less.
	if s := askFor(t, "fifo_leak"); s.State != SitesDone || len(s.List) != 0 || s.Unsure != 2 {
		t.Errorf("%+v", s)
	}
	want := fmt.Sprintf("testdata/leaks.py:%d ", leakingLine(t, "leak_fifo"))
	if s := askFor(t, "leak_fifo"); s.State != SitesDone || len(s.List) != 1 || !strings.HasPrefix(s.List[0].Line, want) || s.Unsure != 1 {
		t.Errorf("%+v, want %s", s, want)
	}
}

// TestSitesRefused asks programs that cannot answer.
func TestSitesRefused(t *testing.T) {
	if s := askFor(t, "list", "GPU_LEAK_PROBE_SITES=off"); s.State != SitesRefused || !strings.Contains(s.Reason, "GPU_LEAK_PROBE_SITES=off") {
		t.Errorf("%+v", s)
	}
	for kind, reason := range map[string]string{
		"recording": "the program records where it allocates itself",
		"ended":     "the program ended the recording",
		"begins":    "the program has begun to record where it allocates itself",
		"closes":    "the probe has ended",
		"slow":      "a snapshot stopped the program for 1.1 s",
		"many":      "200001 blocks are in use: a snapshot would stop the program for too long",
		"old":       "PyTorch is older than 2.1",
		"broken":    "the probe failed: AttributeError: module 'torch.cuda.memory' has no attribute '_snapshot'",
	} {
		if s := askFor(t, kind); s.State != SitesRefused || s.Reason != reason || s.List != nil {
			t.Errorf("%s: %+v", kind, s)
		}
	}
}

// TestSitesAgain asks programs again: one answers again, one that refused to go on still rests.
func TestSitesAgain(t *testing.T) {
	again := func(kind string) (first, second Sites) {
		c, id := leaking(t, kind)
		first = *wait(t, c, id)
		c.processes[id].sites.Asked = time.Now().Add(-keepAnswer)
		return first, *wait(t, c, id)
	}
	first, second := again("list")
	second.Asked = first.Asked
	if first.State != SitesDone || len(first.List) != 1 || !reflect.DeepEqual(second, first) {
		t.Errorf("%+v, then %+v", first, second)
	}
	if _, s := again("ended"); s.State != SitesRefused || !strings.HasPrefix(s.Reason, "it has just recorded: ask again in ") {
		t.Errorf("%+v", s)
	}
}

// TestSitesOfTwo has two ask a program at once: both have its answer.
func TestSitesOfTwo(t *testing.T) {
	c, id := leaking(t, "list")
	other := newClock(t)
	find(t, other, id)
	for _, c := range []clock{c, other} {
		c.Ask(id, time.Second)
		c.at(1)
	}
	await(t, c, id, 2)
	await(t, other, id, 2)
	for _, c := range []clock{c, other} {
		if s := c.Sites(id); s.State != SitesDone || len(s.List) != 1 {
			t.Errorf("%+v", s)
		}
	}
}

// TestSitesOfClosed has a program close its page and its answer before they are read: it writes them again.
func TestSitesOfClosed(t *testing.T) {
	c, id := leaking(t, "closes_once")
	c.Ask(id, time.Second)
	c.at(1)
	inode := func(f *os.File) uint64 {
		var s unix.Stat_t
		must(t, unix.Fstat(int(f.Fd()), &s))
		return s.Ino
	}
	for first := inode(c.processes[id].file); ; time.Sleep(10 * time.Millisecond) {
		f, _, err := c.find(id)
		if err != nil {
			continue // it is closed, or written
		}
		now := inode(f)
		_ = f.Close() // it was only read
		if now != first {
			break
		}
		if time.Since(c.began) > hang {
			t.Fatal("it has the same page still")
		}
	}
	c.at(2)
	c.at(40) // the first page is not written any more
	c.at(56)
	await(t, c, id, 57)
	if s := c.Sites(id); s.State != SitesDone || len(s.List) != 1 {
		t.Errorf("%+v", s)
	}
}
