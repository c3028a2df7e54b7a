// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package plot draws used memory over time as SVG that needs nothing else: its
// colours are variables of the page that it stands in. It is as wide as the page lets
// it be; texts keep their size.
package plot

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
)

const (
	// width is that of the curves in units of their own, whatever that is in pixels. Heights are
	// pixels.
	width         = 1000.0
	defaultHeight = 276.0
	top, axis     = 26.0, 26.0 // above the curves, and below them for the axis of time
	// textWidth is what a short text needs, and textWidthPhone what it needs on a phone.
	textWidth, textWidthPhone = 0.1 * width, 0.3 * width
)

// Style is what the page has to bring, beside the variables --fg, --dim, --line,
// --used, --trough, --warn and --bad.
const Style template.CSS = `
.frame { padding: 0 14px 0 68px; }
svg.plot { display: block; width: 100%; overflow: visible; }
.plot text { fill: var(--dim); font-size: 12px; font-variant-numeric: tabular-nums; }
.plot svg * { vector-effect: non-scaling-stroke; }
.plot text.full, .plot text.alarm { paint-order: stroke; stroke: var(--halo, var(--bg)); stroke-width: 5px; stroke-linejoin: round; }
.plot .grid { stroke: var(--line); stroke-width: 1; }
.plot .used { fill: var(--used); stroke: var(--used); stroke-width: 1.2; stroke-linejoin: round; }
.plot .last { fill: var(--fg); stroke: var(--bg); stroke-width: 1.5; }
.plot .trough { fill: none; stroke: var(--trough); stroke-width: 1.6; stroke-linejoin: round; }
.plot .capacity { stroke: var(--fg); stroke-width: 1.2; stroke-dasharray: 2 3; } .plot text.limit { fill: var(--fg); }
.plot .fit { stroke: var(--bad); stroke-width: 2.2; }
.plot .forecast { stroke: var(--bad); stroke-width: 1.6; stroke-dasharray: 6 4; }
.plot .band { fill: var(--bad); opacity: .16; }
.plot .doubtful.forecast { stroke: var(--warn); }
.plot .doubtful.band { fill: var(--warn); }
.plot text.full { fill: var(--bad); font-weight: 600; } .plot circle.full { fill: var(--halo, var(--bg)); stroke: var(--bad); stroke-width: 2.2; }
.plot text.doubtful.full { fill: var(--warn); } .plot circle.doubtful.full { stroke: var(--warn); }
.plot .now { stroke: var(--dim); stroke-width: 1; }
.plot .leak { fill: var(--bad); opacity: .07; }
.plot line.alarm { stroke: var(--bad); stroke-width: 1.4; }
.plot line.alarm.end { stroke-dasharray: 3 3; }
.plot text.alarm { fill: var(--bad); font-weight: 600; }
@media (max-width: 46rem) { .plot .wide { display: none; } }
`

// Point is an amount of memory in bytes at a time since the Unix epoch.
type Point struct {
	T time.Duration
	V float64
}

// Span is a stretch of time.
type Span struct {
	From, To time.Duration
	// Open says that it goes on beyond the axis.
	Open bool
}

// Forecast is a forecast of the time when a memory is full.
type Forecast struct {
	// From is the crest of the memory at the time of the forecast.
	From Point
	// At is when the crest meets the capacity, and Lower and Upper bound that time.
	At, Lower, Upper time.Duration
	// Doubtful says that the growth may be no leak.
	Doubtful bool
}

// FitOf returns the line of growth from its begin to time t, where it meets the trough. rate is in bytes per second.
func FitOf(since, t time.Duration, trough, rate float64) []Point {
	if since >= t {
		return nil
	}
	return []Point{{T: since, V: math.Max(0, trough-rate*(t-since).Seconds())}, {T: t, V: trough}}
}

// ForecastOf returns the forecast of time t: the crest, which lies above the troughs, meets the capacity in seconds, with the
// bounds lower and upper. A century is the longest.
func ForecastOf(t time.Duration, crest, seconds, lower, upper float64) *Forecast {
	after := func(seconds float64) time.Duration {
		const far = 100 * 365 * 24 * time.Hour
		return t + time.Duration(math.Min(seconds*float64(time.Second), float64(far)))
	}
	return &Forecast{From: Point{T: t, V: crest}, At: after(seconds), Lower: after(lower), Upper: after(upper)}
}

// Plot is used memory over time and what the detector made of it.
type Plot struct {
	// ID begins the identifiers of its elements, and is unique on the page.
	ID string
	// Title and Description are for who cannot see it: the description says the same in words.
	Title, Description string
	Location           *time.Location
	Height             float64 // in pixels; 0 is the usual one
	From, To           time.Duration
	// Ahead is how far the axis goes on beyond To for a forecast at most, as a share of the time
	// from From to To.
	Ahead    float64
	Capacity float64 // 0 is not known
	Used     *Envelope
	Last     *Point // the last sample, where it is marked
	Troughs  []Point
	Fit      []Point // the line through the troughs, as it was at the first alarm
	Forecast *Forecast
	Alarms   []Span
	Alarm    string // what the begin of one is called
}

// canvas turns times and amounts into places, and collects the elements.
type canvas struct {
	*Plot
	to      time.Duration
	highest float64
	b       strings.Builder
}

// newCanvas returns an empty canvas, with defaults for what the plot lacks.
func newCanvas(p *Plot) *canvas {
	own := *p
	own.Height = cmp.Or(own.Height, defaultHeight)
	return &canvas{Plot: &own, to: p.end(), highest: p.highest()}
}

// SVG draws the plot.
func (p *Plot) SVG() template.HTML {
	c := newCanvas(p)
	id, esc := template.HTMLEscapeString(c.ID), template.HTMLEscapeString
	fmt.Fprintf(&c.b, `<div class="frame"><svg class="plot" height="%g" role="img" aria-labelledby="%s-t" aria-describedby="%s-d"><title id="%s-t">%s</title><desc id="%s-d">%s</desc>`,
		c.Height, id, id, id, esc(c.Title), id, esc(c.Description))
	c.grid()
	fmt.Fprintf(&c.b, `<svg width="100%%" height="%g" viewBox="0 0 %g %g" preserveAspectRatio="none">`, c.Height, width, c.Height)
	c.spans()
	c.used()
	c.lines()
	c.b.WriteString(`</svg>`)
	c.marks()
	c.limit()
	c.b.WriteString("</svg></div>")
	return template.HTML(c.b.String()) //nolint:gosec // All text in it was escaped or is a number of ours.
}

// end returns the end of the axis: a forecast shortly behind the record is drawn.
func (p *Plot) end() time.Duration {
	to := max(p.To, p.From+time.Second)
	if f := p.Forecast; f != nil {
		most := time.Duration(p.Ahead * float64(to-p.From))
		to = max(to, min(f.At+(f.At-p.From)/50, to+most))
	}
	return to
}

// highest returns the upper end of the axis: the capacity, unless the memory is so
// far below that nothing could be seen. What runs out of memory now is seen with it always.
func (p *Plot) highest() float64 {
	var peak float64
	for _, s := range p.Used.stretches() {
		for _, x := range s {
			peak = math.Max(peak, x.high)
		}
	}
	for _, t := range p.Troughs {
		peak = math.Max(peak, t.V)
	}
	if p.Last != nil {
		peak = math.Max(peak, p.Last.V)
	}
	switch {
	case p.Capacity > 0 && (peak > 0.3*p.Capacity || p.Forecast != nil && (p.Last != nil || p.Forecast.At <= p.end())):
		return 1.04 * math.Max(p.Capacity, peak)
	case peak > 0:
		return 1.15 * peak
	}
	return 1 << 20
}

func (c *canvas) x(t time.Duration) float64 {
	return width * float64(t-c.From) / float64(c.to-c.From)
}

func (c *canvas) y(v float64) float64 {
	return c.bottom() - (c.bottom()-top)*math.Min(v/c.highest, 1)
}

// bottom is where the amount of 0 is.
func (c *canvas) bottom() float64 { return c.Height - axis }

// percent writes a place of the axis of time outside of the curves.
func percent(x float64) string { return short(100*x/width) + "%" }

// used draws the memory as the band between its lowest and highest values.
func (c *canvas) used() {
	for _, s := range c.stretches() {
		up, down := make([]Point, len(s)), make([]Point, len(s))
		for i, x := range s {
			up[i], down[len(s)-1-i] = Point{x.t, x.high}, Point{x.t, x.low}
		}
		fmt.Fprintf(&c.b, `<path class="used" d="M%s L%s Z"/>`, c.path(up), c.path(down))
	}
}

// stretches returns the parts of the memory without a gap. The last one ends with the last sample.
func (c *canvas) stretches() []stretch {
	list := c.Used.stretches()
	if c.Last == nil {
		return list
	}
	end := extreme{c.Last.T, c.Last.V, c.Last.V}
	if len(list) == 0 {
		return []stretch{{end}}
	}
	last := &list[len(list)-1]
	*last = append(*last, end)
	return list
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
		b.WriteString(short(c.x(p.T)))
		b.WriteByte(',')
		b.WriteString(short(c.y(p.V)))
	}
	return b.String()
}

// short writes a place to a tenth of a pixel.
func short(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

// lines draws the troughs, the fitted line and the forecast.
func (c *canvas) lines() {
	if len(c.Troughs) > 1 {
		fmt.Fprintf(&c.b, `<polyline class="trough" points="%s"/>`, c.path(thin(c.Troughs)))
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
	fmt.Fprintf(&c.b, `<polygon class="%sband" points="%s"/>`, f.doubt(), c.path(append(corners, latest)))
	c.line(f.doubt()+"forecast", f.From, c.cut(f.From, f.At))
}

// cut returns where the line from a to the capacity at time t ends: there, or at
// the end of an axis. The capacity may lie beyond that of memory: a line that was cut
// off there by its amount alone would be less steep than the forecast.
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

// spans shades the time in which a leak was told.
func (c *canvas) spans() {
	for _, s := range c.Alarms {
		x := c.x(s.From)
		fmt.Fprintf(&c.b, `<rect class="leak" x="%s" y="%g" width="%s" height="%g"/>`, short(x), float64(top), short(math.Max(c.x(s.To)-x, 1)), c.bottom()-top)
	}
}

// limit draws the capacity, where the forecast meets it, the last sample, and the present if the axis
// goes on behind it.
func (c *canvas) limit() {
	if c.Capacity > 0 && c.Capacity <= c.highest {
		y := c.y(c.Capacity)
		fmt.Fprintf(&c.b, `<line class="capacity" x1="0" x2="100%%" y1="%s" y2="%s"/><text class="limit" x="-8" y="%s" text-anchor="end">%s</text>`,
			short(y), short(y), short(y+4), humanize.Bytes(c.Capacity))
	}
	if c.Last != nil {
		fmt.Fprintf(&c.b, `<circle class="last" cx="%s" cy="%s" r="4"/>`, percent(c.x(c.Last.T)), short(c.y(c.Last.V)))
	}
	f := c.Forecast
	if f == nil {
		return
	}
	if c.to > c.To {
		fmt.Fprintf(&c.b, `<line class="now" x1="%s" x2="%s" y1="%g" y2="%g"/>`, percent(c.x(c.To)), percent(c.x(c.To)), top, c.bottom())
	}
	meets := c.cut(f.From, f.At)
	x, text := c.x(meets.T), "full "+c.clock(f.At, "15:04")
	if meets.V == c.Capacity {
		fmt.Fprintf(&c.b, `<circle class="%sfull" cx="%s" cy="%s" r="5"/>`, f.doubt(), percent(x), short(c.y(meets.V)))
	}
	switch {
	case f.At-c.To > 365*24*time.Hour:
		return // no clock is needed for that
	case c.clock(f.At, "Jan 2") != c.clock(c.To, "Jan 2"):
		text = "full " + c.clock(f.At, "Jan 2 15:04")
	}
	if f.At > c.to {
		text += " →"
	}
	fmt.Fprintf(&c.b, `<text class="%sfull" x="%s" dx="-8" y="%s" text-anchor="end">%s</text>`, f.doubt(), percent(x), short(math.Max(c.y(meets.V)-6, top-9)), text)
}

func (f *Forecast) doubt() string {
	if f.Doubtful {
		return "doubtful "
	}
	return ""
}

// marks draws when leaks were told and taken back.
func (c *canvas) marks() {
	last := math.Inf(-1)
	mark := func(t time.Duration, class, text string) {
		x := c.x(t)
		fmt.Fprintf(&c.b, `<line class="%s" x1="%s" x2="%s" y1="%g" y2="%g"/>`, class, percent(x), percent(x), top-10, c.bottom())
		room := x - last
		if room < textWidth {
			return
		}
		last = x
		anchor, dx := "start", 4
		if x > width-textWidthPhone {
			anchor, dx = "end", -4
		}
		if room < textWidthPhone {
			class += " wide"
		}
		fmt.Fprintf(&c.b, `<text class="%s" x="%s" dx="%d" y="%g" text-anchor="%s">%s %s</text>`, class, percent(x), dx, top-14, anchor, text, c.clock(t, "15:04"))
	}
	for _, s := range c.Alarms {
		mark(s.From, "alarm", c.Alarm)
		if !s.Open {
			mark(s.To, "alarm end", "cleared")
		}
	}
}

func (c *canvas) clock(t time.Duration, format string) string {
	return time.Unix(0, int64(t)).In(c.Location).Format(format)
}
