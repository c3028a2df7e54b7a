// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// Engine evaluates PromQL over one series named x.
type Engine struct {
	engine *promql.Engine
	series storage.Series
}

// NewEngine returns the engine of Prometheus over these points, whose times are
// whole milliseconds.
func NewEngine(points []Point) *Engine {
	samples := make([]chunks.Sample, len(points))
	for i, p := range points {
		samples[i] = floatSample{t: p.T.Milliseconds(), f: float64(p.Y)}
	}
	return &Engine{
		engine: promql.NewEngine(promql.EngineOpts{
			MaxSamples: 1e6,
			Timeout:    time.Minute,
			Parser:     parser.NewParser(parser.Options{}),
		}),
		series: storage.NewListSeries(labels.FromStrings(model.MetricNameLabel, "x"), samples),
	}
}

// Deriv evaluates deriv(x[span]) at a time. As of Prometheus 3 the range is open
// on the left: (at−span, at].
func (e *Engine) Deriv(at, span time.Duration) (float64, error) {
	expr := fmt.Sprintf("deriv(x[%dms])", span.Milliseconds())
	source := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(bool, *storage.SelectHints, ...*labels.Matcher) storage.SeriesSet {
			return &oneSeries{Series: e.series}
		},
	}}
	ctx := context.Background()
	q, err := e.engine.NewInstantQuery(ctx, source, nil, expr, time.UnixMilli(at.Milliseconds()))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", expr, err)
	}
	defer q.Close()
	res := q.Exec(ctx)
	v, err := res.Vector()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", expr, err)
	}
	if len(v) != 1 {
		return 0, fmt.Errorf("%s: %d series, want 1", expr, len(v))
	}
	return v[0].F, nil
}

// oneSeries is the set of one series.
type oneSeries struct {
	storage.Series
	read bool
}

func (s *oneSeries) Next() bool {
	first := !s.read
	s.read = true
	return first
}

func (s *oneSeries) At() storage.Series              { return s.Series }
func (*oneSeries) Err() error                        { return nil }
func (*oneSeries) Warnings() annotations.Annotations { return nil }

// floatSample implements chunks.Sample.
type floatSample struct {
	t int64
	f float64
}

func (floatSample) ST() int64                     { return 0 }
func (s floatSample) T() int64                    { return s.t }
func (s floatSample) F() float64                  { return s.f }
func (floatSample) H() *histogram.Histogram       { return nil }
func (floatSample) FH() *histogram.FloatHistogram { return nil }
func (floatSample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s floatSample) Copy() chunks.Sample         { return s }
