// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// tree is a procfs in a folder.
type tree struct {
	t    *testing.T
	root string
}

func newTree(t *testing.T) tree {
	f := tree{t, t.TempDir()}
	must(t, os.MkdirAll(filepath.Join(f.root, "self/ns"), 0o755))
	must(t, os.Symlink(hostPIDNamespace, filepath.Join(f.root, "self/ns/pid")))
	f.write("stat", "cpu  1 2 3 4 5 6 7 8 9 10\nbtime 1790000000\n")
	return f
}

// write writes a file, and returns its path.
func (f tree) write(name, content string) string {
	f.t.Helper()
	path := filepath.Join(f.root, name)
	testkit.Write(f.t, path, content)
	return path
}

func (f tree) process(pid int, state string, parent int, start uint64, cgroup string) {
	f.t.Helper()
	f.write(fmt.Sprintf("%d/stat", pid), fmt.Sprintf("%d (a b) %s %d 1 1 0 -1 0 0 0 0 0 250 150 0 0 20 0 8 0 %d 1 1 1", pid, state, parent, start))
	f.write(fmt.Sprintf("%d/cgroup", pid), cgroup)
}

func (f tree) remove(pid int) {
	f.t.Helper()
	must(f.t, os.RemoveAll(filepath.Join(f.root, strconv.Itoa(pid))))
}

const session = "0::/user.slice/user-1000.slice/session-3.scope\n"

// never stands for a process that was not read before.
var never = &process{}

func TestReadProcess(t *testing.T) {
	f := newTree(t)
	f.process(42, "R", 7, 12345, session)
	p := newProcFS(f.root, newClock())
	if !p.hostNamespace() {
		t.Fatal("not the host's pid namespace")
	}
	boot := testkit.Read(t, filepath.Join(f.root, "stat"))
	f.write("stat", "cpu  1 2 3 4\n")
	got := p.read(42, never)
	if got.start != 12345 || got.started.OK {
		t.Errorf("%+v, want a start in ticks only while nothing tells the boot time", got)
	}
	f.write("stat", boot)
	got = p.read(42, got)
	if got.start != 12345 || got.state != "R" || !got.alive() || got.orphaned {
		t.Fatalf("read: %+v", got)
	}
	testkit.Equal(t, got.cpu, gpu.Some(4*time.Second), "CPU")
	if want := 1_790_000_123_450 * time.Millisecond; !got.started.OK || (got.started.V-want).Abs() > time.Millisecond {
		t.Errorf("started %v, want %v", got.started.V, want)
	}
	// The moment of a start does not move, whatever is done to the wall clock.
	f.write("stat", "cpu  1 2 3 4 5 6 7 8 9 10\nbtime 1790009999\n")
	again := p.read(42, got)
	testkit.Equal(t, again.started, got.started, "start when it is read again")
	f.process(43, "S", 7, 12345, session)
	testkit.Equal(t, p.read(43, never).started, got.started, "start of one that started with it")
}

func TestProcessThatCannotBeFound(t *testing.T) {
	f := newTree(t)
	f.process(42, "S", 7, 100, session)
	p := newProcFS(f.root, newClock())
	before := p.read(42, never)
	f.remove(42)
	gone := p.read(42, before)
	if gone.start != 100 || gone.started != before.started || gone.alive() || gone.state != "X" || gone.cpu.OK {
		t.Errorf("after its end: %+v, want the same identity and that it has ended", gone)
	}
	testkit.Equal(t, p.read(42, gone).start, 100, "later")
	f.process(42, "S", 7, 200, session)
	if next := p.read(42, gone); next.start != 200 || next.started == before.started {
		t.Errorf("its successor: %+v, want another identity", next)
	}
	testkit.Equal(t, *p.read(4711, never), *never, "a process that never was is known")
}

func TestOrphan(t *testing.T) {
	f := newTree(t)
	p := newProcFS(f.root, newClock())
	f.process(42, "S", 7, 100, session)
	was := p.read(42, never)
	if was.orphaned {
		t.Error("orphaned beside its parent")
	}
	f.process(42, "S", 1, 100, session)
	now := p.read(42, was)
	if !now.orphaned {
		t.Error("not orphaned, and its parent is gone")
	}
	f.write("42/cgroup", "0::/system.slice/x.service\n")
	if in := p.read(42, now); in.orphaned || in.group != "/system.slice/x.service" {
		t.Errorf("a service is an orphan: %+v", in)
	}
	f.process(43, "S", 1, 100, session)
	must(t, os.Remove(filepath.Join(f.root, "43/cgroup")))
	if p.read(43, never).orphaned {
		t.Error("orphaned without a group that says so")
	}
}

// In a container nothing is called an orphan, and the driver's numbers are the container's: the host's process of the same number is
// another one.
func TestOtherNamespaces(t *testing.T) {
	read := func(self int) *process { // in a procfs in which this process has that number and runs in a container
		f := newTree(t)
		must(t, os.RemoveAll(filepath.Join(f.root, "self")))
		name := strconv.Itoa(self)
		must(t, os.MkdirAll(filepath.Join(f.root, name, "ns"), 0o755))
		for link, to := range map[string]string{"self": name, name + "/ns/pid": "pid:[4026532000]"} {
			must(t, os.Symlink(to, filepath.Join(f.root, link)))
		}
		f.process(42, "S", 1, 100, session)
		return newProcFS(f.root, newClock()).read(42, never)
	}
	if got := read(os.Getpid()); got.start != 100 || got.orphaned {
		t.Errorf("a child of a container's first process: %+v", got)
	}
	testkit.Equal(t, *read(os.Getpid() + 1), *never, "process 42 of the container is taken for the host's")
}

// What the kernel can give back counts as free, and what cannot be is an error.
func TestMemoryOfTheHost(t *testing.T) {
	some := gpu.Some[uint64]
	for name, c := range map[string]struct {
		text string
		want gpu.Memory
	}{
		"GB10":          {"MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 60 kB\n", gpu.Memory{Total: some(102400), Used: some(40960), Free: some(61440)}},
		"an old kernel": {"MemTotal: 100 kB\nMemFree: 60 kB\n", gpu.Memory{}},
		"more is free":  {"MemTotal: 100 kB\nMemAvailable: 101 kB\n", gpu.Memory{}},
		"none":          {"MemTotal: 0 kB\nMemAvailable: 0 kB\n", gpu.Memory{}},
		"no numbers":    {"MemTotal: x kB\n", gpu.Memory{}},
	} {
		f := newTree(t)
		f.write("meminfo", c.text)
		got, err := newProcFS(f.root, clock{}).memory()
		if got != c.want || (err == nil) != c.want.Total.OK {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
	if _, err := newProcFS(t.TempDir(), clock{}).memory(); err == nil {
		t.Error("no meminfo is no error")
	}
}

// A process whose file is never there to be read holds up no sample: it is as one that cannot be read, and others are read
// as ever. It is read again once that has returned.
func TestStuckRead(t *testing.T) {
	f := newTree(t)
	f.process(6, "S", 77, 4711, session)
	f.write("5/cgroup", session)
	pipe := filepath.Join(f.root, "5/stat")
	must(t, syscall.Mkfifo(pipe, 0o644)) // to open it waits for a writer
	p := newProcFS(f.root, newClock())
	testkit.Equal(t, *p.look("GPU-1", 5, never), *never, "a process that was never read")
	if got := p.look("GPU-1", 5, &process{start: 4711, state: "S"}); got.start != 4711 || got.alive() || got.state != "" {
		t.Errorf("one that was read before: %+v", got)
	}
	testkit.Equal(t, len(p.reads), 1, "reads are under way")
	testkit.Equal(t, p.look("GPU-1", 6, never).start, 4711, "another process")
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	must(t, err)
	must(t, os.Rename(filepath.Join(f.root, "6/stat"), pipe))
	w.Close()
	for { // until the read that was stuck has returned; the test's deadline catches a hang
		if got := p.look("GPU-1", 5, never); got.start == 4711 {
			return
		}
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
	must(t, err)
	return &lookups{tree: f, reading: reading{device: newDevice(s, gpu.Info{})}, at: 45 * time.Second}
}

// next takes a sample of process 42.
func (l *lookups) next(kept bool) (gpu.Process, bool) {
	l.t.Helper()
	l.at += time.Second
	entry := listed{pid: 42, instance: noInstance, kept: kept}
	known := l.reading.lookUp(entry, l.at)
	p, ok := l.reading.resolve(entry, known, l.at)
	l.reading.device.processes.seen = map[uint32]*process{42: known}
	return p, ok
}

// wasRead reports whether the process was read for a sample.
func wasRead(p gpu.Process) bool { return p.State != "" }

// A process is read once in 15 s, and has no half of it in between. Another one of its number is told then.
func TestProcessesAreReadSeldom(t *testing.T) {
	l := newLookups(t)
	l.process(42, "S", 7, 100, session)
	reads := 0
	for i := range 61 {
		p, ok := l.next(false)
		if !ok || p.ID != (gpu.ProcessID{PID: 42, Start: 100}) || !p.Started.OK || wasRead(p) != p.CPU.OK {
			t.Fatalf("sample %d: %+v, %t", i, p, ok)
		}
		if wasRead(p) {
			reads++
		}
	}
	testkit.Equal(t, reads, 5, "reads in a minute, with that at the first sample")
	l.process(42, "S", 7, 200, session)
	for range 15 {
		l.next(false)
	}
	if p, _ := l.next(false); p.ID.Start != 200 {
		t.Errorf("%+v, want the process that has its number now", p)
	}
}

// A process that is stuck, has ended, or stands in a list that could not be read is read each time.
func TestProcessesThatAreAlwaysRead(t *testing.T) {
	for state, kept := range map[string]bool{"D": false, "Z": false, "S": true, "R": true} {
		l := newLookups(t)
		l.process(42, state, 7, 100, session)
		l.next(false)
		for i := range 20 {
			if p, ok := l.next(kept); !ok || !wasRead(p) {
				t.Fatalf("state %s, kept %t, sample %d: not read", state, kept, i)
			}
		}
	}
	l := newLookups(t)
	l.process(42, "S", 7, 100, session)
	l.next(false)
	l.remove(42)
	for range 16 {
		l.next(false)
	}
	for i := range 20 {
		if p, _ := l.next(false); p.State != "X" || p.ID.Start != 100 {
			t.Fatalf("sample %d after its end: %+v", i, p)
		}
	}
}
