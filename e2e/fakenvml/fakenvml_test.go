// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fakenvml

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// library is built once for all tests: the dynamic linker binds go-nvml's calls to the first library that it loads.
var library string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "fakenvml-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if library, err = Build(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// A rig is a script and a library that reads it.
type rig struct {
	t             *testing.T
	node          *Node
	script, calls string
	nvml          nvml.Interface
}

// newRig writes the node, without Init.
func newRig(t *testing.T, n *Node) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{t: t, node: n, script: filepath.Join(dir, "node"), calls: filepath.Join(dir, "calls")}
	t.Setenv(EnvState, r.script)
	t.Setenv(EnvCalls, r.calls)
	r.write()
	r.nvml = nvml.New(nvml.WithLibraryPath(library))
	return r
}

// start is newRig with Init, and Shutdown and a look at the call log at the end.
func start(t *testing.T, n *Node) *rig {
	t.Helper()
	r := newRig(t, n)
	ok(t, "Init", r.nvml.Init())
	t.Cleanup(func() {
		ok(t, "Shutdown", r.nvml.Shutdown())
		if c := r.log(); c.Violations != 0 || c.ScriptErrors != 0 || c.Inside != 0 || c.References != 0 {
			t.Errorf("call log at the end: %+v", c)
		}
	})
	return r
}

func (r *rig) write() {
	r.t.Helper()
	harness.Must(r.t, r.node.Write(r.script))
}

func (r *rig) log() Calls {
	r.t.Helper()
	c, err := ReadCalls(r.calls)
	harness.Must(r.t, err)
	return c
}

// has checks how many GPUs there are.
func (r *rig) has(want int) {
	r.t.Helper()
	n, ret := r.nvml.DeviceGetCount()
	ok(r.t, "count", ret)
	same(r.t, "count", n, want)
}

func (r *rig) device(i int) nvml.Device {
	r.t.Helper()
	d, ret := r.nvml.DeviceGetHandleByIndex(i)
	ok(r.t, fmt.Sprintf("handle of GPU %d", i), ret)
	return d
}

func ok(t *testing.T, what string, ret nvml.Return) {
	t.Helper()
	if ret != nvml.SUCCESS {
		t.Fatalf("%s: %v", what, ret)
	}
}

func is(t *testing.T, what string, got, want nvml.Return) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v (%d), want %v (%d)", what, got, got, want, want)
	}
}

// same compares numbers of whatever integer types by their digits, and everything else as it is printed.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// eventually polls until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(10 * time.Second); !cond(); <-poll.C {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestEnumerateAtInit(t *testing.T) {
	n := NewNode(2)
	n.EnumerateAtInit = true
	r := start(t, n)
	last := n.GPUs[1]
	n.GPUs = append(NewNode(4).GPUs[2:3], n.GPUs...)
	r.write()
	r.has(2)
	second, ret := r.device(1).GetUUID()
	ok(t, "second", ret)
	same(t, "second", second, last.UUID)
	ok(t, "Shutdown", r.nvml.Shutdown())
	ok(t, "Init", r.nvml.Init())
	r.has(3)
}

func TestInitErrors(t *testing.T) {
	n := NewNode(1)
	n.Faults = []Fault{Fail(AnyInit, LibraryMismatch).Times(1), Fail(AnyInit, DriverNotLoaded).Times(1)}
	r := newRig(t, n)
	is(t, "first Init", r.nvml.Init(), nvml.ERROR_LIB_RM_VERSION_MISMATCH)
	_, ret := r.nvml.DeviceGetCount()
	is(t, "without Init", ret, nvml.ERROR_UNINITIALIZED)
	is(t, "second Init", r.nvml.Init(), nvml.ERROR_DRIVER_NOT_LOADED)
	is(t, "third Init", r.nvml.Init(), nvml.SUCCESS)
	is(t, "fourth Init", r.nvml.Init(), nvml.SUCCESS)
	same(t, "references", r.log().References, 2)
	ok(t, "Shutdown", r.nvml.Shutdown())
	r.has(1)
	ok(t, "Shutdown", r.nvml.Shutdown())
	is(t, "one Shutdown more", r.nvml.Shutdown(), nvml.ERROR_UNINITIALIZED)
	same(t, "calls without Init", r.log().Uninitialized, 1)

	t.Setenv(EnvState, filepath.Join(t.TempDir(), "none"))
	is(t, "no script", r.nvml.Init(), nvml.ERROR_DRIVER_NOT_LOADED)
	broken := filepath.Join(t.TempDir(), "broken")
	harness.Must(t, os.WriteFile(broken, []byte("fakenvml 1\ngpu GPU-1\nnonsense 7\n"), 0o644))
	t.Setenv(EnvState, broken)
	is(t, "broken script", r.nvml.Init(), nvml.ERROR_UNKNOWN)
	if e := r.log().ScriptError; e != "line 3: unknown statement: nonsense 7" {
		t.Errorf("script error %q", e)
	}
}

func TestShutdownWhileInsideIsRecorded(t *testing.T) {
	n := NewNode(1)
	n.Faults = []Fault{Hang("nvmlDeviceGetName")}
	r := newRig(t, n)
	ok(t, "Init", r.nvml.Init())
	d := r.device(0)
	done := make(chan nvml.Return, 1)
	go func() {
		_, ret := d.GetName()
		done <- ret
	}()
	eventually(t, "a call hangs", func() bool { return r.log().Inside == 1 })
	ok(t, "Shutdown", r.nvml.Shutdown())
	c := r.log()
	same(t, "violations", c.Violations, 1)
	same(t, "violation", c.Violation, "nvmlShutdown while a thread is inside nvmlDeviceGetName")
	n.Faults = nil
	r.write()
	is(t, "released", <-done, nvml.SUCCESS)
}
