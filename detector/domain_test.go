// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

const (
	mib = 1 << 20
	gib = 1 << 30
	// start is a day in 2026 as time since the epoch.
	start = 1_770_000_000 * time.Second
)

func defaults(Subject[int]) Config { return DefaultConfig() }

func newDomain(t testing.TB) *Domain[int] {
	t.Helper()
	d, err := NewDomain(defaults)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// quiet is for how many seconds the memory of these tests is constant before it
// leaks: growth that begins together with its series is held back for longer.
const quiet = 1200

// leaked is what has leaked by second s at a MiB a second, after a quiet while.
func leaked(s int) float64 { return float64(max(0, s-quiet)) * mib }

// round is what NVML shows of an amount of memory.
func round(bytes float64) float64 { return math.Floor(bytes/(2*mib)) * 2 * mib }

// look adds a frame and judges it.
func look[K comparable](d *Domain[K], f *Frame[K]) (*Judgement[K], error) {
	if err := d.Observe(f); err != nil {
		return nil, err
	}
	return d.Judgement(), nil
}

// observe adds a frame with members of the given memory; started an hour before
// the first frame.
func observe(t testing.TB, d *Domain[int], second int, residual float64, members map[int]float64) *Judgement[int] {
	t.Helper()
	f := Frame[int]{
		T: start + time.Duration(second)*time.Second, Used: Of(residual), Capacity: Of(80 * gib), Complete: true,
	}
	for key := range 100 {
		if used, ok := members[key]; ok {
			f.Members = append(f.Members, Member[int]{Key: key, Used: Of(used), Started: start - time.Hour})
			f.Used.V += used
		}
	}
	j, err := look(d, &f)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestSteadyLeakIsFoundAndForecast(t *testing.T) {
	d := newDomain(t)
	const rate = 50 * mib / 60.0
	found := 0
	for s := range 3600 {
		leak := round(10*gib + float64(max(0, s-600))*rate)
		j := observe(t, d, s, 512*mib, map[int]float64{1: leak, 2: 20 * gib})
		m, other := j.Members[0], j.Members[1]
		if m.Leak && found == 0 {
			found = s
		}
		if other.Leak || (other.Judged && !math.IsInf(other.SecondsToOOM.V, 1)) {
			t.Fatalf("second %d: the flat neighbour leaks: %+v", s, other)
		}
		if m.Leak != j.Device.Leak || m.SecondsToOOM != j.Device.SecondsToOOM {
			t.Fatalf("second %d: the device does not die with its process", s)
		}
	}
	if found == 0 || found-600 > 720 {
		t.Errorf("a leak of 50 MiB a minute that begins at 600 s was found at %d s", found)
	}
	j := observe(t, d, 3600, 512*mib, map[int]float64{1: round(10*gib + 3000*rate), 2: 20 * gib})
	m := j.Members[0]
	near(t, "rate", m.Rate.V, rate, 0.02)
	near(t, "time to out-of-memory", m.SecondsToOOM.V, (80*gib-(30*gib+512*mib+3000*rate))/rate, 0.02)
	near(t, "headroom over rate", j.Headroom.V/j.Device.Rate.V, math.Sqrt(m.Lower.V*m.Upper.V), 1e-12)
	if ratio := j.Device.SecondsToOOM.V / (j.Headroom.V / j.Device.Rate.V); ratio < 0.99 || ratio >= 1 {
		t.Errorf("the forecast is %g of headroom over rate, want a little less", ratio)
	}
	near(t, "leaked bytes", m.Leaked.V, 3000*rate, 0.05)
	if m.Lower.V > m.SecondsToOOM.V || m.Upper.V < m.SecondsToOOM.V || m.Share.V != 1 {
		t.Errorf("interval [%g, %g] around %g, share %g", m.Lower.V, m.Upper.V, m.SecondsToOOM.V, m.Share.V)
	}
	if since := (m.Since - start).Seconds(); since < 500 || since > 700 {
		t.Errorf("it began at %g s, not at 600 s", since)
	}
	if m.Pattern != PatternLeakLinear {
		t.Errorf("pattern %s", m.Pattern)
	}
}

func TestShapes(t *testing.T) {
	for _, c := range []struct {
		name     string
		memory   func(s int) float64 // by second, in bytes
		leaks    bool
		patterns string // any of these at the end
	}{
		{"flat", func(int) float64 { return 10 * gib }, false, "stable"},
		{"sawtooth of a minute", func(s int) float64 { return 10*gib + float64(s%60)*100*mib }, false, "sawtooth"},
		{"one step", func(s int) float64 { return 10*gib + float64(s/4500)*8*gib }, false, "step"},
		{"exponential warm-up", func(s int) float64 { return 10*gib + 8*gib*(1-math.Exp(-float64(s)/200)) }, false, "plateau warmup"},
		{"spikes", func(s int) float64 { return 10*gib + float64(1-min(s%100, 1))*4*gib }, false, "spikes"},
		{"linear", func(s int) float64 { return 10*gib + leaked(s) }, true, "leak_linear"},
		{"staircase", func(s int) float64 { return 10*gib + float64(max(0, s-quiet)/60)*100*mib }, true, "leak_staircase"},
		{"under a sawtooth", func(s int) float64 { return 10*gib + float64(s%30)*200*mib + leaked(s) }, true, "leak_cyclic"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDomain(t)
			alarmed := 0
			var j *Judgement[int]
			for s := range quiet + 3600 {
				j = observe(t, d, s, 512*mib, map[int]float64{1: round(c.memory(s))})
				if j.Members[0].Leak {
					alarmed++
				}
			}
			m := j.Members[0]
			if m.Leak != c.leaks || (!c.leaks && alarmed > 0) {
				t.Errorf("leak: %t at the end, %d s in all", m.Leak, alarmed)
			}
			if !strings.Contains(" "+c.patterns+" ", " "+m.Pattern.String()+" ") {
				t.Errorf("pattern %q, want one of %s", m.Pattern, c.patterns)
			}
			if finite := !math.IsInf(m.SecondsToOOM.V, 1); finite != m.Leak || m.Rate.OK != m.Leak || m.Leaked.OK != m.Leak || m.Pattern.leaks() != m.Leak {
				t.Errorf("the parts of the verdict disagree: %+v", m)
			}
		})
	}
}

func TestJobThatArrivesIsNoLeakOfTheGPU(t *testing.T) {
	d := newDomain(t)
	for s := range 7200 {
		members := map[int]float64{}
		for job := range s / 300 { // a job more every five minutes
			members[job] = 2 * gib
		}
		j := observe(t, d, s, 512*mib, members)
		if j.Device.Leak || j.Residual.Leak {
			t.Fatalf("second %d: %d jobs make the GPU leak", s, len(members))
		}
	}
}

// A GPU whose sum grows though nothing on it leaks yet is what grows most of it: one that grows
// has not stopped.
func TestPatternOfAGPUThatGrows(t *testing.T) {
	d, grows, seen := newDomain(t), 0, map[string]bool{}
	for s := range 3600 {
		held := map[int]float64{1: 40 * gib}
		if s >= 1800 {
			held[2] = round(gib + 2*mib*float64(s-1800)) // from its start on: it may fill a cache
		}
		j := observe(t, d, s, 512*mib, held)
		if s < 2400 || j.Device.Leak {
			continue
		}
		grows++
		seen[j.Device.Pattern.String()+" "+j.Members[1].Pattern.String()] = true
	}
	if grows == 0 || len(seen) != 1 || !seen["warmup warmup"] {
		t.Errorf("in %d frames: %v", grows, seen)
	}
}

func TestMemoryThatNobodyHoldsCanLeak(t *testing.T) {
	d := newDomain(t)
	var j *Judgement[int]
	for s := range quiet + 3600 {
		j = observe(t, d, s, round(2*gib+leaked(s)), map[int]float64{1: 10 * gib})
	}
	if !j.Residual.Leak || !j.Device.Leak || j.Members[0].Leak || j.Members[0].Share.OK {
		t.Errorf("residual %t, device %t, member %t", j.Residual.Leak, j.Device.Leak, j.Members[0].Leak)
	}
}

// The growth of a device is split among the processes that leak, and the one that
// does not has no part in it.
func TestGrowthIsSplit(t *testing.T) {
	d := newDomain(t)
	var j *Judgement[int]
	for s := range quiet + 3600 {
		fast, slow := leaked(s), leaked(s)/3
		f := Frame[int]{T: start + time.Duration(s)*time.Second, Used: Of(round(20*gib + fast + slow)), Capacity: Of(80 * gib), Complete: true}
		for key, used := range []float64{gib + fast, gib + slow, gib} {
			f.Members = append(f.Members, Member[int]{Key: key, Used: Of(round(used)), Started: start})
		}
		var err error
		if j, err = look(d, &f); err != nil {
			t.Fatal(err)
		}
	}
	if len(j.Members) != 3 {
		t.Fatalf("members %+v", j.Members)
	}
	for i, want := range []float64{0.75, 0.25} {
		if share := j.Members[i].Share; !share.OK || math.Abs(share.V-want) > 0.02 {
			t.Errorf("member %d has the share %+v, want %g", i, share, want)
		}
	}
	if quietOne := j.Members[2]; quietOne.Leak || quietOne.Share.V != 0 {
		t.Errorf("the one that does not grow: %+v", quietOne)
	}
}

func TestGroupSumsItsMembers(t *testing.T) {
	d := newDomain(t)
	var j *Judgement[int]
	last := quiet + 3600
	for s := range last + 1 { // workers that are recreated every 5 minutes, and keep more each time
		f := Frame[int]{T: start + time.Duration(s)*time.Second, Used: Of(40 * gib), Capacity: Of(80 * gib), Complete: true}
		for w := range 3 {
			used := gib + leaked(s)/3
			f.Members = append(f.Members, Member[int]{Key: 3*(s/300) + w, Group: "team/loader", Used: Of(round(used)), Started: start + time.Duration(s/300*300)*time.Second})
		}
		var err error
		if j, err = look(d, &f); err != nil {
			t.Fatal(err)
		}
	}
	if len(j.Groups) != 1 || j.Groups[0].Group != "team/loader" || j.Groups[0].Used != 3*round(gib+leaked(last)/3) {
		t.Fatalf("groups %+v", j.Groups)
	}
	g := j.Groups[0]
	if !g.Leak || math.IsInf(g.SecondsToOOM.V, 0) || !j.Device.Leak || g.SecondsToOOM != j.Device.SecondsToOOM {
		t.Errorf("a pool of short workers that grows as a whole: %+v; the device: %+v", g.Verdict, j.Device)
	}
}

func TestGroupWithAnUnknownMemberHasNoSum(t *testing.T) {
	d := newDomain(t)
	for s := range 1000 {
		f := Frame[int]{T: start + time.Duration(s)*time.Second, Used: Of(40 * gib), Members: []Member[int]{
			{Key: 1, Group: "pod", Used: Of(gib)}, {Key: 2, Group: "pod", Used: Of(gib)},
		}}
		f.Members[1].Used.OK = s%100 != 99
		j, err := look(d, &f)
		if err != nil {
			t.Fatal(err)
		}
		if known := s%100 != 99; (len(j.Groups) == 1) != known || (known && j.Groups[0].Used != 2*gib) {
			t.Fatalf("second %d: groups %+v", s, j.Groups)
		}
	}
	if g := d.groups[groupName{name: "pod"}]; g.shape.pattern != PatternStable {
		t.Errorf("a constant pod is %s", g.shape.pattern)
	}
}

func TestReusedKeyNeverInherits(t *testing.T) {
	d := newDomain(t)
	last := quiet + 3600
	for s := range last {
		j := observe(t, d, s, 0, map[int]float64{1: round(2*gib + leaked(s))})
		if s == last-1 && !j.Members[0].Leak {
			t.Fatal("the first process does not leak: the test shows little")
		}
	}
	j := observe(t, d, last, 0, map[int]float64{2: 5 * gib})
	if len(j.Exited) != 1 || j.Exited[0].Key != 1 || j.Exited[0].NearCapacity {
		t.Errorf("exited %+v", j.Exited)
	}
	if m := j.Members[0]; m.Leak || m.Judged || m.Windows[0].N != 1 {
		t.Errorf("the new process starts with %+v", m)
	}
}

func TestExitNearCapacity(t *testing.T) {
	d := newDomain(t)
	observe(t, d, 0, 0, map[int]float64{1: 79 * gib})
	if j := observe(t, d, 1, 0, nil); len(j.Exited) != 1 || !j.Exited[0].NearCapacity || j.Exited[0].Used != Of(79*gib) {
		t.Errorf("exited %+v", j.Exited)
	}
}

// The crest is that of the last hour, and begins anew when a member ends that held a tenth
// of it.
func TestHeadroomIsBelowTheCrest(t *testing.T) {
	for _, c := range []struct {
		minutes int // from the peak of 50 GiB on
		held    float64
		want    float64 // GiB
	}{
		{59, 1, 30},
		{61, 1, 40},
		{1, 4.5, 30},
		{1, 5.5, 40},
	} {
		d := newDomain(t)
		observe(t, d, 0, (50-c.held)*gib, map[int]float64{1: c.held * gib})
		var j *Judgement[int]
		for minute := 1; minute <= c.minutes; minute++ {
			j = observe(t, d, 60*minute, 40*gib, nil)
		}
		if j.Headroom != Of(c.want*gib) {
			t.Errorf("%d minutes after the end of %g of 50 GiB: headroom %g GiB, want %g", c.minutes, c.held, j.Headroom.V/gib, c.want)
		}
	}
}

// An exit that an incomplete list leaves open for minutes is judged by the moment
// when the process was last seen.
func TestExitNearCapacityOfAnIncompleteList(t *testing.T) {
	d := newDomain(t)
	f := Frame[int]{Capacity: Of(80 * gib), Used: Of(79 * gib), Members: []Member[int]{{Key: 1, Used: Of(78 * gib)}}}
	near := 0
	for s := range 1000 {
		f.T = start + time.Duration(s)*time.Second
		if s == 100 {
			f.Members, f.Used = nil, Of(gib)
		}
		j, err := look(d, &f)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range j.Exited {
			if e.NearCapacity {
				near++
			}
		}
	}
	if near != 1 {
		t.Errorf("%d exits near the capacity", near)
	}
}

func TestIncompleteListKeepsTheVerdict(t *testing.T) {
	d := newDomain(t)
	const broken = quiet + 1800
	for s := range broken {
		observe(t, d, s, 0, map[int]float64{1: round(10*gib + leaked(s)), 2: gib})
	}
	f := Frame[int]{T: seconds2026(broken), Used: Of(round(11*gib + leaked(broken))), Capacity: Of(80 * gib)}
	j, err := look(d, &f)
	if err != nil || !j.Device.Leak || !j.Attributed || len(j.Exited) != 0 {
		t.Fatalf("a list that could not be read once clears the leak: %+v %v", j, err)
	}
	for s := broken + 1; s < broken+800; s++ {
		f.T = seconds2026(s)
		if j, err = look(d, &f); err != nil {
			t.Fatal(err)
		}
	}
	if j.Attributed || len(j.Residual.Pattern.String()) != 0 {
		t.Errorf("after 13 minutes without a list the device is still judged through it")
	}
}

// A list that could not be read leaves its processes in the frame, with their
// memory not known.
func TestUnknownMembersKeepTheVerdict(t *testing.T) {
	d := newDomain(t)
	const broken = quiet + 1800
	var before *Judgement[int]
	for s := range broken {
		before = observe(t, d, s, 0, map[int]float64{1: round(10*gib + leaked(s)), 2: gib})
	}
	confidence, eta := before.Device.Confidence, before.Device.SecondsToOOM.V
	for s := broken; s < broken+10; s++ {
		j, err := look(d, &Frame[int]{
			T: seconds2026(s), Used: Of(round(11*gib + leaked(s))), Capacity: Of(80 * gib),
			Members: []Member[int]{{Key: 1}, {Key: 2}},
		})
		if err != nil || !j.Device.Leak || !j.Attributed || j.Device.Confidence != confidence {
			t.Fatalf("second %d: %+v %v", s, j, err)
		}
		near(t, "time to out-of-memory", j.Device.SecondsToOOM.V, eta, 0.02)
	}
}

// Where the list is never complete, a leak that others hide by shrinking is one
// all the same, and says when.
func TestLeakThatOthersHide(t *testing.T) {
	d := newDomain(t)
	var j *Judgement[int]
	for s := range quiet + 3600 {
		grown := leaked(s)
		var err error
		j, err = look(d, &Frame[int]{
			T: start + time.Duration(s)*time.Second, Used: Of(40 * gib), Capacity: Of(80 * gib),
			Members: []Member[int]{{Key: 1, Used: Of(round(10*gib + grown))}, {Key: 2, Used: Of(round(20*gib - grown))}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if m := j.Members[0]; !m.Leak || !j.Device.Leak || math.IsInf(m.SecondsToOOM.V, 0) || m.SecondsToOOM != j.Device.SecondsToOOM || m.Share.V != 1 {
		t.Errorf("member %+v, device %+v", m, j.Device)
	}
}

func TestWithoutListTheRawSeriesIsJudged(t *testing.T) {
	d := newDomain(t)
	last := quiet + 3600
	for s := range last + 1 {
		j, err := look(d, &Frame[int]{T: seconds2026(s), Used: Of(round(2*gib + leaked(s)))})
		if err != nil {
			t.Fatal(err)
		}
		if s == last && (!j.Device.Leak || j.Attributed || j.Device.SecondsToOOM.OK || j.Headroom.OK) {
			t.Errorf("without list and capacity: %+v", j.Device)
		}
	}
}

func TestAbsentIsNotZero(t *testing.T) {
	d := newDomain(t)
	for s := range 1200 {
		observe(t, d, s, 0, map[int]float64{1: 10 * gib})
	}
	for i, bad := range []Value{{}, Of(math.NaN()), Of(math.Inf(1)), Of(-1), Of(math.MaxUint64), Of(MaxBytes * 1.01)} {
		j, err := look(d, &Frame[int]{
			T: start + time.Duration(1200+i)*time.Second, Used: bad, Capacity: bad, Complete: true,
			Members: []Member[int]{{Key: 1, Used: bad}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if j.Device != (Verdict{}) || j.Members[0].Verdict != (Verdict{}) || j.Headroom.OK {
			t.Errorf("%v is taken for a measurement", bad)
		}
	}
	j := observe(t, d, 1300, 0, map[int]float64{1: 10 * gib})
	if f := j.Members[0].Windows[0]; f.Slope.V != 0 || j.Device.Leak || f.N < 450 {
		t.Errorf("after the gap: %+v", f)
	}
}

func TestTimeMustIncrease(t *testing.T) {
	d := newDomain(t)
	observe(t, d, 10, 0, map[int]float64{1: gib})
	for _, s := range []int{10, 9, -1_770_000_001} {
		_, err := look(d, &Frame[int]{T: start + time.Duration(s)*time.Second, Used: Of(0), Complete: true})
		if !errors.Is(err, ErrTime) {
			t.Errorf("second %d after 10: error %v", s, err)
		}
	}
	if j := observe(t, d, 11, 0, map[int]float64{1: gib}); len(j.Exited) != 0 || j.Members[0].Windows[0].N != 2 {
		t.Errorf("a refused frame changed something: %+v", j)
	}
	d.Reset(ReasonClockStep)
	if j := observe(t, d, 0, 0, map[int]float64{1: gib}); j.Members[0].Windows[0].N != 1 || j.Resets[ReasonClockStep] != 1 {
		t.Errorf("after a reset: %+v", j)
	}
}

// The same series at another time or on another base has the same verdict, as long
// as it is as far from idle and from full.
func TestVerdictDoesNotDependOnOrigin(t *testing.T) {
	run := func(shift time.Duration, base float64) []Verdict {
		d := newDomain(t)
		rng := rand.New(rand.NewPCG(11, 12))
		var all []Verdict
		for s := range quiet + 3000 {
			used := base + 20*gib + leaked(s) + float64(rng.IntN(50))*2*mib
			j, err := look(d, &Frame[int]{T: start + shift + time.Duration(s)*time.Second, Used: Of(used), Capacity: Of(base + 200*gib)})
			if err != nil {
				t.Fatal(err)
			}
			v := j.Device
			if v.Trough.OK {
				v.Trough.V -= base
			}
			if v.Leak {
				v.Since -= shift
			}
			v.SecondsToFull, v.FullLower, v.FullUpper = Value{}, Value{}, Value{} // takes a share of the capacity, which the base is a part of
			all = append(all, v)
		}
		return all
	}
	want := run(0, 0)
	for _, got := range [][]Verdict{run(987654321987*time.Nanosecond, 0), run(0, 1000*gib)} {
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("second %d: %+v, want %+v", i, got[i], want[i])
			}
		}
	}
	if !want[len(want)-1].Leak {
		t.Error("the series does not leak: the test shows little")
	}
}

func TestManyMembersAreBounded(t *testing.T) {
	d := newDomain(t)
	f := Frame[int]{T: start, Used: Of(80 * gib), Complete: true}
	for i := range 3000 {
		f.Members = append(f.Members, Member[int]{Key: i, Group: string(rune('a' + i)), Used: Of(mib)})
		if i >= 1000 && i < 1100 {
			f.Members[i].Group = "a" // over the bound of members
		}
	}
	j, err := look(d, &f)
	if err != nil || len(d.members) != MaxMembers || len(d.groups) != MaxGroups || len(j.Members) != 3000 {
		t.Fatalf("%d members, %d groups, %d verdicts, %v", len(d.members), len(d.groups), len(j.Members), err)
	}
	if sum := d.groups[groupName{name: "a"}].sum; sum != 101*mib {
		t.Errorf("a group beyond the bound sums up to %g MiB", sum/mib)
	}
	if used := d.residual.used; used != 80*gib-3000*mib {
		t.Errorf("the residual is %d: the members beyond the bound are not in the sum", used)
	}
}

func TestConfigIsChecked(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	nan := math.NaN()
	for name, change := range map[string]func(*Config){
		"no window":         func(c *Config) { c.Windows = nil },
		"too many windows":  func(c *Config) { c.Windows = make([]time.Duration, 5) },
		"short window":      func(c *Config) { c.Windows = []time.Duration{time.Second} },
		"long window":       func(c *Config) { c.Windows = []time.Duration{25 * time.Hour} },
		"same window":       func(c *Config) { c.Windows = []time.Duration{time.Hour, time.Hour} },
		"threshold 0":       func(c *Config) { c.LeakThreshold = 0 },
		"threshold NaN":     func(c *Config) { c.LeakThreshold = nan },
		"threshold 2":       func(c *Config) { c.LeakThreshold = 2 },
		"clear above leak":  func(c *Config) { c.ClearThreshold = 0.9 },
		"clear NaN":         func(c *Config) { c.ClearThreshold = nan },
		"negative age":      func(c *Config) { c.MinAge = -1 },
		"no growth":         func(c *Config) { c.MinGrowth = 0 },
		"no span":           func(c *Config) { c.MinSpan = 0 },
		"negative settling": func(c *Config) { c.SettleTime = -1 },
		"no false alarm":    func(c *Config) { c.FalseAlarm = 0 },
		"false alarm NaN":   func(c *Config) { c.FalseAlarm = nan },
		"no high water":     func(c *Config) { c.HighWaterRate = 0 },
		"zombie at once":    func(c *Config) { c.ZombieAfter = 0 },
		"stays at once":     func(c *Config) { c.UnreleasedAfter = 0 },
		"no zombie memory":  func(c *Config) { c.MinZombie = nan },
		"nothing stays":     func(c *Config) { c.MinUnreleased = 0 },
		"no spike height":   func(c *Config) { c.SpikeHeight = nan },
		"spike ratio above": func(c *Config) { c.SpikeRatio = 1.5 },
		"no spike width":    func(c *Config) { c.SpikeWidth = 0 },
	} {
		c := DefaultConfig()
		change(&c)
		if _, err := NewDomain(func(Subject[int]) Config { return c }); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// A configuration that cannot hold for a member leaves it to the device's.
func TestMemberOfAnImpossibleConfig(t *testing.T) {
	d, err := NewDomain(func(s Subject[int]) Config {
		c := DefaultConfig()
		if s.Kind == KindMember {
			c.Windows = make([]time.Duration, 2*MaxWindows)
		}
		return c
	})
	if err != nil {
		t.Fatal(err)
	}
	if j := observe(t, d, 1, 0, map[int]float64{1: gib}); j.Members[0].Windows[0].N != 1 || len(d.members[1].windows) != 2 {
		t.Errorf("member %+v", j.Members[0])
	}
}

// Workers that are added to a pool are no leak of the pool, nor of its GPU; once they
// are all there, growth counts.
func TestPoolThatBecomesLargerIsNoLeak(t *testing.T) {
	d := newDomain(t)
	workers := func(s int) int { return 2 + min(12, max(0, s-3600)/120) }
	found := 0
	for s := range 14400 {
		f := Frame[int]{T: start + time.Duration(s)*time.Second, Capacity: Of(80 * gib), Complete: true}
		for w := range workers(s) {
			used := round(2*gib + float64(max(0, s-9000))*mib/10)
			f.Members = append(f.Members, Member[int]{Key: w, Group: "team/pool", Used: Of(used), Started: start + time.Duration(s)*time.Second})
			f.Used.V += used
		}
		f.Used.OK = true
		j, err := look(d, &f)
		if err != nil {
			t.Fatal(err)
		}
		if leak := j.Device.Leak || j.Groups[0].Leak; leak && s < 9000 {
			t.Fatalf("second %d: a pool of %d workers leaks: %+v", s, workers(s), j.Groups[0].Verdict)
		} else if leak && found == 0 {
			found = s
		}
	}
	if found == 0 || found > 9000+1200 {
		t.Errorf("the leak of all workers, from second 9000 on, is found at %d", found)
	}
}

// A load that was given back is no reason to overlook a leak a day later.
func TestLeakLongAfterALoad(t *testing.T) {
	for _, held := range []int{1200, 7200, 8 * 3600} {
		begins := held + 24*3600
		changes := leaking(begins+3600, func(sec int) float64 {
			if sec < held {
				return 60 * gib
			}
			return 5*gib + float64(max(0, sec-begins))*100/60*mib
		})
		if len(changes) != 1 || changes[0] < begins || changes[0] > begins+1200 {
			t.Errorf("60 GiB for %d s, a quiet day and a leak from %d on: found %v", held, begins, changes)
		}
	}
}

// A member that is listed twice is subtracted once.
func TestListedTwice(t *testing.T) {
	d := newDomain(t)
	twice := Member[int]{Key: 1, Used: Of(10 * gib)}
	if err := d.Observe(&Frame[int]{T: start, Used: Of(21 * gib), Complete: true, Members: []Member[int]{twice, twice}}); err != nil {
		t.Fatal(err)
	}
	if d.residual.used != 11*gib {
		t.Errorf("the residual is %d", d.residual.used)
	}
}

// A capacity of nothing is none: nobody knows when it is used up.
func TestNoCapacity(t *testing.T) {
	d := newDomain(t)
	for s := range 3600 {
		used := round(2*gib + leaked(s))
		j, err := look(d, &Frame[int]{T: seconds2026(s), Capacity: Of(0), Complete: true, Used: Of(used), Members: []Member[int]{{Key: 1, Used: Of(used), Started: start - time.Hour}}})
		if err != nil {
			t.Fatal(err)
		}
		if j.Headroom.OK || j.Device.SecondsToOOM.OK {
			t.Fatalf("second %d: %+v", s, j.Device)
		}
	}
	if !d.Judgement().Device.Leak {
		t.Error("no leak: the test shows nothing")
	}
}

// Of a gap nothing counts as watched, wherever the growth ended.
func TestWatched(t *testing.T) {
	s := &series{gap: gap{from: 100, length: 50}}
	for _, c := range []struct{ from, to, want int64 }{
		{20, 200, 130}, {100, 200, 50}, {130, 200, 50}, {150, 200, 50}, {160, 200, 40},
	} {
		if got := s.watched(c.from, c.to); got != c.want {
			t.Errorf("from %d to %d: %d, want %d", c.from, c.to, got, c.want)
		}
	}
}

// What a driver has not freed yet when a process is known to have ended is no part of the crest: a
// minute later all that is free is headroom.
func TestHeadroomWhileMemoryIsFreed(t *testing.T) {
	const big, end = 60 * gib, 600
	for _, step := range []int{1, 5, 15} {
		for takes := range 5 { // frames
			d := newDomain(t)
			for s := 0; s <= end+60; s += step {
				f := Frame[int]{T: seconds2026(s), Used: Of(11 * gib), Capacity: Of(80 * gib), Complete: true}
				f.Members = []Member[int]{{Key: 1, Used: Of(10 * gib), Started: start - time.Hour}}
				if s < end {
					f.Members = append(f.Members, Member[int]{Key: 2, Used: Of(big), Started: start - time.Hour})
				}
				f.Used.V += big * clamp(float64(takes+1-max(0, (s-end)/step+1))/float64(takes+1))
				if s < end {
					f.Used.V = 11*gib + big
				}
				j, err := look(d, &f)
				if err != nil {
					t.Fatal(err)
				}
				if s >= end+60 && j.Headroom.V != 69*gib {
					t.Errorf("a frame each %d s, freed within %d more: headroom of %g GiB, 69 are free", step, takes, j.Headroom.V/gib)
				}
			}
		}
	}
}

// restartedEngine returns after how many seconds a GPU is told to leak on which the engine of a pod
// is started again, beside a helper, and fills in so many seconds what it had before, from load on;
// 0 if it never is. With leaks it goes on after that.
func restartedEngine(t *testing.T, helper, load float64, fill int, leaks bool) int {
	const restart = 3 * 3600
	d := newDomain(t)
	for s := 0; s < restart+3*3600; s += 5 {
		f := Frame[int]{T: seconds2026(s), Used: Of(gib), Capacity: Of(80 * gib), Complete: true}
		engine, used := 2, 20.0*gib
		if s >= restart {
			engine, used = 3, load+(20*gib-load)*float64(s-restart)/float64(fill)
		}
		if !leaks {
			used = min(used, 20*gib)
		}
		f.Members = []Member[int]{{Key: 1, Group: "ml/pod", Used: Of(helper), SM: Of(0)}, {Key: engine, Group: "ml/pod", Used: Of(round(used)), SM: Of(0.5)}}
		f.Used.V += helper + round(used)
		j, err := look(d, &f)
		if err != nil {
			t.Fatal(err)
		}
		if j.Device.Leak {
			return s - restart
		}
	}
	return 0
}

// An engine that is started again beside its parent has the excuses of a program that begins, as it
// would have without the parent: its pod has no more than it had.
func TestEngineThatIsStartedAgain(t *testing.T) {
	for _, helper := range []float64{64 * mib, 512 * mib, 4 * gib} {
		for _, load := range []float64{2 * gib, 5 * gib} {
			for _, fill := range []int{600, 1200, 1800, 2700} {
				if told := restartedEngine(t, helper, load, fill, false); told > 0 {
					t.Errorf("helper of %g GiB, %g GiB at first, the rest in %d s: a leak after %d s", helper/gib, load/gib, fill, told)
				}
			}
		}
		if told := restartedEngine(t, helper, 2*gib, 1800, true); told == 0 {
			t.Errorf("helper of %g GiB: an engine that goes on to grow is no leak", helper/gib)
		}
	}
}
