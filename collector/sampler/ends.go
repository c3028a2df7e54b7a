// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"context"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

const (
	// maxEnds bounds the processes that wait for an answer.
	maxEnds = 256
	// firstAsked is how long after the end of a process the first question comes. askedAgain is the pause before the next one,
	// and askedUntil the age of the last.
	firstAsked = 3 * time.Second
	askedAgain = 10 * time.Second
	askedUntil = time.Minute
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
	queue     chan departed
}

func newEnds(heights *detector.Heights, owners Owners, incidents *incident.Store) *ends {
	return &ends{heights: heights, owners: owners, incidents: incidents, queue: make(chan departed, maxEnds)}
}

// add notes the end of a process of that program. at is the time of its last sample. It never blocks: beyond maxEnds, ends stay
// unknown.
func (e *ends) add(runs detector.Program, container string, at time.Duration) {
	if e == nil || container == "" || runs == 0 {
		return
	}
	select {
	case e.queue <- departed{runs, container, at, time.Now()}:
	default:
	}
}

// run asks until ctx ends.
func (e *ends) run(ctx context.Context) {
	var waiting []departed
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case l := <-e.queue:
			if len(waiting) == maxEnds {
				continue
			}
			if len(waiting) == 0 {
				timer.Reset(firstAsked)
			}
			waiting = append(waiting, l)
		case <-timer.C:
			if waiting = e.ask(ctx, waiting); len(waiting) > 0 {
				timer.Reset(askedAgain)
			}
		}
	}
}

// ask asks for the containers. It returns the processes that may have an answer later.
func (e *ends) ask(ctx context.Context, waiting []departed) []departed {
	return slices.DeleteFunc(waiting, func(l departed) bool {
		switch age := time.Since(l.since); {
		case age < firstAsked:
			return false
		case age >= askedUntil+askedAgain:
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
}
