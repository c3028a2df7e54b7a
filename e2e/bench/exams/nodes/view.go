// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"math"
	"time"
)

// view is how well the monitor of a node sees it: what a real one misses, and how
// slowly the driver gives memory back.
type view struct {
	// noSM marks a node whose driver tells no utilisation of processes (no
	// accounting, MIG, old driver).
	noSM bool
	// missing is how likely a process is not in a list for a frame or two, skew
	// how likely the list and the used memory are read so far apart that a change
	// falls between them.
	missing, skew float64
	// blind is how often per hour the list cannot be read, for about blindFor
	// seconds.
	blind, blindFor float64
	blindUntil      time.Duration
	// slowFree is how many seconds the driver takes at most to free the memory of
	// an ended process, 0 for at once.
	slowFree float64
	// ghosts says that it lists the process so long.
	ghosts bool
}

func (n *node) newView() view {
	v := view{noSM: n.Chance(0.12)}
	if n.Chance(0.5) {
		v.missing = n.About(2e-5, 2e-3)
	}
	if n.Chance(0.6) {
		v.skew = n.About(1e-3, 5e-2)
	}
	if n.Chance(0.35) {
		v.blind, v.blindFor = n.About(0.05, 2), n.About(3, 150)
	}
	if n.Chance(0.4) {
		v.slowFree = n.Between(1.5, 20)
		v.ghosts = n.Chance(0.4)
	}
	return v
}

// show fills a frame with what the monitor sees.
func (n *node) show(f *Frame) {
	v := &n.view
	f.T, f.Used, f.Listed = n.now, n.used, true
	f.Processes = f.Processes[:0]
	if v.blind > 0 && n.Chance(v.blind*n.dt/3600) {
		v.blindUntil = n.now + span(n.About(v.blindFor/4, v.blindFor*3))
	}
	f.Listed = n.now >= v.blindUntil
	skewed := v.skew > 0 && n.Chance(v.skew)
	for _, p := range n.processes {
		if p.hide > 0 {
			p.hide--
			continue
		}
		if v.missing > 0 && n.Chance(v.missing) {
			p.hide = n.IntN(2)
			continue
		}
		if !f.Listed || p.Used == 0 {
			continue
		}
		f.Processes = append(f.Processes, p.Process)
		seen := &f.Processes[len(f.Processes)-1]
		seen.CPU = ticks(p.cpu)
		if v.noSM {
			seen.SM = -1
		}
		// What is read a moment apart: the list shows what was before the process
		// grew, or the used memory what was before it shrank.
		if skewed && !p.frozen && p.previous > 0 {
			if p.previous < p.Used {
				seen.Used = p.previous
			} else if f.Used+p.previous-p.Used <= n.labels.Capacity {
				f.Used += p.previous - p.Used
			}
		}
	}
	n.showGhosts(f)
}

// showGhosts adds those that are listed though they have ended.
func (n *node) showGhosts(f *Frame) {
	left := n.ghosts[:0]
	for _, g := range n.ghosts {
		if n.now >= g.until {
			continue
		}
		left = append(left, g)
		if !f.Listed {
			continue
		}
		g.SM, g.State, g.CPU = 0, Gone, ticks(g.cpu)
		if n.view.noSM {
			g.SM = -1
		}
		f.Processes = append(f.Processes, g.Process)
	}
	n.ghosts = left
}

// ticks rounds processor time as the kernel counts it.
func ticks(seconds float64) float64 { return math.Floor(seconds*100) / 100 }
