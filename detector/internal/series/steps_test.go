// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"math"
	"testing"
	"time"
)

// taking is a memory of base MiB that takes those steps, in MiB, so far apart: the first one that long after start.
// A step of 0 is none.
func taking(base float64, apart time.Duration, sizes ...float64) func(time.Duration) float64 {
	return func(t time.Duration) float64 {
		v := base
		for i, size := range sizes {
			if t >= time.Duration(i+1)*apart {
				v += size
			}
		}
		return v
	}
}

// Four steps of like size without a return are a leak where the memory is half full; the steps of another kind are none.
func TestSteps(t *testing.T) {
	const half, quarter = 30 * time.Minute, 15 * time.Minute
	for _, c := range []struct {
		name string
		used func(time.Duration) float64 // MiB of 80 GiB
		want bool
	}{
		{"four like ones", taking(40960, half, 2048, 2048, 2048, 2048), true},
		{"four of nearly like size", taking(40960, half, 2048, 2500, 2100, 2300), true},
		{"six hours apart", taking(40960, 6*time.Hour, 2048, 2048, 2048, 2048), true},
		{"four from nothing on", taking(0, half, 12288, 12288, 12288, 12288), true},
		{"four after a large one", taking(32768, half, 8192, 2048, 2048, 2048, 2048), true},
		{"three", taking(40960, half, 2048, 2048, 2048), false},
		{"four unlike ones", taking(40960, half, 2048, 4096, 1024, 3072), false},
		{"one of four is larger", taking(40960, half, 2048, 2048, 2048, 4096), false},
		{"four small ones", taking(40960, half, 256, 256, 256, 256), false},
		{"all were given back", taking(40960, half, 2048, 2048, -4096, 2048, 2048, -4096, 2048, 2048), false},
		{"one of them was", taking(40960, half, 2048, 2048, -2048, 2048, 2048), false},
		{"as much was given back before", taking(40960, half, 1024, 3072, 1024, 4096, -9216, 2048, 2048, 2048, 2048), false},
		{"up and down", taking(40960, half, 2048, -2048, 2048, -2048, 2048, -2048, 2048, -2048), false},
		{"the memory is not half full", taking(10240, half, 2048, 2048, 2048, 2048), false},
		{"minutes apart, as models are loaded", taking(40960, 3*time.Minute, 2048, 2048, 2048, 2048), false},
		{"the first one loads", taking(40960, quarter/3, 2048, 0, 0, 0, 0, 0, 2048, 0, 0, 0, 0, 0, 2048, 0, 0, 0, 0, 0, 2048), false},
	} {
		w := watching(defaults(), 15*time.Second)
		w.sample.Started = start
		told := false
		w.look = func() { told = told || w.Leaks() }
		w.watch(26*time.Hour, c.used)
		equal(t, told, c.want, "%s: a leak", c.name)
	}
}

// What drifts takes no steps, however fast: it is judged by its line.
func TestDriftTakesNoSteps(t *testing.T) {
	for _, rate := range []float64{0.002, 0.02, 0.2, 0.5} { // MiB/s
		w := watching(defaults(), 15*time.Second)
		w.look = func() {
			if len(w.Steps.Taken) > 0 {
				t.Errorf("%v MiB/s: a step at %v", rate, w.now)
				w.look = func() {}
			}
		}
		w.watch(20*time.Hour, leaking(40960, time.Hour, rate))
	}
}

// The leak of steps began with the first one, above the level before it, and goes on at their pace.
func TestLeakOfSteps(t *testing.T) {
	w := watching(defaults(), 15*time.Second)
	w.watch(2*time.Hour+20*time.Minute, taking(40960, 30*time.Minute, 2048, 2048, 2048, 2048))
	l := &w.Leak
	if !w.Leaks() || l.Base != 40*gib || (l.Since-start-30*time.Minute).Abs() > 10*time.Minute {
		t.Fatalf("%t, since %v, above %v GiB", w.Leaks(), l.Since-start, l.Base/gib)
	}
	if rate := 2048 * float64(mib) / 1800; l.Trend.Rate < 0.9*rate || l.Trend.Rate > 1.1*rate {
		t.Errorf("%.0f bytes a second, want %.0f", l.Trend.Rate, rate)
	}
}

// What drifted up before the steps that count has not leaked by them.
func TestDriftBeforeSteps(t *testing.T) {
	w := watching(defaults(), 15*time.Second)
	steps := taking(40960, 30*time.Minute, 2048, 0, 0, 0, 0, 0, 0, 2048, 2048, 2048, 2048)
	w.watch(6*time.Hour, func(at time.Duration) float64 { return steps(at) + 200*math.Floor(min(at, 4*time.Hour).Minutes()/10) })
	if from := w.Steps.Taken[0].From / mib; len(w.Steps.Taken) != countedSteps || from < 40960+2048+3000 {
		t.Errorf("%d steps, from %d MiB on", len(w.Steps.Taken), from)
	}
}
