// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

const (
	// recordSize is more than the kernel's longest record (CONSOLE_EXT_LOG_MAX, 8192): a read with a smaller buffer fails.
	recordSize = 16 << 10
	// maxRecords bounds one read, so that a flood does not hold up its reader.
	maxRecords = 4096
)

// kernelLog reads additions to the kernel log, or to a file, from the first read on. It never blocks.
type kernelLog struct {
	path string
	fd   int // -1 while closed
	rest []byte
	buf  []byte
}

// read returns the lines that were added since the last call.
func (l *kernelLog) read() ([]string, error) {
	if l.fd < 0 {
		fd, err := syscall.Open(l.path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: l.path, Err: err}
		}
		l.fd, l.buf = fd, make([]byte, recordSize)
		// A pipe has no end to go to, and nothing before it either.
		_, _ = syscall.Seek(fd, 0, 2)
	}
	for range maxRecords {
		n, err := syscall.Read(l.fd, l.buf)
		switch {
		case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.EINTR):
			// EPIPE: records were overwritten before they were read.
			continue
		case errors.Is(err, syscall.EAGAIN):
			return l.lines(), nil
		case err != nil:
			l.close()
			return l.lines(), &os.PathError{Op: "read", Path: l.path, Err: err}
		case n == 0:
			return l.lines(), nil
		}
		l.rest = append(l.rest, l.buf[:n]...)
	}
	return l.lines(), nil
}

// lines returns the complete lines of the text so far. A line without end is dropped once it is longer than any record.
func (l *kernelLog) lines() []string {
	end := bytes.LastIndexByte(l.rest, '\n')
	var lines []string
	if end >= 0 {
		lines = strings.Split(string(l.rest[:end]), "\n")
		l.rest = append(l.rest[:0], l.rest[end+1:]...)
	}
	if len(l.rest) > recordSize {
		l.rest = l.rest[:0]
	}
	return lines
}

func (l *kernelLog) close() {
	if l.fd >= 0 {
		_ = syscall.Close(l.fd)
		l.fd = -1
	}
}

// xidLine is the driver's log line of an XID error. Old drivers leave PCI: out, and under MIG the GPU instance follows the
// address.
var xidLine = regexp.MustCompile(`NVRM: Xid \((?:PCI:)?([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?(?: [^)]*)?\): ([0-9]{1,9})\b`)

// parseXID returns the bus address, as NVML writes it, and the code of an XID error in a line of the kernel log. /dev/kmsg has
// a prefix before a semicolon, which begins with facility × 8 + level. Only the kernel writes facility 0.
func parseXID(line string) (address string, xid uint64, ok bool) {
	if prefix, _, found := strings.Cut(line, ";"); found {
		priority, _, _ := strings.Cut(prefix, ",")
		if p, err := strconv.ParseUint(priority, 10, 32); err == nil && p >= 8 {
			return "", 0, false
		}
	}
	m := xidLine.FindStringSubmatch(line)
	if m == nil {
		return "", 0, false
	}
	xid, err := strconv.ParseUint(m[4], 10, 64)
	if err != nil {
		return "", 0, false
	}
	domain := strings.Repeat("0", 8-len(m[1])) + m[1]
	return strings.ToUpper(domain + ":" + m[2] + ":" + m[3] + ".0"), xid, true
}
