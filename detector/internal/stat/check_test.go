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
	for name, c := range map[string]struct {
		v  interface{ Check(time.Duration) bool }
		ok bool
	}{
		"a full crest":          {&Crest[Bytes]{Head: 59, Len: 60}, true},
		"a slot too far":        {&Crest[Bytes]{Head: 60}, false},
		"too many slots":        {&Crest[Bytes]{Len: 61}, false},
		"no spikes":             {&Spikes{}, true},
		"too many spike slots":  {&Spikes{Len: 13}, false},
		"no trend":              {&Trend{}, true},
		"it falls":              {&Trend{Rate: -1}, false},
		"a negative variance":   {&Trend{Variance: -1}, false},
		"a window":              {&Window{Span: time.Hour}, true},
		"a window of no length": {&Window{}, false},
		"too many blocks":       {&Window{Span: time.Hour, Blocks: make([]Block, MaxBlocks+1)}, false},
		"a block":               {&Block{Moments: Moments{N: 2, Y: MaxBytes, XX: 1, XY: -5, YY: 7}}, true},
		"less than no samples":  {&Block{Moments: Moments{N: -1}}, false},
		"a negative square":     {&Block{Moments: Moments{YY: -1}}, false},
		"next to no time":       {&Block{Moments: Moments{N: 2, XX: math.SmallestNonzeroFloat64}}, false},
		"covered for too long":  {&Block{Covered: time.Hour + 1}, false},
		"a block of later":      {&Block{Moments: Moments{From: time.Hour + 1}}, false},
	} {
		if got := c.v.Check(time.Hour); got != c.ok {
			t.Errorf("%s: %t", name, got)
		}
	}
}
