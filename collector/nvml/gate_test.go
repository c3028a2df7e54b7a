// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestGateWaitsForThoseInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		if !g.enter(false) {
			t.Fatal("enter refused")
		}
		go func() { time.Sleep(time.Second); g.leave(false) }()
		start := time.Now()
		reopen, ok := g.alone(shut, 3*time.Second)
		if !ok || time.Since(start) != time.Second {
			t.Fatalf("alone: %t after %v, want true after 1s", ok, time.Since(start))
		}
		entered := make(chan time.Duration)
		go func() { g.enter(false); entered <- time.Since(start) }()
		time.Sleep(time.Second)
		reopen()
		if at := <-entered; at != 2*time.Second {
			t.Errorf("entered after %v, want 2s: when it was opened", at)
		}
		g.leave(false)
		if _, ok := g.alone(shut, 0); !ok {
			t.Error("alone: false with nobody inside")
		}
	})
}

func TestGateGivesUpOnAHungCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		g.enter(false)
		entered := make(chan bool)
		go func() { time.Sleep(time.Second); entered <- g.enter(false) }()
		if _, ok := g.alone(shut, 3*time.Second); ok {
			t.Fatal("alone: true with a hung call inside")
		}
		if !<-entered {
			t.Error("enter refused after alone gave up")
		}
		g.leave(false)
		g.leave(false)
		if _, ok := g.alone(shut, 0); !ok {
			t.Error("alone: false after all have left")
		}
	})
}

func TestGateIsForOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		reopen, _ := g.alone(shut, 0)
		if _, ok := g.alone(shut, time.Second); ok {
			t.Fatal("alone: true beside another one")
		}
		go func() { time.Sleep(time.Second); reopen() }()
		again, ok := g.alone(shut, 3*time.Second)
		if !ok {
			t.Fatal("alone: false after the other one was done")
		}
		again()
	})
}

// A claim waits for a moment without calls, and lets all in meanwhile but who waits for events.
func TestGateCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		g.enter(false)
		time.AfterFunc(1500*time.Millisecond, func() { g.leave(false) })
		events := make(chan time.Duration)
		start := time.Now()
		time.AfterFunc(time.Millisecond, func() {
			g.enter(true)
			g.leave(true)
			events <- time.Since(start)
		})
		time.AfterFunc(time.Second, func() {
			g.enter(false)
			if at := time.Since(start); at != time.Second {
				t.Errorf("a call had to wait until %v", at)
			}
			time.Sleep(time.Second)
			g.leave(false)
		})
		reopen, ok := g.alone(claimed, 3*time.Second)
		if at := time.Since(start); !ok || at != 2*time.Second {
			t.Fatalf("calm: %t after %v, want true after 2s", ok, at)
		}
		time.Sleep(time.Second)
		reopen()
		if at := <-events; at != 3*time.Second {
			t.Errorf("the wait for events began after %v, want 3s", at)
		}
	})
}

func TestGateNeverCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		g.enter(false)
		if _, ok := g.alone(claimed, time.Second); ok {
			t.Fatal("calm: true with a hung call inside")
		}
		if !g.enter(true) || !g.enter(false) {
			t.Error("nobody gets in after the claim")
		}
		g.leave(true)
		for range 2 {
			g.leave(false)
		}
		if _, ok := g.alone(claimed, 0); !ok {
			t.Error("calm: false with nobody inside")
		}
	})
}

func TestGateClosed(t *testing.T) {
	g := newGate()
	g.close()
	if g.enter(false) || !g.isClosed() {
		t.Error("a closed gate lets somebody in")
	}
	if _, ok := g.alone(shut, 0); !ok {
		t.Error("alone: false on a closed gate")
	}
}

// The end of the program waits for calls, and not for waits for events.
func TestGateClosedDuringAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		g.enter(true)
		g.enter(false)
		if _, ok := g.alone(shut, time.Second); ok {
			t.Error("alone: true with a call and a wait for events inside")
		}
		g.close()
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
