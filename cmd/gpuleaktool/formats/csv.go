// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// csvLog reads any CSV whose columns are named. A first line whose time is none is a header, or, where no
// column is a time, one whose amounts are none.
type csvLog struct {
	processLog
	columns []csvColumn
	untimed bool   // no column is a time: rows are an interval apart
	rounds  rounds // of rows that tell no time
	pids    bool   // a row is of a process
	comma   string // what stands between two fields
	first   bool   // no row was read yet
	header  string
	points  map[string]*points // of the columns of amounts, by role
	fields  []string
	bursts  gpu.Bursts // of rows that tell no GPU
}

// csvColumn is a column: what it holds, and how many bytes one of its amounts is, 0 if it does not
// say.
type csvColumn struct {
	role string
	unit float64
}

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

// untimed reports whether no column tells the time.
func untimed(columns []csvColumn) bool {
	return !slices.ContainsFunc(columns, func(c csvColumn) bool { return c.role == "timestamp" || c.role == "time" })
}

// errManyGPUs is the error of rows of which no column tells the GPU.
var errManyGPUs = errors.New("the rows come in bursts, as of several GPUs, and no column tells which: name the column that does, as gpu or uuid; if they are of one GPU, keep one row of each moment")

// parseColumns reads the names of columns, such as used[MiB]. Without a time among them the clock must know when the log
// begins, and how far apart its rows are.
func parseColumns(names []string, clock *clock) (columns []csvColumn, err error) {
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
			if slices.ContainsFunc(columns, func(have csvColumn) bool { return have.role == c.role }) {
				return nil, fmt.Errorf("--columns: two columns are %s: call the one of no use -", c.role)
			}
		}
		columns = append(columns, c)
	}
	has := func(role string) bool {
		return slices.ContainsFunc(columns, func(c csvColumn) bool { return c.role == role })
	}
	switch {
	case untimed(columns) && (clock.start.IsZero() || clock.interval <= 0):
		return nil, errors.New("--columns: names no timestamp: say which column it is; or, if there is none, when the log begins and the time between two of its rows, as --log.start=2026-03-01T14:00:00Z --log.interval=1s")
	case !has("used") && !(has("free") && has("total")):
		return nil, errors.New("--columns: names no used memory: say which column it is, as used or used[MiB]")
	case has("pid") && !has("used"):
		return nil, errors.New("--columns: names no used memory of the process: say which column it is, as used or used[MiB]")
	}
	return columns, nil
}

// readCSV reads a CSV.
func readCSV(l *log) error {
	columns, err := parseColumns(l.options.Columns, &l.clock)
	if err != nil {
		return err
	}
	c := &csvLog{processLog: processLog{log: l, lists: map[string]*processList{}}, columns: columns, untimed: untimed(columns), first: true, points: map[string]*points{"used": {}, "total": {}, "free": {}}}
	c.pids = slices.ContainsFunc(columns, func(c csvColumn) bool { return c.role == "pid" })
	for {
		text, err := l.nextLine()
		if errors.Is(err, io.EOF) {
			return c.end()
		}
		if err != nil {
			return err
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		if err := c.wrong(c.explain(c.line(text), text), text); err != nil {
			return err
		}
	}
}

// line takes a line.
func (c *csvLog) line(text string) error {
	switch {
	case c.comma == "" && c.choose(text):
		return nil
	case text == c.header:
		return nil // again, as where a file is continued
	case strings.HasPrefix(text, "#"):
		c.foreign(text)
		return nil
	}
	if err := c.split(text); err != nil {
		return wrongf("%w", err)
	}
	first := c.first
	c.first = false
	switch n := len(c.fields); {
	case gpu.IsSMIMessage(text):
		c.foreign(text)
		return nil
	case n != len(c.columns) && c.lines.cut:
		c.cutOff(text)
		return nil
	case n != len(c.columns):
		return wrongf("has %d fields, but --columns names %d: name each one, those of no use -", n, len(c.columns))
	case c.lines.cut && c.endsInAmount():
		c.cutOff(text)
		return nil
	}
	if first && c.untimed {
		if _, err := c.memory(); err != nil {
			c.header = text
			return nil
		}
	}
	t, err := c.time()
	if err != nil {
		if first && !errors.Is(err, errNoDate) {
			c.header = text
			return nil
		}
		return err
	}
	return c.row(t)
}

// choose notes what stands between the fields, from the first line. It reports whether that line says so, as Excel wants it, and
// nothing else.
func (c *csvLog) choose(text string) bool {
	comma, ok := strings.CutPrefix(text, "sep=")
	if ok && (comma == "," || comma == ";" || comma == "\t") {
		c.comma = comma
		return true
	}
	c.comma = c.commaOf(text)
	return false
}

// commaOf returns what stands between the fields of a line: what makes as many as there are columns. A comma may also stand
// before the decimals.
func (c *csvLog) commaOf(text string) string {
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

// explain returns the error of a line; one that has the names of columns says that those below it are others.
func (c *csvLog) explain(err error, text string) error {
	if err != nil && c.begun && isHeader(c.fields) {
		return fmt.Errorf("a header of other columns: split the file there: %s", quote(text))
	}
	return err
}

// isHeader reports whether fields are names of columns: one is of used memory, and none begins as a number or a time does.
func isHeader(fields []string) bool {
	numeric := func(field string) bool { return strings.TrimLeft(field, "0123456789.+-[") != field }
	used := func(field string) bool { return strings.Contains(strings.ToLower(field), "used") }
	return slices.ContainsFunc(fields, used) && !slices.ContainsFunc(fields, numeric)
}

// split puts the fields of a line into fields.
func (c *csvLog) split(text string) error {
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
func (c *csvLog) endsInAmount() bool {
	last := c.fields[len(c.fields)-1]
	return last == "" || last[len(last)-1] >= '0' && last[len(last)-1] <= '9' || last[len(last)-1] == '.'
}

// field returns the value of a column, "" without it.
func (c *csvLog) field(role string) string {
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

func (c *csvLog) time() (time.Duration, error) {
	if c.untimed {
		return c.clock.round(c.rounds.of(strings.Join([]string{c.field("gpu"), c.field("uuid"), c.field("pid")}, "\x00")))
	}
	if text := c.field("timestamp"); text != "" {
		return c.clock.moment(text)
	}
	return c.clock.moment(strings.TrimSpace(c.field("date") + " " + c.field("time")))
}

// row takes a row.
func (c *csvLog) row(t time.Duration) error {
	info, err := c.info()
	if err != nil {
		return err
	}
	m, err := c.memory()
	if err != nil {
		return err
	}
	if !c.pids {
		if !info.Named() && c.bursts.AddMemory(t, float64(m.Used.V)) {
			return errManyGPUs
		}
		return c.emit(info, gpu.Sample{T: t, Memory: usedOf(m)}, c.lines.number)
	}
	pid := c.field("pid")
	if isAbsent(pid) {
		return c.add(info, t, nil)
	}
	number, err := parsePID(pid)
	if err != nil {
		return err
	}
	p := newProcess(number, c.field("process"), m.Used)
	return c.add(info, t, &p)
}

// memory returns the amounts of a row.
func (c *csvLog) memory() (m gpu.Memory, err error) {
	for role, at := range map[string]*gpu.Opt[uint64]{"used": &m.Used, "total": &m.Total, "free": &m.Free} {
		if *at, err = c.amount(role); err != nil {
			return m, err
		}
	}
	if m.Used.OK && m.Total.OK && m.Used.V > m.Total.V {
		return m, wrongf("more is in use than there is: check which column is which, and the units")
	}
	return m, nil
}

// amount returns the memory of a column.
func (c *csvLog) amount(role string) (v gpu.Opt[uint64], err error) {
	for i, column := range c.columns {
		if column.role != role {
			continue
		}
		unit := column.unit
		if unit == 0 {
			unit = c.options.Unit
		}
		text := c.fields[i]
		if c.comma != "," {
			text = c.points[role].plain(text)
		}
		if v, err = amount(text, unit); err != nil {
			return v, fmt.Errorf("%s: %w", role, err)
		}
		if err = c.points[role].note(text, v, role == "total", c.comma); err != nil {
			return v, err
		}
	}
	return v, nil
}

// info returns the GPU of a row. One that is named by a text, such as node1:0, has no number.
func (c *csvLog) info() (gpu.Info, error) {
	index, uuid := strings.TrimSuffix(c.present("gpu"), ".0"), c.present("uuid") // pandas writes 0.0
	info := gpu.Info{Index: -1, UUID: cmp.Or(uuid, index, gpu.Unnamed), Name: c.field("name")}
	if isDigits(index) {
		n, err := parseIndex(index)
		if err != nil {
			return info, err
		}
		info.Index = n
		switch {
		case uuid == "":
			info.UUID = "index-" + strconv.Itoa(n)
		case !strings.HasPrefix(uuid, "GPU-"): // the name of a node, say
			info.UUID = uuid + ":" + index
		}
	}
	if !info.Named() && slices.ContainsFunc(c.columns, func(c csvColumn) bool { return c.role == "gpu" || c.role == "uuid" }) {
		return info, wrongf("does not tell its GPU")
	}
	return info, nil
}

func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// present returns the value of a column, "" where it has none.
func (c *csvLog) present(role string) string {
	if text := c.field(role); !isAbsent(text) {
		return text
	}
	return ""
}
