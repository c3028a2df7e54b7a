// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fakenvml

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

func TestEnumerateAtInit(t *testing.T) {
	n := NewNode(2)
	n.EnumerateAtInit = true
	r := start(t, n)
	last := n.GPUs[1]
	n.GPUs = append(NewNode(4).GPUs[2:3], n.GPUs...)
	r.write()
	got[int](t, "count")(r.nvml.DeviceGetCount())(2)
	got[string](t, "second")(r.device(1).GetUUID())(last.UUID)
	ok(t, "Shutdown", r.nvml.Shutdown())
	ok(t, "Init", r.nvml.Init())
	got[int](t, "count after Init")(r.nvml.DeviceGetCount())(3)
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
	got[int](t, "count")(r.nvml.DeviceGetCount())(1)
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
