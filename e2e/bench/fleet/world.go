// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet/alloc"
)

// world is a GPU with its programs in time.
type world struct {
	r       *rand.Rand
	sc      *Scenario
	style   style
	listing listing
	gaps    []gap
	life    Life // of its programs
	owners  int  // that were drawn

	model
	up         time.Duration // from boot to the start of the world
	instance   uint64        // bytes of a GPU instance that the driver takes
	torn       float64       // share (0 to 1) of samples whose memory is older than their list
	noReserved bool          // the driver tells no reserved memory: it counts as used
	noUse      bool          // nor the utilisation of processes

	epoch time.Duration // the time of the first sample, since the Unix epoch
	now   time.Duration // since the first sample; negative before it
	last  time.Duration // the time up to which the world was simulated last
	lead  time.Duration // simulated before the first sample
	end   time.Duration // planned time of the last sample
	// after is how long the recording goes on after the first failure; 0 is to the planned end.
	after time.Duration

	domains []*domain
	jobs    []*job
	procs   []*proc
	events  []event
	leaks   []*leak
	ticks   int // samples so far
	pid     uint32
	begun   bool
	done    bool
}

// domain is a memory that can run full: of the GPU, or of a GPU instance.
type domain struct {
	dev   *alloc.Device
	id    gpu.Opt[uint32]
	limit *limit // of a container; nil if it is a GPU, or what limits leave of one
}

// event is something that happens to the node at a time.
type event struct {
	at time.Duration
	do func()
}

// Bounds of a recording.
const (
	minLength  = 2 * time.Hour
	maxLength  = 72 * time.Hour
	maxSamples = 90000 // bounds the processor time of a scenario
	fewSamples = 10000 // of one with a limit, whose judge does more
)

// newWorld draws an empty GPU and how it is recorded.
func newWorld(r *rand.Rand) *world {
	w := &world{r: r, sc: &Scenario{}, life: first}
	w.epoch = time.Duration(1735689600+r.IntN(500*86400))*time.Second + time.Duration(r.IntN(1e9))
	w.pid = uint32(w.n(1500, 400000))
	w.end = w.span(minLength, maxLength)
	if w.chance(0.6) {
		w.lead = min(w.span(5*time.Minute, 8*time.Hour), w.end/2)
	}
	w.drawMachine()
	w.drawListing()
	return w
}

// plan fixes how long and how often is sampled, once the programs are known.
func (w *world) plan() {
	choices := []time.Duration{time.Second, 5 * time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second}
	most := maxSamples
	if w.domains[0].limit != nil {
		most = fewSamples
	}
	choices = slices.DeleteFunc(choices, func(d time.Duration) bool { return int((w.end+w.lead)/d) > most })
	w.sc.Interval = pick(w, choices...)
	w.drawGaps()
	w.now, w.last = -w.lead, -w.lead
	for _, j := range w.jobs { // they were added at 0
		j.due -= w.lead
	}
	for i := range w.events {
		w.events[i].at -= w.lead
	}
	w.sc.Truth.Start, w.sc.Truth.Length = w.epoch, w.end
}

// planLeak fits the length to a leak that fills half of the memory in that time: most recordings of leaks go on until the memory
// is full, some end as they happen to end, and none goes through many failures.
func (w *world) planLeak(half time.Duration) {
	if w.chance(0.75) {
		w.end = min(max(minLength, 3*half), maxLength)
		w.after = w.span(10*time.Minute, 3*time.Hour)
	}
	w.end = min(w.end, max(minLength, 4*half))
	w.lead = min(w.lead, half/3)
}

// later makes the recording longer by the time after which a leak begins.
func (w *world) later(d time.Duration) { w.end = min(w.end+d, maxLength) }

// at lets something happen at a time after the start of the world.
func (w *world) at(t time.Duration, do func()) {
	i := sort.Search(len(w.events), func(i int) bool { return w.events[i].at > t })
	w.events = slices.Insert(w.events, i, event{t, do})
}

// in lets something happen after a time.
func (w *world) in(d time.Duration, do func()) { w.at(w.now+d, do) }

// every lets something happen again and again, next apart.
func (w *world) every(next func() time.Duration, do func()) {
	w.in(next(), func() {
		do()
		w.every(next, do)
	})
}

// clock returns the time since the Unix epoch.
func (w *world) clock() time.Duration { return w.epoch + w.now }

// advance simulates until t.
func (w *world) advance(t time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= t {
		e := w.events[0]
		w.events = w.events[1:]
		w.runJobs(max(e.at, w.last))
		e.do()
	}
	w.runJobs(t)
	w.jobs = slices.DeleteFunc(w.jobs, func(j *job) bool { return j.over })
}

func (w *world) runJobs(t time.Duration) {
	w.now = t
	for i := 0; i < len(w.jobs); i++ { // a job may add others
		w.jobs[i].run()
	}
	w.last = t
}

// next is Scenario.Next.
func (w *world) next(s *gpu.Sample) bool {
	if !w.begun {
		w.begun = true
		for w.last < -w.sc.Interval {
			w.advance(w.last + w.sc.Interval)
			w.look()
		}
	}
	for {
		t := time.Duration(w.ticks) * w.sc.Interval
		if w.done || t > w.end {
			w.close()
			return false
		}
		w.ticks++
		if w.inGap(t) {
			w.advance(t)
			w.look()
			continue
		}
		w.sample(s, t)
		w.look()
		return true
	}
}

// close completes the truth.
func (w *world) close() {
	if w.done {
		return
	}
	w.done = true
	truth := &w.sc.Truth
	truth.Length = min(truth.Length, w.last)
	for _, l := range w.leaks {
		truth.Leaks = append(truth.Leaks, l.finish())
	}
	w.jobs, w.procs, w.events = nil, nil, nil
}
