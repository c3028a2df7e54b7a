// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/rivals"
)

// answer is what a rule says of one memory when it is asked.
type answer struct {
	leak bool
	// ticket is the condition of the ticket: the memory leaks, or a process or a pod on it.
	ticket bool
	// waited says that page and ticket have lasted for as long as alerts wait.
	waited bool
	// eta is the seconds to out-of-memory, lower and upper the bounds of its 90 % interval. NaN is not told.
	eta, lower, upper float64
	// page is the condition of the page GPUOutOfMemoryPredicted.
	page bool
	who  named
	// zombies are processes that never compute again, and unreleased those whose memory stays, of a rule that tells them.
	zombies, unreleased []gpu.ProcessID
}

// untold is an answer without a forecast.
func untold() answer { return answer{eta: math.NaN(), lower: math.NaN(), upper: math.NaN()} }

// named is who is said to leak most: a process, a group, or neither for memory of no process.
type named struct {
	ok    bool
	id    gpu.ProcessID
	group string
}

// judge is a rule that watches one memory.
type judge interface {
	// observe takes a sample; in is the GPU instance that is watched, nil for the GPU itself, and m the memory of it.
	observe(s *gpu.Sample, in *gpu.Instance, m gpu.Memory) error
	ask() answer
}

// columns returns the rules that are compared, with their names, in the order of the columns.
func columns() (names []string, list []judge) {
	names = []string{"ours", "ours, GPU memory only", "ours, with probes"}
	list = []judge{newOurs(sees{}), newOurs(sees{alone: true}), newOurs(sees{probes: true})}
	for _, rule := range rivals.All() {
		names, list = append(names, rule.Name), append(list, rival{rule})
	}
	return names, list
}

// alone makes our judge, and no other.
func alone(what sees) func() []judge {
	return func() []judge { return []judge{newOurs(what)} }
}

// sees says what the detector is told beside the memory of processes.
type sees struct {
	alone  bool // the memory of the GPU, and no processes
	probes bool // what the allocators in processes say, of PyTorch's kind and of BFC's
	// strangers says that nobody knows what a process runs, so that what its program held before does not count.
	strangers bool
}

// ours is the detector of the exporter.
type ours struct {
	domain *detector.Domain[gpu.ProcessID]
	frames finding.Frames
	sees   sees
	cfg    detector.Config
	said   finding.Memory
}

func newOurs(sees sees) *ours {
	cfg := detector.DefaultConfig()
	d, err := detector.NewDomain(func(detector.Subject[gpu.ProcessID]) detector.Config { return cfg })
	if err != nil {
		panic(err) // all thresholds are in this program
	}
	d.Remember(detector.NewHeights())
	return &ours{domain: d, sees: sees, cfg: cfg}
}

func (o *ours) observe(s *gpu.Sample, in *gpu.Instance, _ gpu.Memory) error {
	if o.sees.alone {
		less := *s
		less.Processes, less.ProcessesKnown, less.ProcessesComplete = nil, false, false
		s = &less
	}
	frame, _ := o.frames.Device(gpu.Info{}, s)
	if in != nil {
		frame, _ = o.frames.Part(gpu.Info{}, s, in.Memory, in.Profile, func(p *gpu.Process) bool { return p.Instance == gpu.Some(in.ID) })
	}
	for i := range frame.Members {
		m := &frame.Members[i]
		if !o.sees.probes {
			m.Allocated, m.Reserved, m.Split = detector.Value{}, detector.Value{}, detector.Value{}
		}
		if o.sees.strangers {
			m.Runs = 0
		}
	}
	if err := o.domain.Observe(frame); err != nil {
		return fmt.Errorf("observe a frame: %w", err)
	}
	return nil
}

func (o *ours) ask() answer {
	said := o.domain.Judgement()
	v := &said.Device
	a := untold()
	a.waited = true
	for _, f := range o.said.Judge(&finding.Sample{Judgement: said, FillsWithin: o.cfg.FillsWithin}) {
		a.page = a.page || f.OOMDue && said.Page
		a.ticket = a.ticket || f.LeakDue || f.OOMDue && !said.Page
	}
	if v.Judged {
		a.leak = v.Leak
		a.eta, a.lower, a.upper = number(v.SecondsToOOM), number(v.Lower), number(v.Upper)
	}
	most := 0.0
	leads := func(v *detector.Verdict, who named) {
		if !v.Judged || !v.Leak {
			return
		}
		if v.Rate.V > most || !a.who.ok {
			most, a.who = v.Rate.V, who
		}
	}
	for i := range said.Members {
		m := &said.Members[i]
		leads(&m.Verdict, named{ok: true, id: m.Key})
		if m.Judged && m.Pattern == detector.PatternZombie {
			a.zombies = append(a.zombies, m.Key)
		}
	}
	// A pod counts where no process is named, as in the mixin.
	if !a.who.ok {
		for i := range said.Groups {
			leads(&said.Groups[i].Verdict, named{ok: true, group: said.Groups[i].Group})
		}
	}
	if !a.who.ok && said.Attributed {
		leads(&said.Residual, named{ok: true})
	}
	for i := range said.Unreleased {
		a.unreleased = append(a.unreleased, said.Unreleased[i].Key)
	}
	return a
}

// number returns v, NaN where it is absent.
func number(v detector.Value) float64 {
	if !v.OK {
		return math.NaN()
	}
	return v.V
}

// rival is a rule of another system: it sees used memory and capacity alone.
type rival struct{ rule *rivals.Rule }

func (r rival) observe(s *gpu.Sample, _ *gpu.Instance, m gpu.Memory) error {
	if capacity := m.Capacity(); m.Used.OK && capacity.OK {
		r.rule.Observe(s.T, m.Used.V, capacity.V)
	}
	return nil
}

func (r rival) ask() answer {
	a := untold()
	a.leak, a.eta = r.rule.Verdict()
	a.page = a.leak && a.eta < pageWithin.Seconds()
	a.ticket = a.leak
	return a
}
