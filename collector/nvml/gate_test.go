// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"testing"
	"testing/synctest"
	"time"
)

// Calls enter a claimed door, and wait for a shut one; waits for events wait for both. The library is had at a moment
// without calls, and all enter when it is given back.
func TestGate(t *testing.T) {
	for _, c := range []struct {
		meanwhile               door
		had, call, wait, reopen time.Duration // since the start
	}{
		{claimed, 2 * time.Second, time.Second, 3 * time.Second, 3 * time.Second},
		{shut, 1500 * time.Millisecond, 3 * time.Second, 3 * time.Second, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			g.enter(false)
			time.AfterFunc(1500*time.Millisecond, func() { g.leave(false) })
			start := time.Now()
			entered := map[bool]chan time.Duration{false: make(chan time.Duration, 1), true: make(chan time.Duration, 1)}
			for wait, at := range entered {
				time.AfterFunc(time.Second, func() {
					g.enter(wait)
					at <- time.Since(start)
					time.Sleep(time.Second)
					g.leave(wait)
				})
			}
			reopen, ok := g.alone(c.meanwhile, 3*time.Second)
			if at := time.Since(start); !ok || at != c.had {
				t.Fatalf("door %d: %t after %v, want %v", c.meanwhile, ok, at, c.had)
			}
			time.Sleep(c.reopen - c.had)
			reopen()
			if call, wait := <-entered[false], <-entered[true]; call != c.call || wait != c.wait {
				t.Errorf("door %d: a call entered after %v, a wait for events after %v; want %v and %v", c.meanwhile, call, wait, c.call, c.wait)
			}
			time.Sleep(time.Second)
		})
	}
}

// Beside a call that hangs nobody has the library, and all enter again. One at a time has it.
func TestGateGivesUp(t *testing.T) {
	for _, meanwhile := range []door{claimed, shut} {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			g.enter(false)
			entered := make(chan bool)
			time.AfterFunc(time.Second, func() { entered <- g.enter(true) })
			if _, ok := g.alone(meanwhile, 3*time.Second); ok {
				t.Fatalf("door %d: alone with a hung call", meanwhile)
			}
			if !<-entered || !g.enter(false) {
				t.Errorf("door %d: nobody enters afterwards", meanwhile)
			}
			g.leave(true)
			for range 2 {
				g.leave(false)
			}
			reopen, ok := g.alone(meanwhile, 0)
			if !ok {
				t.Errorf("door %d: not alone in an empty gate", meanwhile)
			}
			if _, ok := g.alone(meanwhile, time.Second); ok {
				t.Fatalf("door %d: two are alone", meanwhile)
			}
			time.AfterFunc(time.Second, reopen)
			if _, ok := g.alone(meanwhile, 3*time.Second); !ok {
				t.Errorf("door %d: not alone after the other one was done", meanwhile)
			}
		})
	}
}

// The end of the program waits for calls, and not for waits for events. Nothing enters any more.
func TestGateClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		g.enter(true)
		g.enter(false)
		if _, ok := g.alone(shut, time.Second); ok {
			t.Error("alone with a call and a wait for events")
		}
		g.close()
		if g.enter(false) || !g.isClosed() {
			t.Error("a closed gate lets a call in")
		}
		start := time.Now()
		time.AfterFunc(time.Second, func() { g.leave(false) })
		if _, ok := g.alone(shut, 3*time.Second); !ok || !g.awaited() || time.Since(start) != time.Second {
			t.Errorf("alone: %t after %v, want true after 1s", ok, time.Since(start))
		}
		if g.leave(true); g.awaited() {
			t.Error("a wait that is over is still inside")
		}
	})
}
