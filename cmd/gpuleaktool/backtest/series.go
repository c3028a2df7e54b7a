// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/history"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/plot"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// kind says what a series is about.
type kind uint8

const (
	kindMemory   kind = iota // of a GPU, a GPU instance, or a series that was given as such
	kindProcess              // of one process
	kindWorkload             // of a pod or job of several processes
)

// series is one memory, process or workload, and what the detector said of it.
type series struct {
	labels   history.Labels
	kind     kind
	gpu      bool   // it is a GPU, or on one, though its labels may not say so
	from     string // the file it is from
	first    time.Duration
	last     time.Duration
	samples  uint64
	used     float64 // the last sample, bytes
	peak     float64
	capacity detector.Value
	fresh    bool // there was a sample since the last step
	all      bool // keep all steps, also those that tell nothing
	steps    []step
	says     finding.Memory // what the exporter would say of it
	nearAt   time.Duration  // when it was first near its capacity since the last step, if near
	near     bool
	sliced   bool           // a GPU in MIG mode: its slices are judged
	plot     *plot.Envelope // nil unless it is to be plotted
}

// step is what was said at one moment.
type step struct {
	t            time.Duration
	last         bool // the series ended here, at least for a while
	judged, leak bool
	muted        bool // it is not to be judged
	near         bool // it was near its capacity since the step before, first at nearAt
	nearAt       time.Duration
	blind        bool // its memory was not known at this very moment, so that nothing was said
	pattern      detector.Pattern
	confidence   float64
	since        time.Duration
	// Over the first window.
	slope, r2, spikes detector.Value

	rate, leaked, trough  detector.Value
	seconds, lower, upper detector.Value // to out-of-memory
	// evidence is what foretells that, and page that somebody should be woken: of the memory that it is on. withheld is
	// why growth is not called a leak yet, and withheldFor how long it must still last.
	evidence    detector.Evidence
	page        bool
	withheld    detector.Withheld
	withheldFor time.Duration
	headroom    detector.Value // of the memory that it is on
	used        float64
	capacity    detector.Value

	// What the rules of the mixin say: GPUOutOfMemoryPredicted with the severity critical is a page, with warning a
	// ticket. So is GPUMemoryLeakDetected. They are exact to the time between two verdicts, a minute at most.
	paged, ticketed bool
}

// alertLasts is how long an alert outlives the last sample of its condition: a rule of the mixin remembers that for two
// minutes, and keeps firing for two more.
const alertLasts = 4 * time.Minute

func (m *judgedMemory) newSeries(l history.Labels, k kind) *series {
	j := m.judge
	x := &series{labels: l, kind: k, gpu: m.info.UUID != "", all: j.output != outputTable}
	if j.output == outputHTML {
		x.plot = &plot.Envelope{}
	}
	j.series = append(j.series, x)
	return x
}

// add notes a sample.
func (x *series) add(t time.Duration, used float64, capacity detector.Value) {
	if x.samples == 0 {
		x.first = t
	}
	x.samples++
	x.last, x.used, x.peak, x.fresh = t, used, max(x.peak, used), true
	if capacity.OK && capacity.V > 0 {
		x.capacity = capacity
		if !x.near && used >= nearCapacity*capacity.V {
			x.nearAt, x.near = t, true
		}
	}
	if x.plot != nil {
		x.plot.Add(t, used)
	}
}

// tell notes a verdict at time t unless nothing came since the last one. frame is when the last
// frame was, last is as in step.
func (x *series) tell(t, frame time.Duration, last bool, v *detector.Verdict, j *detector.Judgement[gpu.ProcessID]) {
	if !x.fresh {
		return
	}
	x.fresh = false
	w := &v.Windows[0]
	x.keep(step{
		t: t, last: last, blind: x.last < frame, judged: v.Judged, leak: v.Judged && v.Leak, muted: v.Muted, pattern: v.Pattern, confidence: v.Confidence, since: v.Since,
		slope: w.Slope, r2: w.R2, spikes: w.Spikes, rate: v.Rate, leaked: v.Leaked, trough: v.Trough,
		seconds: v.SecondsToOOM, lower: v.Lower, upper: v.Upper,
		evidence: j.Evidence, page: j.Page, withheld: v.Withheld, withheldFor: v.WithheldFor, headroom: j.Headroom, used: x.used, capacity: x.capacity,
		near: x.near, nearAt: x.nearAt,
	})
	x.near = false
}

// keep appends a step, and what alerts say then. The table needs no more than the first and the last of many that tell
// nothing, so that a year takes as much memory as a day.
func (x *series) keep(s step) {
	if !s.blind {
		x.alert(&s)
	}
	n := len(x.steps)
	if !x.all && n >= 2 && s.quiet() && x.steps[n-1].quiet() && x.steps[n-2].quiet() && x.steps[n-1].judged == x.steps[n-2].judged {
		x.steps[n-1] = s
		return
	}
	x.steps = append(x.steps, s)
}

// alert notes what alerts say of a step, as the exporter decides it. On a memory there is one alert for all who leak on
// it: the row of each shows its ticket.
func (x *series) alert(s *step) {
	const began = time.Hour // of the record: 0 is no time for the exporter
	v := detector.Verdict{Judged: s.judged, Leak: s.leak, Rate: detector.Of(1), SecondsToOOM: s.seconds, Upper: s.upper}
	for _, f := range x.says.Judge(&finding.Sample{Judgement: &detector.Judgement[gpu.ProcessID]{T: began + s.t, Evidence: s.evidence, Page: s.page, Device: v}}) {
		soon := x.kind == kindMemory && f.OOMDue
		s.paged = s.paged || soon && s.page
		s.ticketed = s.ticketed || f.LeakDue || soon && !s.page && f.Evidence == detector.EvidenceLeak && f.OOM.V < finding.TicketWithin.Seconds()
	}
}

// quiet reports whether a step tells of nothing that a result is made of.
func (s *step) quiet() bool {
	return !s.leak && !s.near && !s.blind && !s.last && !s.paged && !s.ticketed
}
