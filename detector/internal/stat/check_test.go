// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"testing"
	"time"
)

// What an index, a division or a root would fail on is refused, and no more.
func TestChecks(t *testing.T) {
	window := func(b Block) *Window { return &Window{Span: time.Hour, open: b} }
	for name, c := range map[string]struct {
		v  interface{ Check(time.Duration) bool }
		ok bool
	}{
		"a full crest":          {&Crest[Bytes]{Head: 59, Len: 60}, true},
		"a slot too far":        {&Crest[Bytes]{Head: 60}, false},
		"too many slots":        {&Crest[Bytes]{Len: 61}, false},
		"no spikes":             {&Spikes{}, true},
		"a spike slot too far":  {&Spikes{Next: 12}, false},
		"too many spike slots":  {&Spikes{Len: 13}, false},
		"no trend":              {&Trend{}, true},
		"it falls":              {&Trend{Rate: -1}, false},
		"a negative variance":   {&Trend{Variance: -1}, false},
		"a window":              {&Window{Span: time.Hour}, true},
		"a window of no length": {&Window{}, false},
		"a block":               {window(Block{Moments: Moments{N: 2, Y: MaxBytes, XX: 1, XY: -5, YY: 7}}), true},
		"less than no samples":  {window(Block{Moments: Moments{N: -1}}), false},
		"far away":              {window(Block{Moments: Moments{X: math.MaxFloat64}}), false},
		"a negative square":     {window(Block{Moments: Moments{YY: -1}}), false},
		"next to no time":       {window(Block{Moments: Moments{N: 2, XX: math.SmallestNonzeroFloat64}}), false},
		"covered for too long":  {window(Block{Covered: time.Hour + 1}), false},
		"a block of later":      {window(Block{Moments: Moments{From: time.Hour + 1}}), false},
	} {
		if got := c.v.Check(time.Hour); got != c.ok {
			t.Errorf("%s: %t", name, got)
		}
	}
}
