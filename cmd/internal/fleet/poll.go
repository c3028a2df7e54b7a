// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-kit/log/level"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
)

const (
	// askTimeout bounds one request.
	askTimeout = time.Minute
	// shortSpan is how far back each request goes at least. A sample may be that late and is still seen at once;
	// later ones, up to Config.MaxAge, are looked for once in lookEvery.
	shortSpan = time.Minute
	lookEvery = time.Minute
	// longestSpan is how much may be asked for at once; what is longer is read in parts, as the history is.
	longestSpan = 15 * time.Minute
	// longestGap is how much of what was missed is read after a time without answers, if Config.History is not longer.
	longestGap = 6 * time.Hour
	// boundsEvery is how often it is asked how much memory there is: that of a GPU does not change.
	boundsEvery = 5 * time.Minute
	// chunkSamples is how many samples an answer should have at most, and leastChunk what is not made shorter.
	chunkSamples = 1_000_000
	leastChunk   = time.Minute
	// drainTimeout is how long the readers may take for a part of the history.
	drainTimeout = 2 * time.Minute
)

// errNoResult says that the query found nothing.
var errNoResult = errors.New("the query has no result: is it that of the used memory, and does this Prometheus have it?")

// poll asks for what is new. The first time it finds out which GPUs there are, and reads their history.
func (s *Source) poll(ctx context.Context, at time.Time) error {
	if s.answered.IsZero() {
		if err := s.request(ctx, at, s.cfg.MaxAge); err != nil || s.cfg.History == 0 {
			return err
		}
		s.readHistory(ctx, s.cfg.History)
		return s.request(ctx, at, time.Since(at)+s.cfg.MaxAge)
	}
	span, missed := max(shortSpan, 4*s.cfg.Interval), at.Sub(s.answered)
	switch {
	case missed > longestSpan:
		s.readHistory(ctx, min(missed, max(s.cfg.History, longestGap)))
	case missed > span/2:
		span = missed + shortSpan
	}
	if at.Sub(s.wide) >= lookEvery {
		s.wide, span = at, max(span, s.cfg.MaxAge)
	}
	err := s.request(ctx, at, span)
	if errors.Is(err, errNoResult) && span < s.cfg.MaxAge {
		err = s.request(ctx, at, s.cfg.MaxAge) // all samples may be late
	}
	return err
}

// request asks for the last span of time, and for the capacities where they are old.
func (s *Source) request(ctx context.Context, at time.Time, span time.Duration) error {
	n, err := s.ask(ctx, time.Time{}, span, true)
	if err != nil {
		return err
	}
	if n == 0 {
		return errNoResult
	}
	s.rate = float64(n) / span.Seconds()
	if at.Sub(s.bounded) < boundsEvery {
		return nil
	}
	// Without capacities there still are verdicts, but no forecasts.
	if err := s.askBounds(ctx); err == nil {
		s.bounded = at
	} else if ctx.Err() == nil {
		s.problems.note(reasonCapacity, 1, "The capacities cannot be asked for, will try again", "err", err)
	}
	return nil
}

// ask asks for a span of time that ends at a moment, the zero one is now, and spreads the answer. live is whether GPUs
// that are new are taken up. It returns how many samples there were.
func (s *Source) ask(ctx context.Context, end time.Time, span time.Duration, live bool) (samples int, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var value model.Value
	var warnings v1.Warnings
	var infos v1.Infos
	if s.plain {
		// A range of a plain selector has the samples as they were scraped, each with its own time.
		value, warnings, infos, err = s.cfg.Client.Query(ctx, fmt.Sprintf("%s[%dms]", s.cfg.Query, span.Milliseconds()), end)
	} else {
		value, warnings, infos, err = s.cfg.Client.QueryRange(ctx, s.cfg.Query, s.steps(end, span))
	}
	s.remark(warnings, infos)
	if err != nil {
		return 0, s.cfg.Client.Refused(err)
	}
	matrix, err := promapi.MatrixOf(value)
	if err != nil {
		return 0, err
	}
	return s.spread(matrix, live), nil
}

// steps returns the moments at which a query is evaluated that is no plain one.
func (s *Source) steps(end time.Time, span time.Duration) v1.Range {
	if end.IsZero() {
		end = time.Now()
	}
	end = end.Truncate(s.cfg.Interval)
	return v1.Range{Start: end.Add(-span).Truncate(s.cfg.Interval).Add(s.cfg.Interval), End: end, Step: s.cfg.Interval}
}

// remark notes what the Prometheus adds to an answer.
func (s *Source) remark(warnings v1.Warnings, infos v1.Infos) {
	for _, w := range warnings {
		s.problems.note(reasonWarning, 1, "The Prometheus warns", "warning", promapi.Excerpt(w))
	}
	for _, w := range infos {
		s.problems.note(reasonInfo, 1, "The Prometheus remarks", "info", promapi.Excerpt(w))
	}
}

// askBounds asks how much memory there is.
func (s *Source) askBounds(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var query string
	switch {
	case s.cfg.Capacity != "":
		query = s.cfg.Capacity
	case s.known:
		names := append([]string{s.selector.Name}, s.selector.Metric.Bounds()...)
		query = fmt.Sprintf("%s[%dms]", s.selector.Of(names...), max(shortSpan, 4*s.cfg.Interval).Milliseconds())
	default:
		return nil
	}
	value, warnings, infos, err := s.cfg.Client.Query(ctx, query, time.Time{})
	s.remark(warnings, infos)
	if err != nil {
		return s.cfg.Client.Refused(err)
	}
	if s.known {
		matrix, err := promapi.MatrixOf(value)
		if err == nil {
			s.takeBounds(matrix)
		}
		return err
	}
	vector, err := promapi.VectorOf(value)
	if err != nil {
		return err
	}
	return s.takeCapacities(vector)
}

// readHistory reads what was before, in parts, the oldest first. Who reads a GPU has read one part before the next is
// asked for, so that what waits is bounded.
func (s *Source) readHistory(ctx context.Context, span time.Duration) {
	if span <= 0 || len(s.feeds) == 0 {
		return
	}
	// What was read to find the GPUs is read again in its turn: the time of a GPU only increases.
	if s.answered.IsZero() {
		for _, f := range s.feeds {
			s.queued.Add(-int64(f.end()))
			f.rewind()
		}
	}
	s.learning.Store(true)
	defer s.learning.Store(false)
	s.list()
	s.down.Store(nil)
	end := s.now()
	began, samples := time.Now(), 0
	chunk := time.Duration(math.MaxInt64)
	if s.rate > 0 {
		chunk = max(leastChunk, time.Duration(min(chunkSamples/s.rate, float64(longestHistory/time.Second))*float64(time.Second)))
	}
	for from := end - span; from < end; {
		to := min(from+min(chunk, span), end)
		n, err := s.ask(ctx, wall(to), to-from, false)
		switch {
		case ctx.Err() != nil:
			return
		case (promapi.IsTooMuch(err) || errors.Is(err, promapi.ErrAnswerTooLarge)) && to-from > leastChunk:
			chunk = max(leastChunk, (to-from)/2)
			continue
		case err != nil:
			s.problems.note(reasonHistory, 1, "Some of the history cannot be read; verdicts come later for it", "err", err)
		}
		samples += n
		from = to
		s.drain(ctx)
	}
	level.Info(s.cfg.Logger).Log("msg", "The history was read", "span", span, "samples", samples, "gpus", len(s.feeds), "took", time.Since(began).Round(time.Millisecond))
}

// longestHistory bounds Config.History.
const longestHistory = 7 * 24 * time.Hour

// rewind has the next rows of a GPU begin anew.
func (f *feed) rewind() {
	f.last = 0
	for _, m := range f.memories() {
		m.last = 0
	}
}

// drain waits until the queues are empty.
func (s *Source) drain(ctx context.Context) {
	timeout := time.NewTimer(drainTimeout)
	defer timeout.Stop()
	for s.queued.Load() > 0 {
		select {
		case <-s.drained:
		case <-timeout.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
