// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// Life is how the programs of a GPU run in one life: what is another than in the first one.
type Life struct {
	// Number counts the lives of a chain from 1 on; 0 is a scenario that is none.
	Number int
	Pause  time.Duration // before it, in which the GPU is idle
	// Place is the number of its pod or job. A supervisor starts a program anew in the place where it was.
	Place int
	// Factors: of the time to load, the amount of data, the longest input, the size of a batch and that of the model.
	Load, Data, Longest, Batch, Model float64
	Version                           int     // of the image of its container
	Healthy                           bool    // the defect of the family is not in its code
	Fast                              float64 // MiB per minute that its leak retains at least
	// Filled is the part (0 to 1) of half of the memory that a leak fills in a day, and Lasts when the life is ended; 0 is as the
	// family has it.
	Filled float64
	Lasts  time.Duration
	// From and Until are when it began and was ended, once it has been lived.
	From, Until time.Duration
}

// first is a life like the one for which a family is drawn.
var first = Life{Load: 1, Data: 1, Longest: 1, Batch: 1, Model: 1}

// mostLife bounds the lives of a chain, which is one of some days.
const mostLife = 24 * time.Hour

func (l *Life) chained() bool { return l.Number > 0 }

// larger returns what a program of that peak has with a larger model, which fits the GPU all the same.
func (l *Life) larger(peak uint64, w *world) uint64 {
	return min(scaled(peak, l.Model), max(peak, scaled(w.domains[0].dev.Capacity(), 0.8)))
}

// scaled returns a part of x.
func scaled[T uint64 | time.Duration](x T, by float64) T { return T(float64(x) * by) }

// name gives an owner the place of this life, and its programs their name.
func (w *world) name(o *gpu.Owner) {
	w.owners++
	if w.life.Place > 0 && o.Pod != "" {
		o.Pod += fmt.Sprintf("-%d", w.life.Place)
	}
	if w.life.Place > 0 && o.SlurmJob != "" {
		o.SlurmJob += strconv.Itoa(w.life.Place)
	}
	o.Runs = w.runs(o.Process)
}

// runs returns the name of what the owner drawn last runs. Kernels differ in a file whose name is another one each time.
func (w *world) runs(process string) uint64 {
	p := gpu.Program{Name: process}
	if process != "ipykernel_launcher" {
		p.Arguments = fmt.Sprintf("--config=%d --batch=%g", w.owners, w.life.Batch)
	}
	if w.style == kubernetes || w.style == docker {
		p.Image = fmt.Sprintf("registry.example/%s@sha256:%d", process, w.life.Version)
	}
	return p.Hash(nil)
}

// Chain is a GPU on which a scenario of a family is lived again and again.
type Chain struct {
	Scenario
	Lives []Life
}

// chain is one that is being lived.
type chain struct {
	Chain
	family  Family
	seed    uint64
	w       *world            // of the life that is lived now
	number  int               // of it, from 0 on
	heights map[string]uint64 // by program, the most in bytes that a process of it held in a healthy life
}

// Chain returns a chain of such lives: the parameters of the programs are those of the seed in all of them, and what happens to
// them by chance is another one in each. The scenarios are one, on one clock; Lives is complete when that is at its end.
func (f Family) Chain(seed uint64, all []Life) *Chain {
	c := &chain{family: f, seed: seed, heights: map[string]uint64{}}
	c.Lives, c.Next = slices.Clone(all), c.next
	c.begin()
	c.Interval = c.w.sc.Interval
	return &c.Chain
}

// next is Scenario.Next.
func (c *chain) next(s *gpu.Sample) bool {
	for c.number < len(c.Lives) {
		if c.w.next(s) {
			c.look()
			return true
		}
		c.end()
		if c.number++; c.number < len(c.Lives) {
			c.begin()
		}
	}
	return false
}

// begin begins a life where the one before has ended.
func (c *chain) begin() {
	life, before := &c.Lives[c.number], c.w
	w := newWorld(c.family.random(c.seed))
	life.Number = c.number + 1
	w.life, w.lead, w.end = *life, 0, scaled(min(w.end, mostLife), life.Data)
	interval := pick(&world{r: c.family.random(c.seed)}, 5*time.Second, 15*time.Second, 15*time.Second, 30*time.Second)
	if before != nil {
		now := before.epoch + time.Duration(before.ticks)*interval
		w.up, w.pid, w.epoch = before.up+now-before.epoch, before.pid, now
	}
	c.family.build(w)
	w.r = rand.New(rand.NewPCG(c.family.random(c.seed).Uint64(), uint64(life.Number)))
	w.end = min(w.end, scaled(mostLife, life.Data))
	if life.Lasts > 0 {
		w.end = life.Lasts
	}
	w.after = 1 // an out-of-memory of a leak is the end
	if life.Healthy {
		w.leaks = nil
	}
	w.plan()
	w.sc.Interval = interval
	w.rest(life.Pause)
	if before == nil {
		c.Truth.Start = w.epoch
	}
	life.From, c.w, c.Truth.Length = w.epoch+life.Pause, w, w.epoch+w.end-c.Truth.Start
}

// rest lets all that is planned happen later.
func (w *world) rest(pause time.Duration) {
	w.end += pause
	for _, j := range w.jobs {
		j.due += pause
	}
	for i := range w.events {
		w.events[i].at += pause
	}
	for i := range w.gaps {
		w.gaps[i].from, w.gaps[i].to = w.gaps[i].from+pause, w.gaps[i].to+pause
	}
	w.sc.Truth.Length = w.end
}

// end adds the truth about a life to that about the chain.
func (c *chain) end() {
	life, truth := &c.Lives[c.number], &c.w.sc.Truth
	life.Until = truth.Start + truth.Length
	for _, o := range truth.OOMs {
		if o.Leak >= 0 {
			o.Leak += len(c.Truth.Leaks)
		}
		c.Truth.OOMs = append(c.Truth.OOMs, o)
	}
	c.Truth.Leaks = append(c.Truth.Leaks, truth.Leaks...)
	c.Truth.Length = life.Until - c.Truth.Start
}

// look notes how much processes held in healthy lives, and when one that leaks holds more.
func (c *chain) look() {
	w := c.w
	if len(w.leaks) == 0 {
		for _, p := range w.procs {
			c.heights[p.j.owner.Process] = max(c.heights[p.j.owner.Process], p.used())
		}
	}
	for _, l := range w.leaks {
		for _, x := range l.lives {
			height := c.heights[x.p.j.owner.Process]
			if height > 0 && l.t.AboveAt == 0 && x.p.used() >= height+VisibleGrowth {
				l.t.AboveAt = w.clock()
			}
			if height > 0 && l.t.FarAboveAt == 0 && float64(x.p.used()) >= LikeLives*float64(height) {
				l.t.FarAboveAt = w.clock()
			}
		}
	}
}
