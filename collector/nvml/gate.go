// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"sync"
	"time"
)

// gate counts the threads inside the library and lets somebody have it alone:
// the library must not be initialised or shut down under a call of another
// thread. The zero gate is open. Its methods may be called from any goroutine.
type gate struct {
	mu      sync.Mutex
	inside  int
	waiting int // of those inside, by enterLater
	closed  bool
	// reopened is not nil while somebody has the library alone or waits for that;
	// it is closed when they are done.
	reopened chan struct{}
	// empty is closed when the library becomes vacant while somebody waits for that.
	empty chan struct{}
	// claim is not nil while somebody waits for a moment when nobody is inside.
	claim *claim
}

// claim is a wait for a moment when nobody is inside.
type claim struct {
	seized chan struct{} // closed at that moment: who waits has the library alone
	over   chan struct{} // closed when the wait is
}

// enter waits while somebody has the library alone and then counts the caller as
// inside until leave. It reports false, and does not, once the gate was closed
// for good.
func (g *gate) enter() bool { return g.pass(false) }

func (g *gate) pass(later bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for wait := g.barred(later); wait != nil; wait = g.barred(later) {
		g.mu.Unlock()
		<-wait
		g.mu.Lock()
	}
	if g.closed {
		return false
	}
	g.inside++
	if later {
		g.waiting++
	}
	return true
}

// barred returns what is closed when one may try again; nil if nothing keeps one out. mu is held.
func (g *gate) barred(later bool) <-chan struct{} {
	if later && g.claim != nil {
		return g.claim.over
	}
	return g.reopened
}

// enterLater is enter for who can wait while there is a claim: a wait for events, which
// would stay inside nearly all the time. leaveLater ends it.
func (g *gate) enterLater() bool { return g.pass(true) }

func (g *gate) leaveLater() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting--
	g.exit()
}

// vacant reports whether nobody is inside; once the gate is closed, nobody but waits for events. mu is held.
func (g *gate) vacant() bool { return g.inside == 0 || (g.closed && g.inside == g.waiting) }

// leave ends what enter began.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.exit()
}

// exit counts one less inside, and tells who waits for that. mu is held.
func (g *gate) exit() {
	g.inside--
	if g.vacant() && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
	if g.inside == 0 && g.claim != nil && g.reopened == nil {
		g.reopened = make(chan struct{})
		close(g.claim.seized)
		g.endClaim()
	}
}

func (g *gate) endClaim() {
	close(g.claim.over)
	g.claim = nil
}

// calm waits for a moment when nobody is inside, and keeps nobody out meanwhile but those of
// enterLater. It reports whether there was one within the grace: the caller has the library
// alone then until it calls open. One goroutine at a time may call it.
func (g *gate) calm(grace time.Duration) (open func(), ok bool) {
	g.mu.Lock()
	if g.inside == 0 && g.reopened == nil {
		g.reopened = make(chan struct{})
		g.mu.Unlock()
		return g.reopen, true
	}
	c := &claim{make(chan struct{}), make(chan struct{})}
	g.claim = c
	g.mu.Unlock()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.seized:
		return g.reopen, true
	case <-timer.C:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.claim != c { // it was seized this very moment
		return g.reopen, true
	}
	g.endClaim()
	return nil, false
}

// alone keeps newcomers out, waits until nobody is inside, and reports whether
// that was so within the grace. If it was, the caller has the library alone until
// it calls open; if it was not, a call hangs, and nothing has changed. Once the gate
// is closed it does not wait for waits for events.
func (g *gate) alone(grace time.Duration) (open func(), ok bool) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	g.mu.Lock()
	for g.reopened != nil {
		wait := g.reopened
		g.mu.Unlock()
		select {
		case <-wait:
		case <-timer.C:
			return nil, false
		}
		g.mu.Lock()
	}
	g.reopened = make(chan struct{})
	if g.vacant() {
		g.mu.Unlock()
		return g.reopen, true
	}
	empty := make(chan struct{})
	g.empty = empty
	g.mu.Unlock()
	select {
	case <-empty:
		return g.reopen, true
	case <-timer.C:
		g.reopen()
		return nil, false
	}
}

func (g *gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.reopened)
	g.reopened, g.empty = nil, nil
}

// close lets nobody in any more. Those inside stay there.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// awaited reports whether a wait for events is inside.
func (g *gate) awaited() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting > 0
}

// isClosed reports whether close was called.
func (g *gate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}
