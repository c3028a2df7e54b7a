// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"html/template"
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// card shows one memory and its processes.
type card struct {
	ID, Page   string
	Anchor     string // the target of the links in alerts: the UUID
	GPU, Model string
	Memory     bar
	Class      string // ok, bad, warn, wait (or muted) or down
	Verdict    string
	Why        string // it leaks, or does not
	Facts      []fact
	Plot       template.HTML
	Processes  []processRow
	Undrawn    string
	left       float64 // seconds; +Inf without a forecast
	of         sampler.Domain
}

// fact is one figure of a verdict.
type fact struct{ Name, Text string }

func (h *Config) card(m sampler.Domain, now time.Time) card {
	id := fromstate.PathOf(&m)
	c := card{ID: id, GPU: m.Name(), Model: m.Device.Info.Name, left: math.Inf(1), of: m}
	c.Verdict, c.Why = m.Verdict(now)
	c.Class = classes[c.Verdict]
	if c.Anchor = m.Device.Info.UUID; m.Instance.OK {
		c.Anchor += fmt.Sprintf("-mig-%d", m.Instance.V)
	}
	if m.IsLimit() {
		c.Anchor = "" // alerts lead to its GPU
	}
	if !m.Device.Up {
		return c
	}
	if m.Device.ProcessesKnown {
		c.Model = finding.Joined(", ", c.Model, humanize.Count(countOf(&m), "process"))
	}
	c.Page, c.Memory = PredictPath+"/"+id, barOf(m.Memory)
	if s := m.Judgement.Device.SecondsToOOM.Finite(); s != nil {
		c.left = *s
	}
	c.Facts = h.facts(&m.Judgement.Device, m.Device.SampleTime)
	return c
}

// draw adds the processes of a memory, and as many curves as there is room for.
func (h *Config) draw(c *card, left *room, all bool) {
	if !c.of.Device.Up {
		return
	}
	if left.memories > 0 {
		left.memories--
		height := memoryHeight
		if all {
			height = aloneHeight
		}
		c.Plot = h.memoryCurve(&c.of, c.ID+"-curve", height)
	}
	c.Processes = h.processes(&c.of, left, all)
	if n := countOf(&c.of) - len(c.Processes); n > 0 {
		c.Undrawn = "Not shown: " + humanize.Count(n, "process") + "."
	}
	c.Processes = append(c.Processes, h.unreleased(&c.of)...)
}

// facts returns the figures of a verdict. now is the time of its sample.
func (h *Config) facts(v *detector.Verdict, now time.Time) (list []fact) {
	add := func(is bool, name, text string) {
		if is {
			list = append(list, fact{name, text})
		}
	}
	if s := v.SecondsToOOM.Finite(); s != nil {
		add(true, "Full in", finding.Joined(", at ", finding.Left(v), h.clock(now, *s)))
	}
	leaks := v.Judged && v.Leak
	add(leaks && v.Rate.OK, "Growth", humanize.Rate(v.Rate.V))
	add(leaks && v.Leaked.V > 0 && v.Pattern != detector.PatternCrashLoop, "Kept", humanize.Bytes(v.Leaked.V)+" "+h.since(fromstate.SteadyTime(v.Since), now))
	add(v.Judged && !v.Muted, "Leak confidence", finding.Percent(v.Confidence))
	for i := range v.Windows {
		if f := &v.Windows[i]; f.Slope.OK {
			text := humanize.Rate(f.Slope.V)
			if f.R2.OK {
				text += fmt.Sprintf(", R² %.2f", f.R2.V)
			}
			add(true, "Slope over "+cli.FormatDuration(f.Span), text)
		}
	}
	return list
}

// urgency orders the classes of memories.
var urgency = []string{"bad", "down", "warn", "wait", "ok"}

// classes has how urgent the words for a verdict are.
var classes = map[string]string{
	finding.Unreadable: "down", finding.Broken: "bad", finding.Leaks: "bad", finding.NotSure: "warn", finding.NoLeak: "ok",
	finding.NoLeakYet: "wait", finding.NotJudged: "wait", finding.Muted: "wait",
}

// bar is used memory as a part of the total, in percent.
type bar struct {
	Text  string
	Used  float64
	Known bool
}

func barOf(m gpu.Memory) bar {
	total, text := m.Capacity(), finding.Used(m)
	if !total.OK || !m.Used.OK || total.V == 0 {
		return bar{Text: text}
	}
	return bar{Text: text, Known: true, Used: 100 * float64(min(m.Used.V, total.V)) / float64(total.V)}
}

// countOf returns the number of processes on a memory. Of a part of a GPU it counts the shown ones only.
func countOf(m *sampler.Domain) (n int) {
	if !m.Instance.OK && !m.IsLimit() {
		n = m.Device.ProcessCount - len(m.Device.Processes) // those that are not shown
	}
	for i := range m.Device.Processes {
		if m.Has(&m.Device.Processes[i].Process) {
			n++
		}
	}
	return n
}
