// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package tracer

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
)

// mapping is a part of a file in the memory of a process.
type mapping struct {
	start, end, offset uint64
	path               string // as the process sees it; "" if it is no file's
}

// maxMappings bounds how much of a process's list is read.
const maxMappings = 1 << 17

// mappings returns the executable parts of a process's memory, by address.
func mappings(proc string) (list []mapping, err error) {
	f, err := os.Open(filepath.Join(proc, "maps"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	for n := 0; scanner.Scan() && n < maxMappings; n++ {
		// start-end perms offset dev inode path
		fields := strings.Fields(scanner.Text())
		if len(fields) < 5 || !strings.Contains(fields[1], "x") {
			continue
		}
		start, end, _ := strings.Cut(fields[0], "-")
		var m mapping
		var wrong [3]error
		m.start, wrong[0] = strconv.ParseUint(start, 16, 64)
		m.end, wrong[1] = strconv.ParseUint(end, 16, 64)
		m.offset, wrong[2] = strconv.ParseUint(fields[2], 16, 64)
		if err := errors.Join(wrong[:]...); err != nil {
			return nil, fmt.Errorf("a line of maps: %w", err)
		}
		if len(fields) > 5 && fields[5][0] == '/' {
			m.path = strings.Join(fields[5:], " ")
		}
		list = append(list, m)
	}
	return list, scanner.Err()
}

// functions that allocate: func(out **, size, …), and that free: func(block, …). Of a layer, one
// may call another of the next one: cudaMalloc calls cuMemAlloc.
var (
	allocators = [][]string{
		{"cudaMalloc", "cudaMallocAsync", "cudaMallocManaged", "cudaMallocFromPoolAsync"},
		{"cuMemAlloc_v2", "cuMemAllocAsync", "cuMemAllocAsync_ptsz", "cuMemAllocManaged", "cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync_ptsz", "cuMemCreate"},
	}
	deallocators = [][]string{
		{"cudaFree", "cudaFreeAsync"},
		{"cuMemFree_v2", "cuMemFreeAsync", "cuMemFreeAsync_ptsz", "cuMemRelease"},
	}
)

// layersOf returns the layer of functions that a library of that name exports: 0 the runtime, 1 the driver.
func layersOf(path string) (layer int, ok bool) {
	name := filepath.Base(path)
	switch {
	case strings.HasPrefix(name, "libcudart.so"):
		return 0, true
	case strings.HasPrefix(name, "libcuda.so"):
		return 1, true
	}
	return 0, false
}

// mark is a place in the code that tells of a block, as its note says.
type mark struct {
	name      string
	at        uint64 // in the file
	semaphore uint64 // in the file; 0: none
	arguments []string
}

// library is a file of which calls are followed.
type library struct {
	path      string // as the process sees it
	file      *chosen
	marks     []mark
	allocates map[int][]uint64 // in the file, by layer
	frees     []uint64
}

// libraries returns what in a process can be followed, and why some files cannot. Marks are better: they tell
// of each tensor, where the functions tell of what the allocator takes for many.
func libraries(proc string) (list []library, skipped []error, err error) {
	maps, err := mappings(proc)
	if err != nil {
		return nil, nil, err
	}
	seen := map[string]bool{}
	for i := range maps {
		m := &maps[i]
		if seen[m.path] || len(seen) == maxFiles {
			continue
		}
		layer, functions := layersOf(m.path)
		if !functions && !mayHaveMarks(m.path) {
			continue
		}
		seen[m.path] = true
		l, err := readLibrary(proc, m, layer, functions)
		if err != nil {
			skipped = append(skipped, fmt.Errorf("read %s: %w", humanize.Printable(m.path, maxName), err))
			continue
		}
		list = append(list, l)
	}
	if slices.ContainsFunc(list, func(l library) bool { return len(l.marks) > 0 }) {
		for i := range list {
			list[i].allocates, list[i].frees = nil, nil
		}
	}
	return list, skipped, nil
}

// mayHaveMarks reports whether a file may be one of PyTorch's.
func mayHaveMarks(path string) bool {
	name := filepath.Base(path)
	return strings.HasPrefix(name, "libc10") || strings.HasPrefix(name, "libtorch")
}

// readLibrary reads a file that a process maps; it is open where there is no error.
func readLibrary(proc string, m *mapping, layer int, functions bool) (l library, err error) {
	file, err := m.open(proc)
	if err != nil {
		return l, err
	}
	defer func() {
		if err != nil {
			_ = file.Close() // it was only read
		}
	}()
	f, err := file.elf()
	if err != nil {
		return l, err
	}
	l = library{path: m.path, file: file, allocates: map[int][]uint64{}}
	if l.marks, err = marks(f); err != nil {
		return l, err
	}
	if !functions {
		return l, nil
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return l, fmt.Errorf("its symbols: %w", err)
	}
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF || elf.ST_TYPE(s.Info) != elf.STT_FUNC {
			continue
		}
		at, ok := inFile(f, s.Value)
		if !ok {
			continue
		}
		if slices.Contains(allocators[layer], s.Name) && !slices.Contains(l.allocates[layer], at) {
			l.allocates[layer] = append(l.allocates[layer], at)
		}
		if slices.Contains(deallocators[layer], s.Name) && !slices.Contains(l.frees, at) {
			l.frees = append(l.frees, at)
		}
	}
	return l, nil
}

// inFile returns where in a file an address is.
func inFile(f *elf.File, address uint64) (uint64, bool) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && address >= p.Vaddr && address-p.Vaddr < p.Filesz {
			return address - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}

// maxNotes bounds how much of a file's notes is read.
const maxNotes = 4 << 20

// marks returns PyTorch's marks for what is allocated and freed.
//
// A note has a header of three words (the lengths of the owner and of the content, and the type), the
// owner stapsdt, and as content three addresses (of the mark, of a section when it was linked, of the
// semaphore) and three texts (provider, name, arguments).
func marks(f *elf.File) (list []mark, err error) {
	section := f.Section(".note.stapsdt")
	if section == nil {
		return nil, nil
	}
	b, err := io.ReadAll(io.LimitReader(section.Open(), maxNotes))
	if err != nil {
		return nil, fmt.Errorf("its notes: %w", err)
	}
	var base uint64
	if s := f.Section(".stapsdt.base"); s != nil {
		base = s.Addr
	}
	order := f.ByteOrder
	for len(b) >= 12 {
		owner, content, kind := int64(order.Uint32(b)), int64(order.Uint32(b[4:])), order.Uint32(b[8:])
		b = b[12:]
		if padded(owner)+padded(content) > int64(len(b)) {
			break
		}
		name, text := b[:owner], b[padded(owner):padded(owner)+content]
		b = b[padded(owner)+padded(content):]
		if kind != 3 || string(name) != "stapsdt\x00" || len(text) < 24 || f.Class != elf.ELFCLASS64 {
			continue
		}
		if m, ok := markOf(f, order, text, base); ok {
			list = append(list, m)
		}
	}
	return list, nil
}

func padded(n int64) int64 { return (n + 3) &^ 3 }

// markOf reads the content of a note; ok is false for marks of something else.
func markOf(f *elf.File, order binary.ByteOrder, b []byte, base uint64) (m mark, ok bool) {
	at, linked, semaphore := order.Uint64(b), order.Uint64(b[8:]), order.Uint64(b[16:])
	texts := bytes.SplitN(b[24:], []byte{0}, 4)
	if len(texts) < 3 || string(texts[0]) != "pytorch" {
		return m, false
	}
	m.name, m.arguments = string(texts[1]), strings.Fields(string(texts[2]))
	if m.name != "malloc" && m.name != "free" {
		return m, false
	}
	if base != 0 && linked != 0 { // it was moved since
		at += base - linked
		if semaphore != 0 {
			semaphore += base - linked
		}
	}
	if m.at, ok = inFile(f, at); !ok {
		return m, false
	}
	if semaphore != 0 {
		if m.semaphore, ok = inFile(f, semaphore); !ok {
			return m, false
		}
	}
	return m, true
}
