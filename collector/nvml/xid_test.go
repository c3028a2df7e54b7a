// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// watched returns a watcher over two GPUs, of which the second has no events, and the events that it reports.
func watched(t *testing.T, kernelLogPath string) (*watcher, *[]gpu.Event) {
	t.Helper()
	s, err := New(Config{})
	must(t, err)
	with := newDevice(s, gpu.Info{UUID: "GPU-with", PCIBusID: "00000000:1B:00.0"})
	without := newDevice(s, gpu.Info{UUID: "GPU-without", PCIBusID: "00000000:2D:00.0"})
	s.known.list([]*device{with, without})
	events := new([]gpu.Event)
	w := &watcher{
		source:    s,
		report:    func(e gpu.Event) { *events = append(*events, e) },
		log:       kernelLog{path: kernelLogPath, fd: -1},
		listeners: map[string]*listener{},
	}
	for _, d := range []*device{with, without} {
		w.listeners[d.info.UUID] = &listener{device: d, watcher: w}
	}
	w.listeners["GPU-without"].eventless.Store(true)
	t.Cleanup(w.log.close)
	return w, events
}

// kmsgWatches says that the GPU without events is watched.
var kmsgWatches = gpu.Event{Kind: gpu.Watched, UUID: "GPU-without", PCIBusID: "00000000:2D:00.0"}

func TestKernelLogStandsInForEvents(t *testing.T) {
	path := newTree(t).write("kmsg", "NVRM: Xid (PCI:0000:2d:00): 13, before the watch\n")
	w, events := watched(t, path)
	for range 2 {
		if err := w.readLog(); err != nil || !reflect.DeepEqual(*events, []gpu.Event{kmsgWatches}) {
			t.Fatalf("before anything was added: %+v, %v", *events, err)
		}
	}
	*events = nil
	appendTo(t, path, "NVRM: Xid (PCI:0000:1b:00): 31, also an event\n"+
		"NVRM: Xid (PCI:0000:2d:00): 48, no event\n"+
		"usb 1-1: new device\n"+
		"NVRM: Xid (PCI:0000:ff:00): 79, of a GPU that never was listed\n")
	must(t, w.readLog())
	for i, e := range *events {
		if e.Time.IsZero() {
			t.Errorf("event %d has no time", i)
		}
		(*events)[i].Time = time.Time{}
	}
	testkit.Equal(t, *events, []gpu.Event{{UUID: "GPU-without", PCIBusID: "00000000:2D:00.0", XID: 48}, {PCIBusID: "00000000:FF:00.0", XID: 79}}, "events")
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteString(text)
	must(t, err)
}

func TestKernelLogIsMissedOnlyWhereAllDependOnIt(t *testing.T) {
	w, events := watched(t, filepath.Join(t.TempDir(), "none"))
	if err := w.readLog(); err != nil {
		t.Errorf("beside a GPU with events: %v", err)
	}
	testkit.Equal(t, len(*events), 0, "nobody watches the GPU without events, and yet: %+v", *events)
	for _, l := range w.listeners {
		l.eventless.Store(true)
	}
	if err := w.readLog(); err == nil {
		t.Error("no GPU has events, and a missing log is no error")
	}
	w.listeners = nil
	if err := w.readLog(); err != nil {
		t.Errorf("without GPUs: %v", err)
	}
}

// A GPU is not watched any more once the log cannot be read, and is again later.
func TestKernelLogThatCannotBeReadForAWhile(t *testing.T) {
	f := newTree(t)
	dir, path := f.root, f.write("kmsg", "")
	w, events := watched(t, path)
	unwatched := kmsgWatches
	unwatched.Kind = gpu.Unwatched
	for _, path := range []string{path, dir, path} { // a folder opens, and cannot be read
		w.log.close()
		w.log.path = path
		must(t, w.readLog())
	}
	testkit.Equal(t, *events, []gpu.Event{kmsgWatches, unwatched, kmsgWatches}, "events")
}

func TestReporterEnds(t *testing.T) {
	n := 0
	r := watcher{report: func(gpu.Event) { n++ }}
	r.event(gpu.Event{})
	r.stop()
	r.event(gpu.Event{})
	testkit.Equal(t, n, 1, "events")
}

// watching has a source watch until stop, which closes it.
func watching(t *testing.T, s *Source, report func(gpu.Event)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Watch(ctx, report) }()
	return func() {
		t.Helper()
		cancel()
		if err := errors.Join(<-done, s.Close()); err != nil {
			t.Error(err)
		}
	}
}

// A GPU is watched from the moment on in which it is found: a program may fail on it at once. So is one that comes
// back while its listener makes a pause.
func TestWatchedAsSoonAsFound(t *testing.T) {
	const register = "nvmlDeviceRegisterEvents"
	synctest.Test(t, func(t *testing.T) {
		node, s, l := newFourGPUs(t, t.TempDir())
		stop := watching(t, s, func(gpu.Event) {})
		registered := func(when string, want int) {
			t.Helper()
			before, _, _ := l.count(register)
			began := time.Now()
			devices, err := s.Devices(t.Context())
			if err != nil || len(devices) != 4 {
				t.Fatalf("%d GPUs, %v; %s", len(devices), err, before)
			}
			synctest.Wait()
			if _, _, n := l.count(register); n != want || time.Since(began) != 0 {
				t.Errorf("%s: registered %d times after %s, want %d at once", when, n, time.Since(began), want)
			}
		}
		time.Sleep(5*watchInterval + watchInterval/3)
		registered("found", 4)

		fault := &simFault{call: register, code: nvml.ERROR_GPU_IS_LOST}
		node.begin(fault)
		node.unload()
		_, _ = s.Devices(t.Context())
		node.load(false)
		_, err := s.Devices(t.Context())
		must(t, err)
		time.Sleep(5 * time.Minute)
		node.end(fault)
		_, _, before := l.count(register)
		s.known.list(nil) // as while the driver does not list it
		registered("back", before+4)

		stop()
		time.Sleep(2 * eventWait)
	})
}

// The kernel log of a GPU without events is read from the moment on in which the GPU is found.
func TestKernelLogFromTheFirstMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTree(t)
		node, s, _ := newFourGPUs(t, f.write("kmsg", ""))
		node.begin(&simFault{call: "nvmlDeviceGetSupportedEventTypes", code: nvml.ERROR_NOT_SUPPORTED})
		var reported []uint64
		stop := watching(t, s, func(e gpu.Event) {
			if e.XID != 0 {
				reported = append(reported, e.XID)
			}
		})
		time.Sleep(watchInterval / 3)
		_, err := s.Devices(t.Context())
		must(t, err)
		synctest.Wait()
		f.write("kmsg", "NVRM: Xid (PCI:0000:01:00): 31, a moment later\n")
		time.Sleep(2 * watchInterval)
		stop()
		testkit.Equal(t, reported, []uint64{31}, "XIDs")
	})
}

// A driver that answers the wait for events at once is asked no more often than one that waits.
func TestEventsThatAreNotWaitedFor(t *testing.T) {
	for _, code := range []nvml.Return{nvml.SUCCESS, nvml.ERROR_TIMEOUT, nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_NO_DATA, nvml.ERROR_UNKNOWN} {
		t.Run(returnName(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node, s, l := newFourGPUs(t, t.TempDir())
				_, err := s.Devices(t.Context())
				must(t, err)
				node.begin(&simFault{call: eventCall, code: code, atOnce: true})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute-time.Second) // between two retries
				defer cancel()
				watched := false
				must(t, s.Watch(ctx, func(e gpu.Event) { watched = e.Kind == gpu.Watched }))
				broken, _, waits := l.count(eventCall)
				testkit.Equal(t, broken, "", "rules broken")
				if waits > 4*60+4 {
					t.Errorf("%d waits of four GPUs in a minute, want one a second of each", waits)
				}
				if absent := code == nvml.ERROR_NOT_SUPPORTED || code == nvml.ERROR_NO_DATA; absent && watched {
					t.Error("the GPUs are said to be watched")
				}
				must(t, s.Close())
				time.Sleep(2 * eventWait) // a real process ends with its waits
			})
		})
	}
}

// To stop the exporter does not wait for a wait for events, and the library is not shut down under it.
func TestEndDuringWaitForEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, l := newFourGPUs(t, t.TempDir())
		_, err := s.Devices(t.Context())
		must(t, err)
		stop := watching(t, s, func(gpu.Event) {})
		time.Sleep(5*eventWait + eventWait/2)
		if _, inside, total := l.count(eventCall); inside != 4 || total > 4*6 {
			t.Errorf("%d waits are under way, of %d of four GPUs; want one of each GPU, of 24: each stays as long as it may", inside, total)
		}
		began := time.Now()
		stop()
		testkit.Equal(t, time.Since(began), 0, "the end took")
		time.Sleep(2 * eventWait)
		broken, inside, _ := l.count(eventCall)
		testkit.Equal(t, broken, "", "rules broken")
		testkit.Equal(t, inside, 0, "waits inside after the end")
		for _, call := range []string{"nvmlShutdown", "nvmlEventSetFree"} {
			_, _, n := l.count(call)
			testkit.Equal(t, n, 0, "%s after the end", call)
		}
	})
}

func TestParseXID(t *testing.T) {
	for _, c := range []struct {
		line, address string
		xid           uint64
	}{
		{"4,1201,5140900123,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "00000000:3B:00.0", 79},
		{"[12345.678901] NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python3, Ch 00000008, intr 00000000.", "00000000:3B:00.0", 31},
		{"NVRM: Xid (PCI:0009:01:00): 13, Graphics Exception", "00000009:01:00.0", 13},
		{"NVRM: Xid (PCI:000a:bc:1f.0): 94, Contained", "0000000A:BC:1F.0", 94},
		{"NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 43, pid=1", "00000000:3B:00.0", 43}, // under MIG
		{"NVRM: Xid (0000:3b:00): 48, An uncorrectable double bit error", "00000000:3B:00.0", 48},
		{"6,1,2,-,caller=T12;NVRM: Xid (PCI:10000:3b:00): 154", "00010000:3B:00.0", 154},
		{line: "12,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, written by a program"},
		{line: "4,1,2,-;NVRM: GPU at PCI:0000:3b:00: GPU-a0000000-1111"},
		{line: "NVRM: Xid (PCI:0000:3b:00): unknown"},
		{line: "NVRM: Xid (PCI:0000:3b:00): 99999999999999999999"},
		{line: "NVRM: Xid (PCI:0000:3b): 79"},
		{line: ""},
	} {
		address, xid, ok := parseXID(c.line)
		if address != c.address || xid != c.xid || ok != (c.address != "") {
			t.Errorf("%q: %q, %d, %t; want %q, %d", c.line, address, xid, ok, c.address, c.xid)
		}
	}
}

func TestKernelLogTellsWhatIsAdded(t *testing.T) {
	path := newTree(t).write("kmsg", "old\n")
	l := kernelLog{path: path, fd: -1}
	defer l.close()
	expect := func(want ...string) {
		t.Helper()
		got, err := l.read()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("read %q, %v; want %q", got, err, want)
		}
	}
	expect()
	write := func(s string) { appendTo(t, path, s) }
	write("one\ntwo\nthr")
	expect("one", "two")
	expect()
	write("ee\n")
	expect("three")
	write(strings.Repeat("x", 3*recordSize)) // no line is that long
	expect()
	write("y\nfour\n")
	expect("y", "four")
}

func TestKernelLogDoesNotBlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kmsg")
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Skip(err)
	}
	l := kernelLog{path: path, fd: -1}
	defer l.close()
	_, err := l.read() // there is no writer
	must(t, err)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	if got, err := l.read(); err != nil || got != nil { // now there is
		t.Fatalf("read %q, %v from an empty pipe", got, err)
	}
	fmt.Fprintln(f, "one")
	if got, err := l.read(); err != nil || !reflect.DeepEqual(got, []string{"one"}) {
		t.Errorf("read %q, %v", got, err)
	}
}

func FuzzParseXID(f *testing.F) {
	f.Add("4,1201,5140900123,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")
	f.Add("NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 43")
	f.Add(";;;,,,")
	f.Fuzz(func(t *testing.T, line string) {
		address, _, ok := parseXID(line)
		if ok && (len(address) != len("00000000:3B:00.0") || address != strings.ToUpper(address)) {
			t.Errorf("%q: address %q", line, address)
		}
		if !ok && address != "" {
			t.Errorf("%q: address %q of no XID", line, address)
		}
	})
}
