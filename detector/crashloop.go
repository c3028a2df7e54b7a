// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/process"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
)

// addLife adds the life of a member of g that has ended to the crash loop. Growth until the memory was full is a death. Other
// lives reset the loop: also one that stood in a full memory for long, as a program does that takes all there is. Helpers do not
// count, nor do lives in a memory that others have filled. Several ends in one frame, as when a pod is killed, have no
// order: deaths among them are one death.
//
// The processes of a program need not belong together: those that began before the last life ended do not count.
func (d *Domain[K]) addLife(key K, g *group[K], m *member) {
	r, f := &g.Loop, &d.past.Fullness
	apart := r.Follows(m.First)
	least := helperShare * float64(r.Held())
	if apart {
		least = min(least, process.LoadedShare*float64(r.Base)) // it may have been the next life
	}
	if m.Held.V <= max(least, helperShare*float64(m.Company)) || m.Group.Program && !apart || !m.Config().With(series.CrashLoops) {
		return
	}
	life, grew := m.Lived()
	late := m.Last - (m.Last-m.First)/5 // a life that grows to its end reaches its top later
	same := r.Noted == d.past.Last
	r.Noted = d.past.Last
	switch {
	case grew && (m.Full || f.Filled(life.Onset, m.Last)):
		if !same {
			r.Add(&life, m.Config().MinSpan)
			g.Culprit, g.Accused, g.Runs = key, true, m.Runs
		}
	case m.Full && f.Filled(late, m.Last): // it died, but its growth was not seen
	default:
		r.Reset()
	}
}

// inherit moves to a pod, whose process has just begun, the loop of the last pod that ran the same and has no process: each retry
// of a Kubernetes Job has a pod of another name.
func (d *Domain[K]) inherit(g *group[K]) {
	heir := g.frame.heir
	if heir == nil || heir.Runs == 0 {
		return
	}
	var from *group[K]
	var last time.Duration
	for name, old := range d.groups {
		ended := old.Loop.Ended()
		if !name.Program && old.frame.members == 0 && ended > last && old.Runs == heir.Runs && old.Loop.Follows(heir.First) {
			from, last = old, ended
		}
	}
	if from == nil {
		return
	}
	g.Loop, g.Culprit, g.Accused, g.Runs = from.Loop, from.Culprit, from.Accused, from.Runs
	from.Loop, from.Accused = process.Loop{}, false
}
