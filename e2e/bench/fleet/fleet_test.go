// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"math"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

func seeded(seed int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 1)) }

func TestFamilies(t *testing.T) {
	count, held, names := map[Class]int{}, map[Class]int{}, map[string]bool{}
	for _, f := range Families() {
		if names[f.Name] || !regexp.MustCompile(`^[a-z][a-z_]+$`).MatchString(f.Name) || f.About == "" || f.Draw == nil {
			t.Errorf("family %q is there twice, or lacks something", f.Name)
		}
		names[f.Name] = true
		if f.Fresh { // they are no part of the third
			if !f.Held {
				t.Errorf("family %q is fresh and not held out", f.Name)
			}
			continue
		}
		count[f.Class]++
		if f.Held {
			held[f.Class]++
		}
	}
	for class, least := range map[Class]int{Leak: 24, Healthy: 22, Growing: 8} {
		if n := count[class]; n < least || held[class] < n/3 || held[class] > (n+2)/3 {
			t.Errorf("%s: %d families, %d of them held out", class, n, held[class])
		}
	}
}

// TestScenarios draws each family with 20 seeds and looks at the first samples of each, and at all of one.
func TestScenarios(t *testing.T) {
	slow, fast := math.Inf(1), 0.0
	leaks, visible, fatal := 0, 0, 0
	for _, f := range Families() {
		t.Run(f.Name, func(t *testing.T) {
			for seed := range 20 {
				sc := f.Draw(uint64(seed))
				n := 100
				if seed < 1 {
					n = math.MaxInt
				}
				if !follow(t, seed, sc, n) {
					continue
				}
				checkTruth(t, seed, f, sc)
				for _, l := range sc.Truth.Leaks {
					leaks++
					if l.Visible {
						visible++
						slow, fast = min(slow, l.Rate), max(fast, l.Rate)
					}
					if l.Fatal {
						fatal++
					}
				}
			}
		})
	}
	t.Logf("%d leaks, %d visible, %d fatal, %.3g to %.3g MiB/min", leaks, visible, fatal, slow*60/(1<<20), fast*60/(1<<20))
	if fast < 1000*slow || visible < leaks*3/4 || fatal < leaks/3 {
		t.Error("the leaks do not span decades, or too few of them show")
	}
}

// follow checks n samples and reports whether the scenario has ended.
func follow(t *testing.T, seed int, sc *Scenario, n int) bool {
	t.Helper()
	var s gpu.Sample
	var last time.Duration
	seen := map[gpu.ProcessID]gpu.Process{}
	torn := 0
	for i := range n {
		if !sc.Next(&s) {
			if sc.Next(&s) || i == 0 {
				t.Fatalf("seed %d: %d samples, and more after the end", seed, i)
			}
			if torn > i/10+5 {
				t.Errorf("seed %d: of %d samples, %d have processes that hold more than is used", seed, i, torn)
			}
			return true
		}
		if s.T <= last || s.T < sc.Truth.Start || s.T > sc.Truth.Start+sc.Truth.Length+sc.Interval {
			t.Fatalf("seed %d: sample %d at %v after %v", seed, i, s.T, last)
		}
		if !checkSample(t, seed, &s, seen) {
			torn++
		}
		last = s.T
	}
	return false
}

// checkSample reports whether the sums fit; they need not where a list was read later than the memory.
func checkSample(t *testing.T, seed int, s *gpu.Sample, seen map[gpu.ProcessID]gpu.Process) bool {
	t.Helper()
	m := s.Memory
	if m.Used.V > m.Total.V || m.Used.V+m.Reserved.V > m.Total.V {
		t.Fatalf("seed %d: memory %+v", seed, m)
	}
	free := map[gpu.Opt[uint32]]uint64{{}: m.Used.V}
	for _, in := range s.Instances {
		if in.Memory.Used.V > in.Memory.Total.V {
			t.Fatalf("seed %d: instance %+v", seed, in)
		}
		free[gpu.Some(in.ID)] = in.Memory.Used.V
	}
	fits := true
	for i, p := range s.Processes {
		if i > 0 && (p.Instance.V < s.Processes[i-1].Instance.V || p.Instance == s.Processes[i-1].Instance && p.ID.PID <= s.Processes[i-1].ID.PID) {
			t.Fatalf("seed %d: processes are not in order", seed)
		}
		if q, ok := seen[p.ID]; ok && (p.Started != q.Started || p.CPU.V < q.CPU.V || p.Instance != q.Instance) {
			t.Fatalf("seed %d: process %+v after %+v", seed, p, q)
		}
		if p.SM.V < 0 || p.SM.V > 1 || p.Started.V > s.T {
			t.Fatalf("seed %d: process %+v", seed, p)
		}
		seen[p.ID] = p
		fits = fits && p.Used.V <= free[p.Instance]
		free[p.Instance] -= min(p.Used.V, free[p.Instance])
	}
	return fits
}

func checkTruth(t *testing.T, seed int, f Family, sc *Scenario) {
	t.Helper()
	truth := sc.Truth
	end := truth.Start + truth.Length
	if (len(truth.Leaks) > 0) != (f.Class == Leak) {
		t.Errorf("seed %d: %d leaks", seed, len(truth.Leaks))
	}
	for _, l := range truth.Leaks {
		begun := l.Rate > 0
		if begun && (l.From < truth.Start || l.Until < l.From || l.Until > end || l.Retained == 0) {
			t.Errorf("seed %d: leak %+v in %+v", seed, l, truth)
		}
		if (l.Visible || l.Fatal) && !begun {
			t.Errorf("seed %d: leak %+v", seed, l)
		}
	}
	for i, o := range truth.OOMs {
		if o.T < truth.Start || o.T > end || i > 0 && o.T < truth.OOMs[i-1].T || o.Leak >= len(truth.Leaks) || o.Growth < 0 {
			t.Errorf("seed %d: failure %+v", seed, o)
		}
		if o.Leak >= 0 && (!truth.Leaks[o.Leak].Fatal || truth.Leaks[o.Leak].Retained < VisibleGrowth) {
			t.Errorf("seed %d: failure %+v of %+v", seed, o, truth.Leaks[o.Leak])
		}
	}
}

// TestLimited draws each family with a limit once: no container holds more than that, the GPU has room, and what is healthy comes near
// its limit and never fails.
func TestLimited(t *testing.T) {
	sources, near, healthy, fatal := map[string]bool{}, 0, 0, 0
	for _, f := range Limited() {
		t.Run(f.Name, func(t *testing.T) {
			sc := f.Draw(1)
			next, peak := sc.Next, 0.0
			sc.Next = func(s *gpu.Sample) bool {
				more := next(s)
				peak = max(peak, fullest(t, s, sources))
				return more
			}
			follow(t, 1, sc, math.MaxInt)
			checkTruth(t, 1, f, sc)
			switch {
			case f.Class == Healthy:
				healthy++
				if peak >= 0.85 {
					near++
				}
				if len(sc.Truth.OOMs) > 0 || peak < 0.6 {
					t.Errorf("%d failures, and %.0f %% of the limit", len(sc.Truth.OOMs), 100*peak)
				}
			case slices.ContainsFunc(sc.Truth.Leaks, func(l LeakTruth) bool { return l.Fatal }):
				fatal++
			}
		})
	}
	if len(sources) != 3 || near < healthy*2/3 || fatal < 15 {
		t.Errorf("sources %v; %d of %d come near their limit, %d leaks end", sources, near, healthy, fatal)
	}
}

// fullest returns which share of its limit the container holds, 0 without a limit. It notes where limits are from.
func fullest(t *testing.T, s *gpu.Sample, sources map[string]bool) float64 {
	t.Helper()
	used, limit := uint64(0), uint64(0)
	for i := range s.Processes {
		if p := &s.Processes[i]; len(p.Limits) > 0 {
			sources[p.Limits[0].Source] = true
			used, limit = used+p.Used.V, p.Limits[0].Bytes
		}
	}
	if used > limit || limit > s.Memory.Total.V*6/10 {
		t.Fatalf("%d bytes with a limit of %d, on a GPU of %d", used, limit, s.Memory.Total.V)
	}
	return float64(used) / float64(max(limit, 1))
}

func TestSeedGivesTheSameAgain(t *testing.T) {
	for _, f := range Families() {
		a, b := f.Draw(7), f.Draw(7)
		for range 300 {
			var s, u gpu.Sample
			more := a.Next(&s)
			if b.Next(&u) != more || !reflect.DeepEqual(s, u) {
				t.Fatalf("%s: %+v and %+v", f.Name, s, u)
			}
			if !more {
				break
			}
		}
	}
}

// TestRecordingsDiffer looks at what recordings may lack.
func TestRecordingsDiffer(t *testing.T) {
	f := Families()[0]
	seen := map[string]int{}
	for seed := range 300 {
		sc := f.Draw(uint64(seed))
		seen[sc.Interval.String()]++
		var s gpu.Sample
		for sc.Next(&s) && s.ProcessesKnown && len(s.Processes) == 0 {
			continue
		}
		switch p := append(s.Processes, gpu.Process{})[0]; {
		case !s.ProcessesKnown:
			seen["no list"]++
		case !p.Used.OK:
			seen["no memory"]++
		case !s.ProcessesComplete && p.Owner == nil && p.ID.Start == 0:
			seen["foreign pids"]++
		default:
			seen["complete"]++
		}
	}
	for _, what := range []string{"1s", "5s", "15s", "30s", "no list", "no memory", "foreign pids"} {
		if seen[what] == 0 || seen["complete"] < 200 {
			t.Errorf("no recording has %s: %v", what, seen)
		}
	}
}

// TestLengths looks at how inputs are spread.
func TestLengths(t *testing.T) {
	l := lognormal(0.2, 0.5)
	if got := l(0.5); math.Abs(got-0.2) > 1e-9 {
		t.Errorf("the middle one is %g", got)
	}
	if got := l(0.8413447); math.Abs(got-0.2*math.Exp(0.5)) > 1e-6 {
		t.Errorf("one deviation above it is %g", got)
	}
	if l(1-1e-12) != 1 {
		t.Error("the longest are not cut")
	}
	r := seeded(1)
	one, many := 0.0, 0.0
	for range 1000 {
		one += l.longest(r, 1) / 1000
		many += l.longest(r, 100) / 1000
	}
	if many < 2*one {
		t.Errorf("the longest of 100 is %g on average, one is %g", many, one)
	}
}

func TestPoisson(t *testing.T) {
	for _, mean := range []float64{0.1, 3, 200} {
		r, sum := seeded(2), 0
		for range 20000 {
			sum += poisson(r, mean)
		}
		if got := float64(sum) / 20000; math.Abs(got-mean) > 0.05*math.Sqrt(mean)+0.01 {
			t.Errorf("mean %g for %g", got, mean)
		}
	}
}
