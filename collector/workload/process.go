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

	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

// procDir is the directory of one process in procfs.
type procDir interface {
	// path names the directory while it is open.
	path() string
	// read returns the first limit bytes of a file.
	read(name string, limit int64) ([]byte, error)
	Readlink(name string) (string, error)
	Close() error
}

// openDir is an open directory. The kernel ties it to the process: once the process is gone every read fails, even if
// another process has its number.
type openDir struct{ *os.File }

func openProcess(path string) (procDir, error) {
	f, err := os.Open(path)
	return openDir{f}, err
}

func (d openDir) path() string { return "/proc/self/fd/" + strconv.FormatUint(uint64(d.Fd()), 10) }

func (d openDir) Readlink(name string) (string, error) { return os.Readlink(d.path() + "/" + name) }

func (d openDir) read(name string, limit int64) ([]byte, error) {
	f, err := os.Open(d.path() + "/" + name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// gone reports whether the error means that the process is gone.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// momentary reports whether the error means that the system lacked something for a moment, so that it is worth to try again.
func momentary(err error) bool {
	e, ok := errors.AsType[syscall.Errno](err)
	return ok && (e.Temporary() || e == syscall.ENOMEM)
}

func readStat(d procDir) (hostfs.Stat, error) {
	b, err := d.read("stat", 4096)
	if err != nil {
		return hostfs.Stat{}, err
	}
	return hostfs.ParseStat(b)
}

// readUID returns the effective user, as ps shows it and whose rights the process has. The owner of the directory is no
// replacement: it is root if the process is not dumpable.
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
		fields := bytes.Fields(values) // real, effective, saved, file system
		if len(fields) < 2 {
			return 0, fmt.Errorf("user in %q", line)
		}
		uid, err := strconv.ParseUint(string(fields[1]), 10, 32)
		return uint32(uid), err
	}
	return 0, errors.New("no user in status")
}
