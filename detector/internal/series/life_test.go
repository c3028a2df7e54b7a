// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"math"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// What a life is that grew steadily to its end: of a process that was loaded at 5 GiB for two minutes
// and computes, unless a row says otherwise. It is told over all of it, whatever scale holds that.
func TestLivesThatGrewToTheirEnd(t *testing.T) {
	const loaded = 2 * time.Minute
	grows := leaking(5000, loaded, 20)
	for _, c := range []struct {
		name   string
		length time.Duration
		memory func(t time.Duration) float64
		sm     stat.Value
		rate   float64 // MiB/s; 0 where it is no such life
	}{
		{"a steady life", 30 * time.Minute, grows, stat.Of(0.9), 20},
		{"a short one", 6 * time.Minute, grows, stat.Of(0.9), 20},
		{"a long one", 20 * time.Hour, leaking(5000, loaded, 0.5), stat.Of(0.9), 0.5},
		{"too short to tell", 70 * time.Second, grows, stat.Of(0.9), 0},
		{"whether it computes is not known", 30 * time.Minute, grows, stat.Value{}, 20},
		{"it never computed", 30 * time.Minute, grows, stat.Of(0), 0},
		{"it did not grow", 30 * time.Minute, steadily(5000), stat.Of(0.9), 0},
		{"it grew by less than the least", 30 * time.Minute, leaking(5000, loaded, 0.009), stat.Of(0.9), 0},
		{"it stopped before its end", 30 * time.Minute, func(t time.Duration) float64 { return grows(min(t, 20*time.Minute)) }, stat.Of(0.9), 0},
		{"just before its end", 30 * time.Minute, func(t time.Duration) float64 { return grows(min(t, 29*time.Minute)) }, stat.Of(0.9), 20},
		{"it slowed down", 30 * time.Minute, func(t time.Duration) float64 { return 5000 + 30000*(1-math.Exp(-t.Seconds()/900)) }, stat.Of(0.9), 0},
		{"it fell", 30 * time.Minute, leaking(50000, loaded, -20), stat.Of(0.9), 0},
		{"it loaded a model from idle on", 30 * time.Minute, leaking(0, 0, 20), stat.Of(0.9), 0},
		{"it grew from idle on, slowly", 2 * time.Hour, leaking(500, 0, 3), stat.Of(0.9), 3},
		{"as fast as programs load, for long", 10 * time.Minute, leaking(5000, loaded, 15), stat.Of(0.9), 15},
	} {
		w := watching(defaults(), 5*time.Second)
		w.sample.SM = c.sm
		w.watch(c.length, c.memory)
		l, grew := w.Lived()
		if grew != (c.rate > 0) {
			t.Errorf("%s: grew: %t", c.name, grew)
			continue
		}
		if l.From != w.First || l.To != w.Last {
			t.Errorf("%s: from %s to %s", c.name, l.From-start, l.To-start)
		}
		if rate := l.Trend.Rate / float64(mib); math.Abs(rate-c.rate) > 0.12*c.rate {
			t.Errorf("%s: %.2f MiB/s, want %g", c.name, rate, c.rate)
		}
		if c.rate == 20 && (l.Base < 4900*mib || l.Base > 7000*mib || l.Onset < w.First || l.Onset > start+2*loaded || l.Lasted > l.To-l.Onset) {
			t.Errorf("%s: %+v", c.name, l)
		}
	}
}

// As fast as programs load it must last for a while, and from an idle memory on nothing tells.
func TestFastLives(t *testing.T) {
	for _, c := range []struct {
		name   string
		from   float64 // MiB
		rate   float64 // MiB/s
		points int     // narrowest blocks
		grew   bool
	}{
		{"slower", 5000, 0.99 * loadRate / float64(mib), lifePoints, true},
		{"as fast as programs load", 5000, 1 + loadRate/float64(mib), lifePoints, false},
		{"for long enough", 5000, 1 + loadRate/float64(mib), int(loadLasts/narrowest) + 1, true},
		{"for a block less", 5000, 1 + loadRate/float64(mib), int(loadLasts / narrowest), false},
	} {
		s := told(defaults())
		s.Samples = 18_001 // one a second
		var l LifeGrowth
		pts := troughs(ramp(c.points, c.from, c.rate*narrowest.Seconds()))
		equal(t, s.grewSteadily(pts, narrowest, &l), c.grew, "%s: it grew", c.name)
	}
	// Its line leads back to an idle memory at the first sample.
	rate := 2 * idleLoadRate / float64(mib)
	for _, c := range []struct {
		above float64 // MiB, at the first sample
		grew  bool
	}{{-1, false}, {1, true}} {
		s := told(defaults())
		s.First, s.Last, s.Samples = block(1)-narrowest, block(1)-narrowest, 2
		from := IdleLevel(total)/float64(mib) + c.above
		var l LifeGrowth
		// The lowest of the first block is that of its begin, and all others of their end.
		pts := troughs(ramp(20, from, rate*narrowest.Seconds()))
		equal(t, s.grewSteadily(pts, narrowest, &l), c.grew, "%g MiB above an idle memory: it grew", c.above)
	}
}

// The step that led from the load to the growth is none of it.
func TestALifeBeginsAfterItsLoad(t *testing.T) {
	for _, c := range []struct {
		name string
		step float64 // MiB, before a growth of 20 steps of 10 MiB
		grew bool
	}{
		{"a step like the others", 10, true},
		{"a high one", 25, false}, // 225/21 = 10.7 a step
	} {
		var l LifeGrowth
		pts := troughs(join(mibs(5000), ramp(21, 5000+c.step, 10)))
		equal(t, told(defaults()).grewSteadily(pts, narrowest, &l), c.grew, "%s: it grew", c.name)
	}
	// With it left out the life is found.
	w := watching(defaults(), 5*time.Second)
	w.watch(30*time.Minute, func(t time.Duration) float64 {
		if t < time.Minute {
			return 3000
		}
		return leaking(20000, time.Minute, 10)(t)
	})
	if l, grew := w.Lived(); !grew || l.Base < 19000*mib {
		t.Errorf("grew %t from %d MiB on", grew, l.Base/mib)
	}
}

func TestWhatIsMutedDidNotGrow(t *testing.T) {
	cfg := defaults()
	cfg.Mute = true
	w := watching(cfg, 5*time.Second)
	w.watch(30*time.Minute, leaking(5000, time.Minute, 20))
	if l, grew := w.Lived(); grew || l.From != w.First || l.To != w.Last {
		t.Errorf("%t, %+v", grew, l)
	}
}
