// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// The commands that record a log with all that is of use here.
const (
	smiQueryGPUs = "nvidia-smi --query-gpu=timestamp,index,uuid,memory.used,memory.total --format=csv -l 1"
	smiQueryApps = "nvidia-smi --query-compute-apps=timestamp,gpu_uuid,pid,process_name,used_memory --format=csv -l 1"
)

// Log says what a log does not tell by itself.
type Log struct {
	// Location is the zone of time stamps that tell none; nil is UTC.
	Location *time.Location
	// Start is when a log begins that tells no date or no time, and Interval is between two rows of one without times.
	Start    time.Time
	Interval time.Duration
	// Columns are those of a CSV without a header, or with one of other names; nil if its header tells them.
	Columns Columns
}

// Columns are the columns of a CSV, in its order.
type Columns []column

type column struct {
	role role
	name string
	unit float64 // how many bytes one of its amounts is, 0 if it does not say
}

// role is what a column holds.
type role int

const (
	roleNone role = iota
	roleTimestamp
	roleDate
	roleTime
	roleIndex
	roleUUID
	roleHost
	roleBus
	roleName
	roleUsed
	roleTotal
	roleFree
	roleReserved
	rolePID
	roleProcess
	roles
)

// roleNames are the names of columns. The last ones of an amount are nvidia-smi's own.
var roleNames = [roles][]string{
	roleNone:      {"-"},
	roleTimestamp: {"timestamp", "datetime", "ts", "time_stamp", "_timestamp"},
	roleDate:      {"date"},
	roleTime:      {"time"},
	roleIndex:     {"gpu", "index", "gpu_id", "gpu_index", "device"},
	roleUUID:      {"uuid", "gpu_uuid"},
	roleHost:      {"host", "hostname", "node"},
	roleBus:       {"pci.bus_id", "gpu_bus_id"},
	roleName:      {"name", "gpu_name"},
	roleUsed:      {"used", "memory_used", "mem_used", "memory.used", "used_memory", "used_gpu_memory"},
	roleTotal:     {"total", "memory_total", "mem_total", "memory.total"},
	roleFree:      {"free", "memory_free", "mem_free", "memory.free"},
	roleReserved:  {"reserved", "memory.reserved"},
	rolePID:       {"pid"},
	roleProcess:   {"process", "process_name", "command"},
}

// columnOf reads the name of a column, with its unit in brackets, as in used[MiB].
func columnOf(text string) (c column, err error) {
	name, unit, _ := strings.Cut(strings.Trim(strings.TrimSpace(text), `"`), "[")
	c.name = strings.ToLower(strings.TrimSpace(name))
	if c.role = role(slices.IndexFunc(roleNames[:], func(names []string) bool { return slices.Contains(names, c.name) })); c.role < 0 {
		return column{}, fmt.Errorf("does not know %q: choose of timestamp, date, time, gpu, uuid, host, name, used, total, free, pid, process, and - for a column of no use", c.name)
	}
	switch {
	case unit != "":
		if c.unit = units[strings.ToLower(strings.TrimSuffix(unit, "]"))]; c.unit == 0 {
			return column{}, fmt.Errorf("%s has no unit such as used[MiB], [B] or [GB]", text)
		}
	case strings.HasPrefix(c.name, "memory.") || strings.HasPrefix(c.name, "used_"): // nvidia-smi with nounits
		c.unit = units["mib"]
	}
	return c, nil
}

// ParseColumns reads the names of columns, between commas.
func ParseColumns(text string) (Columns, error) {
	var list Columns
	for name := range strings.SplitSeq(text, ",") {
		c, err := columnOf(name)
		if err != nil {
			return nil, err
		}
		if c.role != roleNone && list.has(c.role) {
			return nil, fmt.Errorf("two columns are %s: call the one of no use -", roleNames[c.role][0])
		}
		list = append(list, c)
	}
	return list, nil
}

// headerColumns returns the columns that a header names. Those with other names, and the second ones of a role, are of no use.
func headerColumns(line, comma string) (list Columns) {
	for name := range strings.SplitSeq(line, comma) {
		c, err := columnOf(name)
		if err != nil || list.has(c.role) {
			c = column{}
		}
		list = append(list, c)
	}
	return list
}

// has reports whether a column is of a role.
func (l Columns) has(r role) bool {
	return slices.ContainsFunc(l, func(c column) bool { return c.role == r })
}

// tellMemory reports whether the used memory is among them.
func (l Columns) tellMemory() bool {
	return l.has(roleUsed) || l.has(roleFree) && l.has(roleTotal) && !l.has(rolePID)
}

// HeaderError says why a file cannot be read by its first line.
type HeaderError struct{ Why, Line string }

// Error implements error.
func (e *HeaderError) Error() string { return e.Why }

const noHeader = "no header line of nvidia-smi, and no recording of gpu_leak_exporter: leave noheader out of --format=csv,… when recording"

// csvLog is the format of CSV: of nvidia-smi --query-gpu or --query-compute-apps, or any whose columns are named.
type csvLog struct {
	columns Columns
	at      [roles]int // the place of each role in columns, counted from 1
	given   bool       // the header of the file does not count
	head    string     // the line that is the header
	comma   string     // what stands between two fields
	clock   clock
	rows    int      // that were read
	fields  []string // of the last row
	row     csvRow   // the last one: a new one for each is a tenth of the time

	uuids  map[int]string // by index, of rows that tell both
	last   map[string]*stamp
	bursts bursts               // of the rows of no known GPU
	lists  map[string]*procList // by UUID
}

// csvRow holds the values of a line. The memory of a row with a pid is that of the process.
type csvRow struct {
	reading
	stamp   stamp
	pid     gpu.Opt[uint32]
	process string
}

// newCSV returns the format of a CSV with the columns of log, or else of the header line.
func newCSV(header string, log *Log) (*csvLog, error) {
	c := &csvLog{
		given: log.Columns != nil, uuids: map[int]string{}, last: map[string]*stamp{}, lists: map[string]*procList{},
		clock: clock{loc: cmp.Or(log.Location, time.UTC), start: log.Start, interval: log.Interval, seen: map[string]bool{}},
	}
	columns := log.Columns
	if !c.given {
		c.head, c.comma = header, commaOf(header, 0)
		columns = headerColumns(header, c.comma)
	}
	c.use(columns)
	record := smiQueryGPUs
	if columns.has(rolePID) {
		record = smiQueryApps
	}
	switch {
	case !slices.ContainsFunc(columns, func(x column) bool { return x.role != roleNone }):
		return nil, &HeaderError{noHeader, header}
	case !columns.tellMemory():
		return nil, &HeaderError{"no column of used memory: record with " + record, header}
	case c.untimed() && (log.Start.IsZero() || log.Interval <= 0):
		return nil, &HeaderError{"no timestamp column: give both --log.start and --log.interval, or record with " + record, header}
	}
	return c, nil
}

func (c *csvLog) use(columns Columns) {
	c.columns, c.at = columns, [roles]int{}
	for i, x := range columns {
		c.at[x.role] = i + 1
	}
}

// untimed reports whether no column tells the time: rows are an interval apart.
func (c *csvLog) untimed() bool { return c.at[roleTimestamp] == 0 && c.at[roleTime] == 0 }

func (c *csvLog) line(text string) (*reading, error) {
	if is, err := c.header(text); is || err != nil {
		return nil, err
	}
	r := &c.row
	*r = csvRow{}
	if err := c.read(text, r); err != nil {
		err = c.wrong(err, text)
		c.damage(err)
		return nil, err
	}
	c.rows++
	if c.at[rolePID] > 0 {
		return c.addProcess(r)
	}
	return c.addGPU(r)
}

// wrong returns the error of a line that cannot be read because of err. Below a first row it is left out: another program may
// write into the same file, or the row was damaged.
func (c *csvLog) wrong(err error, text string) error {
	_, whole := errors.AsType[logError](err)
	why := err.Error() + ": " + quote(text)
	switch {
	case whole:
		return err
	case isMessage(text):
		return messageOf(text)
	case c.rows > 0:
		return &leftOutError{reason: leftOutWrong, why: why}
	}
	return errors.New(why)
}

// header reports whether a line is a header: no field begins with a digit, and it is the first line of a file whose columns
// are given, or has the names of columns. nvidia-smi writes one whenever it is started; it may name other columns then.
func (c *csvLog) header(line string) (bool, error) {
	if line[0] >= '0' && line[0] <= '9' || isMessage(line) {
		return false, nil // as almost all
	}
	if c.given && c.rows == 0 && c.head == "" && c.split(line) == nil && len(c.fields) == len(c.columns) {
		if !slices.ContainsFunc(c.fields, func(field string) bool { return strings.IndexAny(field, "0123456789") == 0 }) {
			c.head = line
		}
	}
	if line == c.head {
		return true, nil
	}
	next := headerColumns(line, c.comma)
	switch {
	case !next.tellMemory(), c.given && c.rows == 0:
		return false, nil
	case c.given || next.has(rolePID) != (c.at[rolePID] > 0):
		return false, logError("a header of other columns: split the file there: " + quote(line))
	}
	c.head = line
	c.use(next)
	return true, nil
}

// commaOf returns what stands between the fields of a line: what makes as many as there are columns, or what is there. A comma
// may also stand before decimals.
func commaOf(text string, columns int) string {
	found := ","
	for _, comma := range []string{"\t", ";", ","} {
		switch strings.Count(text, comma) {
		case 0:
		case columns - 1:
			return comma
		default:
			found = comma
		}
	}
	return found
}

// rowInside is the time of a row of nvidia-smi that was appended to one that was cut off.
var rowInside = regexp.MustCompile(`\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}`)

// split puts the fields of a line into fields.
func (c *csvLog) split(text string) error {
	if c.comma == "" {
		c.comma = commaOf(text, len(c.columns))
	}
	c.fields = c.fields[:0]
	if strings.Contains(text, `"`) {
		r := csv.NewReader(strings.NewReader(text))
		r.Comma, r.TrimLeadingSpace, r.LazyQuotes = rune(c.comma[0]), true, true
		fields, err := r.Read()
		c.fields = append(c.fields, fields...)
		return err
	}
	for found := true; found; {
		var field string
		field, text, found = strings.Cut(text, c.comma)
		c.fields = append(c.fields, strings.TrimSpace(field))
	}
	// nvidia-smi does not quote the commas in the name of a process.
	if at, more := c.at[roleProcess], len(c.fields)-len(c.columns); at > 0 && more > 0 {
		name := strings.Join(c.fields[at-1:at+more], c.comma+" ")
		c.fields = slices.Replace(c.fields, at-1, at+more, name)
		if rowInside.MatchString(name) {
			return errors.New("another row begins inside of it")
		}
	}
	return nil
}

// read puts a line into an empty row.
func (c *csvLog) read(line string, r *csvRow) error {
	if err := c.split(line); err != nil {
		return err
	}
	if len(c.fields) != len(c.columns) {
		if c.given {
			return fmt.Errorf("has %d fields, but --columns names %d: name each one, those of no use -", len(c.fields), len(c.columns))
		}
		return fmt.Errorf("has %d fields, but the header has %d columns", len(c.fields), len(c.columns))
	}
	if err := c.readTime(r); err != nil {
		return err
	}
	if err := c.readGPU(r); err != nil {
		return err
	}
	if err := c.readMemory(r); err != nil {
		return err
	}
	return c.readProcess(r)
}

// text returns the value of a column, "" without one.
func (c *csvLog) text(r role) string {
	at := c.at[r]
	if at == 0 || isAbsent(c.fields[at-1]) {
		return ""
	}
	return c.fields[at-1]
}

func (c *csvLog) readTime(r *csvRow) (err error) {
	if c.untimed() {
		r.stamp, err = c.clock.round(strings.Join([]string{c.text(roleHost), c.text(roleBus), c.text(roleIndex), c.text(roleUUID), c.text(rolePID)}, "\x00"))
		return err
	}
	text := c.text(roleTimestamp)
	if text == "" {
		text = strings.TrimSpace(c.text(roleDate) + " " + c.text(roleTime))
	}
	r.stamp, err = c.clock.read(text)
	return err
}

// readGPU reads which GPU a row is of: its UUID, a node and its index, a text such as node1:0, its PCI address, or its index.
func (c *csvLog) readGPU(r *csvRow) error {
	index, uuid := strings.TrimSuffix(c.text(roleIndex), ".0"), cmp.Or(c.text(roleUUID), c.text(roleHost)) // pandas writes 0.0
	r.info = gpu.Info{Index: -1, Name: c.text(roleName), PCIBusID: c.text(roleBus)}
	r.info.Place[0] = c.text(roleHost)
	if n, err := strconv.ParseUint(index, 10, 16); err == nil {
		r.info.Index = int(n)
	}
	switch numbered := r.info.Index >= 0; {
	case uuid != "" && numbered && !strings.HasPrefix(uuid, "GPU-"):
		uuid += ":" + index
	case uuid != "":
		if numbered && c.uuids[r.info.Index] != uuid {
			c.uuids[r.info.Index] = uuid
		}
	case index != "" && !numbered:
		uuid = index
	case numbered && c.uuids[r.info.Index] != "": // of a lost GPU, which told it before
		uuid = c.uuids[r.info.Index]
	case r.info.PCIBusID != "":
		uuid = "pci-" + r.info.PCIBusID
	case numbered:
		uuid = "index-" + index
	case c.at[roleIndex]+c.at[roleUUID] > 0:
		return errors.New("does not tell its GPU")
	default:
		uuid = gpu.Unnamed
	}
	r.info.UUID = uuid
	return nil
}

func (c *csvLog) readMemory(r *csvRow) (err error) {
	m := &r.sample.Memory
	for _, x := range [...]struct {
		role role
		at   *gpu.Opt[uint64]
	}{{roleUsed, &m.Used}, {roleTotal, &m.Total}, {roleFree, &m.Free}, {roleReserved, &m.Reserved}} {
		text := c.text(x.role)
		if text == "" {
			continue
		}
		column := &c.columns[c.at[x.role]-1]
		if *x.at, err = amount(text, column.unit, c.comma); err != nil {
			return fmt.Errorf("%s: %w", column.name, err)
		}
	}
	if free := m.Free.V + m.Reserved.V; c.at[roleUsed] == 0 && m.Total.OK && m.Free.OK && free <= m.Total.V {
		m.Used = gpu.Some(m.Total.V - free)
	}
	if c.given && m.Used.OK && m.Total.OK && m.Used.V > m.Total.V {
		return errors.New("more is in use than there is: check which column is which, and the units")
	}
	return nil
}

// readProcess reads which process a row is of, if any. Its name may be a path, of Windows too, and is the end of that.
func (c *csvLog) readProcess(r *csvRow) error {
	pid := c.text(rolePID)
	if pid == "" {
		return nil
	}
	n, err := strconv.ParseUint(pid, 10, 32)
	if err != nil {
		return fmt.Errorf("cannot read %q as a process id", pid)
	}
	name := c.text(roleProcess)
	r.pid, r.process = gpu.Some(uint32(n)), name[strings.LastIndexAny(name, `/\`)+1:]
	return nil
}
