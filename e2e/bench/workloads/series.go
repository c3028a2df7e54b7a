// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package workloads generates labelled series of used GPU memory: healthy ones
// as allocators, trainers, servers and desktops make them, and the same with a
// leak put in. A series is computed sample by sample and never stored, and the
// same kind, set and index always give the same series.
package workloads

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

const (
	mib = 1 << 20
	// quantum is the granularity of used memory in NVML, in MiB.
	quantum = 2
	// Horizon is how far ahead of its start a leaking series is run to find its
	// out-of-memory.
	Horizon = 48 * time.Hour
)

// Set is a space of seeds. What was tuned on one says little about it, and
// everything about the other.
type Set uint32

// The sets. They share no seed.
const (
	Tune Set = 1 // for setting thresholds
	Test Set = 3 // for the figures that are published; 2 was looked at when the leak threshold was chosen
)

// String returns the name of the set as in the flag --set.
func (s Set) String() string {
	switch s {
	case Tune:
		return "tune"
	case Test:
		return "test"
	}
	return fmt.Sprintf("Set(%d)", uint32(s))
}

// SetNamed returns the set of a name.
func SetNamed(name string) (Set, error) {
	for _, s := range []Set{Tune, Test} {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("set %q is neither tune nor test", name)
}

// Length says how long a series is to be.
type Length uint8

// The lengths.
const (
	// Mixed is 4 to 12 h, for each sixth healthy series 24 to 72 h.
	Mixed Length = iota
	// Long is 24 to 72 h.
	Long
)

// longEvery is which of the healthy series of Mixed length is a long one.
const longEvery = 6

// Series is one series of used memory with what is true of it.
type Series struct {
	// Name is the kind, Set and Index which series of it this is.
	Name  string
	Set   Set
	Index int
	// Leak says that memory is lost from Onset on, Steady that it is so at a
	// constant rate.
	Leak, Steady bool
	// Straight marks what is healthy and cannot be told from a leak while it
	// lasts: memory that fills in a straight line for more than 15 minutes.
	Straight bool
	// Onset is when the first bytes are lost.
	Onset time.Duration
	// OOM is when an allocation fails for the first time; 0 when that does not
	// happen within Horizon. The series ends there.
	OOM time.Duration
	// Length is when the series ends at the latest.
	Length time.Duration
	// Interval is the time between samples.
	Interval time.Duration
	// Capacity is in bytes.
	Capacity int64
	// Rate is what is lost in the long run, in bytes per second.
	Rate float64

	capacity, step, length float64 // MiB and seconds
	background, leak       memory
	jitter                 rand.PCG
	n                      int64
}

// Next returns the next sample: its time since the start of the series and the
// used memory in bytes, a multiple of 2 MiB. ok is false after the end.
func (s *Series) Next() (t time.Duration, used int64, ok bool) {
	x := float64(s.n) * s.step
	if x > s.length {
		return 0, 0, false
	}
	v := s.background.at(x)
	if s.leak != nil {
		v += s.leak.at(x)
		if v > s.capacity {
			s.length = -1 // it died
			return 0, 0, false
		}
	}
	v = math.Ceil(min(max(v, 0), s.capacity)/quantum) * quantum
	// A reading is late by up to 1/128 of the interval.
	late := s.Interval >> 24 * time.Duration(s.jitter.Uint64()>>47)
	t = time.Duration(s.n)*s.Interval + late
	s.n++
	return t, min(int64(v)*mib, s.Capacity), true
}

// Fills says whether the last sample is of a straight fill of more than 15 minutes,
// healthy or not: the load of a model, or a tooth of what is freed in the end.
func (s *Series) Fills() bool { return fills(s.background) }

// HalfLife returns the moment in the middle between onset and out-of-memory; 0
// without one.
func (s *Series) HalfLife() time.Duration {
	if s.OOM == 0 {
		return 0
	}
	return s.Onset + (s.OOM-s.Onset)/2
}

// Kind is a kind of series.
type Kind struct {
	// Name names it; those of leaks start with "leak-".
	Name string
	// Leak and Straight are those of its series.
	Leak, Straight bool

	make func(d *draw) spec
}

// spec is what a kind makes.
type spec struct {
	background, leak memory
	steady           bool
	end              float64 // the least length in seconds
}

// Kinds returns all kinds: the healthy ones, the straight fills, the leaks.
func Kinds() []Kind {
	var all []Kind
	for _, k := range healthyKinds {
		all = append(all, Kind{Name: k.name, make: k.make})
	}
	all = append(all, Kind{Name: "straight-fill", Straight: true, make: straightFill})
	for _, k := range leakKinds {
		all = append(all, Kind{Name: "leak-" + k.name, Leak: true, make: k.make})
	}
	return all
}

// New returns the series of a kind that belongs to a set, an index and a length.
func (k Kind) New(set Set, index int, length Length) *Series {
	s := k.build(set, index, length)
	if k.Leak {
		k.build(set, index, length).runAhead(s)
	}
	return s
}

// build makes a series without what only its future tells.
func (k Kind) build(set Set, index int, length Length) *Series {
	d := newDraw(k, set, index, length)
	s := &Series{
		Name: k.Name, Set: set, Index: index, Leak: k.Leak, Straight: k.Straight,
		Interval: d.interval, Capacity: int64(d.capacity) * mib,
		capacity: d.capacity, step: d.step, jitter: *rand.NewPCG(d.r.Uint64(), d.r.Uint64()),
	}
	p := k.make(d)
	s.background, s.leak, s.Steady = p.background, p.leak, p.steady
	s.length = max(d.length, p.end)
	s.Length = seconds(s.length)
	return s
}

// runAhead runs s, which is a copy of to, to its out-of-memory or the horizon
// and tells to what it found.
func (s *Series) runAhead(to *Series) {
	s.length = Horizon.Seconds()
	end, leaked := 0.0, 0.0
	for x := 0.0; x <= s.length; x = float64(s.n) * s.step {
		s.n++
		lost := s.leak.at(x)
		if lost > 0 && to.Onset == 0 {
			to.Onset = seconds(x)
		}
		if s.background.at(x)+lost > s.capacity {
			to.OOM = seconds(x)
			break
		}
		end, leaked = x, lost
	}
	to.Rate = leaked * mib / max(end-to.Onset.Seconds(), s.step)
	if to.OOM > 0 {
		// To the half-life at least: the forecast is judged there.
		to.length = max(to.length, (to.HalfLife() + 2*to.Interval).Seconds())
		to.Length = min(seconds(to.length), to.OOM)
	}
}

// seconds returns s seconds.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
