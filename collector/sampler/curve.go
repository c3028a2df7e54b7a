// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// These bound what the curves cost: 4 KiB a series, and what the loop publishes of the drawn ones every SlowInterval.
const (
	// historySpan is how long a history can get: it has the last nine hours.
	historyBins  = 128
	historyWidth = 256 * time.Second
	historySpan  = historyBins * historyWidth
	// drawnSuspects and drawnLargest are how many processes of a memory have a curve: the surest of those that leak or are
	// suspected, and the largest of the others.
	drawnSuspects = 8
	drawnLargest  = 3
)

// Curve is the course of an amount of memory over the last hours. It is immutable. Its times are on the wall clock, since the
// Unix epoch.
type Curve struct {
	// Ranges are of stretches of Width, oldest first. A stretch without a sample has none. The last stretch may go on.
	Ranges []Range
	Width  time.Duration
	// Troughs are what the detector judges. They may reach further back than Ranges, which begin with the exporter, or with the
	// first sample of the process.
	Troughs []detector.Trough
	// Called is when the verdict became a leak; 0 if it is none, or was one before the exporter started.
	Called time.Duration
}

// Range is the lowest and the highest sample of a stretch, in bytes, with seven digits.
type Range struct {
	T         time.Duration // when the stretch begins
	Low, High float32
}

// history keeps the lowest and the highest sample of each stretch of the last hours, and the hour for incidents. The zero history is
// empty.
type history struct {
	first, last time.Duration
	width       time.Duration
	bins        []span32
	hour        hour
	leaks       bool          // at the last sample with a verdict
	known       bool          // there was such a sample
	called      time.Duration // when leaks became true; 0 not known
}

// span32 is a bin. Without a sample its low is above its high.
type span32 struct{ low, high float32 }

var emptyBin = span32{float32(math.Inf(1)), float32(math.Inf(-1))}

// hour is a ring of the highest samples in each step of the last hour.
type hour [incident.MaxCourse]struct {
	step uint32 // its number; 0 is none
	high float32
}

// add adds a sample, if there is one, and the verdict on it. If the clock went back, a new history begins.
func (h *history) add(t time.Duration, used gpu.Opt[uint64], v *detector.Verdict) {
	if !used.OK {
		return
	}
	if len(h.bins) == 0 || t < h.last {
		*h = history{first: t.Truncate(time.Second), width: time.Second}
	}
	h.last = t
	i := h.reach(t)
	for len(h.bins) <= i {
		h.bins = append(h.bins, emptyBin)
	}
	x, b := float32(used.V), &h.bins[i]
	b.low, b.high = min(b.low, x), max(b.high, x)
	h.hour.add(t, x)
	if !v.Judged {
		return
	}
	switch {
	case !v.Leak:
		h.called = 0
	case h.known && !h.leaks:
		h.called = t
	}
	h.known, h.leaks = true, v.Leak
}

// reach returns the bin of a time. It makes room for it: bins become wider, or the oldest ones go.
func (h *history) reach(t time.Duration) int {
	for h.width < historyWidth && (t-h.first)/h.width >= historyBins {
		h.width *= 2
		for i := range h.bins {
			b := h.bins[i]
			h.bins[i] = emptyBin
			half := &h.bins[i/2]
			half.low, half.high = min(half.low, b.low), max(half.high, b.high)
		}
		h.bins = h.bins[:(len(h.bins)+1)/2]
	}
	i := int((t - h.first) / h.width)
	if gone := i - historyBins + 1; gone > 0 {
		h.first += time.Duration(gone) * h.width
		h.bins = h.bins[:copy(h.bins, h.bins[min(gone, len(h.bins)):])]
		i -= gone
	}
	return i
}

// add adds a sample.
func (h *hour) add(t time.Duration, x float32) {
	step := uint32(t/incident.Step) + 1
	b := &h[step%uint32(len(h))]
	if b.step != step || x > b.high {
		b.step, b.high = step, x
	}
}

// course returns the highest use in each step from one time to another, and that of the last minute, or else the last one that is known:
// a program may die at a peak.
func (h *hour) course(from, to time.Duration) (list []gpu.Opt[uint64], high gpu.Opt[uint64]) {
	var at time.Duration
	for t := from; t <= to; t += incident.Step {
		step := uint32(t/incident.Step) + 1
		b := h[step%uint32(len(h))]
		v := gpu.Some(uint64(b.high)).If(b.step == step)
		if list = append(list, v); v.OK && (at <= to-time.Minute || v.V >= high.V) {
			high, at = v, t
		}
	}
	return list, high
}

// curve returns the curve of the history. ahead is how far the wall clock is ahead of the source's clock.
func (h *history) curve(troughs []detector.Trough, ahead time.Duration) *Curve {
	c := &Curve{Width: h.width, Troughs: troughs}
	for i := range troughs {
		troughs[i].At += ahead
	}
	if h.called > 0 {
		c.Called = h.called + ahead
	}
	for i, b := range h.bins {
		if b.low <= b.high {
			c.Ranges = append(c.Ranges, Range{T: h.first + time.Duration(i)*h.width + ahead, Low: b.low, High: b.high})
		}
	}
	return c
}

// draw adds the samples of a state to the histories, and gives it the curves that were made last.
func (l *loop) draw(sample *gpu.Sample, state *DeviceState) {
	l.remember(sample, state)
	if l.slow {
		l.makeCurves(state)
	}
	for d := range state.memories() {
		d.Curve = l.memories[d.MemoryKey].curve
	}
	for i := range state.Processes {
		p := &state.Processes[i]
		p.Curve = l.processes.entries[keyOf(&p.Process)].curve
	}
}

// remember adds a sample to the histories. It comes after find: an incident ends before the sample that misses the dead.
func (l *loop) remember(sample *gpu.Sample, state *DeviceState) {
	for d := range state.memories() {
		l.memories[d.MemoryKey].history.add(sample.T, d.Memory.Used, &d.Judgement.Device)
	}
	for i := range sample.Processes {
		p := &sample.Processes[i]
		e := l.processes.entries[keyOf(p)]
		e.history.add(sample.T, p.Used, &e.verdict)
	}
}

// makeCurves makes the curves anew.
func (l *loop) makeCurves(state *DeviceState) {
	curveOf := func(h *history, m *memory, of detector.Subject[gpu.ProcessID]) *Curve {
		if m == nil || len(h.bins) == 0 {
			return nil
		}
		return h.curve(m.domain.Troughs(nil, of, h.last-historySpan), l.ahead)
	}
	for _, m := range l.memories {
		m.curve = curveOf(&m.history, m, detector.Subject[gpu.ProcessID]{Kind: detector.KindDevice})
	}
	for _, e := range l.processes.entries {
		e.curve = nil
	}
	for _, p := range drawnOf(state.Processes) {
		e := l.processes.entries[keyOf(&p.Process)]
		e.curve = curveOf(&e.history, l.memories[MemoryKey{Instance: p.Instance}], detector.Subject[gpu.ProcessID]{Kind: detector.KindMember, Key: p.ID})
	}
}

// drawnOf returns the processes that have curves: the surest suspects and the largest others of each memory.
func drawnOf(list []ProcessState) []*ProcessState {
	ranked := make([]*ProcessState, 0, len(list))
	for i := range list {
		ranked = append(ranked, &list[i])
	}
	slices.SortStableFunc(ranked, func(a, b *ProcessState) int {
		return cmp.Or(-compareBool(a.Verdict.Leak, b.Verdict.Leak), -compareBool(finding.Suspect(&a.Verdict), finding.Suspect(&b.Verdict)), -cmp.Compare(a.Used.V, b.Used.V))
	})
	type kind struct {
		instance gpu.Opt[uint32]
		suspect  bool
	}
	room := map[kind]int{}
	return slices.DeleteFunc(ranked, func(p *ProcessState) bool {
		k := kind{p.Instance, finding.Suspect(&p.Verdict)}
		room[k]++
		return (k.suspect && room[k] > drawnSuspects) || (!k.suspect && room[k] > drawnLargest)
	})
}
