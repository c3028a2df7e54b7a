// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// procDir is the directory of one process.
type procDir interface {
	// read returns the first limit bytes of a file.
	read(name string, limit int64) ([]byte, error)
	// link returns what a symbolic link points to.
	link(name string) (string, error)
	Close() error
}

// openDir is an open directory. The kernel ties it to the process: once that is
// gone every read fails, though its number may have gone to another.
type openDir struct{ *os.Root }

func openProcess(path string) (procDir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return openDir{root}, nil
}

func (d openDir) read(name string, limit int64) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

func (d openDir) link(name string) (string, error) { return d.Readlink(name) }

// gone reports whether an error says that there is no such process any more.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// momentary reports whether an error says nothing about the process but that the
// system lacked something, so that it is worth to ask again.
func momentary(err error) bool {
	var e syscall.Errno
	if !errors.As(err, &e) {
		return false
	}
	switch e {
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, syscall.EINTR:
		return true
	}
	return false
}

// stat is the part of /proc/PID/stat that is used.
type stat struct {
	comm  string // the name that the process gives itself, at most 15 bytes
	state byte
	// parent is the number of the process that has started it, 1 if that is gone.
	parent uint32
	// kernel says that it is a thread of the kernel, which has no files.
	kernel bool
	start  uint64 // clock ticks from boot
}

func readStat(d procDir) (stat, error) {
	b, err := d.read("stat", 4096)
	if err != nil {
		return stat{}, err
	}
	return parseStat(b)
}

// kernelThread is PF_KTHREAD of the kernel's include/linux/sched.h.
const kernelThread = 0x00200000

// parseStat parses /proc/PID/stat, as proc_pid_stat(5) numbers its fields. The
// name of the program, field 2, may hold anything, parentheses included.
func parseStat(line []byte) (stat, error) {
	from, to := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if from < 0 || to < from {
		return stat{}, fmt.Errorf("no program name in %q", line)
	}
	// fields[0] is field 3.
	fields := bytes.Fields(line[to+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return stat{}, fmt.Errorf("%d fields after the program name in %q", len(fields), line)
	}
	parent, err := strconv.ParseUint(string(fields[4-3]), 10, 32)
	if err != nil {
		return stat{}, fmt.Errorf("parent: %w", err)
	}
	flags, err := strconv.ParseUint(string(fields[9-3]), 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("flags: %w", err)
	}
	start, err := strconv.ParseUint(string(fields[22-3]), 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("start: %w", err)
	}
	return stat{
		comm: string(line[from+1 : to]), state: fields[0][0], parent: uint32(parent), kernel: flags&kernelThread != 0, start: start,
	}, nil
}

// readUID returns the effective user, the one that ps shows and whose rights the
// process has. The owner of the directory would be root where a process is not
// dumpable.
func readUID(d procDir) (uint32, error) {
	b, err := d.read("status", 64<<10)
	if err != nil {
		return 0, err
	}
	return parseUID(b)
}

func parseUID(status []byte) (uint32, error) {
	for line := range bytes.Lines(status) {
		values, ok := bytes.CutPrefix(line, []byte("Uid:"))
		if !ok {
			continue
		}
		// Real, effective, saved, file system.
		fields := bytes.Fields(values)
		if len(fields) < 2 {
			return 0, fmt.Errorf("user in %q", line)
		}
		uid, err := strconv.ParseUint(string(fields[1]), 10, 32)
		return uint32(uid), err
	}
	return 0, errors.New("no user in status")
}
