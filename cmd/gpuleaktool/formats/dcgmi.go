// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// dcgmi reads what DCGM's dcgmi dmon writes: a line of names after "#Entity", a line of units after "ID", and rows
// that begin with "GPU 0". It tells no time; but what stands before the row is taken for
// one, as ts of moreutils writes it. The memory is in MiB.
type dcgmi struct {
	*log
	columns []string
	rounds  rounds
}

// dcgmiMemory are the columns of memory by their short names, of DCGM's fields 250 to 253.
var dcgmiMemory = map[string]func(*gpu.Memory) *gpu.Opt[uint64]{
	"FBTTL": func(m *gpu.Memory) *gpu.Opt[uint64] { return &m.Total },
	"FBFRE": func(m *gpu.Memory) *gpu.Opt[uint64] { return &m.Free },
	"FBUSD": func(m *gpu.Memory) *gpu.Opt[uint64] { return &m.Used },
	"FBRSV": func(m *gpu.Memory) *gpu.Opt[uint64] { return &m.Reserved },
}

// readDCGMI reads a log of dcgmi dmon.
func readDCGMI(l *log) error {
	d := &dcgmi{log: l}
	for {
		text, err := l.nextLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := l.wrong(d.line(text), text); err != nil {
			return err
		}
	}
}

// line takes a line.
func (d *dcgmi) line(text string) error {
	fields := strings.Fields(text)
	if i := slices.IndexFunc(fields, func(f string) bool { return f == "#Entity" || f == "Entity" }); i >= 0 {
		return d.header(fields[i+1:])
	}
	at := slices.Index(fields, "GPU")
	switch {
	case len(fields) == 0 || at < 0 && slices.ContainsFunc(fields, func(f string) bool { return strings.EqualFold(f, "ID") }):
		return nil // the units
	case d.columns == nil || len(fields) < 3 || at < 0 && strings.ContainsAny(fields[0], "0123456789#*"):
		d.foreign(text)
		return nil
	case at < 0:
		d.leaveOut(leftEntity, d.lines.number, "is of no whole GPU: "+quote(text))
		return nil
	case d.lines.cut:
		d.cutOff(text)
		return nil
	case len(fields) != at+2+len(d.columns):
		d.foreign(text)
		return nil
	}
	return d.row(strings.Join(fields[:at], " "), fields[at+1], fields[at+2:])
}

// header takes the names of the columns.
func (d *dcgmi) header(names []string) error {
	if !slices.Contains(names, "FBUSD") && !(slices.Contains(names, "FBTTL") && slices.Contains(names, "FBFRE")) {
		return errNoMemory("a column FBUSD", recordDCGM)
	}
	d.columns = names
	return nil
}

// row takes a row of a GPU. stamp is what stands before it.
func (d *dcgmi) row(stamp, id string, values []string) error {
	index, err := parseIndex(id)
	if err != nil {
		return err
	}
	s := gpu.Sample{}
	for i, name := range d.columns {
		at := dcgmiMemory[name]
		if at == nil {
			continue
		}
		if *at(&s.Memory), err = amount(values[i], mebibyte); err != nil {
			return err
		}
	}
	s.Memory = usedOf(s.Memory)
	if s.T, err = d.time(stamp, id); err != nil {
		return err
	}
	return d.emit(indexed(index), s, d.lines.number)
}

func (d *dcgmi) time(stamp, id string) (time.Duration, error) {
	if stamp != "" {
		return d.clock.moment(strings.Trim(stamp, "[]"))
	}
	return d.clock.round(d.rounds.of(id), "or record with "+recordDCGM+` | ts "%Y-%m-%d %H:%M:%S", where ts is of moreutils`)
}
