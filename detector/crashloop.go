// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/process"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
)

// chain takes the life of a member of g into the chain of a crash loop. That of a helper counts for nothing,
// nor does that in a memory that others have filled. Who grew until the memory was full has died of it; who
// did not breaks the chain, and so does who stood in a full memory for long: that is how a program works
// that takes all there is. Two ends in a frame, as when a pod is killed, come in no order that could be
// told: those that filled the memory are one death, others break the chain.
//
// The processes of a program that are in no pod or job need not belong together: of those, what was
// there before the last life ended counts for nothing.
func (d *Domain[K]) chain(key K, g *group[K], m *member) {
	r, f := &g.Loop, &d.past.Fullness
	apart := r.Follows(m.First)
	least := helperShare * float64(r.Held())
	if apart {
		least = min(least, process.LoadedShare*float64(r.Base)) // the next life may have been it, and still
	}
	if m.Held.V <= max(least, helperShare*float64(m.Company)) || m.group.Program && !apart {
		return
	}
	if !m.Config().With(series.CrashLoops) {
		return
	}
	life, grew := m.Lived()
	late := m.Last - (m.Last-m.First)/5 // as late as a life that grows to its end reaches its top
	same := r.Noted == d.past.Last
	r.Noted = d.past.Last
	switch {
	case grew && (m.Full || f.Filled(life.Onset, m.Last)):
		if !same { // two at once are the same death
			r.Add(&life, m.Config().MinSpan)
			g.culprit, g.accused, g.Runs = key, true, m.Runs
		}
	case m.Full && f.Filled(late, m.Last): // of what nobody saw grow
	default:
		r.Clear()
	}
}

// inherit gives a pod whose process has just begun the chain of the pod that ran the same last and is gone:
// who retries a Kubernetes Job makes a pod of another name.
func (d *Domain[K]) inherit(g *group[K]) {
	heir := g.frame.heir
	if heir == nil || heir.Runs == 0 {
		return
	}
	var from *group[K]
	var last time.Duration
	for name, old := range d.groups {
		ended := old.Loop.Ended()
		if !name.Program && !old.lives() && ended > last && old.Runs == heir.Runs && old.Loop.Follows(heir.First) {
			from, last = old, ended
		}
	}
	if from == nil {
		return
	}
	g.Loop, g.culprit, g.accused, g.Runs = from.Loop, from.culprit, from.accused, from.Runs
	from.Loop, from.accused = process.Loop{}, false
}
