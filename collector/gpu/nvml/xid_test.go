// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// watched returns a watcher over two GPUs, of which the second has no events, and
// the events that it reports.
func watched(t *testing.T, kernelLogPath string) (*watcher, *[]gpu.Event) {
	t.Helper()
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	with := newDevice(s, gpu.Info{UUID: "GPU-with", PCIBusID: "00000000:1B:00.0"})
	without := newDevice(s, gpu.Info{UUID: "GPU-without", PCIBusID: "00000000:2D:00.0"})
	s.known.list([]*device{with, without})
	events := new([]gpu.Event)
	w := &watcher{
		source:    s,
		reporter:  reporter{report: func(e gpu.Event) { *events = append(*events, e) }},
		log:       kernelLog{path: kernelLogPath, fd: -1},
		listeners: map[*device]*listener{with: {}, without: {}},
	}
	w.listeners[without].eventless.Store(true)
	t.Cleanup(w.log.close)
	return w, events
}

func TestKernelLogStandsInForEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kmsg")
	if err := os.WriteFile(path, []byte("NVRM: Xid (PCI:0000:2d:00): 13, before the watch\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w, events := watched(t, path)
	if err := w.readLog(); err != nil || len(*events) != 0 {
		t.Fatalf("first reading: %v, %v", *events, err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("NVRM: Xid (PCI:0000:1b:00): 31, also an event\n" +
		"NVRM: Xid (PCI:0000:2d:00): 48, no event\n" +
		"usb 1-1: new device\n" +
		"NVRM: Xid (PCI:0000:ff:00): 79, of a GPU that never was listed\n"); err != nil {
		t.Fatal(err)
	}
	if err := w.readLog(); err != nil {
		t.Fatal(err)
	}
	want := []gpu.Event{
		{UUID: "GPU-without", PCIBusID: "00000000:2D:00.0", XID: 48},
		{PCIBusID: "00000000:FF:00.0", XID: 79},
	}
	if len(*events) != len(want) {
		t.Fatalf("events %+v, want %+v", *events, want)
	}
	for i, e := range *events {
		if e.Time.IsZero() {
			t.Errorf("event %d has no time", i)
		}
		if e.Time = want[i].Time; e != want[i] {
			t.Errorf("event %d: %+v, want %+v", i, e, want[i])
		}
	}
}

func TestKernelLogIsMissedOnlyWhereAllDependOnIt(t *testing.T) {
	w, _ := watched(t, filepath.Join(t.TempDir(), "none"))
	if err := w.readLog(); err != nil {
		t.Errorf("beside a GPU with events: %v", err)
	}
	for _, l := range w.listeners {
		l.eventless.Store(true)
	}
	if err := w.readLog(); err == nil {
		t.Error("no GPU has events, and a missing log is no error")
	}
	w.source.known.list(nil)
	if err := w.readLog(); err != nil {
		t.Errorf("without GPUs: %v", err)
	}
}

func TestReporterEnds(t *testing.T) {
	n := 0
	r := reporter{report: func(gpu.Event) { n++ }}
	r.event(gpu.Event{})
	r.end()
	r.event(gpu.Event{})
	if n != 1 {
		t.Errorf("%d events, want the one before the end", n)
	}
}
