// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"context"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
)

const (
	// maxEnds bounds the processes of which it is asked at once how they have ended.
	maxEnds = 256
	// firstAsked is how long after the end of a process its container is asked for first:
	// the detector has noted its life by then. askedAgain is how long until the next time,
	// and askedUntil when it is given up.
	firstAsked = 3 * time.Second
	askedAgain = 10 * time.Second
	askedUntil = time.Minute
)

// endedLife is the life of a process that is not on its GPU any more.
type endedLife struct {
	id        lives.ID
	container string
	at        time.Duration // when it was seen last, on the source's clock
	since     time.Time     // when it was missed
}

// ends learns how the containers of processes have ended that are gone from their GPUs,
// and tells the book of lives. The processes of a host without Kubernetes end unknown.
type ends struct {
	book   *lives.Book
	owners Owners
	queue  chan endedLife
}

// newEnds returns nil where nobody remembers lives, or knows containers.
func newEnds(book *lives.Book, owners Owners) *ends {
	if book == nil || owners == nil {
		return nil
	}
	return &ends{book: book, owners: owners, queue: make(chan endedLife, maxEnds)}
}

// add notes that a process is gone, which was seen last at that time on a GPU of that
// model. It never blocks: what is too much stays unknown.
func (e *ends) add(owner *gpu.Owner, model string, at time.Duration) {
	if e == nil || owner.ContainerID == "" || owner.Lives.Exact == 0 {
		return
	}
	select {
	case e.queue <- endedLife{owner.Lives.On(model), owner.ContainerID, at, time.Now()}:
	default:
	}
}

// run asks until ctx ends.
func (e *ends) run(ctx context.Context) {
	var waiting []endedLife
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

// ask asks for each container once, and returns the lives of which more may be known later.
func (e *ends) ask(ctx context.Context, waiting []endedLife) []endedLife {
	type answer struct {
		end   lives.End
		known bool
	}
	answers := map[string]answer{}
	return slices.DeleteFunc(waiting, func(l endedLife) bool {
		switch age := time.Since(l.since); {
		case age < firstAsked:
			return false
		case age >= askedUntil+askedAgain:
			return true // the runtime is slow
		}
		a, asked := answers[l.container]
		if !asked {
			a.end, a.known = e.owners.Ended(ctx, l.container)
			answers[l.container] = a
		}
		told := a.known && (a.end == lives.EndUnknown || e.book.Ended(l.id, l.at, a.end))
		return told || time.Since(l.since) >= askedUntil
	})
}
