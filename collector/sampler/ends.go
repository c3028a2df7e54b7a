// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"context"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector"
)

const (
	// maxEnds bounds the processes of which it is asked at once how they have ended.
	maxEnds = 256
	// firstAsked is how long after the end of a process the runtime is asked for its container first. askedAgain is how long
	// until the next time, and askedUntil when it is given up.
	firstAsked = 3 * time.Second
	askedAgain = 10 * time.Second
	askedUntil = time.Minute
)

// departed is a process that is not on its GPU any more.
type departed struct {
	runs      detector.Program
	container string
	at        time.Duration // when it was seen last, on the source's clock
	since     time.Time     // when it was missed
}

// ends learns which containers of processes that are gone from their GPUs have ended well, and tells what
// remembers the programs. Of the processes of a host without Kubernetes nobody knows.
type ends struct {
	heights *detector.Heights
	owners  Owners
	queue   chan departed
}

func newEnds(heights *detector.Heights, owners Owners) *ends {
	return &ends{heights: heights, owners: owners, queue: make(chan departed, maxEnds)}
}

// add notes that a process of that program is gone, which was seen last at that time. It never
// blocks: what is too much stays unknown.
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

// ask asks for each container once, and returns the processes of which more may be known later.
func (e *ends) ask(ctx context.Context, waiting []departed) []departed {
	type answer struct{ well, known bool }
	answers := map[string]answer{}
	return slices.DeleteFunc(waiting, func(l departed) bool {
		switch age := time.Since(l.since); {
		case age < firstAsked:
			return false
		case age >= askedUntil+askedAgain:
			return true // the runtime is slow
		}
		a, asked := answers[l.container]
		if !asked {
			a.well, a.known = e.owners.Ended(ctx, l.container)
			answers[l.container] = a
		}
		told := a.known && (!a.well || e.heights.Ended(l.runs, l.at))
		return told || time.Since(l.since) >= askedUntil
	})
}
