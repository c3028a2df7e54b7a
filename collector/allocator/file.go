// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

const (
	// linkPrefix is how the link of a probe's descriptor begins. Any file may have that name.
	linkPrefix = "/memfd:gpu_leak_probe"
	// maxDescriptors bounds how many descriptors of a process are looked at, maxCandidates
	// how many of them are opened: a child that was forked has its parent's page as well.
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

// errNoPage says that a process has no page.
var errNoPage = errors.New("no page")

// find opens the page of a process. It returns errNoPage if there is none, and an error
// that is fs.ErrPermission where its descriptors may not be seen.
func (r *Reader) find(id gpu.ProcessID) (*os.File, page, error) {
	dir := filepath.Join(r.procFS, strconv.FormatUint(uint64(id.PID), 10), "fd")
	d, err := os.Open(dir)
	if err != nil {
		return nil, page{}, err
	}
	defer d.Close()
	found := errNoPage
	candidates := 0
	for seen := 0; seen < maxDescriptors && candidates < maxCandidates; {
		names, err := d.Readdirnames(1024)
		seen += len(names)
		for _, name := range names {
			target, err := os.Readlink(filepath.Join(dir, name))
			if errors.Is(err, fs.ErrPermission) {
				return nil, page{}, err
			}
			if err != nil || !strings.HasPrefix(target, linkPrefix) || candidates == maxCandidates {
				continue
			}
			candidates++
			f, p, err := r.open(filepath.Join(dir, name), id)
			if err == nil {
				return f, p, nil
			}
			if !errors.Is(err, errOthers) {
				found = err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, page{}, err
		}
	}
	return nil, page{}, found
}

// errOthers says that a page is another process's.
var errOthers = errors.New("it is the page of another process")

// open opens the file that a link of procfs leads to, if it is a page of that process.
//
// The process chose the file. Before it is opened it must be a regular file of a page's
// size on the file system of memory files: to open or read another may hang. It is held by
// a descriptor that opens nothing meanwhile, and what the kernel knows of it without asking
// its file system decides. It is read and never mapped: a mapping of a file that became
// shorter would end this program.
func (r *Reader) open(link string, id gpu.ProcessID) (*os.File, page, error) {
	held, err := unix.Open(link, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, page{}, fmt.Errorf("hold %s: %w", link, err)
	}
	defer unix.Close(held)
	var s unix.Statx_t
	if err := unix.Statx(held, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_SIZE, &s); err != nil {
		return nil, page{}, fmt.Errorf("look at %s: %w", link, err)
	}
	if s.Mode&unix.S_IFMT != unix.S_IFREG || s.Size != pageSize || unix.Mkdev(s.Dev_major, s.Dev_minor) != r.device {
		return nil, page{}, errors.New("a file of that name is no page")
	}
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(held), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, page{}, fmt.Errorf("open the page: %w", err)
	}
	f := os.NewFile(uintptr(fd), link)
	p, err := r.read(f)
	if err == nil && p.start != id.Start {
		err = errOthers
	}
	if err != nil {
		f.Close()
		return nil, page{}, err
	}
	return f, p, nil
}

// read reads a page. One that is written meanwhile is read again.
func (r *Reader) read(f *os.File) (p page, err error) {
	for range 3 {
		n, err := syscall.Pread(int(f.Fd()), r.buffer[:written], 0)
		if err != nil {
			return page{}, fmt.Errorf("read the page: %w", err)
		}
		if p, err = parsePage(r.buffer[:n]); !errors.Is(err, errTorn) {
			return p, err
		}
	}
	return page{}, errTorn
}

// unchanged reports whether the page was not written since that sequence.
func (r *Reader) unchanged(f *os.File, sequence uint64) bool {
	n, err := syscall.Pread(int(f.Fd()), r.buffer[:headerSize], 0)
	if err != nil {
		return false
	}
	now, ok := sequenceOf(r.buffer[:n])
	return ok && now == sequence
}
