// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

const (
	// crestSpan is the time over which the crest is the highest value: long enough to
	// hold an epoch of training with its evaluation, or a rush of requests.
	crestSpan = time.Hour
	// crestExit is the share of the crest that a member must have held for the crest
	// to start again when it is gone.
	crestExit = 0.1
	// fillParts is the number of parts of equal length into which growth of the crest is cut. The first one
	// is the level before it, so that the others are five minutes of growth at the least: a part
	// is one slot of the crest, or more of them where the steps of the growth are further apart.
	fillParts = 6
	// fillShare is the share of the domain's growth from which on a series contributes to it. These four
	// are chosen.
	fillShare = 0.1
	// fillLeast is the least growth, as a share of the capacity, that a forecast is made from: less
	// is the breathing of a memory, nearly full or not. From 0.5 to 2 % the benchmark is the same.
	fillLeast = 0.005
	// fillQuantile is the 95 % quantile of Student's t with fillParts − 2 degrees of freedom.
	fillQuantile = 2.132
)

// fillSlots are the lengths of a part, in slots of the crest.
var fillSlots = [...]int{1, 2, 4, 9}

// fills returns the time until headroom (bytes) is used up, whatever the reason of the growth. It is never where the crest has
// not grown in each part of the last while, to a height that it did not have in the last span, and by least bytes in all. The
// shortest parts that show growth count: they show the present growth. The slot that is still open does not count.
func fills(c *stat.Crest[stat.Bytes], headroom, least float64) horizon {
	for _, slots := range fillSlots {
		if h, ok := risen(c, slots, headroom, least); ok {
			return h
		}
	}
	return never
}

// risen is fills for parts of so many slots. The rate is the mean of five parts, and so is that of the five parts to
// come. The upper end is +Inf if the growth slows down and stops before.
func risen(c *stat.Crest[stat.Bytes], slots int, headroom, least float64) (h horizon, ok bool) {
	if c.Len < fillParts*slots+1 {
		return h, false
	}
	var at, peak [fillParts]float64 // the end of each part, s, and the highest value in it
	for i := range fillParts * slots {
		part := fillParts - 1 - i/slots
		end, _ := c.Slot(i) // the slot after it begins there
		_, v := c.Slot(i + 1)
		at[part] = max(at[part], end.Seconds())
		peak[part] = max(peak[part], float64(v))
	}
	var rates [fillParts - 1]float64
	for j := range rates {
		if rates[j] = (peak[j+1] - peak[j]) / (at[j+1] - at[j]); !(rates[j] > 0) {
			return h, false
		}
	}
	last := peak[fillParts-1]
	if last-peak[0] < least || before(c, fillParts*slots+1) > peak[0] {
		return h, false
	}
	rate := (last - peak[0]) / (at[fillParts-1] - at[0])
	wide := fillQuantile * deviation(rates[:], rate) * math.Sqrt(2/float64(len(rates)))
	h = horizon{eta: headroom / rate, lower: headroom / (rate + wide), upper: headroom / max(0, rate-wide), rate: rate, base: peak[0]}
	if toCome(rates, at[fillParts-1]-at[fillParts-2]) < headroom {
		h.upper = math.Inf(1)
	}
	return h, true
}

// before returns the highest value of the slots before the newest n, of the last span.
func before(c *stat.Crest[stat.Bytes], n int) (highest float64) {
	newest, _ := c.Slot(0)
	for i := n; i < c.Len; i++ {
		start, v := c.Slot(i)
		if start <= newest-crestSpan {
			break
		}
		highest = max(highest, float64(v))
	}
	return highest
}

// deviation returns the standard deviation of rates of that mean.
func deviation(rates []float64, mean float64) float64 {
	sum := 0.0
	for _, r := range rates {
		sum += (r - mean) * (r - mean)
	}
	return math.Sqrt(sum / float64(len(rates)-1))
}

// toCome returns the bytes that growth still brings if each part brings the same share of the one before, as a memory
// does that fills exponentially: the sum of a geometric series; +Inf if it does not slow down. part is the length of one
// in seconds.
func toCome(rates [fillParts - 1]float64, part float64) float64 {
	// Two rates at each end; their middles are three parts apart.
	factor := math.Cbrt((rates[3] + rates[4]) / (rates[0] + rates[1]))
	if factor >= 1 {
		return math.Inf(1)
	}
	return (rates[3] + rates[4]) / 2 * part * factor / (1 - factor)
}
