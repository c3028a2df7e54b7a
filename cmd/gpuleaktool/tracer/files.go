// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package tracer

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Bounds of what is read of files that a process chose.
const (
	maxFiles   = 64      // libraries to follow
	maxHeaders = 1 << 20 // bytes of what says where things are in a file
	maxRead    = 1 << 29 // bytes of the rest of it, and of a table in it
)

// chosen is a file that a process chose: any file, which it may change meanwhile.
type chosen struct {
	*os.File
	left int64 // bytes that may be read
}

// openChosen opens a file if it is a regular one: to open or read another may hang, or do something. It is held by
// a descriptor that opens nothing meanwhile.
func openChosen(path string, how int) (*chosen, error) {
	const oPath = 0x200000 // O_PATH
	held, err := syscall.Open(path, oPath|syscall.O_CLOEXEC|how, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = syscall.Close(held) }() // nothing was written
	var s syscall.Stat_t
	if err := syscall.Fstat(held, &s); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if s.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return nil, errors.New("it is no regular file")
	}
	f, err := os.OpenFile(ownPath(uintptr(held)), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return &chosen{f, maxRead}, nil
}

func ownPath(fd uintptr) string { return "/proc/self/fd/" + strconv.FormatUint(uint64(fd), 10) }

// path is where the open file is for this process, even if it is deleted.
func (c *chosen) path() string { return ownPath(c.Fd()) }

var errTooLarge = errors.New("it is too large")

// ReadAt reads what is left to read at most.
func (c *chosen) ReadAt(b []byte, at int64) (int, error) {
	if c.left -= int64(len(b)); c.left < 0 {
		return 0, errTooLarge
	}
	return c.File.ReadAt(b, at)
}

// Read does the same.
func (c *chosen) Read(b []byte) (int, error) {
	if c.left -= int64(len(b)); c.left < 0 {
		return 0, errTooLarge
	}
	return c.File.Read(b)
}

// elf reads the headers of the file. They are small, and a hostile file may have them packed, a thousand times smaller
// than they are. Of the tables that are read later the headers say how large they are.
func (c *chosen) elf() (*elf.File, error) {
	c.left = maxHeaders
	f, err := elf.NewFile(c)
	if err != nil {
		return nil, err
	}
	c.left = maxRead
	for _, s := range f.Sections {
		switch s.Type {
		case elf.SHT_SYMTAB, elf.SHT_DYNSYM, elf.SHT_STRTAB:
			if s.Size > maxRead {
				return nil, errTooLarge
			}
		}
	}
	return f, nil
}

// open opens the file that is mapped. Only who may ask the kernel for it gets one that was deleted, or replaced.
func (m *mapping) open(proc string) (*chosen, error) {
	f, err := openChosen(filepath.Join(proc, "map_files", fmt.Sprintf("%x-%x", m.start, m.end)), 0)
	if err != nil && !strings.HasSuffix(m.path, " (deleted)") {
		f, err = openChosen(filepath.Join(proc, "root", m.path), syscall.O_NOFOLLOW)
	}
	return f, err
}
