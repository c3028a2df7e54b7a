// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package allocator

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

const (
	// pageLink and answerLink are how the links of a probe's descriptors begin. Any file may have these names.
	pageLink   = "/memfd:gpu_leak_probe"
	answerLink = "/memfd:gpu_leak_sites"
	// maxDescriptors bounds the descriptors of a process that are looked at, maxCandidates those that are opened: a forked
	// child also has its parent's page.
	maxDescriptors = 1 << 16
	maxCandidates  = 8
)

// memoryFiles returns the number of the file system that memory files are on.
func memoryFiles() (device uint64, err error) {
	fd, err := unix.MemfdCreate("gpu_leak_exporter", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("make a memory file: %w", err)
	}
	defer unix.Close(fd)
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return 0, fmt.Errorf("look at a memory file: %w", err)
	}
	return s.Dev, nil
}

// find opens the page of a process. The error is errNoPage if there is none, and fs.ErrPermission if its descriptors are
// unreadable.
func (r *Reader) find(id gpu.ProcessID) (file *os.File, found page, err error) {
	file, err = r.search(id, pageLink, pageSize, func(f *os.File) (uint64, error) {
		found, err = r.read(f)
		return found.start, err
	})
	return file, found, err
}

// search opens the memory files of a process with this name and size, until it can read one: that file stays open. read returns the
// start of the process that writes it. Otherwise the error is the last one, or errNoPage.
func (r *Reader) search(id gpu.ProcessID, name string, size uint64, read func(*os.File) (start uint64, err error)) (file *os.File, err error) {
	last := errNoPage
	candidates := 0
	dir := filepath.Join(r.procFS, strconv.FormatUint(uint64(id.PID), 10), "fd")
	err = hostfs.List(dir, maxDescriptors, r.budget, func(link, target string) error {
		if !strings.HasPrefix(target, name) {
			return nil
		}
		if candidates++; candidates > maxCandidates {
			return fs.SkipAll
		}
		f, err := r.open(link, size)
		if err != nil {
			last = err
			return nil
		}
		start, err := read(f)
		switch last = err; {
		case err == nil && start == id.Start:
			file = f
			return fs.SkipAll
		case err == nil:
			last = errOthers
		}
		_ = f.Close() // it was only read
		return nil
	})
	return file, cmp.Or(err, last)
}

// open opens the target of a link of procfs, if it is a memory file of that size.
//
// The process chose the file. It must be a regular file of the right size on the file system of memory files: to open or
// read another may block. It is read and never mapped: a mapping of a file that became shorter would crash this program.
func (r *Reader) open(link string, size uint64) (*os.File, error) {
	held, err := hostfs.Hold(link)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	if !held.IsRegular(size, r.device) {
		return nil, errors.New("a file of that name is no page")
	}
	return held.Open()
}

// ask sets a request on an open page. It may be repeated.
func ask(f *os.File, number uint32, over time.Duration) error {
	seconds := min(max(int64(over/time.Second), 1), requestUnit-1)
	if err := setLock(f, unix.F_RDLCK, int64(number)*requestUnit, seconds); err != nil {
		return fmt.Errorf("ask the probe: %w", err)
	}
	return nil
}

func withdraw(f *os.File, number uint32) error {
	return setLock(f, unix.F_UNLCK, int64(number)*requestUnit, requestUnit)
}

func setLock(f *os.File, kind int16, start, length int64) error {
	lock := unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: start, Len: length}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock)
}

// findAnswer reads the answer of a process.
func (r *Reader) findAnswer(id gpu.ProcessID) (found answer, err error) {
	b := make([]byte, answerSize)
	f, err := r.search(id, answerLink, answerSize, func(f *os.File) (uint64, error) {
		n, err := unix.Pread(int(f.Fd()), b, 0)
		if err != nil {
			return 0, fmt.Errorf("read the answer: %w", err)
		}
		found, err = parseAnswer(b[:n])
		return found.start, err
	})
	if err != nil {
		return answer{}, err
	}
	return found, f.Close()
}

// read reads a page. The error is errTorn if the probe writes meanwhile.
func (r *Reader) read(f *os.File) (page, error) {
	n, err := unix.Pread(int(f.Fd()), r.buffer[:written], 0)
	if err != nil {
		return page{}, fmt.Errorf("read the page: %w", err)
	}
	return parsePage(r.buffer[:n])
}
