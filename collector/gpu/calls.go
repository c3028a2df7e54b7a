// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// Calls are the statistics of the calls into a driver. The zero Calls is ready for use. Its methods may be called from any
// goroutine and do not wait for a call that is under way: a hung call shows in Snapshot while it hangs.
type Calls struct {
	mu       sync.Mutex // never held during a call
	calls    map[string]CallStat
	errors   map[CallErrors]uint64 // their Count is 0
	inFlight map[*InFlight]bool
}

// InFlight is a call that has not returned yet.
type InFlight struct {
	UUID, Call string // UUID is empty for calls that concern no GPU
	Since      time.Time
}

// CallStat counts the returned calls of one function.
type CallStat struct {
	Call    string
	Count   uint64
	Seconds float64
}

// CallErrors counts the failed calls of one function on one GPU, by error.
type CallErrors struct {
	UUID, Call, Error string
	Count             uint64
}

// CallsSnapshot is the state of Calls at one moment, each list ordered by its names.
type CallsSnapshot struct {
	Calls    []CallStat
	Errors   []CallErrors
	InFlight []InFlight
}

// Begin notes that call was entered for the GPU of that uuid ("" for none) and returns the function that notes its end. err is
// the driver's name of the error, "" if there was none.
func (c *Calls) Begin(uuid, call string) (end func(err string)) {
	f := &InFlight{UUID: uuid, Call: call, Since: time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inFlight == nil {
		c.calls, c.inFlight = map[string]CallStat{}, map[*InFlight]bool{}
	}
	c.inFlight[f] = true
	return func(err string) {
		if err != "" {
			c.Refused(uuid, call, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.inFlight, f)
		before := c.calls[call]
		c.calls[call] = CallStat{call, before.Count + 1, before.Seconds + time.Since(f.Since).Seconds()}
	}
}

// Refused counts an answer of call that cannot be used, as an error of that name.
func (c *Calls) Refused(uuid, call, err string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.errors == nil {
		c.errors = map[CallErrors]uint64{}
	}
	c.errors[CallErrors{UUID: uuid, Call: call, Error: err}]++
}

// Snapshot returns the state now.
func (c *Calls) Snapshot() CallsSnapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := CallsSnapshot{Calls: slices.Collect(maps.Values(c.calls))}
	for e, n := range c.errors {
		e.Count = n
		s.Errors = append(s.Errors, e)
	}
	for f := range c.inFlight {
		s.InFlight = append(s.InFlight, *f)
	}
	slices.SortFunc(s.Calls, func(a, b CallStat) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortFunc(s.Errors, func(a, b CallErrors) int {
		return cmp.Or(cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.Call, b.Call), cmp.Compare(a.Error, b.Error))
	})
	slices.SortFunc(s.InFlight, func(a, b InFlight) int {
		return cmp.Or(cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.Call, b.Call), a.Since.Compare(b.Since))
	})
	return s
}
