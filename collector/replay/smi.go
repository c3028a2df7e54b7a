// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"fmt"
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

// smiHeader is a header line of nvidia-smi's CSV: names of columns, with their units in brackets. In a CSV of another program,
// other reads the lines.
type smiHeader struct {
	other   Rows
	text    string
	columns []smiField
	known   map[string]bool
	zone    smiZone
	fields  []string // of the last row, to be used again
	rows    int      // that were read
}

// smiField is a column of a header. parse is nil for one that is not needed.
type smiField struct {
	name, unit string
	parse      smiColumn
}

// Row holds the values of a line of a CSV.
type Row struct {
	Index   gpu.Opt[int] // of the GPU
	Info    gpu.Info     // UUID is empty where the index stands in for it; Index is not used
	Memory  gpu.Memory   // of the GPU
	PID     gpu.Opt[uint32]
	Process string
	Used    gpu.Opt[uint64] // by the process

	stamp smiStamp
	local bool // stamp is in the zone of the log, which it does not tell
	mig   gpu.Opt[bool]
	host  string // the node, and a colon, where somebody has added it
}

// newSMIFormat returns the format for a header line of nvidia-smi.
func newSMIFormat(line string, loc *time.Location) (format, error) {
	h, err := parseSMIHeader(line, loc)
	if err != nil {
		return nil, err
	}
	if h.known["pid"] {
		return newSMIApps(h)
	}
	return &smiGPUs{header: h, indices: map[string]int{}, uuids: map[int]string{}, last: map[string]*smiStamp{}}, nil
}

// ErrNoTimestamp says that a log of nvidia-smi was recorded without its times.
var ErrNoTimestamp = errors.New("no timestamp column")

// ErrNoHeader says that the first line of a file is no header.
var ErrNoHeader = errors.New("no header line of nvidia-smi, and no recording of gpu_leak_exporter")

// parseSMIHeader reads a header line.
func parseSMIHeader(line string, loc *time.Location) (*smiHeader, error) {
	h := &smiHeader{text: line, known: map[string]bool{}, zone: smiZone{loc: loc}}
	for field := range strings.SplitSeq(line, ",") {
		name, unit := strings.ToLower(strings.TrimSpace(field)), ""
		if before, after, ok := strings.Cut(strings.TrimSpace(field), "["); ok && strings.HasSuffix(after, "]") {
			name, unit = strings.ToLower(strings.TrimSpace(before)), strings.TrimSuffix(after, "]")
		}
		parse := smiColumns[name]
		if parse != nil && name != "host" && name != "hostname" && name != "node" { // many other logs have those
			h.known[name] = true
		}
		h.columns = append(h.columns, smiField{name, unit, parse})
	}
	switch {
	case len(h.known) == 0:
		return nil, fmt.Errorf("%w: leave noheader out of --format=csv,… when recording", ErrNoHeader)
	case !h.known["timestamp"]:
		record := smiQueryGPUs
		if h.known["pid"] {
			record = smiQueryApps
		}
		return nil, fmt.Errorf("%w: record with %s", ErrNoTimestamp, record)
	}
	return h, nil
}

// isSMIHeader reports whether a line inside a file is a header again, because nvidia-smi was started again and appended to the
// file.
func isSMIHeader(line string) bool {
	if !strings.Contains(line, "timestamp") {
		return false // as almost all
	}
	for field := range strings.SplitSeq(line, ",") {
		if strings.TrimSpace(field) == "timestamp" {
			return true
		}
	}
	return false
}

// read puts a line below the header into an empty row.
func (h *smiHeader) read(line string, r *Row) error {
	if h.other != nil {
		return h.readOther(line, r)
	}
	h.split(line)
	fields := h.join(h.fields)
	if len(fields) != len(h.columns) {
		return fmt.Errorf("has %d fields, but the header has %d columns"+repair, len(fields), len(h.columns))
	}
	for i := range h.columns {
		c := &h.columns[i]
		if c.parse == nil {
			continue
		}
		text := strings.TrimSpace(fields[i])
		if c.name == "timestamp" {
			stamp, err := h.zone.read(text)
			if err != nil {
				return fmt.Errorf("timestamp: %w", err)
			}
			r.stamp = stamp
			continue
		}
		if smiAbsent(text) {
			continue
		}
		if err := c.parse(r, text, c.unit); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// split puts the parts of a line between its commas into fields.
func (h *smiHeader) split(line string) {
	h.fields = h.fields[:0]
	for {
		i := strings.IndexByte(line, ',')
		if i < 0 {
			h.fields = append(h.fields, line)
			return
		}
		h.fields = append(h.fields, line[:i])
		line = line[i+1:]
	}
}

// join puts the name of a process together again: nvidia-smi does not quote the commas in it.
func (h *smiHeader) join(fields []string) []string {
	surplus := len(fields) - len(h.columns)
	at := slices.IndexFunc(h.columns, func(c smiField) bool { return c.name == "process_name" })
	if surplus <= 0 || at < 0 {
		return fields
	}
	name := strings.Join(fields[at:at+surplus+1], ",")
	return slices.Concat(fields[:at], []string{name}, fields[at+surplus+1:])
}

// smiAbsent reports whether nvidia-smi had no value: it writes N/A, or a reason in brackets such as [Not Supported].
func smiAbsent(text string) bool {
	return text == "" || strings.EqualFold(text, "N/A") || strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]")
}

// identify fills in Info.UUID and Info.Index. For logs without an index column, indices numbers the GPUs in the order of their
// first rows; nil leaves the index unknown. known is false if no column tells which GPU it is.
func (r *Row) identify(indices map[string]int) (known bool) {
	i := &r.Info
	known = i.UUID != "" || i.PCIBusID != "" || i.Serial != "" || r.Index.OK
	switch {
	case i.UUID != "":
	case i.PCIBusID != "":
		i.UUID = "pci-" + i.PCIBusID
	case r.Index.OK: // before the serial, which the GPUs of one board share
		i.UUID = r.host + "index-" + strconv.Itoa(r.Index.V)
	case i.Serial != "":
		i.UUID = "serial-" + i.Serial
	default:
		i.UUID = gpu.Unnamed
	}
	switch {
	case r.Index.OK:
		i.Index = r.Index.V
		return known
	case indices == nil:
		i.Index = -1
		return known
	}
	if _, ok := indices[i.UUID]; !ok {
		indices[i.UUID] = len(indices)
	}
	i.Index = indices[i.UUID]
	return known
}

// smiGPUs is the format of --query-gpu.
type smiGPUs struct {
	header  *smiHeader
	indices map[string]int
	uuids   map[int]string       // by index, of rows that tell both
	last    map[string]*smiStamp // by UUID
	of      string               // the UUID of the row before, and latest its stamp
	latest  *smiStamp
	bursts  smiBursts // of the rows of no known GPU
	// reuse says that a reading is used up when the next is read: all share one row.
	reuse bool
	row   *Row
}

func (f *smiGPUs) line(text string) (reading, bool, error) {
	if f.header.other == nil && isSMIHeader(text) {
		return reading{}, false, f.header.again(text)
	}
	row := f.row
	if row == nil || !f.reuse {
		row = new(Row)
		f.row = row
	} else {
		*row = Row{}
	}
	if err := f.header.read(text, row); err != nil {
		return reading{}, false, f.header.wrongRow(err, text)
	}
	f.header.rows++
	f.recall(row)
	if !f.header.known["memory.used"] {
		deriveUsed(&row.Memory)
	}
	if known := row.identify(f.indices); !known && f.bursts.add(row.stamp.t, float64(row.Memory.Used.V), f.header.other != nil) {
		return reading{}, false, f.header.manyGPUs()
	}
	if err := f.order(row); err != nil {
		return reading{}, false, err
	}
	return reading{
		info: row.Info,
		sample: gpu.Sample{
			Time: time.Unix(0, int64(row.stamp.t)).UTC(), T: row.stamp.t,
			Memory: row.Memory, MIGEnabled: row.mig,
		},
	}, true, nil
}

// recall fills in the UUID of a lost GPU, which it told before.
func (f *smiGPUs) recall(r *Row) {
	switch {
	case !r.Index.OK || !f.header.known["uuid"] && !f.header.known["gpu_uuid"]:
	case r.Info.UUID == "":
		r.Info.UUID = f.uuids[r.Index.V]
	case f.uuids[r.Index.V] != r.Info.UUID:
		f.uuids[r.Index.V] = r.Info.UUID
	}
}

// order returns an error if the time of the row's GPU has not moved on.
func (f *smiGPUs) order(row *Row) error {
	if f.latest == nil || f.of != row.Info.UUID { // most logs are of one GPU
		last := f.last[row.Info.UUID]
		if last == nil {
			if err := f.header.checkGPUs(len(f.last)); err != nil {
				return err
			}
			last = new(smiStamp)
			f.last[row.Info.UUID] = last
		}
		f.of, f.latest = row.Info.UUID, last
	}
	last := f.latest
	row.stamp.settle(last.t)
	if row.stamp.t <= last.t {
		return f.header.notAfterRow(row, last)
	}
	*last = row.stamp
	return nil
}

func (*smiGPUs) end() []reading { return nil }

func (f *smiGPUs) isWhole(text string) bool { return f.header.isWhole(text) }

// deriveUsed calculates Used for a row of free memory only.
func deriveUsed(m *gpu.Memory) {
	if !m.Used.OK && m.Total.OK && m.Free.OK && m.Free.V+m.Reserved.V <= m.Total.V {
		m.Used = gpu.Some(m.Total.V - m.Free.V - m.Reserved.V)
	}
}

// wrongRow returns the error of a line that cannot be read because of err. If it ends with a header, it takes that.
func (h *smiHeader) wrongRow(err error, text string) error {
	if next := h.headerInside(text); next != nil {
		h.become(next)
		return &leftOutError{reason: leftOutWrong, why: "a header inside of the line: " + QuoteLine(text)}
	}
	return h.wrong(err, text)
}

// again takes a further header line. It may name other columns.
func (h *smiHeader) again(text string) error {
	if text == h.text {
		return nil
	}
	next, err := parseSMIHeader(text, h.zone.loc)
	if err != nil {
		return err
	}
	if next.known["pid"] != h.known["pid"] {
		return errors.New("a header of another query: split the file, GPUs and processes are replayed one by one")
	}
	h.become(next)
	return nil
}

func (h *smiHeader) become(next *smiHeader) {
	next.rows = h.rows
	*h = *next
}
