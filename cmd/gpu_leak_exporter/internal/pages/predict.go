// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/plot"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Bounds of the lists and curves of the page: a fleet has thousands of GPUs.
const (
	maxRows     = 256
	maxProblems = 32
	// mostLeaks bounds how many leaks are listed.
	mostLeaks = 128
	// mostMemories and mostProcesses bound how many curves a page has, so that 16 GPUs with 256
	// processes each, or with 7 slices each, stay a page that a phone can show.
	mostMemories, mostProcesses = 128, 48
)

// view is what the template shows, in words.
type view struct {
	Style     template.CSS // of the curves
	Only      bool         // it is of one memory, and all of that is shown
	Note      string
	Headline  string
	Urgent    bool // the headline is bad news
	Detail    string
	Problems  []problem
	Notes     []string // what a reader should know of the figures
	Leaks     []leakRow
	Undrawn   int // listed leaks that have no curve
	Unlisted  int // leaks that are not listed at all
	Idle      []idleRow
	GPUs      []gpuRow
	More      string // what of these lists is left out of the page; "" is nothing
	Window    string // over which GPUs has slopes, unless a row says another one
	Refreshed string
}

// view puts a State into words: that of all memories, or of the only one of that name in every detail.
func (h *predictor) view(s *sampler.State, only string) *view {
	v := h.found(s, only)
	v.Style, v.Only = plot.Style, only != ""
	if len(s.Windows) > 0 {
		v.Window = s.Windows[0]
	}
	for _, d := range s.Devices {
		h.describe(v, s, d, only)
	}
	v.rank()
	h.draw(v)
	v.headline(s.Report(&h.Detector))
	v.shorten()
	if v.Only && len(v.GPUs) > 0 {
		v.headlineOf(&v.GPUs[0], &h.Detector)
	}
	return v
}

// headline sums up what is said of all memories.
func (v *view) headline(r *sampler.Report) {
	v.Headline, v.Detail, v.Urgent = r.Headline, r.Detail, r.Severity >= finding.Ticket
}

// headlineOf sums up what is said of the only one.
func (v *view) headlineOf(row *gpuRow, cfg *detector.Config) {
	v.Headline, v.Detail, v.Urgent = row.GPU+": "+row.Verdict, row.Why, row.Class == "down"
	if row.of == nil {
		return
	}
	if said := row.of.Messages(cfg); len(said) > 0 && said[0].Severity >= finding.Ticket {
		v.Headline, v.Urgent = said[0].Summary, true
	}
}

// found puts into words what is not well, the most urgent first: leaks, what is held for nothing, and what
// cannot be read.
func (h *predictor) found(s *sampler.State, only string) *view {
	v := &view{Note: h.Note, Refreshed: h.refreshed(s)}
	if s.DriverReason != "" {
		m := finding.Driver(s.DriverReason)
		v.Problems = append(v.Problems, problem{m.Text(), RunbookPath + "#" + strings.ToLower(m.Alert)})
	}
	for _, d := range s.Devices {
		for i, m := range d.Domains() {
			if only != "" && only != nameOf(&m, nil) {
				continue
			}
			if i == 0 || only != "" {
				v.Problems = append(v.Problems, broken(s, d)...)
			}
			if !d.Up {
				continue
			}
			if !m.Memory.Used.OK {
				v.Problems = append(v.Problems, problem{blind(s, &m), ""})
			}
			v.Leaks = append(v.Leaks, h.leaksOf(m)...)
			v.Idle = append(v.Idle, h.idleOf(m)...)
		}
	}
	slices.SortStableFunc(v.Leaks, func(a, b leakRow) int {
		return cmp.Or(cmp.Compare(a.order, b.order), -cmp.Compare(a.rate, b.rate))
	})
	return v
}

// describe adds a GPU, its memories, and what a reader should know of its figures.
func (h *predictor) describe(v *view, s *sampler.State, d *sampler.DeviceState, only string) {
	whole := only == "" || only == nameOf(&sampler.Domain{Device: d}, nil)
	switch {
	case !d.Up && whole:
		v.GPUs = append(v.GPUs, gpuRow{GPU: d.Name(), Model: d.Info.Name, Class: "down", Verdict: finding.Unreadable})
	case d.Up && whole && d.Info.UnifiedMemory:
		v.Notes = append(v.Notes, d.Name()+" has no memory of its own. What is shown is the memory of the host, and all its programs use it.")
	}
	if !d.Up {
		return
	}
	for _, m := range d.Domains() {
		if only == "" || only == nameOf(&m, nil) {
			v.GPUs = append(v.GPUs, h.gpuRow(m, v.Window, s.Time))
		}
	}
}

// room is how many curves the page may still have.
type room struct {
	memories, processes int
}

// draw draws the leaks, the most urgent first, then the memories, then other processes, as far as
// there is room.
func (h *predictor) draw(v *view) {
	left := room{mostMemories, mostProcesses}
	if more := len(v.Leaks) - mostLeaks; more > 0 {
		v.Leaks, v.Unlisted = v.Leaks[:mostLeaks], more
	}
	for i := range v.Leaks {
		row := &v.Leaks[i]
		if row.draw == nil {
			continue
		}
		if left.processes > 0 {
			row.Plot = row.draw()
		}
		if row.Plot == "" {
			v.Undrawn++
		} else {
			left.processes--
		}
	}
	for i := range v.GPUs {
		row := &v.GPUs[i]
		m := row.of
		if m == nil {
			continue
		}
		if left.memories > 0 {
			left.memories--
			height := memoryHeight
			if v.Only {
				height = leakHeight
			}
			row.Plot = h.memoryCurve(m, row.ID+"-curve", height)
		}
		row.Ends = h.endWords(m)
		h.others(m, row, &left, v.Only)
	}
}

// rank brings the most urgent GPUs to the front of a list that is too long, so that they are drawn and stay.
func (v *view) rank() {
	if len(v.GPUs) > maxRows {
		slices.SortStableFunc(v.GPUs, func(a, b gpuRow) int {
			return cmp.Compare(slices.Index(urgency, a.Class), slices.Index(urgency, b.Class))
		})
	}
}

// shorten cuts lists that are too long, and says so. Of leaks the page says it itself.
func (v *view) shorten() {
	var left []string
	cut := func(n, most int, what string) int {
		if n > most {
			left = append(left, humanize.Count(n-most, "more "+what))
		}
		return min(n, most)
	}
	v.Problems = v.Problems[:cut(len(v.Problems), maxProblems, "problem")]
	v.Idle = v.Idle[:cut(len(v.Idle), maxRows, "idle holder")]
	v.GPUs = v.GPUs[:cut(len(v.GPUs), maxRows, "GPU")]
	if len(left) > 0 {
		v.More = "Not on this page: " + strings.Join(left, ", ") + ". The metrics and the JSON have all."
	}
}

// refreshed says when the page was made, and the time of the GPUs if their clock
// is another one.
func (h *predictor) refreshed(s *sampler.State) string {
	const format = "2006-01-02 15:04:05 MST"
	text := s.Time.In(h.Location).Format(format)
	var latest time.Time
	for _, d := range s.Devices {
		if d.SampleTime.After(latest) {
			latest = d.SampleTime
		}
	}
	if h.Note != "" && !latest.IsZero() {
		text += ", when the clock of these GPUs showed " + latest.In(h.Location).Format(format)
	}
	return text
}
