// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// A forecast by hand: 1000 MiB at 1 MiB/s. z is 1.645·1.5 for five troughs, and 1.645·2.5 for three or fewer.
func TestForecastByHand(t *testing.T) {
	const square = mib * mib
	for _, c := range []struct {
		l      stat.Trend
		factor float64
	}{
		{stat.Trend{N: 5, Variance: 0.01 * square}, math.Exp(0.1 * 1.645 * 1.5)},
		{stat.Trend{N: 3, Variance: 0.01 * square}, math.Exp(0.1 * 1.645 * 2.5)},
		{stat.Trend{N: 1, Variance: 0.01 * square}, math.Exp(0.1 * 1.645 * 2.5)},
		{stat.Trend{N: 152, Variance: 0.01 * square}, math.Exp(0.1 * 1.645 * 1.01)},
		// With u = t/1000 s and z²·wander = 500 MiB²/s: (1 − u)² = u/2, and u is 2 or ½.
		{stat.Trend{N: 5, Wander: 500 * square / (2.4675 * 2.4675)}, 2},
		{stat.Trend{N: 5, Variance: 0.01 * square, Wander: 500 * square / (2.4675 * 2.4675)}, math.Exp(math.Hypot(math.Ln2, 0.24675))},
	} {
		c.l.Rate = mib
		h := leakHorizon(&c.l, 1000*mib)
		near(t, "time", h.eta, 1000, 1e-9)
		near(t, "lower bound", h.lower, 1000/math.Pow(c.factor, conformal), 1e-9)
		near(t, "upper bound", h.upper, 1000*math.Pow(c.factor, conformal), 1e-9)
	}
}

func TestForecastAtTheEnds(t *testing.T) {
	never := math.Inf(1)
	for name, c := range map[string]struct {
		l             stat.Trend
		headroom, eta float64
	}{
		"no leak":                        {stat.Trend{}, gib, never},
		"it shrinks":                     {stat.Trend{Rate: -mib}, gib, never},
		"it is no number":                {stat.Trend{Rate: math.NaN()}, gib, never},
		"no leak, and no headroom":       {stat.Trend{}, 0, never},
		"no headroom":                    {stat.Trend{Rate: mib, N: 9}, 0, 0},
		"less than none":                 {stat.Trend{Rate: mib, N: 9}, -gib, 0},
		"a thousand seconds, exactly so": {stat.Trend{Rate: mib, N: 9}, 1000 * mib, 1000},
	} {
		if h := leakHorizon(&c.l, c.headroom); h.eta != c.eta || h.lower != c.eta || h.upper != c.eta {
			t.Errorf("%s: %+v, want %+v", name, h, c)
		}
	}
}

// However absurd what it is asked, a forecast is no NaN, not negative and inside of
// its bounds.
func TestForecastIsNeverNaN(t *testing.T) {
	values := []float64{0, 1e-9, 1, mib, 1e15, MaxBytes, 1e30, 1e60}
	rooms := []float64{-1, 0, 1e-9, 1, mib, MaxBytes}
	for _, rate := range []float64{-1, 0, 1e-9, 1, mib, 1e15, 1e30} {
		for _, variance := range values {
			for _, wander := range values {
				for _, headroom := range rooms {
					l := stat.Trend{Rate: rate, Variance: variance, Wander: wander, N: 12}
					if h := leakHorizon(&l, headroom); !(h.lower >= 0 && h.lower <= h.eta && h.eta <= h.upper) {
						t.Fatalf("%+v, headroom %g: %+v", l, headroom, h)
					}
				}
			}
		}
	}
}

// The trend of several leaks is their sum, and no surer than the one of the fewest points.
func TestTrendsAdd(t *testing.T) {
	var s sum
	leak := Verdict{Leak: true}
	s.add(&leak, &stat.Trend{Rate: 10, Variance: 4, Wander: 5, N: 40})
	s.add(&leak, &stat.Trend{Rate: 30, Variance: 6, Wander: 7, N: 17})
	s.add(&leak, &stat.Trend{Rate: 20, N: 60})
	s.add(&Verdict{}, &stat.Trend{Rate: 90, N: 1})
	if s.trend.Rate != 60 || s.trend.Wander != 12 || s.trend.N != 17 {
		t.Errorf("%+v", s.trend)
	}
	near(t, "variance", s.trend.Variance, 10*2+30*math.Sqrt(6)+0.0025*(100+900+400), 1e-12)
}

// What foretells that the memory will be full is there from the fifth minute of growth on, and only where the crest itself
// grows; a leak foretells it, too, once it is known.
func TestFull(t *testing.T) {
	const onset, rate = 1800, 100 * mib / 60.0
	grown := func(s float64) float64 { return max(0, s-onset) * rate }
	noise := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name  string
		hours float64
		used  func(s float64) float64
		ends  Evidence
		rate  float64 // that the time in the end stands for
		never bool    // it may never come
		by    int     // the last second at which it may be told first
	}{
		{"flat", 2, func(float64) float64 { return 10 * gib }, EvidenceNone, 0, false, 0},
		{"noise", 2, func(float64) float64 { return 10*gib + noise.Float64()*gib }, EvidenceNone, 0, false, 0},
		{"steady", 1, func(s float64) float64 { return 10*gib + grown(s) }, EvidenceLeak, rate, false, onset + 8*60},
		{"steps each three minutes", 2, func(s float64) float64 {
			return 10*gib + math.Floor(grown(s)/(300*mib))*300*mib
		}, EvidenceLeak, rate, false, onset + 60*60},
		{"a sawtooth of twenty minutes", 3, func(s float64) float64 { return 10*gib + math.Mod(s, 1200)/1200*20*gib }, EvidenceNone, 0, false, 0},
		{"a sawtooth of five minutes that rises", 3, func(s float64) float64 {
			return 10*gib + math.Mod(s, 300)/300*4*gib + grown(s)
		}, EvidenceLeak, rate, false, onset + 70*60},
		{"growth that ends", 1, func(s float64) float64 {
			return 10*gib + 20*gib*(1-math.Exp(-max(0, s-onset)/1200))
		}, EvidenceFilling, 20 * gib / 1200 * math.Exp(-1.35), true, onset + 8*60},
		{"growth that has ended", 2, func(s float64) float64 { return 10*gib + min(grown(s), 2*gib) }, EvidenceNone, 0, false, 0},
		{"below an earlier crest", 1, func(s float64) float64 {
			if s < 600 {
				return 40 * gib
			}
			return 10*gib + grown(s)
		}, EvidenceNone, 0, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, first := newDomain(t), -1
			var j *Judgement[int]
			for s := 1; s <= int(c.hours*3600); s++ {
				j = show(t, d, frame(s, gib, proc(1, c.used(float64(s))), proc(2, 20*gib)))
				if j.Evidence != EvidenceNone && first < 0 {
					first = s
				}
				if finite := j.Device.SecondsToOOM.OK && !math.IsInf(j.Device.SecondsToOOM.V, 1); finite != (j.Evidence != EvidenceNone) || finite != j.Rate.OK {
					t.Fatalf("second %d: full in %g s at %v, evidence %q", s, j.Device.SecondsToOOM.V, j.Rate, j.Evidence)
				}
				if j.Evidence != EvidenceNone && c.by == onset+8*60 {
					namesWhoGrows(t, s, j)
				}
			}
			v := &j.Device
			if j.Evidence != c.ends {
				t.Fatalf("evidence %q; first at %d s", j.Evidence, first)
			}
			if c.rate == 0 {
				return
			}
			if first < onset+4*60 || first > c.by {
				t.Errorf("it was told first at %d s, want between %d and %d", first, onset+4*60, c.by)
			}
			near(t, "rate", j.Rate.V, c.rate, 0.25)
			near(t, "headroom over rate", j.Headroom.V/j.Rate.V, v.SecondsToOOM.V, 1e-9)
			if v.Lower.V > v.SecondsToOOM.V || v.Upper.V < v.SecondsToOOM.V || math.IsInf(v.Upper.V, 1) != c.never {
				t.Errorf("the interval [%g, %g] around %g; may never come: %t", v.Lower.V, v.Upper.V, v.SecondsToOOM.V, c.never)
			}
		})
	}
}

// namesWhoGrows checks that the first process, which grows, carries the time of the memory, leak or not, and that the second one and
// what nobody owns never end.
func namesWhoGrows(t *testing.T, s int, j *Judgement[int]) {
	t.Helper()
	v, m, other, rest := &j.Device, &j.Members[0], &j.Members[1], &j.Residual
	if m.SecondsToOOM != v.SecondsToOOM || m.Lower != v.Lower || m.Upper != v.Upper || !math.IsInf(other.SecondsToOOM.V, 1) || !math.IsInf(rest.SecondsToOOM.V, 1) {
		t.Fatalf("second %d: the memory ends in %v, who grows in %v, the other one in %v, the rest in %v", s, v.SecondsToOOM, m.SecondsToOOM, other.SecondsToOOM, rest.SecondsToOOM)
	}
}

// Somebody is woken for a leak that has filled the memory within Config.PageWithin, and for what fills it within
// Config.FillsWithin and does not slow down. The page goes on until the memory is full.
func TestPages(t *testing.T) {
	const begins = 1800
	grows := func(rate float64) func(s int) float64 { // MiB/s
		return func(s int) float64 { return 20*gib + rate*mib*float64(max(0, s-begins)) }
	}
	for _, c := range []struct {
		name   string
		memory func(s int) float64
		change func(*Config)
		pages  bool
		within float64 // s before the memory is full
		why    Evidence
	}{
		{"a leak", grows(4), nil, true, 3600, EvidenceLeak},
		{"as late as that is asked for", grows(4), func(c *Config) { c.PageWithin, c.FillsWithin = 10*time.Minute, 0 }, true, 600, EvidenceLeak},
		{"nobody is ever woken", grows(4), func(c *Config) { c.PageWithin, c.FillsWithin = 0, 0 }, false, 0, EvidenceNone},
		{"growth that nobody may call a leak", grows(20), func(c *Config) { c.Mute = true }, true, 900, EvidenceFilling},
		{"it slows down, and ends below", func(s int) float64 { return 20*gib + exp(max(0, s-begins), 52, 2400) }, nil, false, 0, EvidenceNone},
		{"the same, so fast that a line is full soon", func(s int) float64 { return 20*gib + exp(max(0, s-begins), 42, 600) }, func(c *Config) { c.Mute = true }, false, 0, EvidenceNone},
		{"a leak with hours to go", grows(1), nil, false, 0, EvidenceNone},
	} {
		d := newDomainOf(t, func(Subject[int]) Config {
			cfg := DefaultConfig()
			if c.change != nil {
				c.change(&cfg)
			}
			return cfg
		})
		var pages toggles
		var first Judgement[int]
		for s := 0; s < 6*3600 && c.memory(s) < 79*gib; s += 5 {
			j := show(t, d, frame(s, 0, proc(1, c.memory(s))))
			if j.Page && len(pages) == 0 {
				first = *j
			}
			if !c.pages && j.Page || j.Page && j.Members[0].SecondsToOOM != j.Device.SecondsToOOM { // also of a process that is muted
				t.Fatalf("%s: the process has %v, the memory %v", c.name, j.Members[0].SecondsToOOM, j.Device.SecondsToOOM)
			}
			pages.note(s, j.Page)
		}
		if c.pages && (len(pages) != 1 || first.Evidence != c.why) {
			t.Errorf("%s: a page from and to %v, by evidence %q", c.name, pages, first.Evidence)
		}
		if eta := first.Device.SecondsToOOM.V; c.pages && (eta >= c.within || eta < 0.6*c.within) {
			t.Errorf("%s: paged %g s before the memory is full", c.name, eta)
		}
	}
}
