// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// wandb reads the system metrics that W&B (Weights & Biases) exports: run.history(stream="events")
// of its API as CSV, as JSON (a list of objects, an object a line, or an object for each column,
// as pandas writes them), and the CSV of a chart. system.gpu.0.memoryAllocatedBytes is the used
// memory of a GPU, in bytes. W&B tells no capacity.
type wandb struct {
	*log
	columns map[string]gpu.Info // the GPUs by the name of their column
}

// wandbMemory is the name of a column of used memory. A chart puts the name of the run before it.
var wandbMemory = regexp.MustCompile(`^(?:(.+) - )?(?:system[./])?gpu\.([0-9]{1,4})\.memoryAllocatedBytes$`)

// wandbTimes are the columns of time: since the Unix epoch, and since the start of the run.
var (
	wandbStamps    = []string{"_timestamp", "timestamp", "Wall Time"}
	wandbRelatives = []string{"_runtime", "Relative Time (Process)", "Relative Time (Wall)"}
)

const (
	wandbExport = `run.history(stream="events").to_csv("gpu.csv")`
	// wandbMost bounds the points of an export that is not in the order of its rows.
	wandbMost = 4 << 20
)

var errWandBMemory = errors.New("tells no memory (system.gpu.0.memoryAllocatedBytes): export the system metrics, as " + wandbExport + " of W&B's API does")

// wandbPercent is the name of a column of used memory in percent of a capacity that nothing tells.
var wandbPercent = regexp.MustCompile(`(?:^|[./ ])gpu\.[0-9]{1,4}\.memoryAllocated$`)

var errWandBPercent = errors.New("tells the used memory in percent alone (system.gpu.0.memoryAllocated), and not in bytes (system.gpu.0.memoryAllocatedBytes): make a CSV with the time and the percentage times the capacity, and name its columns, as in --columns=timestamp,used[B]")

// readWandB reads an export of W&B.
func readWandB(l *log) error {
	w := &wandb{log: l, columns: map[string]gpu.Info{}}
	in := bufio.NewReaderSize(l.text, 64<<10)
	first, err := firstByte(in)
	if err != nil {
		return err
	}
	if first == '{' || first == '[' {
		return w.json(in, first)
	}
	return w.csv(in)
}

// firstByte returns the first byte that is no space, and leaves it there.
func firstByte(in *bufio.Reader) (byte, error) {
	for {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		if b != ' ' && b != '\n' && b != '\r' && b != '\t' {
			return b, in.UnreadByte()
		}
	}
}

// gpuOf returns the GPU of a column; ok is false for another column.
func (w *wandb) gpuOf(column string) (info gpu.Info, ok bool) {
	if info, ok = w.columns[column]; ok {
		return info, info.UUID != ""
	}
	if len(w.columns) > 64<<10 {
		return info, false
	}
	if m := wandbMemory.FindStringSubmatch(column); m != nil {
		index, _ := strconv.Atoi(m[2]) // four digits at most
		info = indexed(index)
		if m[1] != "" {
			info.UUID = m[1] + " gpu " + m[2]
		}
	}
	w.columns[column] = info
	return info, info.UUID != ""
}

// csv reads a CSV with a header.
func (w *wandb) csv(in io.Reader) error {
	bound := NewGuard(in)
	end := &tail{in: bound}
	r := csv.NewReader(end)
	r.ReuseRecord, r.FieldsPerRecord = true, -1
	names, err := r.Read()
	if err != nil {
		return w.csvError(err)
	}
	names = slices.Clone(names)
	if !slices.ContainsFunc(names, func(n string) bool { _, ok := w.gpuOf(n); return ok }) {
		if slices.ContainsFunc(names, wandbPercent.MatchString) {
			return fmt.Errorf("%s: %w", w.name, errWandBPercent)
		}
		return fmt.Errorf("%s: %w", w.name, errWandBMemory)
	}
	for {
		bound.Reset()
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			if wrong, ok := errors.AsType[*csv.ParseError](err); ok && wrong.StartLine == wrong.Line && end.ended && w.begun {
				w.leaveOut(leftCut, wrong.Line, "the file ends inside it")
				return nil
			}
			return w.csvError(err)
		}
		line, _ := r.FieldPos(0)
		if end.isCut(r) && w.begun {
			w.leaveOut(leftCut, line, "the file ends inside it")
			return nil
		}
		if len(fields) != len(names) {
			w.leaveOut(leftCut, line, fmt.Sprintf("has %d fields, but the header has %d", len(fields), len(names)))
			continue
		}
		row := make(map[string]string, len(names))
		for i, name := range names {
			row[name] = strings.TrimSpace(fields[i])
		}
		if err := w.row(row, line); err != nil {
			return fmt.Errorf("%s:%d: %w", w.name, line, err)
		}
	}
}

// tail knows how a text ends.
type tail struct {
	in    io.Reader
	n     int64
	last  byte
	ended bool
}

// Read implements io.Reader.
func (t *tail) Read(b []byte) (int, error) {
	n, err := t.in.Read(b)
	if n > 0 {
		t.n, t.last = t.n+int64(n), b[n-1]
	}
	t.ended = t.ended || errors.Is(err, io.EOF)
	return n, err
}

// isCut reports whether what r has read last ends with the text, which has no line break there. What ends in quotes is whole.
func (t *tail) isCut(r *csv.Reader) bool {
	return t.ended && r.InputOffset() == t.n && t.last != '\n' && t.last != '"'
}

func (w *wandb) csvError(err error) error { return fmt.Errorf("%s: reading the CSV: %w", w.name, err) }

// row takes a row, by the names of its columns.
func (w *wandb) row(row map[string]string, line int) error {
	var used []string
	for name, text := range row {
		if _, ok := w.gpuOf(name); ok && !isAbsent(text) {
			used = append(used, name)
		}
	}
	if len(used) == 0 {
		return nil // of other metrics
	}
	t, err := w.time(row)
	if err != nil {
		return err
	}
	slices.Sort(used)
	for _, name := range used {
		v, err := amount(row[name], 1)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		info, _ := w.gpuOf(name)
		if err := w.emit(info, gpu.Sample{T: t, Memory: gpu.Memory{Used: v}}, line); err != nil {
			return err
		}
	}
	return nil
}

// time returns the time of a row.
func (w *wandb) time(row map[string]string) (time.Duration, error) {
	for _, name := range wandbStamps {
		if text := row[name]; !isAbsent(text) {
			return w.clock.moment(text)
		}
	}
	for _, name := range wandbRelatives {
		if text := row[name]; !isAbsent(text) {
			seconds, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: cannot read %s as seconds", name, quote(text))
			}
			return w.clock.after(seconds)
		}
	}
	return 0, errors.New("tells no time (_timestamp or _runtime): export with " + wandbExport + ", or choose the wall time as the x axis of the chart")
}

// json reads JSON.
func (w *wandb) json(in io.Reader, first byte) error {
	bound := NewGuard(in)
	d := &jsonReader{Decoder: json.NewDecoder(bound), bound: bound}
	d.UseNumber()
	if first == '[' {
		if _, err := d.token(); err != nil {
			return w.jsonError(d, err)
		}
	}
	found := false
	for n := 1; first == '{' || d.More(); n++ {
		row, columns, err := w.object(d)
		if errors.Is(err, io.EOF) && first == '{' {
			break
		}
		if errors.Is(err, io.ErrUnexpectedEOF) && n > 1 {
			w.leaveOut(leftCut, n, "the file ends inside the object")
			return nil
		}
		if err != nil {
			return w.jsonError(d, err)
		}
		if columns != nil {
			return w.byColumn(columns)
		}
		found = found || w.hasMemory(row)
		if err := w.row(row, n); err != nil {
			return fmt.Errorf("%s: object %d: %w", w.name, n, err)
		}
	}
	if !found {
		return fmt.Errorf("%s: %w", w.name, errWandBMemory)
	}
	return nil
}

func (w *wandb) hasMemory(row map[string]string) bool {
	for name := range row {
		if _, ok := w.gpuOf(name); ok {
			return true
		}
	}
	return false
}

func (w *wandb) jsonError(d *jsonReader, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the file ends inside it, and nothing before can be used: export it again")
	}
	return fmt.Errorf("%s: reading the JSON, at byte %d: %w", w.name, d.InputOffset(), err)
}

// jsonReader reads JSON in parts that are bounded.
type jsonReader struct {
	*json.Decoder
	bound *Guard
}

func (d *jsonReader) token() (json.Token, error) {
	d.bound.Reset()
	return d.Token()
}

// object reads an object: the fields of a row that are numbers or texts or, if its fields are
// objects, the columns of all rows.
func (w *wandb) object(d *jsonReader) (row map[string]string, columns map[string]map[string]string, err error) {
	if t, err := d.token(); err != nil {
		return nil, nil, err
	} else if t != json.Delim('{') {
		return nil, nil, fmt.Errorf("there is %v where an object of a row begins", t)
	}
	row = map[string]string{}
	points := 0
	for {
		name, end, err := d.name()
		if err != nil || end {
			return row, columns, unexpected(err)
		}
		useful := w.isUseful(name)
		t, err := d.token()
		if err != nil {
			return nil, nil, unexpected(err)
		}
		switch {
		case t == json.Delim('{') && useful:
			if columns == nil {
				columns = map[string]map[string]string{}
			}
			if columns[name], err = d.column(&points); err != nil {
				return nil, nil, unexpected(err)
			}
		case t == json.Delim('{') || t == json.Delim('['):
			err = d.skip()
		case useful:
			row[name] = jsonText(t)
		}
		if err != nil {
			return nil, nil, unexpected(err)
		}
	}
}

// unexpected makes the end of the text inside a value an error of its own.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (w *wandb) isUseful(name string) bool {
	_, ok := w.gpuOf(name)
	return ok || slices.Contains(wandbStamps, name) || slices.Contains(wandbRelatives, name)
}

// name returns the name of the next field, or that the object ends.
func (d *jsonReader) name() (name string, end bool, err error) {
	t, err := d.token()
	if err != nil {
		return "", false, err
	}
	name, ok := t.(string)
	return name, !ok, nil
}

// column reads the values of a column by the names of their rows.
func (d *jsonReader) column(points *int) (map[string]string, error) {
	values := map[string]string{}
	for {
		name, end, err := d.name()
		if err != nil || end {
			return values, err
		}
		t, err := d.token()
		if err != nil {
			return nil, err
		}
		if _, nested := t.(json.Delim); nested {
			return nil, fmt.Errorf("the value of row %s is no number", quote(name))
		}
		if *points++; *points > wandbMost {
			return nil, fmt.Errorf("has more than %d values in columns: export it by rows, with to_json(orient=\"records\")", wandbMost)
		}
		values[name] = jsonText(t)
	}
}

// skip passes over the rest of an object or a list.
func (d *jsonReader) skip() error {
	for depth := 1; depth > 0; {
		t, err := d.token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
	return nil
}

// jsonText returns a value that is no object as text.
func jsonText(t json.Token) string {
	if t == nil {
		return ""
	}
	return fmt.Sprint(t)
}

// byColumn takes rows whose columns were read one after another.
func (w *wandb) byColumn(columns map[string]map[string]string) error {
	if !slices.ContainsFunc(slices.Collect(maps.Keys(columns)), func(n string) bool { _, ok := w.gpuOf(n); return ok }) {
		return fmt.Errorf("%s: %w", w.name, errWandBMemory)
	}
	ids := map[string]bool{}
	for _, values := range columns {
		for id := range values {
			ids[id] = true
		}
	}
	order := slices.Collect(maps.Keys(ids))
	slices.SortFunc(order, compareNumbers)
	for _, id := range order {
		row := make(map[string]string, len(columns))
		for name, values := range columns {
			row[name] = values[id]
		}
		if err := w.row(row, 1); err != nil {
			return fmt.Errorf("%s: row %s: %w", w.name, quote(id), err)
		}
	}
	return nil
}

// compareNumbers puts 10 after 9.
func compareNumbers(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return bytes.Compare([]byte(a), []byte(b))
}
