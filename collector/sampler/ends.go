// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

const (
	// maxEnds bounds the processes that wait for an answer.
	maxEnds = 256
	// firstAsked is the age of an end at the first question, at least. askInterval is the time from one to the next, and askedUntil the age
	// of the last.
	firstAsked  = 3 * time.Second
	askInterval = 10 * time.Second
	askedUntil  = time.Minute
	// sigterm is the exit code of a container that SIGTERM has stopped: 128 and the number of the signal.
	sigterm = 143
)

// departed is a process that is not on its GPU any more.
type departed struct {
	runs      detector.Program
	container string
	at        time.Duration // of its last sample, on the source's clock
	since     time.Time     // when its end was noticed
}

// ends asks how the containers of ended processes have ended, and tells heights of those that ended well. Outside of Kubernetes
// nobody knows.
type ends struct {
	heights   *detector.Heights
	owners    Owners
	incidents *incident.Store // get the exit codes
	mu        sync.Mutex      // never held while somebody is asked
	waiting   []departed
}

// add notes the end of a process of that program. at is the time of its last sample. It never blocks: beyond maxEnds, ends stay
// unknown.
func (e *ends) add(runs detector.Program, container string, at time.Duration) {
	if e == nil || container == "" || runs == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) < maxEnds {
		e.waiting = append(e.waiting, departed{runs, container, at, time.Now()})
	}
}

// ask asks for the containers, and forgets the processes that will not have another answer.
func (e *ends) ask(ctx context.Context) {
	e.mu.Lock()
	waiting := slices.Clone(e.waiting)
	e.mu.Unlock()
	asked := len(waiting)
	waiting = slices.DeleteFunc(waiting, func(l departed) bool {
		switch age := time.Since(l.since); {
		case age < firstAsked:
			return false
		case age >= askedUntil+askInterval:
			return true // the runtime is slow
		}
		code, known := e.owners.Ended(ctx, l.container)
		if code.OK {
			e.incidents.Exited(l.container, code.V)
		}
		well := code.OK && (code.V == 0 || code.V == sigterm)
		told := known && (!well || e.heights.Ended(l.runs, l.at))
		return told || time.Since(l.since) >= askedUntil
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting = append(waiting, e.waiting[asked:]...)
}
