// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is a sort of chains of lives.
type Kind struct {
	Name, Expected string
	Count          int // lives
	Takes          func(f *Family) bool

	// change makes of a life (0 is the first) what the kind asks for. x is drawn from 0 to 1, once for a chain.
	change func(l *Life, i int, x float64)
}

// fastLeak is the rate in MiB per minute of steady leaks in chains in which a healthy life comes first: from 50 on they have to be
// told soon, and what a training does besides slows them down.
const fastLeak = 60

// nightly is how long a life lasts that is ended each night.
const nightly = 18 * time.Hour

// kinds are all.
var kinds = []Kind{
	{Name: "healthy", Expected: "silent", Count: 6, Takes: of(Healthy), change: asDrawn},
	{Name: "growing", Expected: "silent from the third life on", Count: 6, Takes: of(Growing), change: asDrawn},
	{Name: "leak in every life", Expected: "found in each", Count: 6, Takes: of(Leak), change: asDrawn},
	{Name: "deploy adds a leak", Expected: "silent, then found in lives 4 to 6", Count: 6, Takes: mended, change: func(l *Life, i int, _ float64) {
		l.deployed(i / 3)
		l.Healthy = i < 3
	}},
	{Name: "deploy of a larger model", Expected: "silent", Count: 6, Takes: resized, change: func(l *Life, i int, x float64) {
		l.deployed(i / 3)
		if i >= 3 {
			l.Model = 1.1 + 0.2*x
		}
	}},
	{Name: "one earlier life leaked", Expected: "silent in lives 3 to 5, found in life 6", Count: 6, Takes: mended, change: func(l *Life, i int, _ float64) {
		l.Healthy = i != 1 && i != 5
	}},
	{Name: "leaky redeploys of equal length", Expected: "found in each", Count: 6, Takes: mended, change: func(l *Life, i int, x float64) {
		l.deployed(i)
		l.Filled, l.Lasts, l.Batch = 0.3+0.6*x, nightly, 1
	}},
	// What leaked is about a third of what is held in the end, so that 6 % more of it are 2 % of the height.
	{Name: "creep of 2 % a life", Expected: "found in each", Count: 6, Takes: mended, change: func(l *Life, i int, x float64) {
		l.Filled, l.Lasts, l.Batch = 0.3+0.6*x, scaled(nightly, math.Pow(1.06, float64(i))), 1
	}},
	{Name: "two healthy lives", Expected: "silent in life 2 where the first one shows all", Count: 2, Takes: func(f *Family) bool { return of(Healthy)(f) || of(Growing)(f) }, change: asDrawn},
	{Name: "a healthy life, and one that leaks", Expected: "found in life 2", Count: 2, Takes: mended, change: func(l *Life, i int, _ float64) { l.Healthy = i == 0 }},
}

// Kinds returns all kinds of chains.
func Kinds() []Kind { return slices.Clone(kinds) }

func asDrawn(*Life, int, float64) {}

// deployed makes it a life of that version, in a new place.
func (l *Life) deployed(version int) { l.Version, l.Place = version, max(l.Place, version) }

// notOne are the families whose defect or whose use is not that of a program in its life: its processes outlive it, or are many
// programs.
var notOne = []string{"orphaned_workers", "unowned_memory", "child_contexts", "after_deploy", "rolling_deploys", "people_arriving"}

// of returns what takes the families of a class that can be lived again.
func of(class Class) func(f *Family) bool {
	return func(f *Family) bool { return f.Class == class && !slices.Contains(notOne, f.Name) }
}

// mended reports whether a program of a leaking family can be lived without the defect: not where its memory grows all the same.
func mended(f *Family) bool {
	return of(Leak)(f) && !slices.Contains([]string{"graphs_by_shape", "thread_workspaces", "jit_cache", "index_tombstones"}, f.Name)
}

// resized reports whether a larger model makes the programs of a healthy family larger.
func resized(f *Family) bool {
	return of(Healthy)(f) && (strings.HasPrefix(f.Name, "train_") || strings.HasPrefix(f.Name, "serve_")) &&
		!slices.Contains([]string{"train_near_capacity", "serve_preallocated", "serve_conversations"}, f.Name)
}

// Steady reports whether the defect retains as much in each minute of work as in any other.
func (f *Family) Steady() bool {
	return slices.Contains([]string{"kept_outputs", "kept_autograd_graph", "prefetch_queue", "autograd_cycles", "ipc_queue", "replay_buffer_without_bound"}, f.Name)
}

// Chain returns a chain of the kind: a seed gives the same one again. Lives differ as those of real programs do, in how fast they
// load, in their data, and each fifth one in the size of its batches.
func (k *Kind) Chain(f *Family, seed uint64) *Chain {
	w := &world{r: rand.New(rand.NewPCG(seed, hash(k.Name+f.Name)))}
	all, x := make([]Life, k.Count), w.u(0, 1)
	pause := pick(w, 0, 0, w.span(time.Minute, time.Hour), w.span(time.Hour, 14*time.Hour))
	for i := range all {
		l := &all[i]
		*l = first
		l.Load, l.Data, l.Longest = w.u(0.8, 1.2), w.u(0.7, 1.3), w.u(0.93, 1.07)
		if w.chance(0.2) {
			l.Batch = pick(w, 0.5, 0.75, 1.2)
		}
		if pause > 0 && i > 0 { // else a supervisor starts it anew at once, where it was
			l.Pause, l.Place = scaled(pause, w.u(0.9, 1.1)), i
		}
		k.change(l, i, x)
	}
	if f.Steady() && slices.ContainsFunc(all, func(l Life) bool { return l.Healthy }) {
		for i := range all { // with the same batches in all lives, what is above their height is the leak
			all[i].Fast, all[i].Batch = fastLeak, 1
		}
	}
	return f.Chain(seed, all)
}
