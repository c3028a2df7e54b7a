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

// monitor reads what nvidia-smi dmon and pmon write: a line of names after "#", one of units after
// another, and rows. Both come again and again. The memory is that of the column fb, which
// counts MiB and calls them MB.
type monitor struct {
	processLog
	format  Format
	columns []string
	rounds  rounds
	stamp   time.Duration // of the row
}

// rounds counts the rounds of a log that tells no time: a round ends before the row of what
// it has a row of already.
type rounds struct {
	n    int
	seen map[string]bool
}

// of returns the round that the next row is in, counted from 0. keys are what it is a row of.
func (r *rounds) of(keys ...string) int {
	if slices.ContainsFunc(keys, func(key string) bool { return r.seen[key] }) {
		r.n++
		clear(r.seen)
	}
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	for _, key := range keys {
		r.seen[key] = true
	}
	return r.n
}

// readMonitor reads a log of dmon or pmon.
func readMonitor(l *log, f Format) error {
	m := &monitor{processLog: processLog{log: l, lists: map[string]*processList{}}, format: f}
	for {
		text, err := l.nextLine()
		if errors.Is(err, io.EOF) {
			return m.end()
		}
		if err != nil {
			return err
		}
		if err := m.wrong(m.line(text), text); err != nil {
			return err
		}
	}
}

// line takes a line.
func (m *monitor) line(text string) error {
	trimmed := strings.TrimSpace(text)
	switch names, header := strings.CutPrefix(trimmed, "#"); {
	case trimmed == "":
		return nil
	case header:
		return m.header(strings.Fields(strings.ToLower(strings.ReplaceAll(names, ",", " "))))
	case m.columns == nil:
		m.foreign(text)
		return nil
	}
	fields := strings.Fields(strings.ReplaceAll(trimmed, ",", " "))
	if n := len(m.columns); len(fields) > n && m.columns[n-1] == "command" {
		fields = append(fields[:n-1:n-1], strings.Join(fields[n-1:], " "))
	}
	switch {
	case m.lines.cut && len(fields) <= len(m.columns):
		m.cutOff(text)
		return nil
	case len(fields) < len(m.columns) && !(m.format == Pmon && len(fields) == len(m.columns)-1):
		m.foreign(text)
		return nil
	case len(fields) > len(m.columns):
		m.foreign(text)
		return nil
	}
	return m.row(fields)
}

// header takes the names of the columns. The line of units is of no use.
func (m *monitor) header(names []string) error {
	if !slices.Contains(names, "gpu") {
		return nil
	}
	record, pid := recordDmon, slices.Contains(names, "pid")
	if m.format == Pmon {
		record = recordPmon
	}
	switch {
	case pid != (m.format == Pmon):
		return errors.New("a header of another monitor: split the file, dmon and pmon are read one by one")
	case !slices.Contains(names, "fb"):
		return errNoMemory("a column fb", record)
	}
	m.columns = names
	return nil
}

// field returns the value of a column.
func (m *monitor) field(fields []string, name string) string {
	if i := slices.Index(m.columns, name); i >= 0 && i < len(fields) {
		return fields[i]
	}
	return ""
}

// row takes a row.
func (m *monitor) row(fields []string) error {
	index, err := parseIndex(m.field(fields, "gpu"))
	if err != nil {
		m.foreign(strings.Join(fields, " "))
		return nil
	}
	used, err := amount(m.field(fields, "fb"), mebibyte)
	if err != nil {
		return err
	}
	pid := m.field(fields, "pid")
	if m.stamp, err = m.time(fields); err != nil {
		return err
	}
	if m.format == Dmon {
		return m.emit(indexed(index), gpu.Sample{T: m.stamp, Memory: gpu.Memory{Used: used}}, m.lines.number)
	}
	if isAbsent(pid) {
		return m.add(indexed(index), m.stamp, nil)
	}
	number, err := parsePID(pid)
	if err != nil {
		return err
	}
	p := newProcess(number, m.field(fields, "type"), m.field(fields, "command"), used)
	return m.add(indexed(index), m.stamp, &p)
}

// time returns the time of a row.
func (m *monitor) time(fields []string) (time.Duration, error) {
	date, clock := m.field(fields, "date"), m.field(fields, "time")
	switch {
	case clock != "":
		return m.clock.moment(strings.TrimSpace(date + " " + clock))
	case m.format == Pmon:
		return m.clock.round(m.rounds.of(m.keys(fields)...), "or record with "+recordPmon)
	}
	return m.clock.round(m.rounds.of(m.keys(fields)...), "or record with "+recordDmon)
}

// keys returns what each round has one row of: the GPU or, for pmon, each type of a process, which
// may have a row for C and one for G.
func (m *monitor) keys(fields []string) (keys []string) {
	of := m.field(fields, "gpu") + " " + m.field(fields, "pid")
	for kind := range strings.SplitSeq(m.field(fields, "type"), "+") {
		keys = append(keys, of+" "+kind)
	}
	return keys
}
