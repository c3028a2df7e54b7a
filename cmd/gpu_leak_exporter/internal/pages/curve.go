// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/plot"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

const (
	// The heights of curves in pixels: of a memory that is alone on its page, of any other, of a leak, and of any other process.
	aloneHeight, memoryHeight, leakHeight, processHeight = 276.0, 180.0, 150.0, 120.0
	// shortestAxis is how much time a curve shows at least, so that one that has just begun does
	// not fill it.
	shortestAxis = 10 * time.Minute
	// farthestAhead is how far it goes on for a forecast, as a share of the time that it shows.
	farthestAhead = 3.0
)

// memoryCurve draws a memory; "" where there is nothing to draw.
func (h *Config) memoryCurve(m *sampler.Domain, id string, height float64) template.HTML {
	v := &m.Judgement.Device
	p := h.plot(m, m.Curve, v, m.Memory.Used)
	if p == nil {
		return ""
	}
	p.ID, p.Title, p.Height = id, "Memory used on "+m.Name(), height
	if total := m.Memory.Capacity(); total.OK {
		p.Capacity = float64(total.V)
	}
	if room := m.Judgement.Headroom; p.Capacity > 0 && room.OK {
		crest := p.Capacity - room.V
		if v.SecondsToOOM.Finite() != nil {
			p.Forecast = plot.ForecastOf(p.To, crest, v.SecondsToOOM.V, v.Lower.V, v.Upper.V)
			p.Forecast.Doubtful = m.Judgement.Evidence == detector.EvidenceFilling
			if left := p.Forecast.At - p.To; left < finding.TicketWithin { // where it meets the capacity is seen
				p.Ahead = max(farthestAhead, 2*float64(left)/float64(p.To-p.From))
			}
		}
	}
	p.Description = h.described(p)
	return p.SVG()
}

// processCurve draws the memory of a process; "" where there is nothing to draw. The forecast is that of the whole memory.
func (h *Config) processCurve(m *sampler.Domain, of *sampler.ProcessState, height float64) template.HTML {
	v := &of.Verdict
	p := h.plot(m, of.Curve, v, of.Used)
	if p == nil {
		return ""
	}
	who, _ := whoIs(of.ID, of.Owner)
	p.ID, p.Title, p.Height = fmt.Sprintf("%s-pid-%d-curve", fromstate.PathOf(m), of.ID.PID), "Memory of "+who+" on "+m.Name(), height
	p.Description = h.described(p)
	return p.SVG()
}

// plot returns what the curves of memories and processes have in common; nil without samples.
func (h *Config) plot(m *sampler.Domain, c *sampler.Curve, v *detector.Verdict, used gpu.Opt[uint64]) *plot.Plot {
	if c == nil || !used.OK {
		return nil
	}
	now := sinceEpoch(m.Device.SampleTime)
	p := &plot.Plot{Location: h.Location, From: now - shortestAxis, To: now, Ahead: farthestAhead, Used: &plot.Envelope{}, Last: &plot.Point{T: now, V: float64(used.V)}, Alarm: "leak found"}
	for _, t := range c.Troughs {
		if t.At < now {
			p.Troughs = append(p.Troughs, plot.Point{T: t.At, V: t.V})
		}
	}
	if len(p.Troughs) > 0 {
		p.From = min(p.From, p.Troughs[0].T)
	}
	if len(c.Ranges) > 0 {
		p.From = min(p.From, c.Ranges[0].T)
	}
	for _, r := range c.Ranges {
		p.Used.AddRange(min(r.T+c.Width/2, now), float64(r.Low), float64(r.High))
	}
	if v.Trough.OK {
		p.Troughs = append(p.Troughs, plot.Point{T: now, V: v.Trough.V})
	}
	if v.Judged && v.Leak && v.Trough.OK && v.Rate.OK && v.Pattern != detector.PatternCrashLoop { // of which each life grows anew
		p.Fit = plot.FitOf(max(v.Since, p.From), now, v.Trough.V, v.Rate.V)
	}
	if c.Called > p.From && c.Called <= now {
		p.Alarms = []plot.Span{{From: c.Called, To: now, Open: true}}
	}
	return p
}

// sinceEpoch returns a time as time since the Unix epoch.
func sinceEpoch(t time.Time) time.Duration { return time.Duration(t.UnixNano()) }

// described says what a curve shows, but for the figures beside it.
func (h *Config) described(p *plot.Plot) string {
	now := fromstate.SteadyTime(p.To)
	at := func(t time.Duration) string { return h.moment(fromstate.SteadyTime(t), now, "15:04") }
	var b strings.Builder
	fmt.Fprintf(&b, "From %s to %s. %s now", at(p.From), at(p.To), humanize.Bytes(p.Last.V))
	if low, high, ok := p.Used.Extremes(); ok {
		fmt.Fprintf(&b, ", %s at least and %s at most", humanize.Bytes(low), humanize.Bytes(max(high, p.Last.V)))
	}
	if p.Capacity > 0 {
		fmt.Fprintf(&b, "; the capacity is %s", humanize.Bytes(p.Capacity))
	}
	b.WriteByte('.')
	if f := p.Forecast; f != nil {
		text := " The memory is full at %s."
		if f.Doubtful {
			text = " If it goes on, the memory is full at %s."
		}
		fmt.Fprintf(&b, text, at(f.At))
	}
	return b.String()
}
