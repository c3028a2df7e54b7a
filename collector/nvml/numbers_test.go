// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

func TestHandedOut(t *testing.T) {
	some := gpu.Some[uint32]
	for _, c := range []struct {
		name       string
		before     numbering
		last       gpu.Opt[uint32]
		at         time.Duration
		has, hasNo []uint32
	}{
		{name: "the first sample", last: some(100), at: time.Second, has: []uint32{1, 99, 100, 101}},
		{name: "no new process", before: numbering{some(100), time.Second}, last: some(100), at: 2 * time.Second, hasNo: []uint32{1, 99, 100, 101}},
		{name: "three new ones", before: numbering{some(100), time.Second}, last: some(103), at: 2 * time.Second, has: []uint32{101, 102, 103}, hasNo: []uint32{99, 100, 104}},
		{name: "from the lowest again", before: numbering{some(32760), time.Second}, last: some(310), at: 2 * time.Second, has: []uint32{32761, 32767, 300, 310}, hasNo: []uint32{311, 20000, 32760}},
		{name: "a long time", before: numbering{some(100), time.Second}, last: some(100), at: time.Second + roundTrip + 1, has: []uint32{1, 100}},
		{name: "not told", before: numbering{some(100), time.Second}, at: 2 * time.Second, has: []uint32{1, 100}},
		{name: "not told before", before: numbering{at: time.Second}, last: some(100), at: 2 * time.Second, has: []uint32{1, 100}},
	} {
		h := c.before.next(c.last, c.at)
		for _, pid := range c.has {
			if !h.has(pid) {
				t.Errorf("%s: %d cannot be new", c.name, pid)
			}
		}
		for _, pid := range c.hasNo {
			if h.has(pid) {
				t.Errorf("%s: %d may be new", c.name, pid)
			}
		}
		if c.before != (numbering{c.last, c.at}) {
			t.Errorf("%s: left %+v", c.name, c.before)
		}
	}
}

// On this system the number of a new process is one of those that are handed out.
func TestLastNumberOfTheSystem(t *testing.T) {
	p := newProcFS("/proc", newClock())
	var n numbering
	n.next(p.lastNumber())
	if !n.last.OK {
		t.Skip("the kernel does not tell it")
	}
	child, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	h := n.next(p.lastNumber())
	if !h.has(uint32(child.Pid)) || h.has(uint32(os.Getpid())) {
		t.Errorf("%+v, want %d in it and not %d", h, child.Pid, os.Getpid())
	}
}

// lookups reads a process sample by sample, a second apart.
type lookups struct {
	tree
	reading reading
	at      time.Duration
}

func newLookups(t *testing.T) *lookups {
	f := newTree(t)
	s, err := New(Config{ProcFS: f.root})
	if err != nil {
		t.Fatal(err)
	}
	return &lookups{tree: f, reading: reading{device: newDevice(s, gpu.Info{})}, at: 45 * time.Second}
}

// next takes a sample of process 42 with the last number that was handed out; 0 is none.
func (l *lookups) next(last int, kept bool) (gpu.Process, bool) {
	l.t.Helper()
	l.at += time.Second
	d := l.reading.device
	if last > 0 {
		l.write("sys/kernel/ns_last_pid", strconv.Itoa(last)+"\n")
	}
	number, _ := d.source.procs.lastNumber()
	handed := d.processes.numbers.next(number, l.at)
	entry := listed{pid: 42, instance: noInstance, kept: kept}
	known := l.reading.lookUp(entry, l.at, handed)
	p, ok := l.reading.resolve(entry, known, l.at)
	d.processes.seen = map[uint32]*process{42: known}
	return p, ok
}

// wasRead reports whether the process was read for a sample.
func wasRead(p gpu.Process) bool { return p.State != 0 }

// A process is read once in 15 s, as long as its number was not handed out.
func TestProcessesAreReadWhenTheyMayHaveChanged(t *testing.T) {
	l := newLookups(t)
	l.process(42, "S", 7, 100, session)
	reads := 0
	for i := range 61 {
		p, ok := l.next(1000+i, false)
		if !ok || p.ID != (gpu.ProcessID{PID: 42, Start: 100}) || !p.Started.OK {
			t.Fatalf("sample %d: %+v, %t", i, p, ok)
		}
		if wasRead(p) != p.CPU.OK {
			t.Fatalf("sample %d has half of it: %+v", i, p)
		}
		if wasRead(p) {
			reads++
		}
	}
	if reads != 5 {
		t.Errorf("read %d times in a minute, want at the first sample and four times", reads)
	}

	// Another process of the same number is told at once.
	l.process(42, "S", 7, 200, session)
	if p, _ := l.next(2000, false); p.ID.Start != 100 {
		t.Fatalf("%+v: was read without a reason", p)
	}
	if p, _ := l.next(50, false); p.ID.Start != 200 { // all up to the highest, and from the lowest to 50
		t.Errorf("%+v after its number was handed out, want the new one", p)
	}
}

// Where nothing tells which numbers were handed out, each process is read for each sample.
func TestProcessesAreReadWithoutNumbers(t *testing.T) {
	l := newLookups(t)
	l.process(42, "S", 7, 100, session)
	for i := range 20 {
		if p, _ := l.next(0, false); !wasRead(p) {
			t.Fatalf("sample %d: not read", i)
		}
	}
}

// Who is stuck or has ended is looked at each time, and so is who stands in a list that could not be read.
func TestProcessesThatAreAlwaysRead(t *testing.T) {
	for state, kept := range map[string]bool{"D": false, "Z": false, "S": true, "R": true} {
		l := newLookups(t)
		l.process(42, state, 7, 100, session)
		l.next(1000, false)
		for i := range 20 {
			if p, ok := l.next(1000, kept); !ok || !wasRead(p) {
				t.Fatalf("state %s, kept %t, sample %d: not read", state, kept, i)
			}
		}
	}
	l := newLookups(t)
	l.process(42, "S", 7, 100, session)
	l.next(1000, false)
	l.remove(42)
	for range 16 {
		l.next(1000, false)
	}
	for i := range 20 {
		if p, _ := l.next(1000, false); p.State != 'X' || p.ID.Start != 100 {
			t.Fatalf("sample %d after its end: %+v", i, p)
		}
	}
}
