// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package lives

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// begun is how long a life must have lasted for the growth that something else ended to count as
// more than the start of a program. Growth that begins with a program is called a leak after as long.
const begun = time.Hour

// Version is what is known of a version of a program, whatever its arguments, its job and the models
// of its GPUs were.
type Version struct {
	Program, Image string
	Lives          int
	// Started is when the last of the lives began, and Ended when the last one ended.
	Started, Ended Seconds
	// Rate is that of the fastest growth that had no end of its own, in bytes per second; 0 where
	// there was none.
	Rate Bytes
	// Peak is the most that one life held.
	Peak Bytes
}

// Versions returns the versions of the programs whose lives are remembered and whose names are known,
// those that ended last first. A life that ended a month before the last one of its version counts
// no more. A full book takes less than a millisecond, so that nothing need be kept of it.
func (b *Book) Versions() []Version {
	b.mu.Lock()
	defer b.mu.Unlock()
	type name struct{ program, image string }
	of := map[name]*Version{}
	each := func(do func(v *Version, p *program)) {
		for _, p := range b.programs {
			n := name{p.id.Program, p.id.Image}
			if n.program == "" {
				continue
			}
			if of[n] == nil {
				of[n] = &Version{Program: n.program, Image: n.image}
			}
			do(of[n], p)
		}
	}
	each(func(v *Version, p *program) { v.Ended = max(v.Ended, p.last()) })
	each(func(v *Version, p *program) {
		for i := range p.lives {
			v.add(&p.lives[i])
		}
	})
	list := make([]Version, 0, len(of))
	for _, v := range of {
		list = append(list, *v)
	}
	slices.SortFunc(list, func(a, b Version) int {
		return cmp.Or(-cmp.Compare(a.Ended, b.Ended), strings.Compare(a.Program, b.Program), strings.Compare(a.Image, b.Image))
	})
	return list
}

// add adds a life to its version, of which it is known when the last life ended.
func (v *Version) add(l *Life) {
	if v.Ended.Duration()-l.Ended.Duration() > remembered {
		return
	}
	v.Lives++
	v.Started = max(v.Started, l.began())
	v.Peak = max(v.Peak, l.Peak)
	if l.Retained() {
		v.Rate = max(v.Rate, l.Rate)
	}
}

// Retained reports whether the growth at the end of the life had no end of its own: it leaked, or
// something else ended it while it grew to a new height, long after its start.
func (l *Life) Retained() bool {
	return l.Leaked || l.Growing && l.End == EndStopped && l.Lasted.Duration() >= begun
}
