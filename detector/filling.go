// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

const (
	// crestSpan is over how long the crest is the highest value: long enough to
	// hold an epoch of training with its evaluation, or a rush of requests.
	crestSpan = time.Hour
	// crestExit is the share of the crest that a member must have held for the crest
	// to begin anew when it is gone.
	crestExit = 0.1
	// fillParts is into how many parts of equal length growth of the crest is cut. The first one
	// is the level before it, so that the others are five minutes of growth at the least: a part
	// is one slot of the crest, or more of them where the steps of the growth are further apart.
	fillParts = 6
	// fillShare is the share of the domain's growth from which on a series contributes to it. These four
	// are chosen.
	fillShare = 0.1
	// fillLeast is the least growth, as a share of the capacity, that a forecast is made from: less
	// is the breathing of a memory, nearly full or not. From 0.5 to 2 % the benchmark is the same.
	fillLeast = 0.005
	// newHeight is by how much of the capacity a height must exceed one that was there before to be new:
	// the peaks of epochs are not all alike. From 2 to 5 % the families for tuning are the same.
	newHeight = 0.02
	// fillQuantile is the 95 % quantile of Student's t with fillParts − 2 degrees of freedom.
	fillQuantile = 2.132
)

// fillSlots are the lengths of a part, in slots of the crest.
var fillSlots = [...]int{1, 2, 4, 9}

// crestGrowth is growth of a crest that goes on, whatever the reason.
type crestGrowth struct {
	rate, rateLow, rateHigh float64 // bytes per second, and its 90 % interval
	// toCome is what is still to come if the growth goes on to slow down as it did, in bytes;
	// +Inf if it did not.
	toCome float64
	base   float64 // the level at which it began, bytes
}

// growth returns how the crest has grown of late; ok is false where it has not grown in each
// part of the last while by turns, to a height that it did not have in the last span, and by
// least bytes in all. Of the lengths of a part the shortest that shows growth counts: it is the
// present one. The slot that is still open does not count.
func (c crestSeries) growth(least float64) (f crestGrowth, ok bool) {
	for _, slots := range fillSlots {
		if f, ok = c.grown(slots, least); ok {
			return f, true
		}
	}
	return crestGrowth{}, false
}

// crestSeries is the crest of a domain by its slots.
type crestSeries struct{ *stat.Crest[stat.Bytes] }

// slot returns the i-th slot before the newest one.
func (c crestSeries) slot(i int) (start time.Duration, peak float64) {
	s := &c.Slots[(c.Head+stat.CrestSlots-i)%stat.CrestSlots]
	return s.Start, float64(s.Max)
}

// grown is growth for parts of so many slots.
func (c crestSeries) grown(slots int, least float64) (f crestGrowth, ok bool) {
	if c.Len < fillParts*slots+1 {
		return f, false
	}
	var at, peak [fillParts]float64 // the end of each part, s, and the highest value in it
	for i := range fillParts * slots {
		part := fillParts - 1 - i/slots
		end, _ := c.slot(i) // the slot after it begins there
		_, v := c.slot(i + 1)
		at[part] = max(at[part], end.Seconds())
		peak[part] = max(peak[part], v)
	}
	var rates [fillParts - 1]float64
	for j := range rates {
		if rates[j] = (peak[j+1] - peak[j]) / (at[j+1] - at[j]); !(rates[j] > 0) {
			return f, false
		}
	}
	last := peak[fillParts-1]
	if last-peak[0] < least || c.before(fillParts*slots+1) > peak[0] {
		return f, false
	}
	f.base, f.rate = peak[0], (last-peak[0])/(at[fillParts-1]-at[0])
	wide := fillQuantile * deviation(rates[:], f.rate) * math.Sqrt(2/float64(len(rates)))
	f.rateLow, f.rateHigh = max(0, f.rate-wide), f.rate+wide
	f.toCome = toCome(rates, at[fillParts-1]-at[fillParts-2])
	return f, true
}

// before returns the highest value of the slots before the newest n, of the last span.
func (c crestSeries) before(n int) float64 {
	newest, _ := c.slot(0)
	highest := 0.0
	for i := n; i < c.Len; i++ {
		start, v := c.slot(i)
		if start <= newest-crestSpan {
			break
		}
		highest = max(highest, v)
	}
	return highest
}

// reach follows the highest use before that which the crest knows.
func (d *Domain[K]) reach() {
	if d.past.Crest.Len < stat.CrestSlots {
		return
	}
	if start, v := (crestSeries{&d.past.Crest}).slot(stat.CrestSlots - 1); start != d.past.Reaching {
		d.past.Reaching, d.past.Reached = start, max(d.past.Reached, stat.Bytes(v))
	}
}

// deviation returns the standard deviation of rates whose mean is taken to be mean.
func deviation(rates []float64, mean float64) float64 {
	sum := 0.0
	for _, r := range rates {
		sum += (r - mean) * (r - mean)
	}
	return math.Sqrt(sum / float64(len(rates)-1))
}

// toCome returns what growth is still to bring that slows down by the same factor in each part,
// as a memory does that fills exponentially: the sum of a geometric series. part is the length
// of one in seconds.
func toCome(rates [fillParts - 1]float64, part float64) float64 {
	// Two rates at each end; their middles are three parts apart.
	factor := math.Cbrt((rates[3] + rates[4]) / (rates[0] + rates[1]))
	if factor >= 1 {
		return math.Inf(1)
	}
	return (rates[3] + rates[4]) / 2 * part * factor / (1 - factor)
}

// secondsTo returns the time until headroom (bytes) is used up if the growth goes on, and its
// 90 % interval: the rate is the mean of five parts, and so is that of the five parts to come.
// The upper end is +Inf where growth that slows down as it does ends before.
func (f *crestGrowth) secondsTo(headroom float64) (eta, lower, upper float64) {
	eta, lower, upper = headroom/f.rate, headroom/f.rateHigh, headroom/f.rateLow
	if f.toCome < headroom {
		upper = math.Inf(1)
	}
	return eta, lower, upper
}
