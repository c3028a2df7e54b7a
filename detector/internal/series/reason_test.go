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
// row says otherwise. Its memory fills in three hours, so that it is no daily load.
func TestReasonsToWait(t *testing.T) {
	cfg := defaults()
	settle, span := cfg.SettleTime, cfg.MinSpan
	const ahead = 3 * time.Hour
	idle := stat.Bytes(IdleLevel(total))
	times := func(x float64, d time.Duration) time.Duration { return time.Duration(x * float64(d)) }
	for _, c := range []struct {
		name   string
		change func(s *Series, g *Growth)
		need   time.Duration
		why    Withheld
	}{
		{"any growth", func(*Series, *Growth) {}, span, WithheldMinSpan},
		{"as fast as programs load", func(_ *Series, g *Growth) { g.Rate = 1.01 * loadRate }, span, WithheldMinSpan},

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
		{"begun with its program, and no pool keeps it", func(s *Series, g *Growth) { s.poolless, g.Since = true, start }, shortSettle, WithheldProgramBegin},
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
		{"begun with its program, and no settle time", func(s *Series, g *Growth) {
			none := *s.cfg
			none.SettleTime = 0
			s.cfg, g.Since = &none, start
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

// What growth has waited is enough from when it needs not wait any more, and less in proportion before.
func TestWaited(t *testing.T) {
	span := defaults().MinSpan
	for _, c := range []struct {
		lasted time.Duration
		want   float64
	}{{span, 1}, {span + 1, 1}, {span / 2, enough / 2}, {0, 0}} {
		s := told(defaults())
		g := Growth{Since: s.Last - time.Hour, Lasted: c.lasted, Base: 20 * gib, SteadyBase: 20 * gib, Rate: filling(3 * time.Hour)}
		s.wait(&g)
		about(t, c.lasted.String(), g.Waited, c.want)
	}
}

// Each row of the table is a reason of its own, has a name, and no other reason has one, but for growth that slows down:
// no time ends that.
func TestReasonsHaveNames(t *testing.T) {
	names := map[string]bool{WithheldSlowing.String(): true}
	for i, r := range reasons {
		if name := r.why.String(); name == "" || names[name] {
			t.Errorf("row %d: %q", i, name)
		}
		names[r.why.String()] = true
	}
	if len(names) != int(numWithheld)-1 || WithheldNone.String() != "" || numWithheld.String() != "" || Withheld(255).String() != "" {
		t.Errorf("%d names of %d reasons", len(names), numWithheld-1)
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
		equal(t, s.ahead(&Growth{Rate: c.rate}), c.want, "%s: time ahead", c.name)
	}
}

func TestIdleLevel(t *testing.T) {
	for _, c := range []struct {
		capacity stat.Bytes
		want     float64
	}{{0, idleBytes}, {total, idleBytes}, {1000 * gib, idleRatio * float64(1000*gib)}} {
		equal(t, IdleLevel(c.capacity), c.want, "%d GiB", c.capacity/gib)
	}
}

// What is below a height that was given back is excused until it is above that, for a day at a time, and what is above
// the height of enough lives has no excuse any more.
func TestGivenBack(t *testing.T) {
	const age = 5 * time.Hour
	for _, c := range []struct {
		name  string
		prior Prior
		rate  float64
		need  time.Duration
		why   Withheld
	}{
		{"nothing was", Prior{}, 1 << 20, time.Hour, WithheldProgramBegin},
		{"a GiB to go", Prior{Ceiling: 12 << 30}, 1 << 20, time.Hour + 1024*time.Second, WithheldGivenBack},
		{"it is there", Prior{Ceiling: 11 << 30}, 1 << 20, time.Hour + time.Second, WithheldGivenBack},
		{"it is above", Prior{Ceiling: 10 << 30}, 1 << 20, time.Hour, WithheldProgramBegin},
		{"it is above that of many lives", Prior{Ceiling: 10 << 30, Sure: true}, 1 << 20, 6 * time.Minute, WithheldMinSpan},
		{"days to go", Prior{Ceiling: 60 << 30}, 1 << 10, time.Hour + day, WithheldGivenBack},
	} {
		s := told(defaults())
		s.Prior, s.Began, s.Last, s.Loadless = c.prior, start, start+age, true
		g := Growth{Since: start, Base: 10 << 30, SteadyBase: 10 << 30, Retained: 1 << 30, Rate: c.rate, Lasted: time.Hour}
		if s.wait(&g); g.Need != c.need || g.Reason != c.why {
			t.Errorf("%s: %s for %q, want %s for %q", c.name, g.Need, g.Reason, c.need, c.why)
		}
	}
}
