// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet/alloc"
)

// leak is a defect at work: it allocates what is never freed, and keeps count.
type leak struct {
	w      *world
	dom    *domain
	off    bool          // it is not in the code of this life
	rate   float64       // bytes per second that it is meant to retain on average
	object uint64        // bytes of one allocation
	half   time.Duration // until it has filled half of the memory
	lib    bool          // it is in a library, outside of the framework
	t      LeakTruth

	owed     float64 // bytes that do not make an object yet
	lives    []*life
	begun    bool
	since    time.Duration // start of the growth that no restart has broken
	retained uint64        // now, in bytes
	stranded uint64        // since the first sample, what no process owns
	sum      uint64        // over all lives, in bytes
	ran      time.Duration // how long some was retained
	at       time.Duration // when that was last counted
}

// life is what a process has retained.
type life struct {
	p        *proc
	retained uint64
	before   uint64 // of it, what was retained before the recording
	// base is what the process would hold without the leak, in bytes: the most that it held before, or held besides in its first
	// minutes.
	base uint64
}

const (
	// lull is how long after a failure without a leak another one counts as new.
	lull = 10 * time.Minute
	// warmUp is for how long a process is taken to grow by itself.
	warmUp = 5 * time.Minute
	// maxObjects bounds how many blocks a leak makes, and so the memory of the simulation.
	maxObjects = 60000
)

// leak adds a defect that retains between lo and hi MiB per minute.
func (w *world) leak(lo, hi float64) *leak {
	lo, hi = max(lo, w.life.Fast), max(hi, 10*w.life.Fast)
	l := &leak{w: w, off: w.life.Healthy, dom: w.domains[0], rate: w.logu(lo, hi) * alloc.MiB / 60}
	if part := w.life.Filled / 2; part > 0 {
		l.rate = part * float64(l.dom.dev.Capacity()) / (24 * time.Hour).Seconds()
	}
	l.t.Instance = l.dom.id
	total := min(l.rate*maxLength.Seconds(), float64(l.dom.dev.Capacity()))
	l.object = uint64(max(w.logu(4*alloc.KiB, 4*alloc.MiB), total/maxObjects))
	w.leaks = append(w.leaks, l)
	l.half = time.Duration(min(float64(l.dom.dev.Capacity())/2/l.rate, 1e6) * float64(time.Second))
	w.planLeak(l.half)
	return l
}

// often draws the time between the events of a leak so that it takes six of them or more to fill half of the memory.
func (l *leak) often(lo, hi time.Duration) time.Duration { return min(l.w.span(lo, hi), l.half/6) }

// per returns the bytes that the defect retains at events that are d apart on average.
func (l *leak) per(d time.Duration) float64 { return l.rate * d.Seconds() }

// large makes the objects as large as what is retained at one event, up to 64 MiB each: whole tensors.
func (l *leak) large(event float64) {
	l.object = uint64(min(max(event, float64(l.object)), 64*alloc.MiB))
}

// owe retains bytes more in p, in whole objects.
func (l *leak) owe(p *proc, bytes float64) {
	if l.off {
		return
	}
	for l.owed += bytes; l.owed >= float64(l.object) && !p.failed; l.owed -= float64(l.object) {
		if l.lib {
			l.hold(p, p.lib(l.object))
		} else {
			l.hold(p, p.alloc(l.object))
		}
	}
}

// hold counts a block that p will not free; nil is one that could not be had.
func (l *leak) hold(p *proc, b *alloc.Block) {
	switch {
	case l.off:
		p.cache.Free(b)
	case b != nil:
		l.note(p, b.Size(), p.peak)
	}
}

// life returns the position of what p has retained, -1 where that is nothing.
func (l *leak) life(p *proc) int {
	return slices.IndexFunc(l.lives, func(x *life) bool { return x.p == p })
}

// note counts bytes that p will not free. base is what it holds besides.
func (l *leak) note(p *proc, bytes, base uint64) {
	i := l.life(p)
	if i < 0 {
		if o := p.j.owner; o != nil && (l.w.listing == all || l.w.listing == noMemory) {
			l.t.Group, l.t.Program = o.Group(), o.Process
		}
		i = len(l.lives)
		l.lives = append(l.lives, &life{p: p, base: base})
		l.t.Processes = append(l.t.Processes, p.id)
	}
	l.lives[i].retained += bytes
	l.count(bytes)
}

func (l *leak) count(bytes uint64) {
	if l.retained == 0 {
		l.since = l.w.now
	}
	if !l.begun {
		l.begun, l.t.From = true, l.w.now
	}
	l.retained += bytes
	l.sum += bytes
	l.t.Retained, l.t.Until = max(l.t.Retained, l.retained), l.w.now
}

// forget notes that a process has ended, and with it what it had retained.
func (w *world) forget(p *proc) {
	for _, l := range w.leaks {
		i := l.life(p)
		if i < 0 {
			continue
		}
		l.retained -= l.lives[i].retained
		l.t.Until, l.owed = w.now, 0
		if w.now < 0 { // no recording shows it
			l.t.Processes = slices.DeleteFunc(l.t.Processes, func(id gpu.ProcessID) bool { return id == p.id })
		}
		l.lives = slices.Delete(l.lives, i, i+1)
	}
}

// look notes after a sample what shows of the leaks.
func (w *world) look() {
	w.readLimits()
	for _, p := range w.procs {
		p.peak = max(p.peak, p.used())
	}
	for _, l := range w.leaks {
		if l.retained > 0 {
			l.ran += w.now - max(l.at, l.since)
		}
		l.at = w.now
		if w.now <= 0 {
			l.stranded = 0
		}
		shows := l.stranded >= VisibleGrowth
		for _, x := range l.lives {
			if w.now <= 0 { // what is there at the first sample is not seen to grow
				x.base, x.before = x.p.used(), x.retained
			}
			shown := x.retained - x.before
			if w.now-x.p.started < warmUp {
				x.base = max(x.base, x.p.used()-min(shown, x.p.used()))
			}
			shows = shows || shown >= VisibleGrowth && x.p.used() >= x.base+VisibleGrowth
		}
		l.t.Visible = l.t.Visible || shows && w.now > 0
	}
}

// finish returns the truth about the leak, on the clock of the samples.
func (l *leak) finish() LeakTruth {
	w, t := l.w, l.t
	if l.retained > 0 {
		t.Until = w.now
	}
	if l.ran > 0 {
		t.Rate = float64(l.sum) / l.ran.Seconds()
	}
	t.From, t.Until = w.epoch+max(t.From, 0), w.epoch+max(t.Until, 0)
	return t
}

// cause returns the position of the leak but for which p could have allocated size bytes, and -1 if there is none.
func (w *world) cause(p *proc, size uint64, own bool) int {
	d := p.j.dom.dev
	best, most := -1, max(VisibleGrowth, size-min(size, d.Capacity()-d.Used()))
	for i, l := range w.leaks {
		if l.dom == p.j.dom && l.retained >= most && (!own || l.life(p) >= 0) {
			best, most = i, l.retained
		}
	}
	return best
}

// outOfMemory notes that p could not allocate size bytes. own says that it was at a limit of its own.
func (w *world) outOfMemory(p *proc, size uint64, own bool) {
	o := OOM{T: w.clock(), Instance: p.j.dom.id, Leak: w.cause(p, size, own), Own: own}
	if o.Leak >= 0 {
		l := w.leaks[o.Leak]
		o.Growth = w.now - l.since
		l.t.Fatal = l.t.Fatal || w.now >= 0
		if w.after > 0 && w.now >= 0 {
			w.end = min(w.end, w.now+w.after)
			w.after = 0
		}
	}
	for _, e := range w.sc.Truth.OOMs {
		o.Again = o.Again || e.Leak == o.Leak && e.Instance == o.Instance && e.T >= o.T-max(o.Growth, lull)
	}
	if w.now >= 0 && len(w.sc.Truth.OOMs) < MaxOOMs {
		w.sc.Truth.OOMs = append(w.sc.Truth.OOMs, o)
	}
}
