// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Calls are the statistics of the calls into a driver. The zero Calls is ready for use. Its methods may be called from any
// goroutine and do not wait for a call that is under way: a hung call shows in Snapshot while it hangs.
type Calls struct {
	calls    sync.Map // name → *callStat
	errors   sync.Map // callError → *atomic.Uint64
	inFlight sync.Map // *InFlight → struct{}
}

type callStat struct{ count, nanoseconds atomic.Uint64 }

type callError struct{ uuid, call, err string }

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
	c.inFlight.Store(f, struct{}{})
	return func(err string) {
		c.inFlight.Delete(f)
		s, _ := c.calls.LoadOrStore(call, new(callStat))
		stat := s.(*callStat)
		stat.nanoseconds.Add(uint64(time.Since(f.Since)))
		stat.count.Add(1)
		if err != "" {
			c.Refused(uuid, call, err)
		}
	}
}

// Refused counts an answer of call that cannot be used, as an error of that name.
func (c *Calls) Refused(uuid, call, err string) {
	n, _ := c.errors.LoadOrStore(callError{uuid, call, err}, new(atomic.Uint64))
	n.(*atomic.Uint64).Add(1)
}

// Snapshot returns the state now.
func (c *Calls) Snapshot() CallsSnapshot {
	var s CallsSnapshot
	c.calls.Range(func(k, v any) bool {
		stat := v.(*callStat)
		s.Calls = append(s.Calls, CallStat{k.(string), stat.count.Load(), time.Duration(stat.nanoseconds.Load()).Seconds()})
		return true
	})
	c.errors.Range(func(k, v any) bool {
		e := k.(callError)
		s.Errors = append(s.Errors, CallErrors{e.uuid, e.call, e.err, v.(*atomic.Uint64).Load()})
		return true
	})
	c.inFlight.Range(func(k, _ any) bool {
		s.InFlight = append(s.InFlight, *k.(*InFlight))
		return true
	})
	slices.SortFunc(s.Calls, func(a, b CallStat) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortFunc(s.Errors, func(a, b CallErrors) int {
		return cmp.Or(cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.Call, b.Call), cmp.Compare(a.Error, b.Error))
	})
	slices.SortFunc(s.InFlight, func(a, b InFlight) int {
		return cmp.Or(cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.Call, b.Call), a.Since.Compare(b.Since))
	})
	return s
}
