// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"sync"
	"time"
)

// gate counts the threads inside the library and lets one caller have it alone: the
// library must not be initialised or shut down under a call of another thread.
//
// Its invariant: only one caller at a time sets door to something else than open, and only that one opens it again. It has
// the library alone once door is shut and the gate is empty: from then on nobody enters. After close nothing enters at all,
// and waits for events that are still inside count no more, because nothing can end them.
type gate struct {
	mu           sync.Mutex
	changed      sync.Cond // broadcasts each change of the fields below
	calls, waits int       // inside: calls, and waits for events
	door         door
	closed       bool
}

// door says what may enter.
type door uint8

const (
	open    door = iota // calls and waits for events
	claimed             // calls only: waits for events would be inside nearly all the time
	shut
)

func newGate() *gate {
	g := &gate{}
	g.changed.L = &g.mu
	return g
}

// enter counts a call, or a wait for events, as inside until leave. It waits while the
// door keeps it out, and returns false after close.
func (g *gate) enter(wait bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for !g.closed && (g.door == shut || wait && g.door == claimed) {
		g.changed.Wait()
	}
	if !g.closed {
		*g.count(wait)++
	}
	return !g.closed
}

func (g *gate) leave(wait bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	*g.count(wait)--
	g.changed.Broadcast()
}

func (g *gate) count(wait bool) *int {
	if wait {
		return &g.waits
	}
	return &g.calls
}

func (g *gate) empty() bool { return g.calls == 0 && (g.waits == 0 || g.closed) }

// alone waits until the gate is empty, at most for the grace. Meanwhile the door is claimed or shut. If ok,
// the caller has the library alone until it calls reopen; if not, nothing has changed.
func (g *gate) alone(meanwhile door, grace time.Duration) (reopen func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	late := false
	timer := time.AfterFunc(grace, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		late = true
		g.changed.Broadcast()
	})
	defer timer.Stop()
	for g.door != open && !late {
		g.changed.Wait()
	}
	if g.door != open {
		return nil, false
	}
	g.door = meanwhile
	for !g.empty() && !late {
		g.changed.Wait()
	}
	if !g.empty() {
		g.door = open
		g.changed.Broadcast()
		return nil, false
	}
	g.door = shut
	return g.reopen, true
}

func (g *gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.door = open
	g.changed.Broadcast()
}

// close lets nothing in any more. What is inside stays there.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.changed.Broadcast()
}

// awaited reports whether a wait for events is inside.
func (g *gate) awaited() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waits > 0
}

func (g *gate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}
