// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// The pattern of whole series, sampled every five seconds, at a time after their begin.
func TestPatternOfMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const hour = time.Hour
	every := func(d time.Duration) func(time.Duration) float64 { // from 0 to 1, again and again
		return func(t time.Duration) float64 { return float64(t%d) / float64(d) }
	}
	spike := func(apart time.Duration) func(time.Duration) float64 {
		return func(t time.Duration) float64 {
			if t%apart < 10*time.Second {
				return 14000
			}
			return 10000
		}
	}
	for _, c := range []struct {
		name   string
		memory func(t time.Duration) float64
		at     time.Duration
		want   Pattern
	}{
		{"too young", steadily(10000), 4 * time.Minute, PatternUnknown},
		{"constant", steadily(10000), hour, PatternStable},
		{"jitter of less than a quantum", func(time.Duration) float64 { return 10000 + rng.Float64() }, hour, PatternStable},
		{"a model that loads", func(t time.Duration) float64 { return 2000 + min(8*t.Seconds(), 20000) }, hour / 4, PatternWarmup},
		{"a cache that fills", func(t time.Duration) float64 { return 2000 + 20000*(1-math.Exp(-t.Seconds()/600)) }, hour / 2, PatternWarmup},
		{"and has filled", func(t time.Duration) float64 { return 2000 + 20000*(1-math.Exp(-t.Seconds()/150)) }, 12 * hour, PatternPlateau},
		{"a step up", func(t time.Duration) float64 { return 10000 + 5000*math.Floor(min(1, t.Hours()*2)) }, hour, PatternStep},
		{"a step down", func(t time.Duration) float64 { return 20000 - 5000*math.Floor(min(1, t.Hours()*2)) }, hour, PatternStep},
		{"batches of five minutes", func(t time.Duration) float64 { return 10000 + 6000*every(5*time.Minute)(t) }, hour, PatternSawtooth},
		{"requests all the time", func(time.Duration) float64 { return 10000 + 40*float64(rng.IntN(200)) }, hour, PatternSawtooth},
		{"they have ended", func(t time.Duration) float64 {
			if t > hour {
				return 10000
			}
			return 10000 + 6000*every(5*time.Minute)(t)
		}, 3 * hour, PatternStep},
		{"tuning now and then", spike(2 * time.Minute), hour, PatternSpikes},
		{"twice an hour", spike(hour / 2), hour - time.Minute, PatternStable},
		{"a leak", leaking(40000, hour/2, 2), hour, PatternLeakLinear},
		{"a leak for a day", leaking(10000, hour/2, 0.5), 17 * hour, PatternLeakLinear},
		{"a leak in jumps", func(t time.Duration) float64 { return 40000 + 200*math.Floor(max(0, t.Minutes()-30)) }, hour, PatternLeakStaircase},
		{"a leak under batches", func(t time.Duration) float64 { return leaking(20000, hour, 3)(t) + 6000*every(time.Minute)(t) }, 2 * hour, PatternLeakCyclic},
	} {
		w := watching(defaults(), 5*time.Second)
		w.sample.Started = 0 // with the first sample
		w.watch(c.at, c.memory)
		var v Verdict
		if w.Judge(&v); v.Pattern != c.want || v.Leak != c.want.Leaks() {
			t.Errorf("%s: %q, leak %t; want %q", c.name, v.Pattern, v.Leak, c.want)
		}
	}
}

// The first pattern that fits is it: of a series at rest, five hours old. The steps and the cycles of a leak of 16 MiB a cycle
// give it its name.
func TestWhichPatternFits(t *testing.T) {
	const length = time.Minute
	cycling := func(s *Series, ago float64) {
		s.Cycles = Cycles{N: sawtoothCycles, Length: length, Ended: stat.Point{At: s.Last - time.Duration(ago*float64(length))}}
	}
	retained := float64(16 * mib) // a cycle
	leak := func(change func(s *Series)) func(s *Series) {
		return func(s *Series) {
			cycling(s, 1)
			s.Leak.On, s.Leak.Trend.Rate = true, retained/length.Seconds()
			s.Growths[0] = Growth{Levels: 20}
			change(s)
		}
	}
	spikes := func(s *Series, n int64, duty float64) { s.Windows[0].Closed.Spikes, s.Spikes.Duty = n, duty }
	for _, c := range []struct {
		name   string
		change func(s *Series)
		want   Pattern
	}{
		{"nothing", func(*Series) {}, PatternStable},
		{"it has moved", func(s *Series) { s.Scales[0].MovedBlock = 2 }, PatternStep},
		{"it was a warm-up", func(s *Series) { s.Shape.Pattern = PatternWarmup; s.Scales[0].MovedBlock = 2 }, PatternPlateau},
		{"it is too young, whatever else", func(s *Series) { s.First = s.Last; s.Leak.On = true }, PatternUnknown},
		{"a leak, whatever else", func(s *Series) { s.Leak.On, s.Idle = true, true; spikes(s, busySpikes, 0) }, PatternLeakLinear},
		{"idle, whatever else but a leak", func(s *Series) { s.Idle = true; spikes(s, busySpikes, 0); s.Growths[0] = sure(1) }, PatternIdle},
		{"spikes", func(s *Series) { spikes(s, busySpikes, 0); s.Growths[0] = sure(1) }, PatternSpikes},
		{"a spike too few", func(s *Series) { spikes(s, busySpikes-1, 0) }, PatternStable},
		{"spikes that are on for most of the time", func(s *Series) { spikes(s, busySpikes, quietDuty) }, PatternSawtooth},
		{"growth at any scale", func(s *Series) { s.Growths[4] = sure(1) }, PatternStep},
		{"the same, that began with its program", func(s *Series) { s.Growths[4] = sure(1); s.Growths[4].Since = s.Began + warmupAge - 1 }, PatternWarmup},
		{"or soon after", func(s *Series) { s.Growths[4] = sure(1); s.Growths[4].Since = s.Began + warmupAge }, PatternStep},
		{"growth that is given back in cycles", func(s *Series) { cycling(s, 1); s.Growths[0] = sure(1) }, PatternSawtooth},
		{"the same that began with its program", func(s *Series) { cycling(s, 1); s.Growths[0] = sure(1); s.Growths[0].Since = s.Began }, PatternWarmup},
		{"cycles", func(s *Series) { cycling(s, 1) }, PatternSawtooth},
		{"too few", func(s *Series) { cycling(s, 1); s.Cycles.N-- }, PatternStable},
		{"none for nearly as long as it may be", func(s *Series) { cycling(s, cyclesGone-0.1) }, PatternSawtooth},
		{"for longer", func(s *Series) { cycling(s, cyclesGone) }, PatternStable},
		{"leak: a line", leak(func(*Series) {}), PatternLeakLinear},
		{"leak: steps", leak(func(s *Series) { s.Growths[0].Flat, s.Growths[0].Step = staircaseFlat, staircaseStep }), PatternLeakStaircase},
		{"leak: smaller ones", leak(func(s *Series) { s.Growths[0].Flat, s.Growths[0].Step = 1, staircaseStep-1 }), PatternLeakLinear},
		{"leak: with growth between them", leak(func(s *Series) { s.Growths[0].Flat, s.Growths[0].Step = staircaseFlat-0.01, 1e9 }), PatternLeakLinear},
		{"leak: steps at a wide scale alone", leak(func(s *Series) { s.Growths[3] = Growth{Levels: 9, Flat: 1, Step: 1e9} }), PatternLeakLinear},
		{"leak: cycles that swing by much more", leak(func(s *Series) { s.Cycles.Size = cyclicSwing * retained }), PatternLeakCyclic},
		{"leak: by less", leak(func(s *Series) { s.Cycles.Size = cyclicSwing*retained - 1 }), PatternLeakLinear},
		{"leak: that have ended", leak(func(s *Series) { s.Cycles.Size = 1e12; s.Cycles.Ended.At = s.Last - time.Hour }), PatternLeakLinear},
		{"leak: it pauses: the name is kept", leak(func(s *Series) { s.Growths[0], s.Shape.Pattern = Growth{}, PatternLeakStaircase }), PatternLeakStaircase},
		{"leak: it pauses and had none", leak(func(s *Series) { s.Growths[0] = Growth{} }), PatternLeakLinear},
	} {
		s := told(defaults())
		c.change(s)
		equal(t, s.fitting(), c.want, "%s", c.name)
	}
}

// A pattern stays for a while, but for the begin and the end of a leak.
func TestAPatternStaysForAWhile(t *testing.T) {
	for _, c := range []struct {
		name string
		was  Pattern
		ago  time.Duration
		leak bool
		want Pattern
	}{
		{"young", PatternSpikes, patternHold - 1, false, PatternSpikes},
		{"old", PatternSpikes, patternHold, false, PatternStable},
		{"a leak begins", PatternSpikes, 1, true, PatternLeakLinear},
		{"a leak ends", PatternLeakLinear, 1, false, PatternStable},
	} {
		s := told(defaults())
		s.Shape = Shape{Pattern: c.was, Since: s.Last - c.ago}
		if c.leak {
			s.Leak.On = true
		}
		s.setPattern()
		since := s.Last
		if c.want == c.was {
			since -= c.ago
		}
		equal(t, s.Shape, Shape{c.want, since}, "%s: the pattern, and since when", c.name)
	}
}

// Each pattern but the unknown one has a name of its own, but for a crash loop, and those of leaks say so.
func TestPatternsHaveNames(t *testing.T) {
	seen := map[string]Pattern{}
	for p := range numPatterns {
		name := p.String()
		if other, twice := seen[name]; twice && p != PatternCrashLoop || (name == "") != (p == PatternUnknown) {
			t.Errorf("%d and %d are %q", p, other, name)
		}
		equal(t, p.Leaks(), len(name) > 5 && name[:5] == "leak_", "%q leaks", name)
		seen[name] = p
	}
	if numPatterns.String() != "" || Pattern(255).String() != "" {
		t.Error("what is no pattern has a name")
	}
}
