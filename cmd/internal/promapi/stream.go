// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package promapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// Bounds of one answer, in bytes.
const (
	// maxAnswer bounds the text. A backtest asks for 10,000 samples of a series at once: 1,000 series take that much.
	maxAnswer = 256 << 20
	// maxKept bounds what is kept of it, all together: 16 million samples, or 140,000 series of DCGM exporter. A fleet of
	// 20,000 GPUs has 80,000 where it is asked for the capacity, and a chunk of a backtest 10 million samples. The text
	// bounds too little: short labels take 8 times the memory of theirs.
	maxKept = 256 << 20
	// maxValue bounds what is read as a whole, such as a series: 150,000 samples of it, or all of its labels.
	maxValue = 4 << 20
)

// What is kept takes so much memory, in bytes. A label takes that of its texts, too.
const (
	seriesSize = 384 // with a map for 8 labels
	labelSize  = 64  // in a map, which is never full
	sampleSize = 16
	restCopies = 8 // of what is no series
)

// ErrAnswerTooLarge says what to do about an answer that is above a bound, or has no end. IsTooMuch is true of it.
var ErrAnswerTooLarge = errors.New("ask for fewer series, or for a shorter range")

// tooLarge says which bound it is.
func tooLarge(is string, most int) error {
	return fmt.Errorf("an answer %s %d MiB: %w", is, most>>20, ErrAnswerTooLarge)
}

// streamingAPI decodes the series of an answer while it arrives: its text would take several times their memory. What is
// left of an answer is for the API that it wraps.
type streamingAPI struct{ v1.API }

// seriesKey is the key of a context under which it has the *model.Matrix that the series of an answer go to.
type seriesKey struct{}

// Query implements v1.API.
func (a *streamingAPI) Query(ctx context.Context, query string, at time.Time, o ...v1.Option) (model.Value, v1.Warnings, v1.Infos, error) {
	var found model.Matrix
	value, warnings, infos, err := a.API.Query(context.WithValue(ctx, seriesKey{}, &found), query, at, o...)
	return withSeries(value, found), warnings, infos, err
}

// QueryRange implements v1.API.
func (a *streamingAPI) QueryRange(ctx context.Context, query string, r v1.Range, o ...v1.Option) (model.Value, v1.Warnings, v1.Infos, error) {
	var found model.Matrix
	value, warnings, infos, err := a.API.QueryRange(context.WithValue(ctx, seriesKey{}, &found), query, r, o...)
	return withSeries(value, found), warnings, infos, err
}

// withSeries returns a value that had none with its series.
func withSeries(value model.Value, found model.Matrix) model.Value {
	switch value.(type) {
	case model.Matrix:
		return found
	case model.Vector:
		vector := make(model.Vector, len(found))
		for i, s := range found {
			if s != nil {
				p := append(s.Values, model.SamplePair{})[0] // a histogram has none
				vector[i] = &model.Sample{Metric: s.Metric, Value: p.Value, Timestamp: p.Timestamp}
			}
		}
		return vector
	}
	return value
}

// streamingClient hands the series of an answer over and returns the rest of it.
type streamingClient struct {
	api.Client // for its URL

	http *http.Client
}

// Do implements api.Client.
func (c *streamingClient) Do(ctx context.Context, r *http.Request) (*http.Response, []byte, error) {
	answer, err := c.http.Do(r.WithContext(ctx))
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	found, ok := ctx.Value(seriesKey{}).(*model.Matrix)
	if !ok || answer.StatusCode/100 != 2 { // it is an error, whose beginning will do
		body, err := io.ReadAll(io.LimitReader(answer.Body, maxValue))
		return answer, body, err
	}
	d := newDecoder(answer.Body)
	rest, err := d.answer()
	*found = d.series
	return answer, rest, err
}

// boundedReader fails once too much was read: of all, or of one value.
type boundedReader struct {
	in          io.Reader
	left, value int // bytes
	most        int // of one value, in bytes
	err         error
}

// Read implements io.Reader.
func (r *boundedReader) Read(b []byte) (n int, err error) {
	switch {
	case r.err != nil: // a decoder may read on
		err = r.err
	case r.left <= 0:
		err = tooLarge("is longer than", maxAnswer)
	case r.value <= 0:
		err = tooLarge("has a series or another value longer than", maxValue)
	default:
		n, err = r.in.Read(b)
		r.left -= n
		r.value -= n
	}
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// decoder reads an answer.
type decoder struct {
	*json.Decoder
	in     *boundedReader
	room   int // bytes that may still be kept
	series model.Matrix
}

func newDecoder(in io.Reader) *decoder {
	bounded := &boundedReader{in: in, left: maxAnswer + 1, most: maxValue} // one more, to see that there is more
	return &decoder{Decoder: json.NewDecoder(bounded), in: bounded, room: maxKept}
}

// answer takes the series out of an answer, and returns the rest. The error of what is no answer is a *v1.Error.
func (d *decoder) answer() (json.RawMessage, error) {
	rest, err := d.object("data", func() (json.RawMessage, error) { return d.object("result", d.result) })
	if err == nil {
		if _, err = d.next(); err == nil {
			err = errors.New("something follows the answer")
		} else if errors.Is(err, io.EOF) {
			return rest, nil
		}
	}
	switch {
	case errors.Is(err, ErrAnswerTooLarge):
		return nil, err
	case d.in.err != nil: // of the connection
		return nil, d.in.err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("unexpected end of JSON input")
	}
	return nil, &v1.Error{Type: v1.ErrBadResponse, Msg: err.Error()}
}

// object reads an object, the field own of it with read, and returns the rest.
func (d *decoder) object(own string, read func() (json.RawMessage, error)) (json.RawMessage, error) {
	if open, err := d.open('{'); !open {
		return json.RawMessage("null"), err
	}
	rest := map[string]json.RawMessage{}
	for d.More() {
		key, err := d.next()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if key == own {
			value, err = read()
		} else {
			err = d.value(&value)
		}
		name, _ := key.(string)
		if err = cmp.Or(err, d.keep(labelSize+restCopies*(len(name)+len(value)))); err != nil {
			return nil, err
		}
		rest[name] = value
	}
	if _, err := d.next(); err != nil {
		return nil, err
	}
	return json.Marshal(rest)
}

// result reads a list of series, and returns what is none: the parts of a scalar.
func (d *decoder) result() (json.RawMessage, error) {
	d.series = nil
	if open, err := d.open('['); !open {
		return json.RawMessage("null"), err
	}
	var raw json.RawMessage
	rest := []json.RawMessage{}
	for d.More() {
		err := d.value(&raw)
		switch {
		case err != nil:
		case raw[0] == '{' || raw[0] == 'n':
			err = d.one(raw)
		default:
			if rest = append(rest, bytes.Clone(raw)); len(rest) > 2 {
				err = errors.New("the result is neither a list of series nor a time and a value")
			}
		}
		if err != nil {
			return nil, err
		}
	}
	if _, err := d.next(); err != nil {
		return nil, err
	}
	return json.Marshal(rest)
}

// one keeps a series, which may be null. Of histograms there is nothing but their number.
func (d *decoder) one(raw json.RawMessage) error {
	var x *struct {
		Metric     model.Metric
		Values     []point
		Value      *point // of a vector
		Histograms []json.RawMessage
	}
	err := json.Unmarshal(raw, &x)
	if err != nil || x == nil {
		d.series = append(d.series, nil)
		return cmp.Or(err, d.keep(seriesSize))
	}
	if x.Value != nil {
		x.Values = append(x.Values, *x.Value)
	}
	s := &model.SampleStream{Metric: x.Metric, Values: make([]model.SamplePair, len(x.Values)), Histograms: make([]model.SampleHistogramPair, len(x.Histograms))}
	for i, p := range x.Values {
		s.Values[i] = model.SamplePair(p)
	}
	d.series = append(d.series, s)
	size := seriesSize + sampleSize*(len(s.Values)+len(s.Histograms))
	for name, value := range s.Metric {
		size += labelSize + len(name) + len(value)
	}
	return d.keep(size)
}

// point is a sample, such as [1700000000.5,"42"].
type point model.SamplePair

// UnmarshalJSON implements json.Unmarshaler. A part that is missing is an error, and not zero.
func (p *point) UnmarshalJSON(raw []byte) error {
	at, value, _ := bytes.Cut(bytes.TrimPrefix(bytes.TrimSuffix(raw, []byte{']'}), []byte{'['}), []byte{','})
	if cmp.Or(p.Timestamp.UnmarshalJSON(bytes.TrimSpace(at)), p.Value.UnmarshalJSON(bytes.TrimSpace(value))) != nil {
		return fmt.Errorf("%s is no sample such as [1700000000.5,\"42\"]", Excerpt(string(raw)))
	}
	return nil
}

// open reads the beginning of an object or a list; null is neither, and no error.
func (d *decoder) open(want json.Delim) (ok bool, err error) {
	token, err := d.next()
	if err == nil && token != nil && token != want {
		err = fmt.Errorf("there is %s where %s begins", Excerpt(fmt.Sprint(token)), want)
	}
	return token == want, err
}

// next returns the next token.
func (d *decoder) next() (json.Token, error) {
	d.in.value = d.in.most
	return d.Token()
}

// value reads the next value as it is written.
func (d *decoder) value(raw *json.RawMessage) error {
	d.in.value = d.in.most
	return d.Decode(raw)
}

// keep counts what is kept.
func (d *decoder) keep(n int) error {
	if d.room -= n; d.room < 0 {
		return tooLarge("holds series and samples of more than", maxKept)
	}
	return nil
}
