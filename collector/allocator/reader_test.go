// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package allocator

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

const gib = 1 << 30

// hang is how long a program may take that cannot take a second.
const hang = 10 * time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must = testkit.Must

// equal checks that got is want, part by part. The format tells of what they are.
func equal[T any](t testing.TB, got, want T, format string, args ...any) {
	t.Helper()
	testkit.Equal(t, got, want, format, args...)
}

// idOf returns how the exporter names a process of this procfs.
func idOf(t *testing.T, pid int) gpu.ProcessID {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	must(t, err)
	start, err := strconv.ParseUint(string(bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])[19]), 10, 64)
	must(t, err)
	return gpu.ProcessID{PID: uint32(pid), Start: start}
}

// memfd is a memory file of this process, which is closed at the end.
func memfd(t *testing.T, name string, content []byte) int {
	t.Helper()
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	put(t, fd, content)
	return fd
}

// put writes from the beginning of a file on.
func put(t *testing.T, fd int, b []byte) {
	t.Helper()
	_, err := unix.Pwrite(fd, b, 0)
	must(t, err)
}

// memoryFile is one of this process that has the name of a probe's.
func memoryFile(t *testing.T, content []byte) (overwrite func([]byte)) {
	t.Helper()
	fd := memfd(t, "gpu_leak_probe", content)
	return func(b []byte) {
		put(t, fd, b)
		must(t, unix.Ftruncate(fd, int64(len(b))))
	}
}

// clock has a reader look n seconds after the test began, just after Of was called.
type clock struct {
	*Reader
	began time.Time
}

func newClock(t *testing.T) clock {
	t.Helper()
	r, err := New(Options{Sites: true})
	must(t, err)
	t.Cleanup(r.close)
	return clock{r, time.Now()}
}

func (c clock) at(n int) {
	now := c.began.Add(time.Duration(n) * time.Second)
	c.mu.Lock()
	for _, p := range c.processes {
		p.asked = now
	}
	c.mu.Unlock()
	c.update(now)
}

func (c clock) want(t *testing.T, id gpu.ProcessID, want ...Record) {
	t.Helper()
	if got := c.Of(id); !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, want %+v", got, want)
	}
}

// TestReader follows a page through what happens to it.
func TestReader(t *testing.T) {
	id := idOf(t, os.Getpid())
	c := newClock(t)
	c.want(t, id) // nobody has looked yet
	c.at(0)
	c.want(t, id) // it has no page
	memoryFile(t, testPage(1, id.Start-1, torch("parent", 1, 2)))
	write := memoryFile(t, testPage(1, id.Start, torch("a", 1, 2)))
	c.at(14)
	c.want(t, id) // too early to look again
	c.at(15)
	c.want(t, id, torch("a", 1, 2))

	// The names stay what they were.
	renamed := torch("a", 3, 4)
	renamed.Allocator.Version = "3"
	write(testPage(2, id.Start, renamed, torch("b", 5, 6)))
	c.at(31)
	c.want(t, id, torch("a", 3, 4), torch("b", 5, 6))

	torn := testPage(3, id.Start, torch("a", 7, 8))
	torn[64+136]++
	write(torn)
	c.at(32)
	c.want(t, id, torch("a", 3, 4), torch("b", 5, 6))
	write(testPage(4, id.Start, torch("a", 9, 10)))
	c.at(33)
	c.want(t, id, torch("a", 9, 10))

	// A stopped process has no records until it continues.
	c.at(62)
	c.want(t, id, torch("a", 9, 10))
	c.at(63)
	c.want(t, id)
	c.at(100)
	c.want(t, id)
	write(testPage(5, id.Start, torch("a", 11, 12)))
	c.at(130)
	c.want(t, id, torch("a", 11, 12))

	// A page that is cut is closed, and a new one is found.
	write(testPage(6, id.Start)[:100])
	c.at(131)
	c.want(t, id)
	c.at(160)
	c.want(t, id)
	memoryFile(t, testPage(1, id.Start, torch("a", 13, 14)))
	c.at(190)
	c.want(t, id, torch("a", 13, 14))

	// Nobody asks for it any more.
	if c.pages != 1 {
		t.Fatalf("%d pages are open", c.pages)
	}
	c.update(c.began.Add(250 * time.Second))
	if c.pages != 0 || len(c.processes) != 0 {
		t.Fatalf("%d pages are open of %d processes", c.pages, len(c.processes))
	}
}

// TestReaderOfNames reads a process that calls itself something else each time.
func TestReaderOfNames(t *testing.T) {
	id := idOf(t, os.Getpid())
	write := memoryFile(t, testPage(1, id.Start))
	c := newClock(t)
	c.Of(id)
	names := map[string]bool{}
	for i := range 100 {
		r := torch("", 1, 2)
		r.Allocator.Framework = "pool" + strconv.Itoa(i)
		write(testPage(uint64(i)+1, id.Start, r))
		c.at(i)
		for _, r := range c.Of(id) {
			names[r.Allocator.Framework] = true
		}
	}
	equal(t, len(names), maxRecords, "names")
}

// TestReaderHasBounds asks for more processes than may be, and for one that is not identified.
func TestReaderHasBounds(t *testing.T) {
	c := newClock(t)
	if c.Of(gpu.ProcessID{PID: 1 << 30}); len(c.processes) != 0 {
		t.Error("a number alone is a process")
	}
	for i := range 2 * maxProcesses {
		c.Of(gpu.ProcessID{PID: 1 << 30, Start: uint64(i + 1)})
	}
	equal(t, len(c.processes), maxProcesses, "processes")
}

// TestOpenRefuses gives the links of what hangs, and of what is no page, to open.
func TestOpenRefuses(t *testing.T) {
	id := idOf(t, os.Getpid())
	c := newClock(t)
	dir := t.TempDir()
	fifo, plain := filepath.Join(dir, "fifo"), filepath.Join(dir, "plain")
	must(t, unix.Mkfifo(fifo, 0o600))
	must(t, os.WriteFile(plain, testPage(1, id.Start, torch("a", 1, 2)), 0o600))
	for _, link := range []string{fifo, plain, dir, "/dev/zero", "/dev/null", "/proc/self/fd/0", filepath.Join(dir, "none")} {
		if f, err := c.open(link, pageSize); err == nil {
			t.Errorf("%s was opened as %s", link, f.Name())
		}
	}
	// Memory files of other sizes.
	for _, size := range []int{0, 4095, 4097, 1 << 20} {
		b := make([]byte, size)
		copy(b, testPage(1, id.Start, torch("a", 1, 2)))
		memoryFile(t, b)
	}
	if f, _, err := c.find(id); err == nil {
		t.Errorf("%s was opened", f.Name())
	}
}

// TestReaderAtOnce asks while pages are read and written.
func TestReaderAtOnce(t *testing.T) {
	id := idOf(t, os.Getpid())
	write := memoryFile(t, testPage(1, id.Start, torch("a", 1, 1)))
	c := newClock(t)
	c.want(t, id)
	c.at(0)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				for _, r := range c.Of(id) {
					equal(t, r.Allocator.Allocated, r.Allocator.Reserved, "%+v", r)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range uint64(1000) {
			write(testPage(2+i, id.Start, torch("a", i, i)))
		}
	})
	for i := range 1000 {
		c.at(i / 100)
	}
	wg.Wait()
}

// find has a reader find the page of a process, which may be written this very moment.
func find(t *testing.T, c clock, id gpu.ProcessID) {
	t.Helper()
	for n := 0; c.Of(id) == nil; n += 30 {
		if time.Since(c.began) > hang {
			t.Fatal("it has no page")
		}
		c.at(n)
	}
}

// runExample runs the example in C until the test ends.
func runExample(t *testing.T, path string, as *syscall.SysProcAttr) gpu.ProcessID {
	t.Helper()
	if out, err := exec.Command("gcc", "-Wall", "-Werror", "-o", path, "../../probe/example.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := exec.Command(path)
	c.SysProcAttr = as
	must(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
	})
	return idOf(t, c.Process.Pid)
}

// TestExample reads the page of the example in C.
func TestExample(t *testing.T) {
	id, c := runExample(t, filepath.Join(t.TempDir(), "example"), nil), newClock(t)
	find(t, c, id)
	c.want(t, id, Record{Allocator: gpu.Allocator{Framework: "mypool", Allocated: gpu.Some(uint64(gib)), Reserved: gpu.Some(uint64(2 * gib))}})
}
