// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package rivals holds the detection rules of other systems, built from their documents, so that they can be measured on the same
// memory.
package rivals

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Rule is a rule that says of one series of used memory whether it leaks.
type Rule interface {
	// Observe takes a sample: its time since the start, used memory and capacity in bytes. Times grow.
	Observe(t time.Duration, used, capacity int64)
	// Verdict returns what the rule says after the last sample: whether there is a leak, and the seconds to out-of-memory from now,
	// NaN where it tells none.
	Verdict() (leak bool, eta float64)
}

// The defaults of gpulse 2.2, from its configuration page: interval-seconds, analysis-window-hours, minimum-samples, min-r-squared,
// min-slope-mb-per-sec. A MB is taken for 10^6 bytes.
const (
	gpulseInterval = 30 * time.Second
	gpulseWindow   = time.Hour
	gpulseSamples  = 20
	gpulseR2       = 0.8
	gpulseSlope    = 1e6
)

// gpulse is the composite detector of gpulse with its defaults: a linear trend of at least 1 MB/s with R² of at least 0.8. Its
// documents are silent on some things. The confidence of a trend is taken to be its R², so that each trend that passes also passes
// the confidence threshold of 0.75; that of a spike alone, which is said to be lower, never does.
type gpulse struct {
	record   record
	next     time.Duration
	capacity float64
}

// NewGpulse returns the rule of gpulse.
func NewGpulse() Rule { return &gpulse{record: record{age: gpulseWindow.Seconds()}} }

// Observe implements Rule: it samples each 30 s.
func (g *gpulse) Observe(t time.Duration, used, capacity int64) {
	g.capacity = float64(capacity)
	if t < g.next {
		return
	}
	g.next = t.Truncate(gpulseInterval) + gpulseInterval
	g.record.add(t, float64(used))
}

// Verdict implements Rule: the forecast is (total - used) / slope, for a leak.
func (g *gpulse) Verdict() (leak bool, eta float64) {
	points := g.record.last()
	f, ok := fitOf(points)
	if !ok || len(points) < gpulseSamples || f.slope < gpulseSlope || f.r*f.r < gpulseR2 {
		return false, math.NaN()
	}
	return true, until(g.capacity, points[len(points)-1].v, f.slope)
}

// The thresholds of the insight "Memory Growth Trend" of gpu-memory-profiler's analyzer, and the ring of its tracker.
const (
	gpumemprofPoints = 5
	gpumemprofR      = 0.5
	gpumemprofRing   = 10_000
)

// student holds the 0.975 quantiles of Student's t with 3 to 13 degrees of freedom: where p of the two-sided test is 0.05. With 14
// and more, r = 0.5 is beyond it.
var student = [...]float64{3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160}

// gpumemprof is the temporal rule of gpu-memory-profiler: the least-squares line of memory over time rises, |r| > 0.5 and p < 0.05,
// from 5 points on. The rule is made for a finished record of profiled calls: it is asked of the last 10,000 samples, as many as
// the tracker's ring holds. It has no forecast.
type gpumemprof struct{ record record }

// NewGpumemprof returns the temporal rule of gpu-memory-profiler.
func NewGpumemprof() Rule { return &gpumemprof{record{most: gpumemprofRing}} }

// Observe implements Rule.
func (g *gpumemprof) Observe(t time.Duration, used, _ int64) { g.record.add(t, float64(used)) }

// Verdict implements Rule.
func (g *gpumemprof) Verdict() (leak bool, eta float64) {
	points := g.record.last()
	f, ok := fitOf(points)
	return ok && len(points) >= gpumemprofPoints && f.slope > 0 && f.r > gpumemprofR && significant(f.r, len(points)), math.NaN()
}

// significant reports whether the correlation r > 0 of n points has p < 0.05.
func significant(r float64, n int) bool {
	df := n - 2
	return df-3 >= len(student) || r*math.Sqrt(float64(df)/max(1-r*r, 1e-300)) > student[df-3]
}

// line is a rule on the least-squares line of a window. Its forecast is when the line reaches the capacity.
type line struct {
	record      record
	capacity    float64
	first, last time.Duration
	begun       bool
	// full says that the window must be full, always that the forecast is told without a leak, too.
	full, always bool
	leaks        func(f fit, capacity float64) bool
}

// NewPredictLinear returns the usual alert of Prometheus,
//
//	predict_linear(used[1h], 4 * 3600) > capacity
//
// As in Prometheus, two samples are enough, and the window need not be full. The alert has no "for".
func NewPredictLinear() Rule {
	const ahead = 4 * time.Hour
	return &line{record: record{age: time.Hour.Seconds()}, always: true, leaks: func(f fit, capacity float64) bool {
		return f.end+f.slope*ahead.Seconds() > capacity
	}}
}

// NewOLS returns what guides to monitoring advise where they advise a regression: the line of the last 15 minutes rises, with R² of
// at least 0.8.
func NewOLS() Rule {
	const r2 = 0.8
	return &line{record: record{age: (15 * time.Minute).Seconds()}, full: true, leaks: func(f fit, _ float64) bool {
		return f.slope > 0 && f.r*f.r >= r2
	}}
}

// Observe implements Rule.
func (l *line) Observe(t time.Duration, used, capacity int64) {
	if !l.begun {
		l.begun, l.first = true, t
	}
	l.last, l.capacity = t, float64(capacity)
	l.record.add(t, float64(used))
}

// Verdict implements Rule.
func (l *line) Verdict() (leak bool, eta float64) {
	f, ok := fitOf(l.record.last())
	if !ok || l.full && (l.last-l.first).Seconds() < l.record.age {
		return false, math.NaN()
	}
	if leak = l.leaks(f, l.capacity); !leak && !l.always {
		return false, math.NaN()
	}
	return leak, until(l.capacity, f.end, f.slope)
}

const (
	// kendallPoints is from how many points on Kendall's S is near enough to normal: 10 (Kendall, Rank Correlation Methods).
	kendallPoints = 10
	// kendallZ is the 0.995 quantile of the normal distribution: p < 0.01 in the two-sided test.
	kendallZ = 2.5758
)

// mannKendall is the test of Mann and Kendall for a trend with p < 0.01, and the slope of Sen, on the means of the minutes of the
// last hour. It is the textbook's test, for independent values: no pre-whitening, the variance corrected for ties. The forecast is
// what is free over that slope.
type mannKendall struct {
	means         record
	minute        time.Duration // the begin of the one that is open
	sum, n        float64
	now, capacity float64
}

// NewMannKendall returns the rule of Mann and Kendall.
func NewMannKendall() Rule { return &mannKendall{means: record{age: time.Hour.Seconds()}} }

// Observe implements Rule.
func (m *mannKendall) Observe(t time.Duration, used, capacity int64) {
	minute := t.Truncate(time.Minute)
	if minute != m.minute && m.n > 0 {
		m.means.add(m.minute, math.Floor(m.sum/m.n))
		m.sum, m.n = 0, 0
	}
	m.minute = minute
	m.sum += float64(used)
	m.n++
	m.now, m.capacity = float64(used), float64(capacity)
}

// Verdict implements Rule.
func (m *mannKendall) Verdict() (leak bool, eta float64) {
	points := m.means.last()
	if len(points) < kendallPoints || !(kendall(points) > kendallZ) {
		return false, math.NaN()
	}
	slope := sen(points)
	return slope > 0, until(m.capacity, m.now, slope)
}

// kendall returns z of the test of Mann and Kendall: S, less 1 towards 0, over its standard deviation, with var S = (n(n-1)(2n+5) -
// sum over the groups of u equal values of u(u-1)(2u+5)) / 18.
func kendall(points []point) float64 {
	s := 0
	values := make([]float64, len(points))
	for i, p := range points {
		values[i] = p.v
		for j := range i {
			s += cmp.Compare(p.v, values[j])
		}
	}
	slices.Sort(values)
	pairs := func(n int) float64 { return float64(n) * float64(n-1) * float64(2*n+5) }
	variance, run := pairs(len(values)), 0
	for i := range values {
		run++
		if i+1 == len(values) || values[i+1] != values[i] {
			variance -= pairs(run)
			run = 0
		}
	}
	if variance <= 0 || s == 0 {
		return 0
	}
	return float64(s-cmp.Compare(s, 0)) / math.Sqrt(variance/18)
}

// sen returns the median of the slopes of all pairs of points.
func sen(points []point) float64 {
	var slopes []float64
	for i := range points {
		for j := range i {
			slopes = append(slopes, (points[i].v-points[j].v)/(points[i].t-points[j].t))
		}
	}
	slices.Sort(slopes)
	n := len(slopes)
	return (slopes[(n-1)/2] + slopes[n/2]) / 2
}

// point is a sample: seconds and bytes.
type point struct{ t, v float64 }

// record holds the last samples of a series: those that are younger than age seconds, and most of them at most. 0 is no bound.
type record struct {
	age    float64
	most   int
	points []point
	head   int
}

func (r *record) add(t time.Duration, used float64) {
	p := point{t.Seconds(), used}
	r.points = append(r.points, p)
	for (r.age > 0 && r.points[r.head].t <= p.t-r.age) || (r.most > 0 && len(r.points)-r.head > r.most) {
		r.head++
	}
	if r.head > len(r.points)/2 {
		r.points = r.points[:copy(r.points, r.points[r.head:])]
		r.head = 0
	}
}

func (r *record) last() []point { return r.points[r.head:] }

// fit is a least-squares line: v = end + slope (t - t of the last point), and Pearson's correlation of t and v, 0 for constant v.
type fit struct{ slope, end, r float64 }

// fitOf fits a line to points. ok is false for fewer than two times.
func fitOf(points []point) (f fit, ok bool) {
	if len(points) < 2 {
		return fit{}, false
	}
	origin, n := points[len(points)-1], float64(len(points))
	var mt, mv, tt, tv, vv float64
	for _, p := range points {
		mt += (p.t - origin.t) / n
		mv += (p.v - origin.v) / n
	}
	for _, p := range points {
		t, v := p.t-origin.t-mt, p.v-origin.v-mv
		tt += t * t
		tv += t * v
		vv += v * v
	}
	if tt == 0 {
		return fit{}, false
	}
	f.slope = tv / tt
	f.end = origin.v + mv - f.slope*mt
	if vv > 0 {
		f.r = tv / math.Sqrt(tt*vv)
	}
	return f, true
}

// until returns the seconds in which a line that is at now and rises by slope reaches the capacity; NaN for one that does not rise.
func until(capacity, now, slope float64) float64 {
	if !(slope > 0) {
		return math.NaN()
	}
	return max(capacity-now, 0) / slope
}
