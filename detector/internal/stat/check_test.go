// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"testing"
	"time"
)

func TestChecks(t *testing.T) {
	type checker interface{ Check(time.Duration) bool }
	for name, c := range map[string]struct {
		v  checker
		ok bool
	}{
		"no crest":              {&Crest[Bytes]{}, true},
		"a full crest":          {&Crest[Bytes]{Head: 59, Len: 60}, true},
		"a slot too far":        {&Crest[Bytes]{Head: 60}, false},
		"a slot too few":        {&Crest[Bytes]{Head: -1}, false},
		"too many slots":        {&Crest[Bytes]{Len: 61}, false},
		"no spikes":             {&Spikes{}, true},
		"a spike slot too far":  {&Spikes{Next: 12}, false},
		"too many spike slots":  {&Spikes{Len: 13}, false},
		"more than always":      {&Spikes{Duty: 1.1}, false},
		"no trend":              {&Trend{}, true},
		"it falls":              {&Trend{Rate: -1}, false},
		"a negative variance":   {&Trend{Variance: -1}, false},
		"no points":             {&Trend{N: -1}, false},
		"a window":              {&Window{Span: time.Hour}, true},
		"a window of no length": {&Window{}, false},
		"no block":              {&Block{}, true},
		"a block":               {&Block{Moments: Moments{N: 2, Y: MaxBytes, XX: 1, XY: -5, YY: 7}}, true},
		"less than no samples":  {&Block{Moments: Moments{N: -1}}, false},
		"far away":              {&Block{Moments: Moments{X: math.MaxFloat64}}, false},
		"a negative square":     {&Block{Moments: Moments{YY: -1}}, false},
		"next to no time":       {&Block{Moments: Moments{N: 2, XX: math.SmallestNonzeroFloat64}}, false},
		"covered backwards":     {&Block{Covered: -1}, false},
		"covered for too long":  {&Block{Covered: time.Hour + 1}, false},
		"a block of before":     {&Block{Moments: Moments{From: -1}}, false},
		"a block of later":      {&Block{Moments: Moments{From: time.Hour + 1}}, false},
	} {
		if got := c.v.Check(time.Hour); got != c.ok {
			t.Errorf("%s: %t", name, got)
		}
	}
}
