// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"math"
	"testing"
	"time"
)

// The table of the study: K for p <= 1e-3.
func TestRecords(t *testing.T) {
	for n, k := range map[int]int{10: 11, 15: 15, 20: 17, 30: 22, 60: 32, 96: 42} {
		if recordsOf(n, k) > 1e-3 || recordsOf(n, k-1) <= 1e-3 {
			t.Errorf("n = %d: %g at %d, %g at %d", n, recordsOf(n, k-1), k-1, recordsOf(n, k), k)
		}
	}
	near(t, "all records", recordsOf(10, 11), math.Exp2(-10))
	near(t, "any record", recordsOf(10, 1), 1)
	near(t, "one of Poisson 2 or more", poissonTail(2, 1), 1-math.Exp(-2))
	near(t, "three of Poisson 2 or more", poissonTail(2, 3), 1-5*math.Exp(-2))
}

// firstAlarm returns the second of the first alarm in n samples of a second, or -1.
func firstAlarm(r Rule, n int, used func(i int) float64) int {
	for i := range n {
		r.Observe(time.Duration(i)*time.Second, int64(used(i)/(2*mib))*2*mib, 80<<30)
		if leak, _, _, _ := r.Verdict(); leak {
			return i
		}
	}
	return -1
}

// The study's median for such a leak is 520 s, over backgrounds of all kinds. This
// one has none: it is found as soon as its span may count.
func TestPrototypeLine(t *testing.T) {
	const onset = 1800
	p := NewPrototype()
	line := func(i int) float64 { return 10<<30 + 0.5*mib*float64(max(0, i-onset)) }
	after := firstAlarm(p, 2*3600, line) - onset
	if after < prototypeSpan || after > 700 {
		t.Fatalf("alarm %d s after the onset", after)
	}
	_, eta, lower, upper := p.Verdict()
	want := (80<<30 - line(onset+after)) / (0.5 * mib)
	if math.Abs(eta-want) > 0.05*want || lower > want || upper < want {
		t.Errorf("%.0f s (%.0f to %.0f), want %.0f", eta, lower, upper, want)
	}
	t.Logf("%d s after the onset: %.0f s (%.0f to %.0f), truly %.0f", after, eta, lower, upper, want)
}

// The sawtooth is as slow as can be: from 15 min on, its first straight rise is
// taken for a leak, as the study says of fills.
func TestPrototypeSilent(t *testing.T) {
	for name, used := range map[string]func(i int) float64{
		"constant": func(int) float64 { return 10 << 30 },
		"sawtooth": func(i int) float64 { return 10<<30 + 2<<30*float64(i%600)/600 },
		"step":     func(i int) float64 { return 10<<30 + 5<<30*float64(min(1, i/5000)) },
	} {
		if at := firstAlarm(NewPrototype(), 48*3600, used); at >= 0 {
			t.Errorf("%s: alarm at %d s", name, at)
		}
	}
}

// Two of the study's medians: 5510 s for steps of 500 MiB at 0.5 MiB/s, and 1800 s
// for the same rate under a cycle of 120 s and 1.5 GB.
func TestPrototypeAsMeasured(t *testing.T) {
	const onset = 1800
	for name, c := range map[string]struct {
		used        func(grown float64, i int) float64
		least, most int
	}{
		"stairs": {func(grown float64, _ int) float64 { return math.Floor(grown/500) * 500 }, 5000, 6000},
		"cyclic": {func(grown float64, i int) float64 { return grown + 1500*float64(i%120)/120 }, 1600, 2000},
	} {
		after := firstAlarm(NewPrototype(), 12*3600, func(i int) float64 {
			return mib * (10240 + c.used(0.5*float64(max(0, i-onset)), i))
		}) - onset
		if after < c.least || after > c.most {
			t.Errorf("%s: alarm %d s after the onset", name, after)
		}
	}
}

func BenchmarkPrototype(b *testing.B) {
	p := NewPrototype()
	for i := 0; b.Loop(); i++ {
		p.Observe(time.Duration(i)*time.Second, 10<<30+int64(i%7200)*mib/4, 80<<30)
	}
}
