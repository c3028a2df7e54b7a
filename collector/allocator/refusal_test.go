// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package allocator

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// TestHear has this process tell refusals as a probe does, and as one would that wants to keep the reader busy.
func TestHear(t *testing.T) {
	id := idOf(t, os.Getpid())
	c := newClock(t)
	sequence := uint64(0)
	page := memfd(t, "gpu_leak_probe", make([]byte, pageSize))
	tell := func(number uint32) {
		sequence++
		b := testPage(sequence, id.Start, torch("a", 1, 2))
		binary.LittleEndian.PutUint32(b[36:], number)
		binary.LittleEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:written]))
		put(t, page, b[:written]) // the rest is not the probe's
	}
	answered := memfd(t, "gpu_leak_oom", make([]byte, answerSize))
	answer := func(number uint32, after int, more string) {
		told := c.began.Add(time.Duration(after) * time.Second)
		b := testAnswer(id.Start, number, fmt.Sprintf(`{"time":%d,"uuid":"GPU-0B","asked":%d%s}`, told.Unix(), number, more))
		copy(b, refusalMagic)
		put(t, answered, b)
	}
	want := func(asked uint64, read uint32) {
		t.Helper()
		got := c.RefusedOn("GPU-0b", &gpu.Sample{}, &gpu.Process{ID: id})
		if (got == nil) != (asked == 0) || got != nil && got.Asked != asked {
			t.Errorf("%+v, want one of %d bytes", got, asked)
		}
		lock := unix.Flock_t{Type: unix.F_WRLCK, Start: readAt}
		must(t, unix.FcntlFlock(uintptr(page), unix.F_OFD_GETLK, &lock))
		if lock.Type != unix.F_UNLCK && lock.Start != readAt+int64(read) || (lock.Type == unix.F_UNLCK) != (read == 0) {
			t.Errorf("%+v, want that of %d", lock, read)
		}
	}
	c.Of(id)
	tell(7)
	c.at(0)
	want(0, 0) // there is nothing to read yet
	answer(7, 0, `,"sites":[`+strings.Repeat(`{"line":"a\n","live":5,"frames":["f"]},`, 99)+`{}]`)
	tell(7)
	c.at(1)
	want(0, 0) // too early to look again
	tell(7)
	c.at(15)
	want(7, 7)
	lines := c.RefusedOn("GPU-0b", &gpu.Sample{}, &gpu.Process{ID: id}).Lines
	equal(t, len(lines), maxSites, "lines")
	equal(t, lines[0], gpu.Line{Line: "a_", Bytes: 5}, "a line")
	equal(t, c.RefusedOn("GPU-0c", &gpu.Sample{}, &gpu.Process{ID: id}), nil, "on another GPU")

	answer(1<<32-1, 31, "")
	tell(1<<32 - 1)
	c.at(31)
	want(1<<32-1, 1<<32-1)
	answer(9, 31-60, "") // an earlier exporter may have told it
	tell(9)
	c.at(46)
	want(1<<32-1, 9)
	tell(0)
	c.at(61)
	want(1<<32-1, 9)
}
