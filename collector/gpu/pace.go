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

// errClosed is what a wait or a call returns that Close released.
var errClosed = errors.New("the source is closed")

// lastYear bounds the time stamps that are accepted: T counts nanoseconds since
// 1970 and ends in the year 2262.
const lastYear = 2200

// pace maps the clock of a scripted or recorded source to real time. The clock
// starts once and then runs speed times as fast as real time; nothing of what
// the source returns depends on it, only how long its callers sleep. The methods
// may be called from any goroutine.
type pace struct {
	speed float64
	done  chan struct{} // closed by close

	mu      sync.Mutex
	started bool
	real    time.Time     // with its monotonic reading
	origin  time.Duration // the source's clock at real
}

// newPace returns a pace that has not been started. A speed of 0 is 1, real
// time; infinity never sleeps.
func newPace(speed float64) (*pace, error) {
	if speed == 0 {
		speed = 1
	}
	if !(speed > 0) { // NaN, too
		return nil, fmt.Errorf("speed %v: must be above 0; 1 is real time, 60 a minute a second", speed)
	}
	return &pace{speed: speed, done: make(chan struct{})}, nil
}

// start lets the source's clock show origin now. Only the first call counts.
func (p *pace) start(origin time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started {
		p.started, p.real, p.origin = true, time.Now(), origin
	}
}

// due returns how long it is in real time until the source's clock shows t; 0 or
// less once it has. The clock must have been started.
func (p *pace) due(t time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := float64(t-p.origin) / p.speed
	if at >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(at) - time.Since(p.real)
}

// wait sleeps until the source's clock shows t. It returns ctx's error, or
// errClosed after close, even if t has passed: a reader that is late ends, too.
func (p *pace) wait(ctx context.Context, t time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.closed() {
		return errClosed
	}
	d := p.due(t)
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.done:
		return errClosed
	}
}

// closed reports whether close was called.
func (p *pace) closed() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// close ends all waits. It may be called again.
func (p *pace) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed() {
		close(p.done)
	}
}
