// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Held is a file that another process has open. Its descriptor opens nothing, so that neither its file system nor its driver
// is asked, except for 9p, which checks the end of each path.
type Held struct {
	fd   int
	link string
	stat unix.Statx_t
}

// Hold holds the target of a link, in any container. Close it.
func Hold(link string) (*Held, error) {
	fd, err := unix.Open(link, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("hold %s: %w", link, err)
	}
	h := &Held{fd: fd, link: link}
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_SIZE, &h.stat); err != nil {
		_ = h.Close()
		return nil, fmt.Errorf("look at %s: %w", link, err)
	}
	return h, nil
}

// Close releases the file.
func (h *Held) Close() error { return unix.Close(h.fd) }

// IsCharacterDevice reports whether the file is one, as a GPU's is.
func (h *Held) IsCharacterDevice() bool { return h.stat.Mode&unix.S_IFMT == unix.S_IFCHR }

// IsRegular reports whether it is a regular file of that size, in bytes, on the file system of that device number.
func (h *Held) IsRegular(size, fileSystem uint64) bool {
	return h.stat.Mode&unix.S_IFMT == unix.S_IFREG && h.stat.Size == size && unix.Mkdev(h.stat.Dev_major, h.stat.Dev_minor) == fileSystem
}

// Open opens it for reading, which asks its file system: check with IsRegular which one that is.
func (h *Held) Open() (*os.File, error) {
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(h.fd), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", h.link, err)
	}
	return os.NewFile(uintptr(fd), h.link), nil
}
