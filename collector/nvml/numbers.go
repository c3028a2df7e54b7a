// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// Linux hands out the numbers of processes in order, and starts again from the lowest behind the highest
// (alloc_pid in kernel/pid.c). sys/kernel/ns_last_pid tells the last one. So a number that it has not passed since the
// last sample still belongs to the same process, and one small file tells that of all processes on a GPU.

// roundTrip is how far apart two reads of that file may be: after it the numbers could have gone all the way round. There
// are 32,768 at least, so that it holds for up to 6,000 new threads a second.
const roundTrip = 5 * time.Second

// lastNumber returns the number that was handed out last, in the namespace that this process runs in, and the moment on
// the steady clock before it was read; it is absent where the kernel does not tell it.
func (p *procfs) lastNumber() (last gpu.Opt[uint32], at time.Duration) {
	at = p.clock.steady(time.Now())
	var b [16]byte
	n, err := readFile(p.root+"/sys/kernel/ns_last_pid", b[:])
	if err != nil {
		return gpu.Opt[uint32]{}, at
	}
	number, err := strconv.ParseUint(strings.TrimSpace(string(b[:n])), 10, 32)
	return gpu.Opt[uint32]{V: uint32(number), OK: err == nil}, at
}

// readFile fills b with the beginning of a file. Package os would also offer each file to the runtime's poller.
func readFile(path string, b []byte) (n int, err error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer syscall.Close(fd)
	return syscall.Read(fd, b)
}

// numbering follows the numbers from sample to sample of one GPU. The zero numbering is ready for use.
type numbering struct {
	last gpu.Opt[uint32]
	at   time.Duration // when that was read, which a call that hangs may put long after the sample's time
}

// next returns the numbers that may have been handed out since the sample before. It takes the last number and when it
// was read.
func (n *numbering) next(last gpu.Opt[uint32], at time.Duration) handedOut {
	h := handedOut{after: n.last.V, upTo: last.V, all: !n.last.OK || !last.OK || at-n.at > roundTrip}
	*n = numbering{last, at}
	return h
}

// handedOut is the numbers after one and up to another, or all.
type handedOut struct {
	after, upTo uint32
	all         bool
}

func (h handedOut) has(pid uint32) bool {
	switch {
	case h.all:
		return true
	case h.after <= h.upTo:
		return h.after < pid && pid <= h.upTo
	}
	return pid > h.after || pid <= h.upTo // they have started again
}
