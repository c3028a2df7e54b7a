// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet simulates GPUs of a fleet: the allocators of programs as mechanisms, programs that allocate and free on them, and
// leaks as defects in the code of such programs. It knows nothing of how a leak is detected.
//
// A Family is one defect, or one way of healthy use. A Scenario is one drawn case of it: one GPU with all processes on it, from
// the first sample of a recording to the real end.
package fleet

import (
	"cmp"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// Class says what the right answer to a family is.
type Class uint8

// The classes.
const (
	Leak    Class = iota // a program retains memory that it will not use again
	Healthy              // ordinary healthy use
	Growing              // healthy use whose memory grows for hours, up to a bound
)

// String returns the class as it is written in reports.
func (c Class) String() string { return [...]string{"leak", "healthy", "growing"}[c] }

// Family is one defect in code, or one way of healthy use.
type Family struct {
	Name  string // unique, in snake case
	Class Class
	// Held says that the family is held out: it is never looked at while a rule is tuned. A third of each class is held out,
	// chosen by a hash of the names alone.
	Held bool
	// Fresh says that the family was written when all thresholds were set, by somebody who had not seen them: it is held out, and
	// told of alone.
	Fresh bool
	// About says in one sentence what the mechanism is and where such a thing is known from.
	About string
	// Draw returns a scenario of this family: a seed gives the same one again.
	Draw func(seed uint64) *Scenario

	build func(w *world)
}

// Scenario is one GPU of a node with all processes on it, or with all its MIG instances.
type Scenario struct {
	// Interval is the time between samples: 1, 5, 15 or 30 s.
	Interval time.Duration
	// Truth is complete only after Next has returned false, because the simulation runs to the real end. Start is known from the
	// beginning, and Length is an upper bound until then: a recording may end a while after a failure.
	Truth Truth
	// Next fills s with what the detector reads of the next sample, and returns false at the end. The slices in s are reused by
	// the next call if s is; the Owners are shared and never change.
	Next func(s *gpu.Sample) bool
}

// Truth is what really happened in a scenario. Times are on the clock of gpu.Sample.T.
type Truth struct {
	// Start is the time of the first sample, and Length the time from the first sample to the last.
	Start, Length time.Duration
	// Leaks are the defects that retained memory, one entry a program. It is empty in a scenario of a healthy family. A leak that
	// never showed, or that had not begun when the recording ended, is listed too, with Visible unset.
	Leaks []LeakTruth
	// OOMs are all failures to allocate that a program saw, in the order of time, at most MaxOOMs.
	OOMs []OOM
	// Zombies are processes that hold memory and will never compute again, and Unreleased those that have ended and whose memory
	// stayed. The families have none.
	Zombies, Unreleased []Held
}

// Held is memory that nobody will use again: that of a process, or what stayed after one.
type Held struct {
	ID   gpu.ProcessID
	From time.Duration
}

// MaxOOMs bounds the list of failed allocations of a scenario. Programs that catch the exception can fail at each request.
const MaxOOMs = 256

// VisibleGrowth is the growth in bytes from which on a leak counts as visible in the memory of its processes: 64 MiB, as the plan
// of the benchmark sets it.
const VisibleGrowth = 64 << 20

// LeakTruth is one program that leaks. It may have several lives: it is restarted, or the leak is spread over workers that come
// and go.
type LeakTruth struct {
	// Processes are all processes that retained leaked memory, or whose memory it is in the list, in the order of their starts.
	// It is empty where no process owns the memory any more.
	Processes []gpu.ProcessID
	// Group is the pod or Slurm job of these processes as gpu.Owner.Group names it, and Program their gpu.Owner.Process; both ""
	// if no owner is known in the recording.
	Group, Program string
	// Instance is the GPU instance on which they run; absent without MIG.
	Instance gpu.Opt[uint32]
	// From is when the defect retained its first byte, or the start of the recording if that was before. Until is the end of the
	// last process that held such bytes, or the last sample if one still does.
	From, Until time.Duration
	// Rate is the mean rate in bytes per second at which the defect retained memory, over the time in which a process (or nobody)
	// held some of it.
	Rate float64
	// Retained is the most that was retained at one time, in bytes. In the memory of a process less may show: an allocator serves
	// small leaks from what it has cached.
	Retained uint64
	// Visible says that in the recording the memory of a process (or the memory that nobody owns) grew by VisibleGrowth because
	// of the leak.
	Visible bool
	// Fatal says that a program failed to allocate because of this leak.
	Fatal bool
}

// OOM is an allocation that failed.
type OOM struct {
	T time.Duration
	// Instance is the GPU instance whose memory was full; absent where it was the GPU's.
	Instance gpu.Opt[uint32]
	// Leak is the position in Truth.Leaks of the leak that caused it: the one that retained most in this memory, if that was
	// VisibleGrowth or more and what was missing. -1 is none: the memory was too small for its healthy use.
	Leak int
	// Growth is how long that leak had been retaining memory without a restart when the allocation failed; 0 without a leak.
	Growth time.Duration
	// Again says that the memory had been full before in the same growth: a program that is restarted into a full memory fails
	// again and again.
	Again bool
	// Own says that the allocator met a limit of its process, such as a memory fraction or a preallocation, while the GPU was not
	// full.
	Own bool
}

// Families returns all families, leaks first, each class ordered by name. The caller owns the slice.
func Families() []Family {
	var families []Family
	for class, list := range [][]Family{
		Leak: slices.Concat(trainingLeaks, servingLeaks), Healthy: healthyFamilies, Growing: growingFamilies,
	} {
		for _, f := range list {
			f.Class, f.Held = Class(class), hash(salt+f.Name)>>16%3 == 0
			f.Draw = f.draw
			families = append(families, f)
		}
	}
	for _, f := range freshFamilies {
		f.Fresh, f.Held, f.Draw = true, true, f.draw
		families = append(families, f)
	}
	slices.SortFunc(families, func(a, b Family) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), strings.Compare(a.Name, b.Name))
	})
	return families
}

// draw is Draw.
func (f Family) draw(seed uint64) *Scenario {
	w := newWorld(f.random(seed))
	f.build(w)
	w.plan()
	w.sc.Next = w.next
	return w.sc
}

// random returns the numbers of a seed: one seed draws another GPU in each family.
func (f Family) random(seed uint64) *rand.Rand {
	h := hash(f.Name)
	return rand.New(rand.NewPCG(rand.NewPCG(seed, h).Uint64(), h>>16))
}

// salt is added to the names before their hash decides what is held out: a third of them, whatever their results are. It is the
// first number with which a third of each class is, rounded down or up. A family keeps its side when others are added.
const salt = "67"

// hash returns that of a name. Its low bits are the weaker ones.
func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}
