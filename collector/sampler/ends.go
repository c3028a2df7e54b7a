// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

const (
	// maxEnds bounds the processes that wait for an answer.
	maxEnds = 256
	// askInterval is the time from one question to the next, and askedUntil how long after an end somebody is asked.
	askInterval = 3 * time.Second
	askedUntil  = time.Minute
	// sigterm is the exit code of a container that SIGTERM has stopped: 128 and the number of the signal.
	sigterm = 143
)

// departed is a process that is not on its GPU any more.
type departed struct {
	finding.End
	runs      detector.Program
	container string
	noticed   time.Time
	code      atomic.Pointer[gpu.Opt[int32]] // of its container; nil while another answer may come
}

// exitCode returns the exit code of its container. final says that no other answer will come.
func (d *departed) exitCode() (code gpu.Opt[int32], final bool) {
	if known := d.code.Load(); known != nil {
		return *known, true
	}
	return code, false
}

// held is the incident of processes that have ended, until it is known how. Its first processes are the first of these.
type held struct {
	*incident.Incident
	deaths []*departed
	store  *incident.Store
}

// settle keeps the incident, unless all ended well, once that is known, or now.
func (h *held) settle(now bool) bool {
	crashed := false
	for n, d := range h.deaths {
		code, final := d.exitCode()
		if !final && !now {
			return false
		}
		crashed = crashed || !endedWell(code)
		if n < len(h.Processes) {
			h.Processes[n].ExitCode = code
		}
	}
	if crashed {
		h.store.Add(h.Incident)
	}
	return true
}

// endedWell reports whether a program that ended so had no error.
func endedWell(code gpu.Opt[int32]) bool { return code.OK && (code.V == 0 || code.V == sigterm) }

// ends asks how the containers of ended processes have ended, and tells heights of those that ended well. Outside of Kubernetes nobody
// knows.
type ends struct {
	heights *detector.Heights
	owners  Owners
	mu      sync.Mutex // never held while somebody is asked
	waiting []*departed
	held    []held
}

// add has somebody be asked for a process, if that is possible. It never blocks: beyond maxEnds, ends stay unknown.
func (e *ends) add(d *departed) {
	if e != nil && d.container != "" {
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(e.waiting) < maxEnds {
			e.waiting = append(e.waiting, d)
			return
		}
	}
	d.code.Store(&gpu.Opt[int32]{})
}

// hold keeps an incident until it is known how its processes ended. One too many does not wait.
func (e *ends) hold(h held) {
	if h.settle(false) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.held) == incident.Most {
		h.settle(true)
		return
	}
	e.held = append(e.held, h)
}

// ask asks for the containers, and forgets the processes that will not have another answer.
func (e *ends) ask(ctx context.Context) {
	e.mu.Lock()
	waiting := slices.Clone(e.waiting)
	e.mu.Unlock()
	asked, codes := len(waiting), map[string]*gpu.Opt[int32]{}
	waiting = slices.DeleteFunc(waiting, func(d *departed) bool {
		if ctx.Err() != nil || time.Since(d.noticed) >= askedUntil {
			d.code.CompareAndSwap(nil, &gpu.Opt[int32]{}) // the exporter ends, or the runtime is slow
			return true
		}
		code, again := codes[d.container]
		if !again {
			if is, known := e.owners.Ended(ctx, d.container); known {
				code = &is
			}
			codes[d.container] = code
		}
		if code == nil {
			return false
		}
		d.code.CompareAndSwap(nil, code) // a container that is removed has none
		return !endedWell(*code) || d.runs == 0 || e.heights.Ended(d.runs, d.At)
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting = append(waiting, e.waiting[min(asked, len(e.waiting)):]...)
	e.held = slices.DeleteFunc(e.held, func(h held) bool { return h.settle(ctx.Err() != nil) })
}
