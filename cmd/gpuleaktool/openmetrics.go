// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// maxOpenMetricsLine bounds a line.
const maxOpenMetricsLine = 1 << 20

// openMetrics reads the samples of metrics in the text format of OpenMetrics, or
// the older one of Prometheus whose time stamps are milliseconds. It keeps those
// of used memory and of the capacity.
//
// Prometheus's own parsers do not fit: that of prometheus/common does not read
// OpenMetrics, and takes a file for one scrape that it holds as messages; that of
// prometheus/prometheus brings 200 modules with it.
type openMetrics struct {
	name   string
	in     *bufio.Reader
	number int               // of the line
	types  map[string]string // by metric
	units  map[string]string

	series  map[string]*scalar // by name and labels, as written
	known   map[string]*scalar // by name and labels, in order
	order   []*scalar
	last    *scalar // of the line before, nil if that is of no use, and how it is written
	written []byte
	used    bool     // there is a sample of a metric whose name says that it is used memory
	other   []string // names that do not say that they are used memory; two at most
}

// readOpenMetrics reads all of in. name stands in errors.
func readOpenMetrics(ctx context.Context, name string, in io.Reader, unit float64) (history, error) {
	r := newOpenMetrics(name)
	r.in = bufio.NewReaderSize(in, maxOpenMetricsLine)
	for ctx.Err() == nil {
		r.number++
		line, err := r.in.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = errors.New("the line is too long: this is no OpenMetrics")
			}
			return nil, r.at(err)
		}
		if r.number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		line = bytes.TrimSpace(line)
		var left []string
		switch {
		case err != nil && len(line) > 0 && line[0] != '#' && len(r.order) > 0: // 17 may be the begin of 1700000000
			left = append(left, r.cutOff(line))
		default:
			if failed := r.line(line); failed != nil {
				return nil, r.at(failed)
			}
		}
		if err == nil {
			continue
		}
		h, failed := r.history(unit)
		if failed != nil || len(left) == 0 {
			return h, failed
		}
		return &answered{h, left}, nil
	}
	return nil, ctx.Err()
}

// cutOff tells of the last line, inside which the file ends.
func (r *openMetrics) cutOff(line []byte) string {
	return gpu.LeftOut{Lines: 1, First: r.number, Why: fmt.Sprintf("the file ends inside it: %q", humanize.Printable(string(line), 100))}.String()
}

// newOpenMetrics returns a reader that has read nothing.
func newOpenMetrics(name string) *openMetrics {
	return &openMetrics{
		name: name, types: map[string]string{}, units: map[string]string{}, series: map[string]*scalar{}, known: map[string]*scalar{},
	}
}

func (r *openMetrics) at(err error) error { return fmt.Errorf("%s:%d: %w", r.name, r.number, err) }

// line takes a line.
func (r *openMetrics) line(line []byte) error {
	switch {
	case len(line) == 0:
		return nil
	case line[0] == '#':
		r.comment(line)
		return nil
	}
	written, rest, err := r.selector(line)
	if err != nil {
		return err
	}
	if len(r.written) == 0 || !bytes.Equal(written, r.written) {
		if r.last, err = r.find(written); err != nil {
			return err
		}
		r.written = append(r.written[:0], written...)
	}
	value, rest := field(rest)
	stamp, rest := field(rest)
	switch {
	case len(value) == 0:
		return errors.New("no value: remove or repair the line")
	case len(stamp) == 0 || stamp[0] == '#':
		return errors.New("no time stamp: each sample needs one behind its value, as promtool tsdb dump-openmetrics writes it; the page of an exporter is no history")
	case len(rest) > 0 && rest[0] != '#':
		return fmt.Errorf("cannot read what is behind the time stamp, %q: remove or repair the line", rest)
	}
	t, err := parseStamp(stamp)
	if err != nil {
		return err
	}
	v, ok, err := parseNumber(value)
	if err != nil || !ok {
		return err
	}
	return r.append(t, v)
}

// append adds a point to the series of the line.
func (r *openMetrics) append(t time.Duration, v float64) error {
	x := r.last
	if x == nil {
		return nil
	}
	if n := len(x.points); n > 0 && t <= x.points[n-1].t {
		const form = "2006-01-02T15:04:05.000Z07:00"
		return fmt.Errorf("%s is not after %s, the sample of this series before it: sort the lines of each series by time, and give each series labels of its own",
			wall(t).Format(form), wall(x.points[n-1].t).Format(form))
	}
	x.append(t, v)
	if _, used := promapi.MemoryMetrics[x.name]; used && !r.used {
		r.used = true
		r.drop()
	}
	return nil
}

// comment takes a line that begins with #.
func (r *openMetrics) comment(line []byte) {
	words := strings.Fields(string(line))
	if len(words) < 4 {
		return
	}
	switch words[1] {
	case "TYPE":
		r.types[words[2]] = words[3]
	case "UNIT":
		r.units[words[2]] = words[3]
	}
}

// selector splits a line behind the name and the labels.
func (r *openMetrics) selector(line []byte) (written, rest []byte, err error) {
	// Lines of one series mostly follow each other.
	if n := len(r.written); n > 0 && len(line) > n && (r.written[n-1] == '}' || line[n] == ' ') && bytes.HasPrefix(line, r.written) {
		return line[:n], line[n:], nil
	}
	quoted, open := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			open = true
		case c == '}' && open:
			return line[:i+1], line[i+1:], nil
		case (c == ' ' || c == '\t') && !open:
			// Blanks may stand between the name and the labels.
			if rest := bytes.TrimLeft(line[i:], " \t"); len(rest) > 0 && rest[0] == '{' {
				continue
			}
			return line[:i], line[i:], nil
		}
	}
	return nil, nil, errors.New("no sample such as name{label=\"value\"} 1 1700000000: remove or repair the line")
}

// field splits a line behind its next word.
func field(line []byte) (word, rest []byte) {
	line = bytes.TrimLeft(line, " \t")
	i := bytes.IndexAny(line, " \t")
	if i < 0 {
		return line, nil
	}
	return line[:i], bytes.TrimLeft(line[i:], " \t")
}

// find returns the series that is written so, making it at first sight; nil is of no use.
func (r *openMetrics) find(written []byte) (*scalar, error) {
	if name, _, _ := bytes.Cut(written, []byte("{")); r.isUseless(string(bytes.TrimSpace(name))) {
		return nil, nil
	}
	if x := r.series[string(written)]; x != nil {
		return x, nil
	}
	x, err := parseSelector(string(written))
	if err != nil {
		return nil, err
	}
	if r.isUseless(x.name) { // as a name in quotes, which only now is known
		return nil, nil
	}
	canonical := x.String()
	if same := r.known[canonical]; same != nil {
		x = same // written with its labels in another order
	} else {
		r.known[canonical] = x
		r.note(x)
	}
	if r.isUseless(x.name) {
		return nil, nil
	}
	r.series[string(written)] = x
	return x, nil
}

// note takes a new series over.
func (r *openMetrics) note(x *scalar) {
	r.order = append(r.order, x)
	if !slices.Contains(r.other, x.name) && len(r.other) < 2 && !isMemoryMetric(x.name) {
		r.other = append(r.other, x.name)
		r.drop()
	}
}

// isUseless reports whether series of that name tell nothing: a metric that does not say that
// it is used memory is taken for it only if there is no other one. A dump of a whole database
// holds millions of them.
func (r *openMetrics) isUseless(name string) bool {
	return name != "" && (r.used || len(r.other) > 1) && !isMemoryMetric(name)
}

// drop forgets the series that are of no use.
func (r *openMetrics) drop() {
	useless := func(x *scalar) bool { return r.isUseless(x.name) }
	r.order = slices.DeleteFunc(r.order, useless)
	maps.DeleteFunc(r.series, func(_ string, x *scalar) bool { return useless(x) })
	maps.DeleteFunc(r.known, func(_ string, x *scalar) bool { return useless(x) })
}

// isMemoryMetric reports whether the name is that of used memory, or of what
// tells more about it.
func isMemoryMetric(name string) bool {
	_, used := promapi.MemoryMetrics[name]
	_, _, bound := bounding(name)
	_, part := exportedMetrics[name]
	return used || bound || part
}

// history returns what was read.
func (r *openMetrics) history(unit float64) (history, error) {
	var used []string
	for _, x := range r.order {
		if _, ok := promapi.MemoryMetrics[x.name]; ok && len(x.points) > 0 && !slices.Contains(used, x.name) {
			used = append(used, x.name)
		}
	}
	switch {
	case len(used) > 0:
	case len(r.other) == 1:
		used = r.other
	case len(r.other) > 1:
		return nil, fmt.Errorf("%s: holds several metrics, such as %s and %s: keep the lines of the one that is used memory", r.name, r.other[0], r.other[1])
	default:
		return nil, fmt.Errorf("%s: holds no sample of used memory", r.name)
	}
	slices.Sort(used)
	h := &scalars{from: r.name, unit: unit, capacityUnit: unit}
	for _, name := range used {
		if kind := r.types[name]; kind != "" && kind != "gauge" && kind != "unknown" && kind != "untyped" {
			return nil, fmt.Errorf("%s: %s is a %s: used memory is a gauge", r.name, name, kind)
		}
		if err := r.scale(h, name, unit); err != nil {
			return nil, err
		}
	}
	return h.history(r.order, used), nil
}

// scale sets the unit of the history, which all of its metrics share.
func (r *openMetrics) scale(h *scalars, name string, unit float64) error {
	if unit != 0 {
		return nil
	}
	own, ok := promapi.UnitOf(name)
	if r.units[name] == "bytes" {
		own, ok = 1, true
	}
	if !ok {
		return fmt.Errorf("%s: %s %w", r.name, cmp.Or(name, "a metric without a name"), promapi.ErrUnit)
	}
	if h.unit != 0 && h.unit != own {
		return fmt.Errorf("%s: holds metrics in bytes and in MiB: split the file", r.name)
	}
	h.unit, h.capacityUnit = own, own
	return nil
}

// parseSelector reads a name and labels, name{label="value",…}, where the name may
// stand between the braces, in quotes.
func parseSelector(text string) (*scalar, error) {
	name, rest, braces := strings.Cut(text, "{")
	x := &scalar{name: strings.TrimSpace(name)}
	for rest = strings.TrimSuffix(rest, "}"); braces; {
		if rest = strings.TrimLeft(rest, " \t"); rest == "" {
			break
		}
		var l label
		var err error
		var named bool
		if l, named, rest, err = parseLabel(rest); err != nil {
			return nil, err
		}
		switch {
		case !named && x.name == "":
			x.name = l.value
		case !named || x.labels.get(l.name) != "":
			return nil, fmt.Errorf("cannot read the labels of %s: remove or repair the line", text)
		case l.value != "":
			x.labels = append(x.labels, l)
		}
		if rest = strings.TrimLeft(rest, " \t"); rest != "" && !strings.HasPrefix(rest, ",") {
			return nil, fmt.Errorf("no comma between the labels of %s: remove or repair the line", text)
		}
		rest = strings.TrimPrefix(rest, ",")
	}
	if x.name == "" || x.name[0] >= '0' && x.name[0] <= '9' || !braces && strings.ContainsAny(x.name, `,;"=`) {
		return nil, errors.New("no name of a metric: remove or repair the line")
	}
	x.labels.sort()
	return x, nil
}

// parseLabel reads name="value" or, if not named, "value".
func parseLabel(text string) (l label, named bool, rest string, err error) {
	wrong := fmt.Errorf("cannot read the labels %q: remove or repair the line", text)
	if strings.HasPrefix(text, `"`) {
		if l.value, rest, err = unquote(text); err != nil {
			return l, false, "", wrong
		}
		if rest = strings.TrimLeft(rest, " \t"); !strings.HasPrefix(rest, "=") {
			return l, false, rest, nil
		}
		l.name, rest = l.value, rest[1:]
	} else {
		var ok bool
		l.name, rest, ok = strings.Cut(text, "=")
		if l.name = strings.TrimSpace(l.name); !ok || l.name == "" || strings.ContainsAny(l.name, "\", \t") {
			return l, false, "", wrong
		}
	}
	if l.value, rest, err = unquote(strings.TrimLeft(rest, " \t")); err != nil {
		return l, false, "", wrong
	}
	return l, true, rest, nil
}

// unquote reads a text in quotes and returns what is behind it.
func unquote(text string) (value, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		return "", "", errors.New("no quote")
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return strings.ToValidUTF8(b.String(), "\uFFFD"), text[i+1:], nil
		case c != '\\' || i+1 == len(text):
			b.WriteByte(c)
		default:
			i++
			switch text[i] {
			case 'n':
				b.WriteByte('\n')
			case '\\', '"':
				b.WriteByte(text[i])
			default:
				b.WriteString(text[i-1 : i+1])
			}
		}
	}
	return "", "", errors.New("no end")
}

// parseStamp reads a time stamp: seconds since the Unix epoch, with a fraction, or
// a whole number of milliseconds. No year is both.
func parseStamp(text []byte) (time.Duration, error) {
	whole, fraction, _ := bytes.Cut(text, []byte("."))
	t, ok := digits(whole)
	ns, ok2 := digits(fraction)
	switch {
	case ok && ok2 && len(fraction) <= 9:
		for range 9 - len(fraction) {
			ns *= 10
		}
	default:
		seconds, err := strconv.ParseFloat(string(text), 64)
		if err != nil || !(seconds >= 0 && seconds < 1e18) {
			return 0, wrongStamp(text)
		}
		t = uint64(seconds)
		ns = uint64((seconds - float64(t)) * 1e9)
	}
	if t > 1e10 && len(fraction) == 0 {
		t, ns = t/1000, t%1000*1e6
	}
	const earliest, latest = 365 * 86400, 230 * 365 * 86400 // 1971 to 2199
	if t < earliest || t > latest {
		return 0, wrongStamp(text)
	}
	return time.Duration(t)*time.Second + time.Duration(ns), nil
}

func wrongStamp(text []byte) error {
	return fmt.Errorf("cannot read the time stamp %q as seconds since 1970 such as 1700000000.5: remove or repair the line", text)
}

// digits reads up to 18 digits; none is 0.
func digits(text []byte) (v uint64, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + uint64(c-'0')
	}
	return v, len(text) <= 18
}

// parseNumber reads a value; ok is false for NaN and the infinities, which are no amounts:
// the series has a gap there. A dump of an exporter holds other metrics, too, which may be that.
func parseNumber(text []byte) (v float64, ok bool, err error) {
	// 2^53 has 16 digits.
	if n, whole := digits(text); whole && len(text) > 0 && len(text) < 16 {
		return float64(n), true, nil
	}
	switch strings.ToLower(string(text)) {
	case "nan", "inf", "+inf", "-inf":
		return 0, false, nil
	}
	v, err = strconv.ParseFloat(string(text), 64)
	if err != nil || bytes.ContainsAny(text, "xXpP_iI") {
		return 0, false, fmt.Errorf("cannot read the value %q as a number: remove or repair the line", text)
	}
	return v, true, nil
}
