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

// Rule says of one series of used memory whether it leaks.
type Rule struct {
	// Name is that of its system, as in reports.
	Name string

	// It looks at the samples of the last age, or the last most of them; 0 is no bound. Of each time every it takes the first
	// sample, or with means the mean of all, once the time is over.
	age, every time.Duration
	most       int
	means      bool
	// judge says whether there is a leak, and the seconds to out-of-memory. It is asked from two points on.
	judge func(r *Rule, points []point, f fit) (leak bool, eta float64)

	points     []point
	begun      bool
	start, now time.Duration // of the series, and since then
	slot       time.Duration // the time every of the last sample
	used       float64
	capacity   float64
	sum, n     float64 // of the slot, with means
}

// All returns the rules in the order of reports. Each is for one series.
func All() []*Rule {
	return []*Rule{
		{Name: "gpulse", age: time.Hour, every: 30 * time.Second, judge: gpulse},
		{Name: "gpumemprof", most: 10_000, judge: gpumemprof},
		{Name: "predict_linear", age: time.Hour, judge: predictLinear},
		{Name: "OLS", age: 15 * time.Minute, judge: ols},
		{Name: "Mann-Kendall", age: time.Hour, every: time.Minute, means: true, judge: mannKendall},
	}
}

// Observe takes a sample: its time, used memory and capacity in bytes. Times grow.
func (r *Rule) Observe(t time.Duration, used, capacity uint64) {
	first := !r.begun
	if first {
		r.begun, r.start = true, t
	}
	r.now, r.used, r.capacity = t-r.start, float64(used), float64(capacity)
	slot := r.now.Truncate(r.every)
	another := first || slot != r.slot
	switch {
	case !r.means && another:
		r.add(r.now, r.used)
	case r.means && another && !first:
		r.add(r.slot, math.Floor(r.sum/r.n))
		r.sum, r.n = 0, 0
	}
	r.slot, r.sum, r.n = slot, r.sum+r.used, r.n+1
}

// Verdict returns what the rule says after the last sample: whether there is a leak, and the seconds to out-of-memory from now,
// NaN where it tells none.
func (r *Rule) Verdict() (leak bool, eta float64) {
	f, ok := fitOf(r.points)
	if !ok {
		return false, math.NaN()
	}
	return r.judge(r, r.points, f)
}

// add takes a point and forgets those that are too old, or too many.
func (r *Rule) add(t time.Duration, used float64) {
	p := point{t.Seconds(), used}
	r.points = append(r.points, p)
	for r.age > 0 && r.points[0].t <= p.t-r.age.Seconds() || r.most > 0 && len(r.points) > r.most {
		r.points = r.points[1:]
	}
}

// gpulse is the composite detector of gpulse 2.2 with the defaults of its configuration page: a linear trend of at least 1 MB/s
// (a MB is taken for 10^6 bytes) with R² of at least 0.8, over 20 samples or more, one each 30 s in the last hour. Its documents
// are silent on some things. The confidence of a trend is taken to be its R², so that each trend that passes also passes the
// confidence threshold of 0.75; that of a spike alone, which is said to be lower, never does. The forecast is (total - used) /
// slope.
func gpulse(r *Rule, points []point, f fit) (leak bool, eta float64) {
	if len(points) < 20 || f.slope < 1e6 || f.r*f.r < 0.8 {
		return false, math.NaN()
	}
	return true, until(r.capacity, points[len(points)-1].v, f.slope)
}

// student holds the 0.975 quantiles of Student's t with 3 to 13 degrees of freedom: where p of the two-sided test is 0.05. With
// 14 and more, r = 0.5 is beyond it.
var student = [...]float64{3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160}

// gpumemprof is the temporal rule of gpu-memory-profiler, the insight "Memory Growth Trend" of its analyzer: the least-squares
// line of memory over time rises, |r| > 0.5 and p < 0.05, from 5 points on. The rule is made for a finished record of profiled
// calls: it is asked of the last 10,000 samples, as many as the tracker's ring holds. It has no forecast.
func gpumemprof(_ *Rule, points []point, f fit) (leak bool, eta float64) {
	return len(points) >= 5 && f.slope > 0 && f.r > 0.5 && significant(f.r, len(points)), math.NaN()
}

// significant reports whether the correlation r > 0 of n points has p < 0.05.
func significant(r float64, n int) bool {
	df := n - 2
	return df-3 >= len(student) || r*math.Sqrt(float64(df)/max(1-r*r, 1e-300)) > student[df-3]
}

// predictLinear is the usual alert of Prometheus,
//
//	predict_linear(used[1h], 4 * 3600) > capacity
//
// As in Prometheus, two samples are enough, and the window need not be full. The alert has no "for". The forecast is when the
// line reaches the capacity, and is told without a leak, too.
func predictLinear(r *Rule, _ []point, f fit) (leak bool, eta float64) {
	return f.end+f.slope*(4*time.Hour).Seconds() > r.capacity, until(r.capacity, f.end, f.slope)
}

// ols is what guides to monitoring advise where they advise a regression: the line of the last 15 minutes rises, with R² of at
// least 0.8. The window must be full.
func ols(r *Rule, _ []point, f fit) (leak bool, eta float64) {
	if r.now < r.age || f.slope <= 0 || f.r*f.r < 0.8 {
		return false, math.NaN()
	}
	return true, until(r.capacity, f.end, f.slope)
}

// mannKendall is the test of Mann and Kendall for a trend with p < 0.01 in the two-sided test, where z is 2.5758, and the slope
// of Sen, on the means of the minutes of the last hour. It is the textbook's test, for independent values: no pre-whitening, the
// variance corrected for ties, and from 10 points on, where Kendall's S is near enough to normal (Kendall, Rank Correlation
// Methods). The forecast is what is free over that slope.
func mannKendall(r *Rule, points []point, _ fit) (leak bool, eta float64) {
	if len(points) < 10 || !(kendall(points) > 2.5758) {
		return false, math.NaN()
	}
	slope := sen(points)
	return slope > 0, until(r.capacity, r.used, slope)
}

// kendall returns z of the test of Mann and Kendall: S, less 1 towards 0, over its standard deviation, with var S = (n(n-1)(2n+5)
// - sum over the groups of u equal values of u(u-1)(2u+5)) / 18.
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

// until returns the seconds in which a line that is at now and rises by slope reaches the capacity; NaN for one that does not
// rise.
func until(capacity, now, slope float64) float64 {
	if !(slope > 0) {
		return math.NaN()
	}
	return max(capacity-now, 0) / slope
}
