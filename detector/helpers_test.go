// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

const (
	mib = 1 << 20
	gib = 1 << 30
	// start is a day in 2026 as time since the epoch.
	start = 1_770_000_000 * time.Second
	// quiet is for how many seconds the memory of these tests is constant before it
	// leaks: growth that begins together with its series is held back for longer.
	quiet = 1200
)

var must, near = testkit.Must, testkit.Near

func defaults(Subject[int]) Config { return DefaultConfig() }

func newDomain(t testing.TB) *Domain[int] {
	t.Helper()
	return newDomainOf(t, defaults)
}

func newDomainOf(t testing.TB, config func(Subject[int]) Config) *Domain[int] {
	t.Helper()
	d, err := NewDomain(config)
	must(t, err)
	return d
}

// second is the time of a second of these tests.
func second(s int) time.Duration { return start + time.Duration(s)*time.Second }

// leaked is what has leaked by second s at a MiB a second, after a quiet while.
func leaked(s int) float64 { return float64(max(0, s-quiet)) * mib }

// round is what NVML shows of an amount of memory.
func round(bytes float64) float64 { return math.Floor(bytes/(2*mib)) * 2 * mib }

func share(x float64) float64 { return max(0, min(x, 1)) }

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// frame is a whole frame of a GPU of 80 GiB, of which nobody owns rest bytes.
func frame(s int, rest float64, members ...Member[int]) *Frame[int] {
	f := &Frame[int]{T: second(s), Used: Of(rest), Capacity: Of(80 * gib), Complete: true, Members: members}
	for i := range members {
		f.Used.V += members[i].Used.V
	}
	return f
}

// proc is one that started long before the first frame.
func proc(key int, used float64) Member[int] {
	return Member[int]{Key: key, Used: Of(round(used)), Started: start - time.Hour}
}

// show adds a frame and returns what is said of it.
func show(t testing.TB, d *Domain[int], f *Frame[int]) *Judgement[int] {
	t.Helper()
	must(t, d.Observe(f))
	return d.Judgement()
}

// observe shows a frame with members of the given memory.
func observe(t testing.TB, d *Domain[int], s int, rest float64, members map[int]float64) *Judgement[int] {
	t.Helper()
	var all []Member[int]
	for key := range 100 {
		if used, ok := members[key]; ok {
			m := proc(key, used)
			m.Used.V = used
			all = append(all, m)
		}
	}
	return show(t, d, frame(s, rest, all...))
}

// memoryOf is a process of that memory, of which it is not known whether it computes.
func memoryOf(memory func(s int) float64) func(s int) Member[int] {
	return func(s int) Member[int] { return proc(1, memory(s)) }
}

// toggles are the seconds in which something begins and ends, by turns.
type toggles []int

func (c *toggles) note(s int, on bool) {
	if on != c.on() {
		*c = append(*c, s)
	}
}

func (c *toggles) on() bool { return len(*c)%2 == 1 }

// follow watches one process, a frame every step seconds, and returns when it was told to leak. Its GPU
// leaks when it does, and the rest of that never. each sees all verdicts on it, if it is not nil.
func follow(t *testing.T, seconds, step int, at func(s int) Member[int], each func(s int, v *Verdict)) (leaks toggles, last Verdict) {
	t.Helper()
	d := newDomain(t)
	for s := 0; s < seconds; s += step {
		j := show(t, d, frame(s, 512*mib, at(s)))
		last = j.Members[0].Verdict
		leaks.note(s, last.Leak)
		if j.Device.Leak != last.Leak || j.Residual.Leak {
			t.Fatalf("second %d: the process leaks: %t, its GPU: %t, the rest: %t", s, last.Leak, j.Device.Leak, j.Residual.Leak)
		}
		ends := func(v *Verdict) bool { return v.SecondsToOOM.OK && !math.IsInf(v.SecondsToOOM.V, 1) }
		finite := ends(&last)
		if last.Judged && (last.Leak && !finite || last.Rate.OK != last.Leak || last.Leaked.OK != last.Leak || last.Pattern.Leaks() != last.Leak) {
			t.Fatalf("second %d: the parts of the verdict disagree: %+v", s, last)
		}
		if known := j.Evidence != EvidenceNone; known != ends(&j.Device) || finite && !known || finite && !last.Leak && j.Evidence != EvidenceFilling {
			t.Fatalf("second %d: a leak: %t, full in %g s, evidence %q", s, last.Leak, last.SecondsToOOM.V, j.Evidence)
		}
		if each != nil {
			each(s, &last)
		}
	}
	return leaks, last
}
