// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// event is what happens to a node: begin is called once, then again and again while the exporter is watched if it is to
// go on.
type event struct {
	name   string
	well   []int // the GPUs that it does not concern
	goesOn bool
	begin  func(t *testing.T, m *machine)
}

var events = []event{
	{"node: a GPU is lost", []int{0, 2, 3}, false, func(_ *testing.T, m *machine) {
		m.Faults = []fakenvml.Fault{fakenvml.Fail("nvmlDevice*", fakenvml.GPUIsLost).On(m.GPUs[1].UUID)}
	}},
	{"node: the driver is loaded again", nil, false, func(_ *testing.T, m *machine) {
		m.Faults = []fakenvml.Fault{fakenvml.Fail("nvmlDevice*", fakenvml.DriverNotLoaded), fakenvml.Fail(fakenvml.AnyInit, fakenvml.DriverNotLoaded)}
	}},
	{"node: two GPUs change their places", []int{0, 3}, false, func(_ *testing.T, m *machine) {
		m.GPUs[1], m.GPUs[2] = m.GPUs[2], m.GPUs[1]
	}},
	{"node: a GPU is unplugged, and plugged again", []int{0, 1, 2}, false, func(t *testing.T, m *machine) {
		t.Helper()
		m.GPUs = m.GPUs[:3]
		m.plug(t)
	}},
	{"node: a GPU has no memory, another reserves more than it has", []int{0, 3}, false, func(_ *testing.T, m *machine) {
		m.GPUs[1].Memory.Total = 0
		m.GPUs[2].Memory.Reserved = m.GPUs[2].Memory.Total + 1
	}},
	{"node: a GPU has a thousand XID errors", []int{0, 1, 2, 3}, false, func(_ *testing.T, m *machine) {
		for i := range uint64(1000) {
			m.RaiseXID(1, i%100)
		}
	}},
	{"node: 200 processes a GPU, others each time", []int{0, 1, 2, 3}, true, func(_ *testing.T, m *machine) {
		for i := range m.GPUs {
			m.GPUs[i].Processes = nil
			for range 200 {
				stormPID++
				m.GPUs[i].Processes = append(m.GPUs[i].Processes, fakenvml.Process{PID: 100_000 + stormPID%1_000_000, Memory: fakenvml.Ramp{Base: 64 << 20}})
			}
		}
	}},
}

var stormPID uint32

// TestFaultsOfTheNode has things happen to a node, and be over.
func TestFaultsOfTheNode(t *testing.T) {
	m, p := faultyMachine(t)
	healthy := m.GPUs
	for i := range events {
		e := &events[i]
		k := &faultKind{Name: e.name, faults: 1}
		others := m.follow(t, p, eventually(t, p, m.allUp), e.well)
		m.GPUs = slices.Clone(healthy)
		e.begin(t, m)
		m.apply(t)
		if e.goesOn {
			for end := time.Now().Add(faultTime); time.Now().Before(end); {
				e.begin(t, m)
				m.apply(t)
				k.watch(t, p, 3*scrapeEvery, nil)
			}
		} else {
			k.watch(t, p, faultTime, nil)
		}
		m.Faults, m.GPUs = nil, healthy
		m.plug(t)
		m.apply(t)
		cleared := time.Now()
		after := eventually(t, p, m.allUp)
		k.recovery = time.Since(cleared)
		others.note(t, after, k)
		k.judge(t, e.name)
		faultRows.add(k)
	}
	p.Stop(t)
	m.wellBehaved(t)
	noStack(t, p.Output())
}

// TestFaultsOfTheDisk has the disk of the state file be full, and read-only.
func TestFaultsOfTheDisk(t *testing.T) {
	m, _ := faultyMachine(t)
	m.calls += "2" // one file a process
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatalf("a disk of its own needs root: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	p := m.start(t, "--detector.state-file="+filepath.Join(disk, "state"), "--detector.state-interval=1s", "--detector.lives-file="+filepath.Join(disk, "lives"))
	written := func(v float64) func(harness.Metrics) error {
		return func(s harness.Metrics) error {
			return errors.Join(m.allUp(s), want(s, v, "gpu_leak_exporter_state_file_last_write_successful", nil))
		}
	}
	remount := func(flags uintptr) {
		t.Helper()
		if err := unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT|flags, "size=1m"); err != nil {
			t.Fatal(err)
		}
	}
	full := filepath.Join(disk, "full")
	for name, fault := range map[string][2]func(){
		"host: the disk of the state file is full": {
			func() { _ = os.WriteFile(full, make([]byte, 2<<20), 0o600) }, // as much as there is room for
			func() { _ = os.Remove(full) },
		},
		"host: the disk of the state file is read-only": {func() { remount(unix.MS_RDONLY) }, func() { remount(0) }},
	} {
		k := &faultKind{Name: name, faults: 1}
		gpus := []int{0, 1, 2, 3}
		others := m.follow(t, p, eventually(t, p, written(1)), gpus)
		fault[0]()
		eventually(t, p, written(0))
		k.watch(t, p, faultTime, nil)
		fault[1]()
		cleared := time.Now()
		after := eventually(t, p, written(1))
		k.recovery = time.Since(cleared)
		others.note(t, after, k)
		k.judge(t, name)
		faultRows.add(k)
	}
	p.Stop(t)
	noStack(t, p.Output())
}
