// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
)

// Engine evaluates PromQL over one series named x.
type Engine struct {
	engine *promql.Engine
	series promql.Series
}

// NewEngine returns the engine of Prometheus over these points, whose times are
// whole milliseconds.
func NewEngine(points []Point) *Engine {
	series := promql.Series{Metric: labels.FromStrings(model.MetricNameLabel, "x")}
	for _, p := range points {
		series.Floats = append(series.Floats, promql.FPoint{T: p.T.Milliseconds(), F: float64(p.Y)})
	}
	return &Engine{
		engine: promql.NewEngine(promql.EngineOpts{
			MaxSamples: 1e6,
			Timeout:    time.Minute,
			Parser:     parser.NewParser(parser.Options{}),
		}),
		series: series,
	}
}

// Deriv evaluates deriv(x[span]) at a time. As of Prometheus 3 the range is open
// on the left: (at−span, at].
func (e *Engine) Deriv(at, span time.Duration) (float64, error) {
	expr := fmt.Sprintf("deriv(x[%dms])", span.Milliseconds())
	source := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(bool, *storage.SelectHints, ...*labels.Matcher) storage.SeriesSet {
			return &once{SeriesSet: storage.TestSeriesSet(promql.NewStorageSeries(e.series))}
		},
	}}
	ctx := context.Background()
	q, err := e.engine.NewInstantQuery(ctx, source, nil, expr, time.UnixMilli(at.Milliseconds()))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", expr, err)
	}
	defer q.Close()
	v, err := q.Exec(ctx).Vector()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", expr, err)
	}
	if len(v) != 1 {
		return 0, fmt.Errorf("%s: %d series, want 1", expr, len(v))
	}
	return v[0].F, nil
}

// once is a set of one series, which would be read again and again.
type once struct {
	storage.SeriesSet
	read bool
}

func (s *once) Next() bool {
	first := !s.read
	s.read = true
	return first
}
