// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-kit/log/level"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
)

const (
	// askTimeout bounds one request.
	askTimeout = time.Minute
	// shortSpan is how far back a request goes at least, that for capacities and a part of the history, too. Later samples, up to
	// Config.MaxAge, are looked for once in lookEvery.
	shortSpan = time.Minute
	lookEvery = time.Minute
	// longestSpan is the longest time of one request. A longer one is read in parts, as the history is. 20,000 GPUs that are scraped
	// every 15 s have 1.2 million samples in it.
	longestSpan = 15 * time.Minute
	// longestGap bounds the time that is read again after a time without answers, if Config.History is not longer.
	longestGap = 6 * time.Hour
	// boundsEvery is how often it is asked how much memory there is: that of a GPU does not change.
	boundsEvery = 5 * time.Minute
	// historyTries is how often a part of the history is asked for, by a Prometheus that answers something else, before
	// it is left out.
	historyTries = 3
	// drainTimeout is how long the readers may take for a part of the history.
	drainTimeout = 2 * time.Minute
)

// errNoResult says that the query found nothing.
var errNoResult = errors.New("the query has no result: is it that of the used memory, and does this Prometheus have it?")

// poll asks for new samples. The first time it finds out which GPUs there are, and
// reads their history.
func (s *Source) poll(ctx context.Context, at time.Time) error {
	missed := at.Sub(s.answered)
	switch {
	case s.answered.IsZero():
		if err := s.request(ctx, at, s.cfg.MaxAge); err != nil || s.cfg.History == 0 {
			return err
		}
		s.answered = time.Now()
		s.rewind()
		s.owe(s.cfg.History)
	case missed > longestSpan:
		s.owe(min(missed+s.cfg.MaxAge, max(s.cfg.History, longestGap)))
	}
	if s.owed != nil {
		err := s.answers(ctx) // else each poll of an outage would make the parts smaller
		if err == nil {
			err = s.readHistory(ctx)
		}
		if err != nil {
			return err
		}
		missed = time.Since(at) + s.cfg.MaxAge
	}
	span := max(shortSpan, 4*s.cfg.Interval)
	if s.owed != nil || missed > span/2 || at.Sub(s.wide) >= lookEvery {
		s.wide, span = at, missed+s.cfg.MaxAge
	}
	err := s.request(ctx, at, span)
	if errors.Is(err, errNoResult) { // all samples may be late
		err = s.request(ctx, at, missed+s.cfg.MaxAge)
	}
	if err == nil {
		s.owed = nil
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
	if at.Sub(s.bounded) < boundsEvery {
		return nil
	}
	// Without capacities there still are verdicts, but no forecasts.
	if err := s.askBounds(ctx); err == nil {
		s.bounded = at
	} else if ctx.Err() == nil {
		s.note(reasonCapacity, 1, "The capacities cannot be asked for, will try again", "err", err)
	}
	return nil
}

// ask asks for a span of time that ends at a moment, the zero one is now, and spreads the answer. live is whether GPUs
// that are new are taken up. It returns how many samples there were.
func (s *Source) ask(ctx context.Context, end time.Time, span time.Duration, live bool) (samples int, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var value model.Value
	if s.plain {
		// A range of a plain selector has the samples as they were scraped, each with its own time.
		value, err = s.heard(s.cfg.Client.Query(ctx, fmt.Sprintf("%s[%dms]", s.cfg.Query, span.Milliseconds()), end))
	} else {
		value, err = s.heard(s.cfg.Client.QueryRange(ctx, s.cfg.Query, s.steps(end, span)))
	}
	if err != nil {
		return 0, err
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

// heard returns an answer, and notes what the Prometheus adds to it.
func (s *Source) heard(value model.Value, warnings v1.Warnings, infos v1.Infos, err error) (model.Value, error) {
	for _, w := range warnings {
		s.note(reasonWarning, 1, "The Prometheus warns", "warning", promapi.Excerpt(w))
	}
	for _, w := range infos {
		s.note(reasonInfo, 1, "The Prometheus remarks", "info", promapi.Excerpt(w))
	}
	return value, s.cfg.Client.Refused(err)
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
	value, err := s.heard(s.cfg.Client.Query(ctx, query, time.Time{}))
	if err != nil {
		return err
	}
	if s.known {
		matrix, err := promapi.MatrixOf(value)
		if err == nil {
			s.takeBounds(matrix)
		}
		return err
	}
	vector, err := promapi.VectorOf(value)
	if err == nil {
		s.takeCapacities(vector)
	}
	return err
}

// history is the unread past.
type history struct {
	from    time.Duration // since the Unix epoch; older samples were read, or are not wanted
	part    time.Duration // how much is asked for at once: less after a failure, because it may have been too much
	failed  int           // how often the next part could not be read
	samples int           // of the parts before
}

// owe notes that so much of the past has not been read. All times of it are in whole milliseconds, as those of a Prometheus
// are: else a sample between two parts may be in neither.
func (s *Source) owe(span time.Duration) {
	if s.owed != nil { // it waits for a Prometheus that answers
		s.owed.from = max(s.owed.from, (s.now() - max(s.cfg.History, longestGap)).Truncate(time.Millisecond))
		return
	}
	s.owed = &history{from: (s.now() - span).Truncate(time.Millisecond), part: longestSpan}
}

// readHistory reads the unread past in parts, the oldest first. A reader of a GPU has read one part before the
// next is asked for, so that what waits is bounded. After an error it goes on where it was.
func (s *Source) readHistory(ctx context.Context) error {
	s.learning.Store(true)
	defer s.learning.Store(false)
	h := s.owed
	began, from, end := time.Now(), h.from, (s.now() - s.cfg.MaxAge).Truncate(time.Millisecond)
	for h.from < end {
		to := min(h.from+h.part, end)
		n, err := s.ask(ctx, wall(to), to-h.from, false)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			large := to-h.from > shortSpan
			h.part = max(shortSpan, ((to - h.from) / 2).Truncate(time.Millisecond))
			if large && promapi.IsTooMuch(err) {
				continue
			}
			if s.answers(ctx) != nil { // it is not the fault of this part, or that has brought the Prometheus down
				return err
			}
			if large && errors.Is(err, context.DeadlineExceeded) {
				continue
			}
			if h.failed++; h.failed < historyTries {
				return err
			}
			h.failed = historyTries - 1 // the next part is not waited for as long
			s.note(reasonHistory, 1, "Some of the history cannot be read; verdicts come later for it", "err", err)
		default:
			h.failed = 0
			if n > 0 {
				s.isUp()
			}
		}
		h.from, h.samples = to, h.samples+n
		s.drain(ctx)
	}
	if h.samples > 0 {
		level.Info(s.cfg.Logger).Log("msg", "The history was read", "span", end-from, "samples", h.samples, "gpus", len(s.feeds), "took", time.Since(began).Round(time.Millisecond))
		h.samples = 0
	}
	return nil
}

// isUp notes that the Prometheus has answered with samples.
func (s *Source) isUp() {
	s.answered = time.Now()
	if s.down.Load() != nil { // the readers of the GPUs have to know them
		s.list()
		s.down.Store(nil)
	}
}

// answers returns an error unless the Prometheus answers anything about the GPUs.
func (s *Source) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, _, _, err := s.cfg.Client.Query(ctx, s.cfg.Query, time.Time{})
	return s.cfg.Client.Refused(err)
}

// longestHistory bounds Config.History.
const longestHistory = 7 * 24 * time.Hour

// rewind forgets the samples that found the GPUs. They are read again in their turn: the time of a GPU only increases.
func (s *Source) rewind() {
	for _, f := range s.feeds {
		f.empty()
		f.last = 0
		for _, m := range f.memories {
			m.last = 0
		}
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
