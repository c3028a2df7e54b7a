// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// table reads the boxed tables that nvidia-smi prints by default, one after another as with -l, in
// a loop of a shell or within the output of a program. Each has the date above it, which
// nvidia-smi writes without a zone.
//
// A GPU has two rows or three: its name and bus, its memory, and its MIG mode. Then there may be
// a box of MIG devices, and one of processes, which older drivers write without GI and CI.
type table struct {
	*log
	t       time.Duration
	dated   bool
	tables  int // that were begun
	section section
	gpus    []*tableGPU
	lives   map[string]*lives // by UUID

	instances bool // the rows of processes have the columns GI and CI
	known     bool // the processes are told
	whole     bool // up to the end of their box
}

// section is a box of a table.
type section int

const (
	sectionNone section = iota
	sectionGPUs
	sectionMIG
	sectionProcesses
)

// tableGPU is a GPU of one table.
type tableGPU struct {
	info      gpu.Info
	line      int
	memory    gpu.Memory
	read      bool // its memory was read
	mig       gpu.Opt[bool]
	instances []gpu.Instance
	processes []gpu.Process
}

var busID = regexp.MustCompile(`^[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]$`)

// readTable reads a log of tables.
func readTable(l *log) error {
	t := &table{log: l, lives: map[string]*lives{}}
	for {
		text, err := l.nextLine()
		if errors.Is(err, io.EOF) {
			t.whole = t.whole && !l.lines.cut
			return t.flush()
		}
		if err != nil {
			return err
		}
		if err := t.wrong(t.line(strings.TrimSpace(text)), text); err != nil {
			return err
		}
	}
}

// line takes a line.
func (t *table) line(text string) error {
	switch {
	case text == "":
		return nil
	case isDate(text):
		if err := t.flush(); err != nil {
			return err
		}
		at, err := t.clock.moment(text)
		if err != nil {
			return err
		}
		t.t, t.dated = at, true
		return nil
	case strings.HasPrefix(text, "| NVIDIA-SMI "), strings.HasPrefix(text, "|NVIDIA-SMI "):
		return t.begin()
	case text[0] == '+':
		if t.section == sectionProcesses {
			t.section, t.whole = sectionNone, true
		}
		return nil
	case text[0] == '|' && t.section != sectionNone, strings.HasPrefix(text, "| Processes"), strings.HasPrefix(text, "| MIG devices"):
		return t.row(text)
	}
	t.foreign(text)
	return nil
}

// isDate reports whether a line is the date above a table, as date or nvidia-smi writes it.
func isDate(text string) bool {
	day, rest, ok := strings.Cut(text, " ")
	switch day {
	case "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun":
		return ok && len(rest) >= len("Jan _2 15:04:05 2006")-1 && len(text) <= len("Mon Jan _2 15:04:05 AAAAA 2006") && strings.Count(text, ":") == 2
	}
	return false
}

// begin begins a table.
func (t *table) begin() error {
	if err := t.flush(); err != nil {
		return err
	}
	if !t.dated {
		at, err := t.clock.round(t.tables, "nvidia-smi -l 1 writes the date above each table")
		if err != nil {
			return err
		}
		t.t = at
	}
	t.tables++
	t.section = sectionGPUs
	return nil
}

// row takes a row of a box.
func (t *table) row(text string) error {
	cells := strings.Split(strings.Trim(text, "|"), "|")
	fields := strings.Fields(cells[0])
	switch {
	case len(fields) == 0:
	case fields[0] == "Processes:":
		t.section, t.instances, t.known, t.whole = sectionProcesses, false, true, false
		return nil
	case fields[0] == "MIG" && strings.Join(fields, " ") == "MIG devices:":
		t.section = sectionMIG
		return nil
	}
	switch t.section {
	case sectionGPUs:
		return t.gpuRow(cells, fields)
	case sectionMIG:
		return t.migRow(cells, fields)
	case sectionProcesses:
		err := t.processRow(fields)
		t.known = t.known && err == nil
		return err
	}
	return nil
}

// gpuRow takes a row of a GPU.
func (t *table) gpuRow(cells, fields []string) error {
	if len(cells) < 3 {
		return nil
	}
	if bus := strings.Fields(cells[1]); len(bus) > 0 && busID.MatchString(bus[0]) && len(fields) > 0 {
		index, err := parseIndex(fields[0])
		if err != nil {
			return err
		}
		if len(t.gpus) >= maxGPUs {
			return fmt.Errorf("a table of more than %d GPUs", maxGPUs)
		}
		g := &tableGPU{info: gpu.Info{Index: index, UUID: "pci-" + bus[0], PCIBusID: bus[0]}, line: t.lines.number}
		if n := len(fields); n > 2 { // the last one is the persistence mode, or the driver model of Windows
			g.info.Name = strings.Join(fields[1:n-1], " ")
		}
		t.gpus = append(t.gpus, g)
		t.begun = true
		return nil
	}
	if len(t.gpus) == 0 {
		return nil // the names of the columns
	}
	g := t.gpus[len(t.gpus)-1]
	switch last := strings.TrimSpace(cells[2]); {
	case !g.read:
		var err error
		g.read = true
		if g.memory, err = usage(cells[1]); err != nil {
			return err
		}
	case last == "Enabled" || last == "Disabled":
		g.mig = gpu.Some(last == "Enabled")
	}
	return nil
}

// usage reads used and total memory, such as 10MiB / 15360MiB.
func usage(text string) (m gpu.Memory, err error) {
	used, total, ok := strings.Cut(text, "/")
	if text = strings.TrimSpace(text); !ok || isAbsent(text) {
		_, err = amount(text, 0)
		return m, err
	}
	if m.Used, err = amount(used, 0); err == nil {
		m.Total, err = amount(total, 0)
	}
	return m, err
}

// migRow takes a row of a MIG device. Those of one GPU instance share its memory.
func (t *table) migRow(cells, fields []string) error {
	if len(cells) < 2 || len(fields) != 4 || !isDigits(fields[0]) {
		return nil
	}
	index, err := parseIndex(fields[0])
	if err != nil {
		return err
	}
	instance, err := parsePID(fields[1])
	if err != nil {
		return fmt.Errorf("GI ID: %w", err)
	}
	m, err := usage(cells[1])
	if err != nil {
		return err
	}
	if g := t.gpuOf(index); g != nil {
		g.instances = addInstance(g.instances, instance, m)
	}
	return nil
}

// addInstance adds a GPU instance that was not told of before. No log tells its profile.
func addInstance(list []gpu.Instance, id uint32, m gpu.Memory) []gpu.Instance {
	for i := range list {
		if list[i].ID == id {
			return list
		}
	}
	return append(list, gpu.Instance{ID: id, Memory: m})
}

// gpuOf returns the GPU of an index, nil if the table does not have it.
func (t *table) gpuOf(index int) *tableGPU {
	for _, g := range t.gpus {
		if g.info.Index == index {
			return g
		}
	}
	return nil
}

func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// processRow takes a row of a process: GPU, maybe GI and CI, PID, type, name and memory.
func (t *table) processRow(fields []string) error {
	switch {
	case len(fields) > 0 && fields[0] == "GPU":
		t.instances = len(fields) > 1 && fields[1] == "GI"
		return nil
	case len(fields) == 0 || !isDigits(fields[0]):
		return nil // what the columns are, or that there are no processes
	}
	pid := 1
	if t.instances {
		pid = 3
	}
	if len(fields) < pid+3 || !isDigits(fields[pid]) {
		t.known = false // Not Supported, or a process that could not be read
		return nil
	}
	index, err := parseIndex(fields[0])
	if err != nil {
		return err
	}
	number, err := parsePID(fields[pid])
	if err != nil {
		return err
	}
	used, err := amount(fields[len(fields)-1], 0)
	if err != nil {
		return err
	}
	g := t.gpuOf(index)
	switch {
	case g == nil:
		return nil
	case len(g.processes) >= maxProcesses:
		return fmt.Errorf("a table of more than %d processes", maxProcesses)
	}
	p := newProcess(number, fields[pid+1], strings.Join(fields[pid+2:len(fields)-1], " "), used)
	if t.instances && isDigits(fields[1]) {
		if id, err := parsePID(fields[1]); err == nil {
			p.Instance = gpu.Some(id)
		}
	}
	g.processes = append(g.processes, p)
	return nil
}

// flush hands over the table that was read.
func (t *table) flush() error {
	known := t.known && t.whole
	for _, g := range t.gpus {
		if !g.read {
			t.leaveOut(leftCut, g.line, "the table ends before the memory of the GPU")
			continue
		}
		s := gpu.Sample{T: t.t, Memory: usedOf(g.memory), MIGEnabled: g.mig, Instances: g.instances}
		if known {
			v := t.lives[g.info.UUID]
			if v == nil {
				v = &lives{}
				t.lives[g.info.UUID] = v
			}
			s.ProcessesKnown, s.Processes = true, v.settle(g.processes)
		}
		if err := t.emit(g.info, s, g.line); err != nil {
			return err
		}
	}
	t.gpus, t.section, t.known, t.whole = t.gpus[:0], sectionNone, false, false
	return nil
}
