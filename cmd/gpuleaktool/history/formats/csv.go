// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/replay"
)

// csvRows reads any CSV whose columns are named. A first line whose time is none is a header, or, where no
// column is a time, one whose amounts are none.
type csvRows struct {
	clock   clock
	unit    float64 // as in Options
	columns csvColumns
	untimed bool   // no column is a time: rows are an interval apart
	rounds  rounds // of rows that tell no time
	comma   string // what stands between two fields
	first   bool   // no row was read yet
	begun   bool   // a row was read, and could be
	header  string
	points  map[string]*points // of the columns of amounts, by role
	fields  []string
}

// csvColumn is a column: what it holds, and how many bytes one of its amounts is, 0 if it does not
// say.
type csvColumn struct {
	role string
	unit float64
}

// csvColumns are the columns of a CSV, in its order.
type csvColumns []csvColumn

// has reports whether a column is of a role.
func (l csvColumns) has(role string) bool {
	return slices.ContainsFunc(l, func(c csvColumn) bool { return c.role == role })
}

// untimed reports whether no column tells the time.
func (l csvColumns) untimed() bool { return !l.has("timestamp") && !l.has("time") }

// The names of columns that mean the same. The first one is what the others are called here.
var csvRoles = [][]string{
	{"timestamp", "datetime", "ts", "time_stamp", "_timestamp"},
	{"date"},
	{"time"},
	{"gpu", "index", "gpu_id", "gpu_index", "device"},
	{"uuid", "gpu_uuid"},
	{"name", "gpu_name"},
	{"used", "memory_used", "mem_used", "memory.used", "used_memory", "used_gpu_memory"},
	{"total", "memory_total", "mem_total", "memory.total"},
	{"free", "memory_free", "mem_free", "memory.free"},
	{"pid"},
	{"process", "process_name", "command"},
}

const csvNames = "timestamp, date, time, gpu, uuid, name, used, total, free, pid, process, and - for a column of no use"

// roleOf returns what a column of a name holds, "" for another name.
func roleOf(name string) string {
	for _, names := range csvRoles {
		if slices.Contains(names, name) {
			return names[0]
		}
	}
	return ""
}

// parseColumns reads the names of columns, such as used[MiB]. Without a time among them the clock must know when the log
// begins, and how far apart its rows are.
func parseColumns(names []string, clock *clock) (columns csvColumns, err error) {
	for _, text := range names {
		name, unit, _ := strings.Cut(strings.TrimSpace(text), "[")
		c := csvColumn{role: strings.ToLower(strings.TrimSpace(name))}
		if unit != "" {
			known := false
			if c.unit, known = units[strings.ToLower(strings.TrimSuffix(unit, "]"))]; !known || !strings.HasSuffix(unit, "]") {
				return nil, fmt.Errorf("--columns: %s has no unit such as used[MiB], [B] or [GB]", text)
			}
		}
		if c.role != "-" {
			if c.role = roleOf(c.role); c.role == "" {
				return nil, fmt.Errorf("--columns: does not know %q: choose of %s", text, csvNames)
			}
			if columns.has(c.role) {
				return nil, fmt.Errorf("--columns: two columns are %s: call the one of no use -", c.role)
			}
		}
		columns = append(columns, c)
	}
	switch {
	case columns.untimed() && (clock.start.IsZero() || clock.interval <= 0):
		return nil, errors.New("--columns: names no timestamp: say which column it is; or, if there is none, when the log begins and the time between two of its rows, as --log.start=2026-03-01T14:00:00Z --log.interval=1s")
	case !columns.has("used") && !(columns.has("free") && columns.has("total")):
		return nil, errors.New("--columns: names no used memory: say which column it is, as used or used[MiB]")
	case columns.has("pid") && !columns.has("used"):
		return nil, errors.New("--columns: names no used memory of the process: say which column it is, as used or used[MiB]")
	}
	return columns, nil
}

// OfProcesses implements replay.Rows.
func (c *csvRows) OfProcesses() bool { return c.columns.has("pid") }

// Read implements replay.Rows.
func (c *csvRows) Read(line string, r *replay.Row) error {
	if c.comma == "" && c.choose(line) || line == c.header { // again, as where a file is continued
		return replay.ErrNoRow
	}
	err := c.row(line, r)
	// With another number of columns it is a line that cannot be read, and so is what follows it.
	if err != nil && c.begun && len(c.fields) > 1 && len(c.fields) == len(c.columns) && isHeader(c.fields) {
		return replay.LogError("a header of other columns: split the file there: " + replay.QuoteLine(line))
	}
	c.begun = c.begun || err == nil
	return err
}

// IsWhole implements replay.Rows.
func (c *csvRows) IsWhole(line string) bool {
	return c.split(line) == nil && len(c.fields) == len(c.columns) && !c.endsInAmount()
}

// row reads a row.
func (c *csvRows) row(line string, r *replay.Row) error {
	if err := c.split(line); err != nil {
		return err
	}
	if n := len(c.fields); n != len(c.columns) {
		return fmt.Errorf("has %d fields, but --columns names %d: name each one, those of no use -", n, len(c.columns))
	}
	first := c.first
	c.first = false
	if first && c.untimed {
		if err := c.memory(r); err != nil {
			c.header = line
			return replay.ErrNoRow
		}
	}
	if err := c.time(r); err != nil {
		if first && !errors.Is(err, errNoDate) {
			c.header = line
			return replay.ErrNoRow
		}
		return err
	}
	if err := c.gpu(r); err != nil {
		return err
	}
	if err := c.memory(r); err != nil {
		return err
	}
	return c.process(r)
}

// choose reports whether the first line says what stands between the fields, as Excel wants it, and nothing else.
func (c *csvRows) choose(text string) bool {
	comma, ok := strings.CutPrefix(text, "sep=")
	ok = ok && (comma == "," || comma == ";" || comma == "\t")
	if ok {
		c.comma = comma
	}
	return ok
}

// commaOf returns what stands between the fields of a line: what makes as many as there are columns. A comma may also stand
// before the decimals.
func (c *csvRows) commaOf(text string) string {
	for _, comma := range []string{",", ";", "\t"} {
		if strings.Count(text, comma) == len(c.columns)-1 && len(c.columns) > 1 {
			return comma
		}
	}
	for _, comma := range []string{";", "\t"} {
		if !strings.Contains(text, ",") && strings.Contains(text, comma) {
			return comma
		}
	}
	return ","
}

// isHeader reports whether fields are names of columns: one is of used memory, and none begins as a number or a time does.
func isHeader(fields []string) bool {
	numeric := func(field string) bool { return strings.TrimLeft(field, "0123456789.+-[") != field }
	used := func(field string) bool { return strings.Contains(strings.ToLower(field), "used") }
	return slices.ContainsFunc(fields, used) && !slices.ContainsFunc(fields, numeric)
}

// split puts the fields of a line into fields.
func (c *csvRows) split(text string) error {
	if c.comma == "" {
		c.comma = c.commaOf(text)
	}
	c.fields = c.fields[:0]
	if strings.Contains(text, `"`) {
		r := csv.NewReader(strings.NewReader(text))
		r.Comma, r.TrimLeadingSpace, r.LazyQuotes = rune(c.comma[0]), true, true
		fields, err := r.Read()
		c.fields = append(c.fields, fields...)
		return err
	}
	for field := range strings.SplitSeq(text, c.comma) {
		c.fields = append(c.fields, strings.TrimSpace(field))
	}
	return nil
}

// endsInAmount reports whether the last field is a number that may have lost its end.
func (c *csvRows) endsInAmount() bool {
	last := c.fields[len(c.fields)-1]
	return last == "" || last[len(last)-1] >= '0' && last[len(last)-1] <= '9' || last[len(last)-1] == '.'
}

// field returns the value of a column, "" without it.
func (c *csvRows) field(role string) string {
	for i := range c.columns {
		if c.columns[i].role == role {
			return strings.TrimSpace(c.fields[i])
		}
	}
	return ""
}

// rounds counts the rounds of a log that tells no time: a round ends before the row of what
// it has a row of already.
type rounds struct {
	n    int
	seen map[string]bool
}

// of returns the round that the next row is in, counted from 0. key is what it is a row of.
func (r *rounds) of(key string) int {
	if r.seen[key] {
		r.n++
		clear(r.seen)
	}
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	r.seen[key] = true
	return r.n
}

// time reads the time of a row.
func (c *csvRows) time(r *replay.Row) error {
	if c.untimed {
		t, err := c.clock.round(c.rounds.of(strings.Join([]string{c.field("gpu"), c.field("uuid"), c.field("pid")}, "\x00")))
		r.SetTime(t.Format(time.DateTime), time.Duration(t.UnixNano()), false)
		return err
	}
	text := cmp.Or(c.field("timestamp"), strings.TrimSpace(c.field("date")+" "+c.field("time")))
	t, local, err := c.clock.read(text)
	r.SetTime(text, t, local)
	return err
}

// gpu reads which GPU a row is of. One that is named by a text, such as node1:0, has no number.
func (c *csvRows) gpu(r *replay.Row) error {
	index, uuid := strings.TrimSuffix(c.present("gpu"), ".0"), c.present("uuid") // pandas writes 0.0
	r.Info.Name = c.field("name")
	switch {
	case !isDigits(index):
		r.Info.UUID = cmp.Or(uuid, index)
	case uuid != "" && !strings.HasPrefix(uuid, "GPU-"): // the name of a node, say
		r.Info.UUID = uuid + ":" + index
	default:
		r.Info.UUID = uuid
	}
	if isDigits(index) {
		n, err := strconv.ParseUint(index, 10, 16)
		if err != nil {
			return fmt.Errorf("cannot read %q as the index of a GPU", index)
		}
		r.Index = gpu.Some(int(n))
	}
	if index == "" && uuid == "" && (c.columns.has("gpu") || c.columns.has("uuid")) {
		return errors.New("does not tell its GPU")
	}
	return nil
}

// memory reads the amounts of a row. In one of a process, used is that of the process.
func (c *csvRows) memory(r *replay.Row) (err error) {
	m := &r.Memory
	for role, at := range map[string]*gpu.Opt[uint64]{"used": &m.Used, "total": &m.Total, "free": &m.Free} {
		if *at, err = c.amount(role); err != nil {
			return err
		}
	}
	if m.Used.OK && m.Total.OK && m.Used.V > m.Total.V {
		return errors.New("more is in use than there is: check which column is which, and the units")
	}
	r.Used = m.Used
	return nil
}

// process reads which process a row is of. Its name may be a path, of Windows too, and is the end of that.
func (c *csvRows) process(r *replay.Row) error {
	pid := c.present("pid")
	if pid == "" {
		return nil
	}
	n, err := strconv.ParseUint(pid, 10, 32)
	if err != nil {
		return fmt.Errorf("cannot read %q as a process id", pid)
	}
	name := c.field("process")
	r.PID, r.Process = gpu.Some(uint32(n)), name[strings.LastIndexAny(name, `/\`)+1:]
	return nil
}

// amount returns the memory of a column.
func (c *csvRows) amount(role string) (v gpu.Opt[uint64], err error) {
	for i, column := range c.columns {
		if column.role != role {
			continue
		}
		text := c.fields[i]
		if c.comma != "," {
			text = c.points[role].plain(text)
		}
		if v, err = amount(text, cmp.Or(column.unit, c.unit)); err != nil {
			return v, fmt.Errorf("%s: %w", role, err)
		}
		if err = c.points[role].note(text, v, role == "total", c.comma); err != nil {
			return v, err
		}
	}
	return v, nil
}

func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// present returns the value of a column, "" where it has none.
func (c *csvRows) present(role string) string {
	if text := c.field(role); !isAbsent(text) {
		return text
	}
	return ""
}
