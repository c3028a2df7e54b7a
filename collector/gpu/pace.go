// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// ErrClosed is the error of a wait or a call that Close released.
var ErrClosed = errors.New("the source is closed")

// LastYear bounds the time stamps that are accepted: T counts nanoseconds since 1970 and ends in the year 2262.
const LastYear = 2200

// Pace maps the clock of a scripted or recorded source to real time. The clock starts once and then runs speed times as fast
// as real time. It decides how long callers sleep, and nothing else. The methods may be called from any goroutine.
type Pace struct {
	speed float64
	ended context.Context
	end   context.CancelFunc

	mu     sync.Mutex
	real   time.Time     // of the start, with its monotonic reading; zero before
	origin time.Duration // the source's clock at real
}

// NewPace returns a Pace that has not been started. A speed of 0 is 1, real time; infinity never sleeps.
func NewPace(speed float64) (*Pace, error) {
	if speed == 0 {
		speed = 1
	}
	if !(speed > 0) { // NaN, too
		return nil, fmt.Errorf("speed %v: must be above 0; 1 is real time, 60 a minute a second", speed)
	}
	p := &Pace{speed: speed}
	p.ended, p.end = context.WithCancel(context.Background())
	return p, nil
}

// Start lets the source's clock show origin now. Only the first call counts.
func (p *Pace) Start(origin time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.real.IsZero() {
		p.real, p.origin = time.Now(), origin
	}
}

// due returns the real time until the source's clock shows t; 0 or less once it has. The clock must have been started.
func (p *Pace) due(t time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := float64(t-p.origin) / p.speed
	if at >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(at) - time.Since(p.real)
}

// Wait sleeps until the source's clock shows t. It returns ctx's error, or ErrClosed after Close, even if t has passed: a late
// reader ends, too.
func (p *Pace) Wait(ctx context.Context, t time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.Closed() {
		return ErrClosed
	}
	d := p.due(t)
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.ended.Done():
		return ErrClosed
	}
}

// Closed reports whether Close was called.
func (p *Pace) Closed() bool { return p.ended.Err() != nil }

// Done is closed by Close.
func (p *Pace) Done() <-chan struct{} { return p.ended.Done() }

// Close ends all waits. It may be called again.
func (p *Pace) Close() { p.end() }
