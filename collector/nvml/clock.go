// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"time"
)

// stepThreshold is the change of the wall clock against the steady clock that counts as a step. Smaller ones come from a clock
// that is being slewed.
const stepThreshold = 2 * time.Second

// clock is a source's steady clock: the wall clock at the start plus the
// monotonic time since. It never steps, and stands still in a suspend.
type clock struct{ start time.Time }

func newClock() clock { return clock{time.Now()} }

// steady returns the moment t on the steady clock, as time since the Unix epoch.
func (c clock) steady(t time.Time) time.Duration {
	return time.Duration(c.start.UnixNano()) + t.Sub(c.start)
}

// ahead returns how far the wall clock at t is ahead of the steady clock.
func (c clock) ahead(t time.Time) time.Duration {
	return t.Round(0).Sub(c.start.Round(0)) - t.Sub(c.start)
}

// stamper stamps the samples of one GPU.
type stamper struct {
	last  time.Duration // on the steady clock
	ahead time.Duration // of the wall clock, at the last sample
}

// stamp takes a moment on the steady clock, and how far the wall clock is ahead of it. It returns the moment, later than the
// one before in any case, and how far the wall clock was set since then; 0 unless that is a step.
func (s *stamper) stamp(steady, ahead time.Duration) (t, step time.Duration) {
	t = max(steady, s.last+1)
	if d := ahead - s.ahead; s.last != 0 && d.Abs() > stepThreshold {
		step = d
	}
	s.last, s.ahead = t, ahead
	return t, step
}

// schedule tells when samples are due: at start + k·interval, so that they do not drift. The first is due at once.
type schedule struct {
	interval time.Duration
	start    time.Time
	next     int64 // the k of the next sample
}

// wait sleeps until the next sample is due. A late reader gets the newest sample that is due at once; missed counts those
// before it.
func (s *schedule) wait(ctx context.Context) (missed int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if s.next == 0 {
		s.start, s.next = time.Now(), 1
		return 0, nil
	}
	late := time.Since(s.start) - time.Duration(s.next)*s.interval
	if late < 0 {
		select {
		case <-time.After(-late):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		late = 0
	}
	skipped := int64(late / s.interval)
	s.next += skipped + 1
	return int(skipped), nil
}
