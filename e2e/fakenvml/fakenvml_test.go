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

// got checks a call's answer against the model: got(t, "what")(device.GetX())(want).
func got[T any](t *testing.T, what string) func(T, nvml.Return) func(any) {
	return func(v T, ret nvml.Return) func(any) {
		return func(want any) {
			t.Helper()
			if ret != nvml.SUCCESS {
				t.Errorf("%s: %v", what, ret)
				return
			}
			same(t, what, v, want)
		}
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
