// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package plot draws used memory over time as SVG that needs nothing else: its
// colours are variables of the page that it stands in.
package plot

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
)

// The drawing in its own units, which are pixels at full width.
const (
	width, height = 960.0, 276.0
	left, right   = 76.0, 14.0
	top, bottom   = 26.0, 26.0
	strip         = 5.0 // the mark on the axis of time
)

// Style is what the page has to bring, beside the variables --fg, --dim, --line,
// --warn and --bad.
const Style template.CSS = `
.scroll { overflow-x: auto; }
svg.plot { display: block; width: 100%; min-width: 40rem; height: auto; }
.plot text { fill: var(--dim); font-size: 12px; font-variant-numeric: tabular-nums; }
.plot .grid { stroke: var(--line); stroke-width: 1; }
.plot .used { fill: var(--used); stroke: var(--used); stroke-width: 1.2; stroke-linejoin: round; }
.plot .trough { fill: none; stroke: var(--trough); stroke-width: 1.6; stroke-linejoin: round; }
.plot .capacity { stroke: var(--fg); stroke-width: 1.2; stroke-dasharray: 2 3; }
.plot .fit { stroke: var(--bad); stroke-width: 2.2; }
.plot .forecast { stroke: var(--bad); stroke-width: 1.6; stroke-dasharray: 6 4; }
.plot .band { fill: var(--bad); opacity: .16; }
.plot .suspected { fill: var(--warn); }
.plot .leak { fill: var(--bad); opacity: .07; }
.plot .alarm { stroke: var(--bad); stroke-width: 1.4; }
.plot .alarm.end { stroke-dasharray: 3 3; }
.plot text.alarm { fill: var(--bad); stroke: none; font-weight: 600; }
`

// Point is an amount of memory in bytes at a time since the Unix epoch.
type Point struct {
	T time.Duration
	V float64
}

// Span is a stretch of time.
type Span struct {
	From, To time.Duration
	// Open says that it goes on beyond what is drawn.
	Open bool
}

// Forecast is what was foreseen at a moment.
type Forecast struct {
	// From is the crest of the memory then.
	From Point
	// At is when it meets the capacity, and Lower and Upper bound that time.
	At, Lower, Upper time.Duration
}

// Plot is used memory over time and what the detector made of it.
type Plot struct {
	Title    string // for who cannot see it
	Location *time.Location
	From, To time.Duration
	Capacity float64 // 0 is not known
	Used     *Envelope
	Troughs  []Point
	Fit      []Point // the line through the troughs, as it was at the first alarm
	Forecast *Forecast
	Alarms   []Span
	// Suspected is when growth was suspected that was not called a leak.
	Suspected []Span
}

// canvas turns times and amounts into places, and collects what is drawn.
type canvas struct {
	*Plot
	to      time.Duration
	highest float64
	b       strings.Builder
}

// SVG draws the plot.
func (p *Plot) SVG() template.HTML {
	c := &canvas{Plot: p, to: p.end(), highest: p.highest()}
	fmt.Fprintf(&c.b, `<div class="scroll"><svg class="plot" viewBox="0 0 %g %g" role="img" aria-label="%s">`, width, height, template.HTMLEscapeString(p.Title))
	c.grid()
	c.spans()
	c.used()
	c.lines()
	c.marks()
	c.b.WriteString("</svg></div>")
	return template.HTML(c.b.String()) //nolint:gosec // All text in it was escaped or is a number of ours.
}

// end returns the end of the axis: a forecast shortly behind the record is drawn.
func (p *Plot) end() time.Duration {
	to := max(p.To, p.From+time.Second)
	if f := p.Forecast; f != nil {
		to = max(to, min(f.At+(to-p.From)/50, to+(to-p.From)/3))
	}
	return to
}

// highest returns the upper end of the axis: the capacity, unless the memory is so
// far below that nothing could be seen.
func (p *Plot) highest() float64 {
	var peak float64
	for _, s := range p.Used.stretches() {
		for _, x := range s {
			peak = math.Max(peak, x.high)
		}
	}
	switch {
	case p.Capacity > 0 && (peak > 0.3*p.Capacity || p.Forecast != nil && p.Forecast.At <= p.end()):
		return 1.04 * math.Max(p.Capacity, peak)
	case peak > 0:
		return 1.15 * peak
	}
	return 1 << 20
}

func (c *canvas) x(t time.Duration) float64 {
	return left + (width-left-right)*float64(t-c.From)/float64(c.to-c.From)
}

func (c *canvas) y(v float64) float64 {
	return height - bottom - (height-top-bottom)*math.Min(v/c.highest, 1)
}

// used draws the memory as the band between its lowest and highest values.
func (c *canvas) used() {
	for _, s := range c.Used.stretches() {
		up, down := make([]Point, len(s)), make([]Point, len(s))
		for i, x := range s {
			up[i], down[len(s)-1-i] = Point{x.t, x.high}, Point{x.t, x.low}
		}
		fmt.Fprintf(&c.b, `<path class="used" d="M%s L%s Z"/>`, c.path(up), c.path(down))
	}
}

// path writes points, without those on a level line between their neighbours.
func (c *canvas) path(list []Point) string {
	var b strings.Builder
	for i, p := range list {
		if i > 0 && i+1 < len(list) && c.y(p.V) == c.y(list[i-1].V) && c.y(p.V) == c.y(list[i+1].V) {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s,%s", short(c.x(p.T)), short(c.y(p.V)))
	}
	return b.String()
}

// short writes a place to a tenth of a pixel.
func short(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }

// lines draws the troughs, the fitted line and the forecast.
func (c *canvas) lines() {
	if len(c.Troughs) > 1 {
		fmt.Fprintf(&c.b, `<polyline class="trough" points="%s"/>`, c.path(thin(c.Troughs)))
	}
	if c.Capacity > 0 && c.Capacity <= c.highest {
		y := c.y(c.Capacity)
		fmt.Fprintf(&c.b, `<line class="capacity" x1="%g" x2="%g" y1="%s" y2="%s"/><text x="%g" y="%s" text-anchor="end">capacity %s</text>`,
			left, width-right, short(y), short(y), width-right-4, short(y-5), humanize.Bytes(c.Capacity))
	}
	if f := c.Forecast; f != nil {
		c.forecast(f)
	}
	if len(c.Fit) > 1 {
		a, b := c.Fit[0], c.Fit[len(c.Fit)-1]
		c.line("fit", a, b)
	}
}

// thin keeps the lowest of each stretch of many points.
func thin(list []Point) []Point {
	for len(list) > maxBins {
		half := make([]Point, 0, (len(list)+1)/2)
		for i := 0; i < len(list); i += 2 {
			p := list[i]
			if i+1 < len(list) && list[i+1].V < p.V {
				p = list[i+1]
			}
			half = append(half, p)
		}
		list = half
	}
	return list
}

func (c *canvas) line(class string, a, b Point) {
	fmt.Fprintf(&c.b, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, short(c.x(a.T)), short(c.y(a.V)), short(c.x(b.T)), short(c.y(b.V)))
}

// forecast draws the line to the capacity and the band around it, cut off at the
// ends of the axes.
func (c *canvas) forecast(f *Forecast) {
	earliest, latest := c.cut(f.From, f.Lower), c.cut(f.From, f.Upper)
	corners := []Point{f.From, earliest}
	if top := math.Min(c.Capacity, c.highest); earliest.V >= top && latest.T == c.to {
		corners = append(corners, Point{c.to, top})
	}
	fmt.Fprintf(&c.b, `<polygon class="band" points="%s"/>`, c.path(append(corners, latest)))
	c.line("forecast", f.From, c.cut(f.From, f.At))
}

// cut returns where the line from a to the capacity at time t ends: there, or at
// the end of an axis. The capacity may lie beyond that of memory: a line that was cut
// off there by its amount alone would be less steep than what was foreseen.
func (c *canvas) cut(a Point, t time.Duration) Point {
	top := math.Min(c.Capacity, c.highest)
	if top < c.Capacity {
		t = a.T + time.Duration(float64(t-a.T)*math.Max(0, top-a.V)/(c.Capacity-a.V))
	}
	if t <= c.to {
		return Point{max(t, a.T), top}
	}
	return Point{c.to, a.V + (top-a.V)*float64(c.to-a.T)/float64(t-a.T)}
}

// spans shades the time in which a leak was told, and marks on the axis of time when growth was
// only suspected: that comes and goes by the minute, and is not to look like an alarm.
func (c *canvas) spans() {
	shade := func(class string, s Span, y, high float64) {
		x := c.x(s.From)
		fmt.Fprintf(&c.b, `<rect class="%s" x="%s" y="%g" width="%s" height="%g"/>`, class, short(x), y, short(math.Max(c.x(s.To)-x, 1)), high)
	}
	for _, s := range c.Alarms {
		shade("leak", s, top, height-top-bottom)
	}
	for _, s := range c.joined(c.Suspected) {
		shade("suspected", s, height-bottom, strip)
	}
}

// joined returns the spans, those that would touch each other as one.
func (c *canvas) joined(list []Span) (out []Span) {
	for _, s := range list {
		if n := len(out); n > 0 && c.x(s.From)-c.x(out[n-1].To) < 1 {
			out[n-1].To = s.To
			continue
		}
		out = append(out, s)
	}
	return out
}

// marks draws when leaks were told and taken back.
func (c *canvas) marks() {
	const clearance = 90 // of one text from the next
	next := math.Inf(-1)
	mark := func(t time.Duration, class, text string) {
		x := c.x(t)
		fmt.Fprintf(&c.b, `<line class="%s" x1="%s" x2="%s" y1="%g" y2="%g"/>`, class, short(x), short(x), top-10, height-bottom)
		if x < next {
			return
		}
		next = x + clearance
		anchor, dx := "start", 4.0
		if x > width-right-clearance {
			anchor, dx = "end", -4
		}
		fmt.Fprintf(&c.b, `<text class="alarm" x="%s" y="%g" text-anchor="%s">%s %s</text>`, short(x+dx), top-14, anchor, text, c.clock(t, "15:04"))
	}
	for _, s := range c.Alarms {
		mark(s.From, "alarm", "alarm")
		if !s.Open {
			mark(s.To, "alarm end", "cleared")
		}
	}
}

func (c *canvas) clock(t time.Duration, format string) string {
	return time.Unix(0, int64(t)).In(c.Location).Format(format)
}
