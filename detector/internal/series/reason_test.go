// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// filling returns the rate in bytes per second that fills 60 GiB, which are left, in that time.
func filling(in time.Duration) float64 { return float64(60*gib) / in.Seconds() }

// How long growth must last, and what for: of a series that was known for long and computes, unless a
// row says otherwise. Its memory fills in three hours, so that it is neither a ramp nor a daily load.
func TestReasonsToWait(t *testing.T) {
	cfg := defaults()
	settle, span := cfg.SettleTime, cfg.MinSpan
	const ahead = 3 * time.Hour
	loads := func(s *Series) { s.BusyAt, s.WorkedAt = start, 0 } // nobody has computed
	small := func(s *Series) { s.Capacity = total / 2 }
	idle := stat.Bytes(IdleLevel(total))
	times := func(x float64, d time.Duration) time.Duration { return time.Duration(x * float64(d)) }
	for _, c := range []struct {
		name   string
		change func(s *Series, g *Growth)
		need   time.Duration
		why    Withheld
	}{
		{"any growth", func(*Series, *Growth) {}, span, WithheldMinSpan},

		{"it fills the capacity in as long as a ramp", func(s *Series, g *Growth) { small(s); g.Rate = float64(total/2) / rampFill.Seconds() }, span, WithheldMinSpan},
		{"faster", func(s *Series, g *Growth) { small(s); g.Rate = 1.01 * float64(total/2) / rampFill.Seconds() }, times(rampTimes, span), WithheldLoadRamp},
		{"of an unknown capacity", func(s *Series, g *Growth) {
			g.Rate, s.Capacity, s.Left = 1.01*float64(total/2)/rampFill.Seconds(), 0, 0
		}, span, WithheldMinSpan},
		{"as fast as programs load", func(s *Series, g *Growth) { small(s); g.Rate = 1.01 * loadRate }, times(2*rampTimes, span), WithheldLoadRamp},
		{"the same of a large memory: no ramp", func(s *Series, g *Growth) { g.Rate, s.Capacity = 1.01*loadRate, 10*total }, 2 * span, WithheldLoadRamp},
		{"not quite as fast", func(s *Series, g *Growth) { g.Rate, s.Capacity = loadRate, 10*total }, span, WithheldMinSpan},
		{"as fast, and no pool keeps it", func(s *Series, g *Growth) { small(s); s.poolless, g.Rate = true, 1.01*loadRate }, span, WithheldMinSpan},
		{"the same from its start on", func(s *Series, g *Growth) { small(s); s.poolless, g.Rate, g.Since = true, 1.01*loadRate, start }, shortSettle, WithheldProgramBegin},

		{"as fast as programs load, without compute", func(s *Series, g *Growth) { loads(s); g.Rate = 1.01 * loadRate }, settle, WithheldProgramLoad},
		{"not as fast", func(s *Series, g *Growth) { loads(s); g.Rate = loadRate; s.Capacity = 10 * total }, span, WithheldMinSpan},
		{"it computed since the growth began", func(s *Series, g *Growth) { loads(s); s.BusyAt = g.Since + 1; g.Rate = 1.01 * loadRate }, 2 * span, WithheldLoadRamp},
		{"it computed before", func(s *Series, g *Growth) {
			loads(s)
			s.WorkedAt = start
			g.Rate = 1.01 * loadRate
		}, 2 * span, WithheldLoadRamp},

		{"from an idle memory on", func(_ *Series, g *Growth) { g.SteadyBase, g.Rate = idle, idleLoadRate+1 }, settle, WithheldProgramBegin},
		{"from above that on", func(_ *Series, g *Growth) { g.SteadyBase, g.Rate = idle+1, idleLoadRate+1 }, span, WithheldMinSpan},
		{"from an idle memory on, slowly", func(_ *Series, g *Growth) { g.SteadyBase, g.Rate = idle, idleLoadRate }, span, WithheldMinSpan},

		{"quiet before for as long as it must be", func(_ *Series, g *Growth) { g.Since = start + settled }, span, WithheldMinSpan},
		{"shorter", func(_ *Series, g *Growth) { g.Since = start + settled - 1 }, settle, WithheldProgramBegin},
		{"its program is old, but was first seen late", func(s *Series, g *Growth) { g.Since, s.Began = start+settled-1, start-time.Hour }, settle, WithheldProgramBegin},
		{"its program is young, and was seen before it", func(s *Series, g *Growth) { s.Began = g.Since - settled + 1 }, settle, WithheldProgramBegin},
		{"quiet for a third of the growth", func(_ *Series, g *Growth) { g.Since, g.End = start+15*time.Minute, start+time.Hour }, span, WithheldMinSpan},
		{"for less than a third", func(_ *Series, g *Growth) { g.Since, g.End = start+15*time.Minute-1, start+time.Hour+3 }, settle, WithheldProgramBegin},
		{"nearly full", func(s *Series, g *Growth) { g.Since, s.Left = start, 0 }, shortSettle, WithheldProgramBegin},
		{"soon full", func(s *Series, g *Growth) { g.Since, s.Left = start, s.Left/30 }, nearTimes * ahead / 30, WithheldProgramBegin},
		{"begun with its program, of an unknown capacity", func(s *Series, g *Growth) { g.Since, s.Capacity, s.Left = start, 0, 0 }, settle, WithheldProgramBegin},

		{"slow, within a while", func(_ *Series, g *Growth) { g.Rate, g.Lasted = filling(10*time.Hour), slowSpan }, span, WithheldMinSpan},
		{"slow, after it", func(_ *Series, g *Growth) { g.Rate, g.Lasted = filling(10*time.Hour), slowSpan+1 }, times(slowShare, 10*time.Hour), WithheldDailyLoad},
		{"slow, of wide blocks, within a few of them", func(s *Series, g *Growth) {
			s.Scales[0].Width = 5 * time.Minute
			g.Rate, g.Lasted = filling(10*time.Hour), slowBlocks*5*time.Minute
		}, span, WithheldMinSpan},
		{"not as slow", func(_ *Series, g *Growth) { g.Rate, g.Lasted = filling(slowAhead-time.Second), time.Hour }, span, WithheldMinSpan},
		{"so slow that a day must do", func(_ *Series, g *Growth) { g.Rate, g.Lasted = filling(100*time.Hour), time.Hour }, day, WithheldDailyLoad},
		{"slow, but nobody computes with it", func(s *Series, g *Growth) { g.Rate, g.Lasted, s.Loadless = filling(10*time.Hour), time.Hour, true }, span, WithheldMinSpan},
		{"slow, of an unknown capacity", func(s *Series, g *Growth) {
			g.Rate, g.Lasted, s.Capacity, s.Left = filling(10*time.Hour), time.Hour, 0, 0
		}, span, WithheldMinSpan},
		{"slow and begun with its program: the longer one", func(_ *Series, g *Growth) { g.Rate, g.Lasted, g.Since = filling(10*time.Hour), time.Hour, start }, times(slowShare, 10*time.Hour), WithheldDailyLoad},
	} {
		s := told(cfg)
		g := Growth{Since: s.Last - time.Hour, Lasted: 10 * time.Minute, Base: 20 * gib, SteadyBase: 20 * gib, Rate: filling(ahead)}
		c.change(s, &g)
		s.wait(&g)
		if d := g.Need - c.need; d < -time.Millisecond || d > time.Millisecond || g.Reason != c.why {
			t.Errorf("%s: %s for %s, want %s for %s", c.name, g.Need, g.Reason, c.need, c.why)
		}
	}
}

// Where the settle time is none, only what is never shorter is left.
func TestNoSettleTime(t *testing.T) {
	cfg := defaults()
	cfg.SettleTime = 0
	s := told(cfg)
	g := Growth{Since: start, Lasted: 10 * time.Minute, Base: 20 * gib, SteadyBase: 20 * gib, Rate: filling(3 * time.Hour)}
	if s.wait(&g); g.Need != cfg.MinSpan || g.Reason != WithheldMinSpan {
		t.Errorf("%s for %s", g.Need, g.Reason)
	}
}

// What growth has waited is enough from when it needs not wait any more, and less in proportion before.
func TestWaited(t *testing.T) {
	span := defaults().MinSpan
	for _, c := range []struct {
		lasted time.Duration
		want   float64
	}{{span, 1}, {span + 1, 1}, {span / 2, enough / 2}, {0, 0}, {-time.Second, 0}} {
		s := told(defaults())
		g := Growth{Since: s.Last - time.Hour, Lasted: c.lasted, Base: 20 * gib, SteadyBase: 20 * gib, Rate: filling(3 * time.Hour)}
		s.wait(&g)
		about(t, c.lasted.String(), g.Waited, c.want)
	}
}

// Each row of the table is a reason of its own, has a name, and no other reason has one.
func TestReasonsHaveNames(t *testing.T) {
	names := map[string]bool{}
	for i, r := range reasons {
		if name := r.why.String(); name == "" || names[name] {
			t.Errorf("row %d: %q", i, name)
		}
		names[r.why.String()] = true
	}
	if len(names) != int(numWithheld)-1 || WithheldNone.String() != "" || numWithheld.String() != "" || Withheld(255).String() != "" {
		t.Errorf("%d rows of %d reasons", len(names), numWithheld-1)
	}
}

// What is left is that of the whole memory, none where others have taken it, and no sum overflows.
func TestTimeAhead(t *testing.T) {
	for _, c := range []struct {
		name string
		left stat.Bytes
		rate float64
		want time.Duration
	}{
		{"an hour", 3600 * mib, float64(mib), time.Hour},
		{"nothing is left", 0, float64(mib), 0},
		{"more than all is taken", -gib, float64(mib), 0},
		{"next to no growth", 60 * gib, 1e-9, 365 * day},
	} {
		s := told(defaults())
		s.Left = c.left
		if got := s.ahead(&Growth{Rate: c.rate}); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestIdleLevel(t *testing.T) {
	for _, c := range []struct {
		capacity stat.Bytes
		want     float64
	}{{0, idleBytes}, {total, idleBytes}, {1000 * gib, idleRatio * float64(1000*gib)}} {
		if got := IdleLevel(c.capacity); got != c.want {
			t.Errorf("%d GiB: %g, want %g", c.capacity/gib, got, c.want)
		}
	}
}

// What is below the height of earlier lives is excused until it is above that, or much older than they were
// when they rose.
func TestPriorLives(t *testing.T) {
	const age = 5 * time.Hour
	g := Growth{Base: 10 * stat.Bytes(1<<30), Retained: 1 << 30, Rate: 1 << 20, Lasted: time.Hour}
	for _, c := range []struct {
		name  string
		prior Prior
		need  time.Duration
	}{
		{"none", Prior{}, 0},
		{"a GiB to go", Prior{Ceiling: 12 << 30, Rose: time.Hour}, time.Hour + 1024*time.Second},
		{"it is above", Prior{Ceiling: 10 << 30, Rose: time.Hour}, 0},
		{"it is as old as they may be", Prior{Ceiling: 12 << 30, Rose: (age - roseSpare) / roseTimes}, 0},
		{"nearly", Prior{Ceiling: 12 << 30, Rose: (age - roseSpare + time.Minute) / roseTimes}, time.Hour + time.Minute},
	} {
		s := told(defaults())
		s.Prior, s.Began, s.Last = c.prior, start, start+age
		if need := s.priorLives(&g); need != c.need {
			t.Errorf("%s: %s, want %s", c.name, need, c.need)
		}
	}
}
