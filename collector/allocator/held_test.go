// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package allocator

import (
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestAskOfHeld asks a process that holds its page: a write of its own never ends, because the memory that it
// writes from does not come. Nobody waits for it.
func TestAskOfHeld(t *testing.T) {
	id := idOf(t, os.Getpid())
	page, err := unix.MemfdCreate("gpu_leak_probe", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(page)
	if _, err := unix.Pwrite(page, testPage(1, id.Start, torch("a", 1, 2)), 0); err != nil {
		t.Fatal(err)
	}
	c := newClock(t)
	c.Of(id)
	c.at(0)
	c.Ask(id, time.Minute)

	memory, faults := missing(t)
	written := make(chan error)
	go func() {
		_, err := unix.Pwrite(page, memory[:8], 4088)
		written <- err
	}()
	if _, err := unix.Read(faults, make([]byte, 32)); err != nil { // it is at it
		t.Fatal(err)
	}
	asked := make(chan bool)
	go func() {
		c.at(1)
		close(asked)
	}()
	select {
	case <-asked:
	case <-time.After(10 * time.Second):
		t.Error("the reader waits for the process")
	}
	if number, _ := requested(t, page); number == 0 {
		t.Error("it is not asked")
	}
	_ = unix.Close(faults) // the memory comes
	<-asked
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// missing returns memory that comes when faults is closed, and a descriptor that tells who waits for it.
func missing(t *testing.T) (memory []byte, faults int) {
	t.Helper()
	memory, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(memory) })
	fd, _, failed := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if failed != 0 {
		t.Fatalf("userfaultfd: %v", failed)
	}
	do := func(what uintptr, with *[4]uint64) {
		t.Helper()
		if _, _, failed := unix.Syscall(unix.SYS_IOCTL, fd, what, uintptr(unsafe.Pointer(with))); failed != 0 {
			t.Fatalf("userfaultfd: %v", failed)
		}
		runtime.KeepAlive(with)
	}
	do(0xc018aa3f, &[4]uint64{0xaa})                                                                        // UFFDIO_API
	do(0xc020aa00, &[4]uint64{uint64(uintptr(unsafe.Pointer(&memory[0]))), uint64(os.Getpagesize()), 1, 0}) // UFFDIO_REGISTER, of what is missing
	return memory, int(fd)
}
