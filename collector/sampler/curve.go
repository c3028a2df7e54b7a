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
	historyBins = 128
	historySpan = historyBins * 256 * time.Second
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

// bounds are how long a stretch is at first and at most, and how many are kept.
type bounds struct {
	narrow, wide time.Duration
	most         int
}

var (
	ofCurve = bounds{time.Second, historySpan / historyBins, historyBins}
	ofHour  = bounds{incident.Step, incident.Step, int(incident.Span/incident.Step) + 1}
)

// history keeps the lowest and the highest sample of each stretch of the last hours, and of each step of the last one for incidents.
// The zero history is empty.
type history struct {
	last        time.Duration
	hours, hour stretches
	leaks       bool          // at the last sample with a verdict
	known       bool          // there was such a sample
	called      time.Duration // when leaks became true; 0 not known
}

// stretches are the bins from a time on.
type stretches struct {
	first, width time.Duration
	bins         []span32
}

// span32 is a bin. Without a sample its low is above its high.
type span32 struct{ low, high float32 }

var emptyBin = span32{float32(math.Inf(1)), float32(math.Inf(-1))}

// add adds a sample, if there is one, and the verdict on it. If the clock went back, a new history begins.
func (h *history) add(t time.Duration, used gpu.Opt[uint64], v *detector.Verdict) {
	if !used.OK {
		return
	}
	if t < h.last {
		*h = history{}
	}
	h.last = t
	h.hours.add(t, float32(used.V), ofCurve)
	h.hour.add(t, float32(used.V), ofHour)
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

func (s *stretches) add(t time.Duration, x float32, within bounds) {
	if len(s.bins) == 0 {
		s.first, s.width = t.Truncate(within.narrow), within.narrow
	}
	i := s.reach(t, within)
	for len(s.bins) <= i {
		s.bins = append(s.bins, emptyBin)
	}
	b := &s.bins[i]
	b.low, b.high = min(b.low, x), max(b.high, x)
}

// reach returns the bin of a time. It makes room for it: bins become wider, or the oldest ones go.
func (s *stretches) reach(t time.Duration, within bounds) int {
	for s.width < within.wide && int((t-s.first)/s.width) >= within.most {
		s.width *= 2
		for i := range s.bins {
			b := s.bins[i]
			s.bins[i] = emptyBin
			half := &s.bins[i/2]
			half.low, half.high = min(half.low, b.low), max(half.high, b.high)
		}
		s.bins = s.bins[:(len(s.bins)+1)/2]
	}
	i := int((t - s.first) / s.width)
	if gone := i - within.most + 1; gone > 0 {
		s.first += time.Duration(gone) * s.width
		s.bins = s.bins[:copy(s.bins, s.bins[min(gone, len(s.bins)):])]
		i -= gone
	}
	return i
}

// since returns when a course to that time begins: there may be no sample before it, or none at all.
func (s *stretches) since(to time.Duration) time.Duration {
	return max(min(s.first, to), to-incident.Span).Truncate(incident.Step)
}

// course returns the highest use in each step from one time to another. It is never empty.
func (s *stretches) course(from, to time.Duration) (list []gpu.Opt[uint64]) {
	for t := from; t <= to; t += incident.Step {
		var v gpu.Opt[uint64]
		if i := int((t - s.first) / incident.Step); t >= s.first && i < len(s.bins) && s.bins[i] != emptyBin {
			v = gpu.Some(uint64(s.bins[i].high))
		}
		list = append(list, v)
	}
	return list
}

// curve returns the curve of the history. ahead is how far the wall clock is ahead of the source's clock.
func (h *history) curve(troughs []detector.Trough, ahead time.Duration) *Curve {
	c := &Curve{Width: h.hours.width, Troughs: troughs}
	for i := range troughs {
		troughs[i].At += ahead
	}
	if h.called > 0 {
		c.Called = h.called + ahead
	}
	for i, b := range h.hours.bins {
		if b.low <= b.high {
			c.Ranges = append(c.Ranges, Range{T: h.hours.first + time.Duration(i)*h.hours.width + ahead, Low: b.low, High: b.high})
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
		d.Curve = l.memory(d.MemoryKey).curve
	}
	for i := range state.Processes {
		p := &state.Processes[i]
		p.Curve = l.processes.entries[keyOf(&p.Process)].curve
	}
}

// remember adds a sample to the histories. It comes after find: an incident ends before the sample that misses the dead.
func (l *loop) remember(sample *gpu.Sample, state *DeviceState) {
	for d := range state.memories() {
		l.memory(d.MemoryKey).history.add(sample.T, d.Memory.Used, &d.Judgement.Device)
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
		if m == nil || len(h.hours.bins) == 0 {
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
