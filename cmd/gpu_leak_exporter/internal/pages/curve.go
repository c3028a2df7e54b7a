// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/plot"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/withheld"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/wording"
	"github.com/gpuleak/gpu_leak_exporter/collector"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

const (
	// mostMemories and mostProcesses bound how many curves a page has, so that 16 GPUs with 256
	// processes each, or with 7 slices each, stay a page that a phone can show.
	mostMemories, mostProcesses = 128, 48
	// mostLeaks bounds how many leaks are listed.
	mostLeaks = 128
	// The heights of curves in pixels: of a leak, of a memory, and of any other process.
	leakHeight, memoryHeight, processHeight = 210.0, 180.0, 120.0
	// toldSpan is for how long the end of a process is told.
	toldSpan = 9 * time.Hour
	// shortestAxis is how much time a curve shows at least, so that one that has just begun does
	// not fill it.
	shortestAxis = 10 * time.Minute
	// farthestAhead is how far it goes on for a forecast, as a share of the time that it shows.
	farthestAhead = 3.0
)

// room is how many curves the page may still have.
type room struct {
	memories, processes int
	listed              map[string]bool // the identifiers of the leaks that are listed
}

// nameOf returns the identifier of a memory on the page, and that of a process on it. In a fleet many GPUs have the
// same index: there it is the UUID that names one, or where it is.
func nameOf(m *domain, p *collector.ProcessState) string {
	info := &m.device.Info
	name := "gpu-" + info.IndexLabel()
	if where := info.Place[:]; strings.Join(where, "") != "" || info.Index < 0 {
		name = "gpu-" + strings.Map(inName, cmp.Or(strings.TrimPrefix(info.UUID, "GPU-"), joinedBy("-", append(slices.Clone(where), info.IndexLabel())...)))
	}
	if m.instance.OK {
		name += fmt.Sprintf("-mig-%d", m.instance.V)
	}
	if p != nil {
		name += fmt.Sprintf("-pid-%d", p.ID.PID)
	}
	return name
}

// inName returns r if it can stand in an identifier and in a path, else a hyphen.
func inName(r rune) rune {
	if r == '.' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
		return r
	}
	return '-'
}

// memoryCurve draws a memory; "" where there is nothing to draw.
func (h *predictor) memoryCurve(m *domain, id string, height float64) template.HTML {
	v := &m.judgement.Device
	p := h.plot(m, m.curve, v, m.memory.Used)
	if p == nil {
		return ""
	}
	p.ID, p.Title, p.Height = id, "Memory used on "+m.name, height
	if total := m.memory.Capacity(); total.OK {
		p.Capacity = float64(total.V)
	}
	if room := m.judgement.Headroom; p.Capacity > 0 && room.OK {
		crest := p.Capacity - room.V
		switch {
		case foreseen(v.SecondsToOOM):
			p.Forecast = forecastOf(p.To, crest, v.SecondsToOOM.V, v.Lower, v.Upper)
		case foreseen(v.SecondsToFull) && !v.Leak:
			p.Forecast = forecastOf(p.To, crest, v.SecondsToFull.V, v.FullLower, v.FullUpper)
			p.Forecast.Doubtful = true
		}
	}
	for _, e := range endsOf(m, p.From) {
		p.Ends = append(p.Ends, plot.End{T: e.At, Full: e.NearCapacity})
	}
	p.Description = h.described(p, v, h.endWords(m))
	return p.SVG()
}

// processCurve draws the memory of a process; "" where there is nothing to draw. Its limit is what it
// holds once the whole memory is full, if everybody goes on as now.
func (h *predictor) processCurve(m *domain, of *collector.ProcessState, height float64) template.HTML {
	v := &of.Verdict
	p := h.plot(m, of.Curve, v, of.Used)
	if p == nil {
		return ""
	}
	who, _ := whoIs(of.ID, of.Owner)
	p.ID, p.Title, p.Height = nameOf(m, of)+"-curve", "Memory of "+who+" on "+m.name, height
	if v.Leak && v.Rate.OK && foreseen(v.SecondsToOOM) {
		limit := p.Last.V + v.Rate.V*v.SecondsToOOM.V
		p.Capacity, p.Limit = limit, "holds "+humanize.Bytes(limit)+" when the memory is full"
		p.Forecast = forecastOf(p.To, p.Last.V, v.SecondsToOOM.V, v.Lower, v.Upper)
	}
	p.Description = h.described(p, v, "")
	return p.SVG()
}

// plot returns what the curves of memories and processes have in common; nil without samples.
func (h *predictor) plot(m *domain, c *collector.Curve, v *detector.Verdict, used gpu.Opt[uint64]) *plot.Plot {
	if c == nil || !used.OK {
		return nil
	}
	now := sinceEpoch(m.device.SampleTime)
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
	if v.Judged && v.Leak && v.Trough.OK && v.Rate.OK {
		p.Fit = plot.FitOf(max(v.Since, p.From), now, v.Trough.V, v.Rate.V)
	}
	if c.Called > p.From && c.Called <= now {
		p.Alarms = []plot.Span{{From: c.Called, To: now, Open: true}}
	}
	return p
}

// sinceEpoch returns a time as time since the Unix epoch.
func sinceEpoch(t time.Time) time.Duration { return time.Duration(t.UnixNano()) }

func foreseen(seconds detector.Value) bool { return seconds.OK && !math.IsInf(seconds.V, 1) }

func forecastOf(now time.Duration, crest, seconds float64, lower, upper detector.Value) *plot.Forecast {
	if !lower.OK || !upper.OK {
		return plot.ForecastOf(now, crest, seconds, seconds, seconds)
	}
	return plot.ForecastOf(now, crest, seconds, lower.V, upper.V)
}

// described says what a curve shows.
func (h *predictor) described(p *plot.Plot, v *detector.Verdict, ends string) string {
	now := fromstate.SteadyTime(p.To)
	at := func(t time.Duration) string { return h.moment(fromstate.SteadyTime(t), now, "15:04") }
	var b strings.Builder
	fmt.Fprintf(&b, "From %s to %s. %s now", at(p.From), at(p.To), humanize.Bytes(p.Last.V))
	if low, high, ok := p.Used.Extremes(); ok {
		fmt.Fprintf(&b, ", %s at least and %s at most", humanize.Bytes(low), humanize.Bytes(max(high, p.Last.V)))
	}
	if p.Capacity > 0 && p.Limit == "" {
		fmt.Fprintf(&b, "; the capacity is %s", humanize.Bytes(p.Capacity))
	}
	b.WriteByte('.')
	if n := len(p.Troughs); n > 1 {
		fmt.Fprintf(&b, " The troughs went from %s to %s.", humanize.Bytes(p.Troughs[0].V), humanize.Bytes(p.Troughs[n-1].V))
	}
	if v.Judged && v.Leak && v.Rate.OK {
		fmt.Fprintf(&b, " What is never given back grows by %s since %s.", humanize.Rate(v.Rate.V), at(v.Since))
	}
	if f := p.Forecast; f != nil {
		text := " The memory is full at %s"
		if f.Doubtful {
			text = " If it goes on, the memory is full at %s"
		}
		fmt.Fprintf(&b, text, at(f.At))
		switch {
		case f.Upper-f.From.T > 365*24*time.Hour:
			fmt.Fprintf(&b, ", with 90 %% not before %s", at(f.Lower))
		case f.Lower < f.Upper:
			fmt.Fprintf(&b, ", with 90 %% between %s and %s", at(f.Lower), at(f.Upper))
		}
		b.WriteByte('.')
	}
	if ends != "" {
		b.WriteString(" " + ends)
	}
	return b.String()
}

// endsOf returns the ends of processes on a memory since a time.
func endsOf(m *domain, since time.Duration) (list []collector.EndState) {
	for _, e := range m.device.Ends {
		if e.Instance == m.instance && e.At >= since {
			list = append(list, e)
		}
	}
	return list
}

// shownEnds is how many ends of processes are named.
const shownEnds = 3

// endWords names the processes that ended last on a memory; "" for none.
func (h *predictor) endWords(m *domain) string {
	list := endsOf(m, sinceEpoch(m.device.SampleTime)-toldSpan)
	var parts []string
	for _, e := range list[max(0, len(list)-shownEnds):] {
		who, _ := whoIs(e.ID, e.Owner)
		text := fmt.Sprintf("%s at %s with %s", who, h.moment(fromstate.SteadyTime(e.At), m.device.SampleTime, "15:04"), humanize.Bytes(e.Used))
		if e.NearCapacity {
			text += ", the memory nearly full"
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return ""
	}
	text := "Ended: " + strings.Join(parts, "; ") + "."
	if more := len(list) - len(parts); more > 0 {
		text += fmt.Sprintf(" Before that, %d more.", more)
	}
	return text
}

// curveRow is a process whose memory is drawn.
type curveRow struct {
	Who, Where, Held string
	Why              string // it is no leak; "" for one that is not suspected
	Plot             template.HTML
}

// culprit is a process that leaks; ID leads to it in the list of leaks, "" where it is not listed.
type culprit struct{ Who, ID string }

// shownCulprits is how many of them a memory names.
const shownCulprits = 3

// culpritsOn returns who leaks on a memory, and how many more.
func culpritsOn(m *domain, listed map[string]bool) (list []culprit, more int) {
	for i := range m.device.Processes {
		p := &m.device.Processes[i]
		switch {
		case p.Instance != m.instance || !p.Verdict.Judged || !p.Verdict.Leak:
		case len(list) == shownCulprits:
			more++
		default:
			c := culprit{ID: nameOf(m, p)}
			c.Who, _ = whoIs(p.ID, p.Owner)
			if !listed[c.ID] {
				c.ID = ""
			}
			list = append(list, c)
		}
	}
	return list, more
}

// others fills in the processes of a memory that do not leak: the suspects, and, on a page of its own,
// those that are the largest. It says how many have no curve.
func (h *predictor) others(m *domain, row *gpuRow, left *room, all bool) {
	drawn, leaks := 0, 0
	for i := range m.device.Processes {
		p := &m.device.Processes[i]
		switch {
		case p.Instance != m.instance:
			continue
		case p.Verdict.Judged && p.Verdict.Leak:
			leaks++
			continue
		case p.Curve == nil || !p.Used.OK || left.processes == 0 || (!all && !p.Suspect(h.ClearThreshold)):
			continue
		}
		left.processes--
		c := curveRow{Held: humanize.Bytes(float64(p.Used.V)), Plot: h.processCurve(m, p, processHeight)}
		c.Who, c.Where = whoIs(p.ID, p.Owner)
		drawn++
		if p.Suspect(h.ClearThreshold) {
			c.Why = h.withheldWords(&p.Verdict, &p.Earlier)
			row.Suspects = append(row.Suspects, c)
		} else {
			row.Largest = append(row.Largest, c)
		}
	}
	switch n := countOf(m) - drawn - leaks; {
	case n <= 0:
	case all:
		row.Undrawn = "Not drawn: " + processes(n) + "."
	default:
		row.Undrawn = "Not drawn here: " + processes(n) + "."
	}
}

// because says in words why a memory is called a leak, or why it is not.
func (h *predictor) because(m *domain) string {
	v := &m.judgement.Device
	var text string
	switch {
	case !m.memory.Used.OK && !v.Judged && !v.Muted:
		return "The driver does not tell how much of it is used."
	case v.Muted:
		return "A rule of --detector.config says that it is not to be judged."
	case !v.Judged:
		return "It was watched for " + solid(humanize.Duration(watchedFor(m.judgement))) + ", and a verdict takes some minutes."
	case v.Leak:
		since := h.since(fromstate.SteadyTime(v.Since), m.device.SampleTime)
		switch {
		case !v.Leaked.OK:
			return "More and more is kept and not given back."
		case v.Leaked.V == 0: // between two lives of a crash loop
			return "More and more was kept again and again " + since + ". Nothing of it is left now."
		}
		return "More and more is kept and not given back: " + humanize.Bytes(v.Leaked.V) + " " + since + "."
	}
	earlier := &detector.Earlier{}
	if v.Withheld == detector.WithheldPriorLives {
		earlier = earlierOf(*m)
	}
	if text = h.withheldWords(v, earlier); text == "" {
		text = cmp.Or(noLeak[v.Pattern], noLeak[detector.PatternUnknown]) + "."
	}
	if foreseen(v.SecondsToFull) {
		text += " It is full in " + solid(humanize.Seconds(v.SecondsToFull.V)) + " if it goes on."
	}
	return text
}

// withheldWords says why what grows, or seems to, is no leak; "" where nothing does.
func (h *predictor) withheldWords(v *detector.Verdict, earlier *detector.Earlier) string {
	phrase := withheld.Phrase(v.Withheld, v.WithheldFor)
	if v.Withheld == detector.WithheldPriorLives {
		phrase = withheld.PriorLives(earlier, v.WithheldFor)
	}
	switch {
	case phrase != "":
		return "No leak yet: it " + phrase + "."
	case v.Confidence >= h.ClearThreshold:
		return fmt.Sprintf("It grows, but that is not sure: the confidence is %s, and a leak takes %s.", wording.Percent(v.Confidence), wording.Percent(h.LeakThreshold))
	}
	return ""
}

// noLeak says of a pattern why it is no leak.
var noLeak = map[detector.Pattern]string{
	detector.PatternUnknown:    "Nothing is seen to grow for long",
	detector.PatternStable:     "What is held stays the same",
	detector.PatternIdle:       "Memory is held, and nothing is computed with it",
	detector.PatternWarmup:     "It grew when its program began",
	detector.PatternPlateau:    "It grew, and has stopped growing",
	detector.PatternStep:       "It rose once, and has stayed there",
	detector.PatternSawtooth:   "What is taken is given back again",
	detector.PatternSpikes:     "There are spikes, and each is given back",
	detector.PatternZombie:     "Nothing grows, but nobody will use again what a process holds",
	detector.PatternUnreleased: "A process has ended, and its memory has not come back",
}

// runbook is where the headings of the alerts are: that of the alert follows.
const runbook = "https://github.com/gpuleak/gpu_leak_exporter/blob/main/mixin/runbook.md#"

// headingOf returns the heading of the runbook for a verdict; "" where there is nothing to do.
func headingOf(v *detector.Verdict) string {
	switch {
	case !v.Judged:
		return ""
	case v.Leak && foreseen(v.SecondsToOOM) && v.SecondsToOOM.V < time.Hour.Seconds():
		return runbook + "gpuoutofmemorypredicted"
	case v.Leak:
		return runbook + "gpumemoryleakdetected"
	case foreseen(v.SecondsToFull) && v.SecondsToFull.V < 15*time.Minute.Seconds():
		return runbook + "gpumemoryfillsup"
	case v.Pattern == detector.PatternZombie:
		return runbook + "gpumemoryzombie"
	case v.Pattern == detector.PatternUnreleased:
		return runbook + "gpumemoryunreleased"
	case v.Pattern == detector.PatternFragmentation:
		return runbook + "gpumemoryfragmentation"
	}
	return ""
}
