// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package tracer

import (
	"bufio"
	"cmp"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/ianlancetaylor/demangle"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
)

// frame is a place in the code.
type frame struct {
	function string // as the file calls it, or as Python does; "" unknown
	file     string // the library or program, "" for code made at run time
	address  uint64
	place    uint64 // in the file, as its symbols count and addr2line does; its offset if the file cannot be read
	code     bool   // false for an address that holds no code: a stack was followed past its end
}

// names names addresses of a process.
type names struct {
	proc  string
	maps  []mapping
	files map[string]*symbols
	jit   []symbol // of code that was made at run time: a Python with -X perf tells it
}

// symbol is a function.
type symbol struct {
	start, end uint64
	name       string
}

// symbols are those of a file.
type symbols struct {
	list     []symbol
	segments []elf.ProgHeader
}

// Bounds of what is read of a process.
const (
	maxSymbols = 4 << 20
	maxName    = 300
)

func newNames(proc string) (*names, error) {
	maps, err := mappings(proc)
	if err != nil {
		return nil, fmt.Errorf("the process has ended: %w", err)
	}
	return &names{proc: proc, maps: maps, files: map[string]*symbols{}, jit: perfMap(proc)}, nil
}

// frame names an address.
func (n *names) frame(address uint64) frame {
	f := frame{address: address}
	i, ok := slices.BinarySearchFunc(n.maps, address, func(m mapping, a uint64) int {
		switch {
		case a < m.start:
			return 1
		case a >= m.end:
			return -1
		}
		return 0
	})
	if !ok {
		f.function = find(n.jit, address)
		f.code = f.function != ""
		return f
	}
	m := &n.maps[i]
	f.code = true
	if f.file = m.path; f.file == "" {
		f.function = find(n.jit, address)
		return f
	}
	f.place = address - m.start + m.offset
	s := n.files[m.path]
	if s == nil {
		s = readSymbols(n.proc, m)
		n.files[m.path] = s
	}
	for _, p := range s.segments {
		if f.place >= p.Off && f.place-p.Off < p.Filesz {
			f.place += p.Vaddr - p.Off
			f.function = find(s.list, f.place)
			break
		}
	}
	return f
}

// find returns the name of the function at an address; "" if there is none.
func find(list []symbol, address uint64) string {
	i, _ := slices.BinarySearchFunc(list, address, func(s symbol, a uint64) int {
		if s.start <= a {
			return -1
		}
		return 1
	})
	if i > 0 && address < list[i-1].end {
		return list[i-1].name
	}
	return ""
}

// readSymbols reads the functions of a file; one that has none, or is gone, has no names.
func readSymbols(proc string, m *mapping) *symbols {
	s := &symbols{}
	file, err := m.open(proc)
	if err != nil {
		return s
	}
	defer file.Close()
	f, err := file.elf()
	if err != nil {
		return s
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			s.segments = append(s.segments, p.ProgHeader)
		}
	}
	all, _ := f.Symbols() // stripped ones have none
	exported, _ := f.DynamicSymbols()
	for _, sym := range append(all, exported...) {
		if elf.ST_TYPE(sym.Info) == elf.STT_FUNC && sym.Section != elf.SHN_UNDEF && sym.Value != 0 && len(s.list) < maxSymbols {
			s.list = append(s.list, symbol{sym.Value, sym.Value + max(sym.Size, 1), sym.Name})
		}
	}
	slices.SortStableFunc(s.list, func(a, b symbol) int { return cmp.Compare(a.start, b.start) })
	return s
}

// perfMap reads where code that a process made at run time is, if it tells: /tmp/perf-PID.map, with
// the pid and the /tmp that the process has.
func perfMap(proc string) (list []symbol) {
	pid := filepath.Base(proc)
	if b, err := os.ReadFile(filepath.Join(proc, "status")); err == nil {
		for line := range strings.Lines(string(b)) {
			if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
				if all := strings.Fields(rest); len(all) > 0 {
					pid = all[len(all)-1]
				}
			}
		}
	}
	f, err := openChosen(filepath.Join(proc, "root", "tmp", "perf-"+pid+".map"), syscall.O_NOFOLLOW)
	if err != nil {
		return nil // few do
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	for scanner.Scan() && len(list) < maxSymbols {
		start, rest, _ := strings.Cut(scanner.Text(), " ")
		size, name, _ := strings.Cut(rest, " ")
		a, err1 := strconv.ParseUint(start, 16, 64)
		n, err2 := strconv.ParseUint(size, 16, 64)
		if err1 == nil && err2 == nil {
			list = append(list, symbol{a, a + n, name})
		}
	}
	slices.SortStableFunc(list, func(a, b symbol) int { return cmp.Compare(a.start, b.start) })
	return list
}

// python reports whether it is a function of Python, py::NAME:FILE.
func (f *frame) python() (function, file string, ok bool) {
	rest, ok := strings.CutPrefix(f.function, "py::")
	if !ok {
		return "", "", false
	}
	function, file, _ = strings.Cut(rest, ":")
	return function, file, true
}

// text returns a frame for readers.
func (f *frame) text() string {
	if function, file, ok := f.python(); ok {
		return humanize.Printable(file+" "+function, maxName)
	}
	name := demangle.Filter(f.function, demangle.NoTemplateParams)
	switch {
	case f.file == "" && name == "":
		name = "0x" + strconv.FormatUint(f.address, 16)
	case f.file != "" && name == "":
		name = filepath.Base(f.file) + "+0x" + strconv.FormatUint(f.place, 16)
	case f.file != "":
		name = filepath.Base(f.file) + " " + name
	}
	return humanize.Printable(name, maxName)
}

func texts(list []frame) (all []string) {
	for i := range list {
		all = append(all, list[i].text())
	}
	return all
}

// lineOf returns the frame that says most: the innermost one of Python, or else the innermost one that is
// not of the allocator's libraries. Where the stack ends in these, it is the outermost one.
func lineOf(list []frame) string {
	for i := range list {
		if _, _, ok := list[i].python(); ok {
			return list[i].text()
		}
	}
	for i := range list {
		name := filepath.Base(list[i].file)
		if _, is := layersOf(name); !is && !mayHaveMarks(name) {
			return list[i].text()
		}
	}
	if len(list) > 0 {
		return list[len(list)-1].text()
	}
	return ""
}
