// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// chain is one of lives that grew for so long each, at those rates in MiB a second.
func chain(lasted, span time.Duration, rates ...float64) (r Loop, proven int) {
	for i, rate := range rates {
		from := time.Duration(i) * 2 * time.Hour
		r.Add(&series.Life{From: from, Onset: from, To: from + lasted, Lasted: lasted, Base: 1 << 30, Trend: stat.Trend{Rate: rate * (1 << 20), N: 9}}, span)
		if r.Proven && proven == 0 {
			proven = i + 1
		}
	}
	return r, proven
}

// Which lives in a row are a loop.
func TestProof(t *testing.T) {
	for name, c := range map[string]struct {
		rates        []float64
		lasted, span time.Duration
		want         int // lives
	}{
		"three":                   {[]float64{1, 5, 25}, 7 * time.Minute, 0, 3},
		"two":                     {[]float64{1, 5}, time.Hour, 0, 0},
		"two alike":               {[]float64{10, 14}, 10 * time.Minute, 0, 2},
		"two alike, shorter":      {[]float64{10, 14}, 9 * time.Minute, 0, 0},
		"the last two are alike":  {[]float64{1, 10, 14}, 7 * time.Minute, 0, 3},
		"six shorter ones":        {[]float64{1, 5, 25, 1, 5, 25}, 210 * time.Second, 0, 6},
		"as long as any must be":  {[]float64{1, 5, 25, 1, 5}, 20 * time.Minute, 90 * time.Minute, 5},
		"two alike, not so long":  {[]float64{10, 10}, 20 * time.Minute, 90 * time.Minute, 0},
		"one, however long it is": {[]float64{10}, 10 * time.Hour, 0, 0},
	} {
		if r, got := chain(c.lasted, c.span, c.rates...); got != c.want || r.Since != 0 {
			t.Errorf("%s: proven by %d lives since %s, want %d", name, got, r.Since, c.want)
		}
	}
}

// A loop is the surer the more lives it has; what speaks for all of them is the middle one.
func TestConfidenceOfALoop(t *testing.T) {
	last := 0.0
	for n := 2; n <= 7; n++ {
		r, _ := chain(time.Hour, 0, []float64{10, 10, 10, 10, 10, 100, 10}[:n]...)
		if c := r.Confidence(); c < max(0.7, last) || c > 1 || r.Trend.Rate != 10<<20 || r.Base != 1<<30 {
			t.Errorf("%d lives: confidence %g after %g, rate %g, base %d", n, c, last, r.Trend.Rate, r.Base)
		}
		last = r.Confidence()
		if r.Paused = true; r.Confidence() != 0 {
			t.Errorf("%d lives, paused: confidence %g", n, r.Confidence())
		}
	}
	if last != 1 {
		t.Errorf("seven lives: confidence %g", last)
	}
}

// Who is seen again has not ended: a loop that is long enough without that life goes on.
func TestRevoke(t *testing.T) {
	for n, want := range map[int]int{2: 0, 3: 0, 4: 3, 9: 8} {
		r, _ := chain(time.Hour, 0, make([]float64, n)...)
		if r.Revoke(); r.N != want {
			t.Errorf("%d lives: %d are left, want %d", n, r.N, want)
		}
	}
}

// A worker is forgotten for others that run the same.
func TestForgottenForOthersLikeIt(t *testing.T) {
	var p Pool
	for n := range time.Duration(passedOver + 1) {
		p.Leave(&Activity{Computed: 1, Started: 1 + 100*n}, "train.py", stat.Of(1<<30))
	}
	a := &Activity{Started: 50, Computed: 60}
	if !p.Forgets(a, "train.py", 1<<30) || p.Forgets(a, "ipython", 1<<30) {
		t.Errorf("train.py %t, ipython %t", p.Forgets(a, "train.py", 1<<30), p.Forgets(a, "ipython", 1<<30))
	}
}
