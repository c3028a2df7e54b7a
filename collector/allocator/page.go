// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package allocator reads the numbers of the memory allocators inside processes: the pages that the probe, or any program
// that writes the same layout, keeps in its memory.
//
// A page is found and opened through /proc/PID/fd. For that the exporter needs the rights of a debugger over the process:
// its user's, or CAP_SYS_PTRACE, and for processes of another user CAP_DAC_READ_SEARCH as well. What it may not see is
// absent.
//
// A process writes what it likes: a wrong page harms only the series of its own process. It cannot block or crash the
// reader, or take its memory; see Reader.open.
package allocator

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// The layout of a page, version 1, little endian. probe/README.md describes it.
const (
	pageSize      = 4096
	layoutVersion = 1
	magic         = "GPULEAK\x00"
	written       = 4032 // the rest is zero
	summed        = 16   // from here on the checksum counts
	headerSize    = 64
	recordSize    = 192
	maxRecords    = 16
	refusalAt     = headerSize + maxRecords*recordSize
)

// Record has the numbers of the allocator in a process for one GPU.
type Record struct {
	UUID      string // of the GPU or MIG device, without its prefix, in lower case; "" if the process does not know it
	Allocator gpu.Allocator
}

// page is one reading of a process's page.
type page struct {
	sequence uint64 // counts the probe's writes
	start    uint64 // of the process that writes, as in gpu.ProcessID
	records  []Record
	refusal  *Refusal // the last one; nil: none
}

// errTorn means that the page was written meanwhile, or is damaged.
var errTorn = errors.New("the checksum is another")

// checkHeader checks what pages and answers have in common: the magic, the version, and the checksum of b up to size.
func checkHeader(b []byte, magic string, size int) error {
	if len(b) < size || string(b[:8]) != magic {
		return errors.New("it is no page or answer of a probe")
	}
	if v := binary.LittleEndian.Uint16(b[8:]); v != layoutVersion {
		return fmt.Errorf("version %d of the layout, not %d: the probe and the exporter are of different releases", v, layoutVersion)
	}
	if crc32.ChecksumIEEE(b[summed:size]) != binary.LittleEndian.Uint32(b[12:]) {
		return errTorn
	}
	return nil
}

// parsePage parses the first written bytes of a page. It never needs more memory than the page itself. A record that
// contradicts itself makes the whole page wrong.
func parsePage(b []byte) (page, error) {
	if err := checkHeader(b, magic, written); err != nil {
		return page{}, err
	}
	le := binary.LittleEndian
	p := page{sequence: le.Uint64(b[16:]), start: le.Uint64(b[24:])}
	n := le.Uint32(b[32:])
	if size := le.Uint16(b[10:]); size != recordSize || n > maxRecords {
		return page{}, fmt.Errorf("%d records of %d bytes", n, size)
	}
	p.records = make([]Record, 0, n)
	for i := range int(n) {
		r, err := parseRecord(b[headerSize+i*recordSize:][:recordSize])
		if err != nil {
			return page{}, fmt.Errorf("record %d: %w", i, err)
		}
		p.records = append(p.records, r)
	}
	if told, _, _ := bytes.Cut(b[refusalAt:written], []byte{0}); len(told) > 0 {
		p.refusal = &Refusal{}
		if err := json.Unmarshal(told, p.refusal); err != nil {
			return page{}, fmt.Errorf("its refusal: %w", err)
		}
		p.refusal.clean()
	}
	return p, nil
}

// Refusal is an allocation for which a GPU had no memory left.
type Refusal struct {
	Time  int64  // in seconds since the Unix epoch
	UUID  string // as Record.UUID
	Asked uint64 // bytes
	// Lines hold most, the largest first. Without a name, they are the largest blocks.
	Lines []gpu.Line
}

// clean leaves names that print.
func (r *Refusal) clean() {
	r.UUID, r.Lines = bareUUID(printable(r.UUID, 48)), r.Lines[:min(len(r.Lines), maxSites)]
	for i := range r.Lines {
		r.Lines[i].Line = printable(r.Lines[i].Line, maxLine)
	}
}

// Positions in a record.
const (
	uuidAt      = 0
	frameworkAt = 48
	versionAt   = 64
	backendAt   = 96
	validAt     = 128
	numbersAt   = 136
)

func parseRecord(b []byte) (r Record, err error) {
	r.UUID = bareUUID(text(b[uuidAt:frameworkAt]))
	a := &r.Allocator
	a.Framework, a.Version, a.Backend = text(b[frameworkAt:versionAt]), text(b[versionAt:backendAt]), text(b[backendAt:validAt])
	if a.Framework == "" {
		return r, errors.New("it names no framework")
	}
	valid := binary.LittleEndian.Uint32(b[validAt:])
	for i, n := range []*gpu.Opt[uint64]{&a.Allocated, &a.Reserved, &a.Active, &a.InactiveSplit, &a.Retries, &a.OOMs, &a.Limit} {
		if valid&(1<<i) != 0 {
			*n = gpu.Some(binary.LittleEndian.Uint64(b[numbersAt+8*i:]))
		}
	}
	for _, part := range []gpu.Opt[uint64]{a.Allocated, a.Active, a.InactiveSplit} {
		if a.Reserved.OK && part.OK && part.V > a.Reserved.V {
			return r, fmt.Errorf("%d bytes of %d that are reserved", part.V, a.Reserved.V)
		}
	}
	return r, nil
}

// text returns a string that ends at the first zero. It becomes a label: an underscore replaces characters that do not
// belong in a name or a version.
func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune(".+-_:", r):
			return r
		}
		return '_'
	}, string(b))
}
