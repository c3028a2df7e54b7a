// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/formats"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
)

// answerReader reads what Prometheus has answered to a query of a range and somebody has kept: the
// JSON of /api/v1/query_range, its matrix alone as promtool query range --format=json writes it, or
// the text of promtool query range. It keeps the points, as the reader of OpenMetrics does.
type answerReader struct {
	*openMetrics
	ctx     context.Context
	bound   *formats.Guard
	decoder *json.Decoder

	left     []string // what was left out
	partial  bool     // by the word of VictoriaMetrics
	warnings []string // of the server: the first maxWarnings, each once
	unshown  int      // further ones
}

// maxWarnings bounds the warnings of an answer that are shown.
const maxWarnings = 10

// answered is the history that metrics hold, and what was left out of them or the server said of it.
type answered struct {
	history
	told []string
}

// leftOut implements leaver.
func (a *answered) leftOut() []string { return a.told }

// useless implements leaver: how much is missing is not known.
func (*answered) useless() error { return nil }

var (
	answerHead = regexp.MustCompile(`^\s*(?:\{\s*"(?:status|resultType|data|isPartial)"\s*:|\[\s*\{\s*"(?:metric|values)"\s*:)`)
	seriesLine = regexp.MustCompile(`^[^#\n]*\S =>\s*$`)
)

// isPrometheusAnswer reports whether a text that begins so is an answer of Prometheus.
func isPrometheusAnswer(head string) bool {
	first, _, _ := strings.Cut(strings.TrimLeft(head, " \t\r\n"), "\n")
	return answerHead.MatchString(head) || seriesLine.MatchString(strings.TrimRight(first, "\r"))
}

// readPrometheusAnswer reads all of in. name stands in errors.
func readPrometheusAnswer(ctx context.Context, name string, in io.Reader, unit float64) (history, error) {
	r := &answerReader{ctx: ctx, openMetrics: newOpenMetrics(name)}
	buffered := bufio.NewReaderSize(in, maxOpenMetricsLine)
	head, _ := buffered.Peek(512)
	read := r.text
	if text := bytes.TrimLeft(head, " \t\r\n"); len(text) > 0 && (text[0] == '{' && answerHead.Match(text) || text[0] == '[') {
		read = r.json
	}
	if err := read(buffered); err != nil {
		return nil, err
	}
	if len(r.order) == 0 {
		return nil, fmt.Errorf("%s: the answer has no series: %s", name, strings.Join(append(r.told(), "check the query and its range"), "; "))
	}
	h, err := r.history(unit)
	if err != nil {
		return nil, err
	}
	return &answered{h, r.told()}, nil
}

// told returns, in a line each, what the server said of the answer.
func (r *answerReader) told() (lines []string) {
	lines = append(lines, r.left...)
	if r.partial {
		lines = append(lines, "the answer is partial: the server could not read some of the data, and that is not judged")
	}
	for _, text := range r.warnings {
		lines = append(lines, "the server warned: "+text)
	}
	if r.unshown > 0 {
		lines = append(lines, fmt.Sprintf("warnings of the server that are not shown: %d", r.unshown))
	}
	return lines
}

// text reads what promtool writes without --format: a line with the series and =>, then a line for each
// point, such as 42 @[1700000000].
func (r *answerReader) text(in *bufio.Reader) error {
	for r.ctx.Err() == nil {
		r.number++
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return r.at(errors.New("the line is too long: this is no answer of promtool"))
		case err != nil && !errors.Is(err, io.EOF):
			return r.at(err)
		}
		failed := r.textLine(strings.TrimSpace(string(line)))
		switch {
		case failed != nil && err != nil && len(r.order) > 0:
			r.left = append(r.left, r.cutOff(bytes.TrimSpace(line)))
			return nil
		case failed != nil:
			return r.at(failed)
		case err != nil:
			return nil
		}
	}
	return r.ctx.Err()
}

func (r *answerReader) textLine(line string) error {
	if line == "" {
		return nil
	}
	if written, ok := strings.CutSuffix(line, "=>"); ok {
		x, err := parseSelector(strings.TrimSpace(written))
		if err != nil {
			return err
		}
		r.begin(x)
		return nil
	}
	value, stamp, ok := strings.Cut(line, " @[")
	if !ok || !strings.HasSuffix(stamp, "]") {
		return fmt.Errorf("cannot read %q as a point such as 42 @[1700000000]: remove or repair the line", line)
	}
	return r.point(strings.TrimSuffix(stamp, "]"), value)
}

// begin begins a series, or goes on with one.
func (r *answerReader) begin(x *scalar) {
	canonical := x.String()
	if same := r.known[canonical]; same != nil {
		r.last = same
		return
	}
	r.known[canonical], r.last = x, x
	r.note(x)
}

// point takes a point of the series.
func (r *answerReader) point(stamp, value string) error {
	t, err := parseStamp([]byte(stamp))
	if err != nil {
		return err
	}
	v, ok, err := parseNumber([]byte(value))
	if err != nil || !ok {
		return err
	}
	return r.append(t, v)
}

// json reads JSON.
func (r *answerReader) json(in *bufio.Reader) error {
	r.bound = formats.NewGuard(in)
	r.decoder = json.NewDecoder(r.bound)
	r.decoder.UseNumber()
	token, err := r.token()
	if err == nil {
		if token == json.Delim('[') {
			err = r.matrix()
		} else {
			err = r.object()
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the file ends inside the answer: it was cut off")
	}
	if err != nil {
		return fmt.Errorf("%s: at byte %d: %w", r.name, r.decoder.InputOffset(), err)
	}
	return nil
}

func (r *answerReader) token() (json.Token, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	r.bound.Reset()
	return r.decoder.Token()
}

// object reads the rest of the object that is the answer, or its data.
func (r *answerReader) object() error {
	for {
		name, err := r.token()
		if err != nil || name == json.Delim('}') {
			return err
		}
		value, err := r.token()
		if err != nil {
			return err
		}
		switch {
		case name == "error" && value != "":
			return fmt.Errorf("Prometheus has answered with an error: %v", value)
		case name == "resultType" && value != "matrix":
			return fmt.Errorf("the result is a %v, of one moment: ask /api/v1/query_range with start, end and step, or promtool query range", value)
		case name == "data" && value == json.Delim('{'):
			err = r.object()
		case name == "result" && value == json.Delim('['), name == "data" && value == json.Delim('['):
			err = r.matrix()
		case name == "isPartial" && value == true:
			r.partial = true
		case name == "warnings" && value == json.Delim('['):
			err = r.warned()
		case value == json.Delim('{') || value == json.Delim('['):
			err = r.skip()
		}
		if err != nil {
			return err
		}
	}
}

// warned reads the rest of the list of warnings.
func (r *answerReader) warned() error {
	for {
		token, err := r.token()
		if err != nil || token == json.Delim(']') {
			return err
		}
		if token == json.Delim('{') || token == json.Delim('[') {
			if err := r.skip(); err != nil {
				return err
			}
			continue
		}
		text := promapi.Excerpt(fmt.Sprint(token))
		switch {
		case slices.Contains(r.warnings, text):
		case len(r.warnings) < maxWarnings:
			r.warnings = append(r.warnings, text)
		default:
			r.unshown++
		}
	}
}

// skip passes over the rest of an object or a list.
func (r *answerReader) skip() error {
	for depth := 1; depth > 0; {
		token, err := r.token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
	return nil
}

// matrix reads the rest of a list of series.
func (r *answerReader) matrix() error {
	for {
		token, err := r.token()
		switch {
		case err != nil || token == json.Delim(']'):
			return err
		case token != json.Delim('{'):
			return fmt.Errorf("there is %v where a series begins: this is no matrix", token)
		}
		if err := r.series(); err != nil {
			return err
		}
	}
}

// series reads the rest of a series. Its labels stand before its points, as Prometheus writes them.
func (r *answerReader) series() error {
	r.last = nil
	for {
		name, err := r.token()
		if err != nil || name == json.Delim('}') {
			return err
		}
		switch name {
		case "metric":
			err = r.metric()
		case "values":
			err = r.values()
		case "value":
			return errors.New("the result is of one moment: ask /api/v1/query_range with start, end and step, or promtool query range")
		default:
			var value json.Token
			if value, err = r.token(); err == nil && (value == json.Delim('{') || value == json.Delim('[')) {
				err = r.skip()
			}
		}
		if err != nil {
			return err
		}
	}
}

// metric reads the labels of a series.
func (r *answerReader) metric() error {
	var all map[string]string
	r.bound.Reset()
	if err := r.decoder.Decode(&all); err != nil {
		return fmt.Errorf("the labels of a series: %w", err)
	}
	x := &scalar{name: all[model.MetricNameLabel]}
	delete(all, model.MetricNameLabel)
	for name, value := range all {
		if value != "" {
			x.labels = append(x.labels, label{name, value})
		}
	}
	x.labels.sort()
	r.begin(x)
	return nil
}

// values reads the points of a series.
func (r *answerReader) values() error {
	if r.last == nil {
		return errors.New("points without the labels of their series before them")
	}
	if token, err := r.token(); err != nil || token != json.Delim('[') {
		return errors.Join(errors.New("the values of a series are no list"), err)
	}
	for r.decoder.More() {
		var point []json.RawMessage
		r.bound.Reset()
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if err := r.decoder.Decode(&point); err != nil {
			return err
		}
		if len(point) != 2 {
			return fmt.Errorf("a point has %d parts, not a time and a value", len(point))
		}
		if err := r.point(string(point[0]), strings.Trim(string(point[1]), `"`)); err != nil {
			return err
		}
	}
	_, err := r.token()
	return err
}
