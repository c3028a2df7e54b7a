// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package allocator

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// askFor runs a program of testdata/leaks.py, and asks it where it allocates what stays.
func askFor(t *testing.T, kind string, env ...string) *Sites {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	probe, err := filepath.Abs("../../probe")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(program(t, "env", slices.Concat(env, []string{path, "testdata/leaks.py", probe, kind})...))
	if err != nil {
		t.Fatal(err)
	}
	id := idOf(t, pid)
	c := newClock(t)
	c.Of(id)
	c.at(0)
	return wait(t, c, id)
}

// wait asks a process, and waits for its answer.
func wait(t *testing.T, c clock, id gpu.ProcessID) *Sites {
	t.Helper()
	c.Ask(id, time.Second)
	if s := c.Sites(id); s == nil || s.State != SitesAsked {
		t.Fatalf("%+v", s)
	}
	c.at(1) // writes the request
	for c.Sites(id).State != SitesDone && c.Sites(id).State != SitesRefused {
		if time.Since(c.began) > hang {
			t.Fatalf("it does not answer: %+v", c.Sites(id))
		}
		c.processes[id].request.looked = time.Time{} // its 15 s are over
		c.at(2)
		time.Sleep(10 * time.Millisecond) // it is another process
	}
	return c.Sites(id)
}

// leakingLine returns the line of testdata/leaks.py that leaks.
func leakingLine(t *testing.T, kind string) int {
	t.Helper()
	b, err := os.ReadFile("testdata/leaks.py")
	if err != nil {
		t.Fatal(err)
	}
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
		t.Errorf("%+v", s)
	}
}

// TestSitesOfHealthy asks a program that does not leak.
func TestSitesOfHealthy(t *testing.T) {
	if s := askFor(t, "none"); s.State != SitesDone || len(s.List) != 0 || s.Pause <= 0 {
		t.Errorf("%+v", s)
	}
}

// TestSitesRefused asks programs that cannot tell.
func TestSitesRefused(t *testing.T) {
	if s := askFor(t, "list", "GPU_LEAK_PROBE_SITES=off"); s.State != SitesRefused || !strings.Contains(s.Reason, "GPU_LEAK_PROBE_SITES=off") {
		t.Errorf("%+v", s)
	}
	for kind, reason := range map[string]string{
		"recording": "the program records where it allocates itself",
		"ended":     "the program ended the recording",
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

// TestSitesTwice asks a program again, which has just recorded.
func TestSitesTwice(t *testing.T) {
	pid, err := strconv.Atoi(program(t, "python3", "testdata/leaks.py", "../../probe", "list"))
	if err != nil {
		t.Fatal(err)
	}
	id := idOf(t, pid)
	c := newClock(t)
	c.Of(id)
	c.at(0)
	if s := wait(t, c, id); s.State != SitesDone {
		t.Fatalf("%+v", s)
	}
	c.processes[id].sites.Asked = time.Now().Add(-askAgain)
	if s := wait(t, c, id); s.State != SitesRefused || !strings.HasPrefix(s.Reason, "it has just recorded: ask again in ") {
		t.Errorf("%+v", s)
	}
}

// TestSitesWithForks has a program fork while it records.
func TestSitesWithForks(t *testing.T) {
	if s := askFor(t, "fork"); s.State != SitesDone || len(s.List) != 0 {
		t.Errorf("%+v", s)
	}
}
