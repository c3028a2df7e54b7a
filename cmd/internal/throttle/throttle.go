// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package throttle keeps clients that guess passwords from holding up those that know one.
//
// exporter-toolkit checks passwords by bcrypt, one after the other: each takes a tenth of a second, and the next client waits.
// It forgets passwords that were right when many were wrong. So a password that was right before goes ahead here, the
// others are checked one at a time, and an address that sent a wrong one has to wait before the next.
//
// Nothing is decided here about who may see what: a request that goes ahead is checked by exporter-toolkit like any other.
package throttle

import (
	"container/list"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

const (
	// leastWait and mostWait are how long an address has to wait after a wrong password. It is doubled from
	// the one to the other. A person who mistypes does not notice the first ones.
	leastWait, mostWait = time.Second, time.Minute
	// turnPatience is how long a request waits for its password to be checked: a Prometheus waits for ten seconds.
	turnPatience = 5 * time.Second
	// maxAddresses bounds how many addresses are remembered, and maxKnown how many passwords.
	maxAddresses = 1024
	maxKnown     = 64
)

// Throttle orders the requests of a server that carry a password. Its methods may be called from any goroutine.
type Throttle struct {
	refused func()
	secret  [sha256.Size]byte // what is kept of a password cannot be compared with anything outside
	turn    chan struct{}     // whoever has a password checked that is not known is in it

	mu     sync.Mutex
	known  keyed[[sha256.Size]byte, struct{}]
	failed keyed[netip.Prefix, failure]
}

// failure is what an address has to wait for.
type failure struct {
	wait  time.Duration // the last one
	until time.Time
}

// New returns a Throttle. It calls refused for each request that it refuses.
func New(refused func()) *Throttle {
	t := &Throttle{
		refused: refused, turn: make(chan struct{}, 1),
		known: newKeyed[[sha256.Size]byte, struct{}](maxKnown), failed: newKeyed[netip.Prefix, failure](maxAddresses),
	}
	_, _ = rand.Read(t.secret[:]) // it never fails
	return t
}

// Serve puts the Throttle in front of a server's handler, whatever that is once the server begins to serve:
// exporter-toolkit puts the check of passwords in front of it before, once for each listener.
func (t *Throttle) Serve(s *http.Server) {
	s.Handler = passing(s.Handler)
	s.BaseContext = func(net.Listener) context.Context {
		s.Handler = t.outer(s.Handler)
		return context.Background()
	}
}

type attemptKey struct{}

// attempt is a request with a password.
type attempt struct{ passed func() }

// passing serves what has passed the check.
func passing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a, ok := r.Context().Value(attemptKey{}).(*attempt); ok {
			a.passed()
		}
		next.ServeHTTP(w, r)
	})
}

// outer serves requests before they are checked.
func (t *Throttle) outer(check http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _, ok := r.BasicAuth()
		if r.Context().Value(attemptKey{}) != nil || !ok {
			check.ServeHTTP(w, r)
			return
		}
		password, from := t.digest(r.Header.Get("Authorization")), addressOf(r.RemoteAddr)
		leave := func() {}
		if !t.isKnown(password) {
			if wait := t.enter(r.Context(), from); wait > 0 {
				t.refuse(w, wait)
				return
			}
			leave = sync.OnceFunc(t.leave)
		}
		defer leave()
		a := &attempt{passed: func() {
			t.right(password, from)
			leave()
		}}
		check.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), attemptKey{}, a)))
		// Who is turned away for another reason, such as a limit of requests, is not told to log in.
		if w.Header().Get("WWW-Authenticate") != "" {
			t.wrong(password, from)
		}
	})
}

// enter waits for the turn of a request with a password that is not known. It returns for how long the
// request must not come again, 0 if it has its turn.
func (t *Throttle) enter(ctx context.Context, from netip.Prefix) time.Duration {
	if wait := t.blocked(from); wait > 0 {
		return wait
	}
	timer := time.NewTimer(turnPatience)
	defer timer.Stop()
	select {
	case t.turn <- struct{}{}:
	case <-timer.C:
		return leastWait
	case <-ctx.Done():
		return leastWait
	}
	// Another request of this address may have failed meanwhile.
	wait := t.blocked(from)
	if wait > 0 {
		t.leave()
	}
	return wait
}

// leave ends the turn of a request.
func (t *Throttle) leave() { <-t.turn }

// refuse says how long to wait.
func (t *Throttle) refuse(w http.ResponseWriter, wait time.Duration) {
	t.refused()
	w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, "too many wrong passwords: try again later", http.StatusTooManyRequests)
}

// digest is what is kept of a password.
func (t *Throttle) digest(authorization string) (d [sha256.Size]byte) {
	h := hmac.New(sha256.New, t.secret[:])
	h.Write([]byte(authorization))
	h.Sum(d[:0])
	return d
}

func (t *Throttle) isKnown(password [sha256.Size]byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.known.get(password)
	return ok
}

// blocked returns how long an address still has to wait.
func (t *Throttle) blocked(from netip.Prefix) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, _ := t.failed.get(from)
	return time.Until(f.until)
}

// right remembers a password that is right.
func (t *Throttle) right(password [sha256.Size]byte, from netip.Prefix) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known.set(password, struct{}{})
	t.failed.remove(from)
}

// wrong remembers who sent a password that is wrong. It may have been right until the configuration was changed.
func (t *Throttle) wrong(password [sha256.Size]byte, from netip.Prefix) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known.remove(password)
	wait := leastWait
	if f, ok := t.failed.get(from); ok && time.Since(f.until) < mostWait { // else that was another time
		wait = min(2*f.wait, mostWait)
	}
	t.failed.set(from, failure{wait, time.Now().Add(wait)})
}

// addressOf returns who sends a request: all of a network of IPv6 that is given to one subscriber are one.
func addressOf(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{} // of vsock: one for all
	}
	bits := 32
	if at.Addr().Unmap().Is6() {
		bits = 64
	}
	p, _ := at.Addr().Unmap().WithZone("").Prefix(bits) // there are as many bits
	return p
}

// keyed is a map of at most so many entries. The one that was set longest ago makes room.
type keyed[K comparable, V any] struct {
	most  int
	order *list.List // of K
	all   map[K]entry[V]
}

type entry[V any] struct {
	value V
	at    *list.Element
}

func newKeyed[K comparable, V any](most int) keyed[K, V] {
	return keyed[K, V]{most, list.New(), map[K]entry[V]{}}
}

func (k *keyed[K, V]) get(key K) (v V, ok bool) {
	e, ok := k.all[key]
	return e.value, ok
}

func (k *keyed[K, V]) set(key K, v V) {
	k.remove(key)
	if len(k.all) == k.most {
		k.remove(k.order.Front().Value.(K))
	}
	k.all[key] = entry[V]{v, k.order.PushBack(key)}
}

func (k *keyed[K, V]) remove(key K) {
	if e, ok := k.all[key]; ok {
		k.order.Remove(e.at)
		delete(k.all, key)
	}
}
