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
		var g gate
		if !g.enter() {
			t.Fatal("enter refused")
		}
		go func() { time.Sleep(time.Second); g.leave() }()
		start := time.Now()
		open, ok := g.alone(3 * time.Second)
		if !ok || time.Since(start) != time.Second {
			t.Fatalf("alone: %t after %v, want true after 1s", ok, time.Since(start))
		}
		entered := make(chan time.Duration)
		go func() { g.enter(); entered <- time.Since(start) }()
		time.Sleep(time.Second)
		open()
		if at := <-entered; at != 2*time.Second {
			t.Errorf("entered after %v, want 2s: when it was opened", at)
		}
		g.leave()
		if _, ok := g.alone(0); !ok {
			t.Error("alone: false with nobody inside")
		}
	})
}

func TestGateGivesUpOnAHungCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		g.enter()
		entered := make(chan bool)
		go func() { time.Sleep(time.Second); entered <- g.enter() }()
		if _, ok := g.alone(3 * time.Second); ok {
			t.Fatal("alone: true with a hung call inside")
		}
		if !<-entered {
			t.Error("enter refused after alone gave up")
		}
		g.leave()
		g.leave()
		if _, ok := g.alone(0); !ok {
			t.Error("alone: false after all have left")
		}
	})
}

func TestGateIsForOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		open, _ := g.alone(0)
		if _, ok := g.alone(time.Second); ok {
			t.Fatal("alone: true beside another one")
		}
		go func() { time.Sleep(time.Second); open() }()
		again, ok := g.alone(3 * time.Second)
		if !ok {
			t.Fatal("alone: false after the other one was done")
		}
		again()
	})
}

// A claim waits for a moment without calls, and lets all in meanwhile but who waits for events.
func TestGateCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		g.enter()
		time.AfterFunc(1500*time.Millisecond, g.leave)
		events := make(chan time.Duration)
		start := time.Now()
		time.AfterFunc(time.Millisecond, func() {
			g.enterLater()
			g.leaveLater()
			events <- time.Since(start)
		})
		time.AfterFunc(time.Second, func() {
			g.enter()
			if at := time.Since(start); at != time.Second {
				t.Errorf("a call had to wait until %v", at)
			}
			time.Sleep(time.Second)
			g.leave()
		})
		open, ok := g.calm(3 * time.Second)
		if at := time.Since(start); !ok || at != 2*time.Second {
			t.Fatalf("calm: %t after %v, want true after 2s", ok, at)
		}
		time.Sleep(time.Second)
		open()
		if at := <-events; at != 3*time.Second {
			t.Errorf("the wait for events began after %v, want 3s", at)
		}
	})
}

func TestGateNeverCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		g.enter()
		if _, ok := g.calm(time.Second); ok {
			t.Fatal("calm: true with a hung call inside")
		}
		if !g.enterLater() || !g.enter() {
			t.Error("nobody gets in after the claim")
		}
		g.leaveLater()
		for range 2 {
			g.leave()
		}
		if _, ok := g.calm(0); !ok {
			t.Error("calm: false with nobody inside")
		}
	})
}

func TestGateClosed(t *testing.T) {
	var g gate
	g.close()
	if g.enter() || !g.isClosed() {
		t.Error("a closed gate lets somebody in")
	}
	if _, ok := g.alone(0); !ok {
		t.Error("alone: false on a closed gate")
	}
}

// The end of the program waits for calls, and not for waits for events.
func TestGateClosedDuringAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		g.enterLater()
		g.enter()
		if _, ok := g.alone(time.Second); ok {
			t.Error("alone: true with a call and a wait for events inside")
		}
		g.close()
		start := time.Now()
		time.AfterFunc(time.Second, g.leave)
		if _, ok := g.alone(3 * time.Second); !ok || !g.awaited() || time.Since(start) != time.Second {
			t.Errorf("alone: %t after %v, want true after 1s", ok, time.Since(start))
		}
		if g.leaveLater(); g.awaited() {
			t.Error("a wait that is over is still inside")
		}
	})
}
