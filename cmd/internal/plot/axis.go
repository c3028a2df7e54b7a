// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
)

const (
	maxTimeTicks = 9
	textHeight   = 14
	tickHeight   = 45           // of the distance of amounts, at least
	dateWidth    = 0.18 * width // what a text with a date needs in a card
)

// timeTicks are the distances that a clock is read by.
var timeTicks = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
}

// grid draws the axes. Every other text of the axis of time is left out where the page is narrow.
func (c *canvas) grid() {
	step := amountTick(c.highest, max(2, int(c.bottom()-top)/tickHeight))
	for v := 0.0; v <= c.highest; v += step {
		y := c.y(v)
		text := humanize.Bytes(v)
		if v == 0 {
			text = "0"
		} else if c.Capacity > 0 && math.Abs(y-c.y(c.Capacity)) < textHeight {
			text = "" // that of the capacity stands there
		}
		fmt.Fprintf(&c.b, `<line class="grid" x1="0" x2="100%%" y1="%s" y2="%s"/><text x="-8" y="%s" text-anchor="end">%s</text>`,
			short(y), short(y), short(y+4), text)
	}
	every := timeTick(c.to - c.From)
	day, dated, odd := "", -width, false
	if c.Last != nil {
		day = c.clock(c.To, "Jan 2") // the day of now is understood
	}
	for t := c.firstTick(every); t <= c.to; t += every {
		x := c.x(t)
		fmt.Fprintf(&c.b, `<line class="grid" x1="%s" x2="%s" y1="%g" y2="%g"/>`, percent(x), percent(x), c.bottom(), c.bottom()+4)
		if x > 0.96*width {
			continue // no place is left for a text
		}
		text, class, anchor := c.label(t, every), "", "middle"
		if date := c.clock(t, "Jan 2"); every < 24*time.Hour && date != day {
			if text == "00:00" {
				text = ""
			}
			text, day, dated, odd = strings.TrimSpace(date+" "+text), date, x, false // on a phone the next text is left out
		} else if x-dated < textWidth || c.Last != nil && x-dated < dateWidth {
			continue
		} else if odd {
			class = ` class="wide"`
		}
		odd = !odd
		if len(text) > 5 && x > 0.9*width {
			anchor = "end"
		}
		fmt.Fprintf(&c.b, `<text%s x="%s" y="%g" text-anchor="%s">%s</text>`, class, percent(x), c.Height-8, anchor, text)
	}
}

func (c *canvas) label(t, every time.Duration) string {
	switch {
	case every < time.Minute:
		return c.clock(t, "15:04:05")
	case every < 24*time.Hour:
		return c.clock(t, "15:04")
	}
	return c.clock(t, "Jan 2")
}

// firstTick returns the first round time that is drawn. Round is what the clock of
// the location shows.
func (c *canvas) firstTick(every time.Duration) time.Duration {
	_, offset := time.Unix(0, int64(c.From)).In(c.Location).Zone()
	local := c.From + time.Duration(offset)*time.Second
	return c.From + (every-local%every)%every
}

// timeTick returns the distance of ticks for that span.
func timeTick(span time.Duration) time.Duration {
	for _, d := range timeTicks {
		if span/d <= maxTimeTicks {
			return d
		}
	}
	days := math.Ceil(float64(span) / float64(24*time.Hour) / maxTimeTicks)
	return time.Duration(days) * 24 * time.Hour
}

// amountTick returns the distance of ticks for that amount: round in the units in
// which memory is written.
func amountTick(highest float64, most int) float64 {
	unit := 1.0
	for highest/unit >= 1024 && unit < 1<<40 {
		unit *= 1024
	}
	for _, n := range []float64{0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 200} {
		if highest/(n*unit) <= float64(most) {
			return n * unit
		}
	}
	return 256 * unit
}
