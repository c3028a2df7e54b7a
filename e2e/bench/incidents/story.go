// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package incidents

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

const (
	mib = 1 << 20
	// quantum is the granularity of used memory in NVML, in MiB.
	quantum = 2
	// epoch is where the clock of the samples stands at the start.
	epoch = 1_790_000_000 * time.Second
)

// story is an incident that is lived again. Its truth is complete at its end.
type story struct {
	fleet.Scenario

	r               *rand.Rand
	bare, noSM      bool
	dt              float64 // seconds between samples
	now, length     float64 // seconds
	events          []event
	procs           []*process
	remains         []remain
	driver          float64 // MiB of no process
	used, limit     float64 // MiB
	capacity        uint64
	pids            uint32
	drawn           map[string]float64
	pods            map[string]string // by program
	skew, slow      float64
	blind, blindEnd float64
}

// remain is memory that stays after its process.
type remain struct{ size, until float64 }

// event is something that is to happen.
type event struct {
	at float64
	do func()
}

// newStory returns a story of an incident. The same seed gives the same one.
func newStory(one *Incident, seed uint64) *story {
	s := &story{r: rand.New(rand.NewPCG(seed, hash(one.Kind))), length: one.Hours * 3600, drawn: map[string]float64{}, pods: map[string]string{}, pids: 1000}
	reserved := s.between(150, 700)
	s.capacity = uint64(one.GPU*1024-reserved) * mib
	s.limit = one.GPU*1024 - reserved - s.about(2, 120)
	s.driver = s.about(2, 30)
	if s.chance(0.5) && !one.Bare {
		s.driver = min(s.between(300, 600), s.limit/8)
	}
	s.used = s.driver
	s.dt = s.pick(1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 5, 5, 5, 5, 5, 10, 10, 15)
	if one.Hours > 24 {
		s.dt = s.pick(10, 15)
	}
	s.bare = one.Bare || !one.Pods && s.chance(0.2)
	s.noSM = one.NoSM || s.chance(0.12)
	if s.chance(0.6) {
		s.skew = s.about(1e-3, 5e-2)
	}
	if s.chance(0.35) {
		s.blind = s.about(0.05, 2)
	}
	if s.chance(0.4) {
		s.slow = s.between(1.5, 20)
	}
	s.Interval, s.now = time.Duration(s.dt*float64(time.Second)), -s.dt
	s.Truth.Start, s.Truth.Length = epoch, at(s.length)
	if one.Beside > 0 {
		s.tenants(s.limit - s.used - one.Beside)
	}
	for i := range one.Programs {
		s.start(&one.Programs[i], -1)
	}
	s.Next = s.next
	return s
}

func hash(name string) (h uint64) {
	for _, c := range name {
		h = h*31 + uint64(c)
	}
	return h
}

func (s *story) between(low, high float64) float64 { return low + (high-low)*s.r.Float64() }
func (s *story) about(low, high float64) float64   { return low * math.Pow(high/low, s.r.Float64()) }
func (s *story) chance(p float64) bool             { return s.r.Float64() < p }
func (s *story) pick(list ...float64) float64      { return list[s.r.IntN(len(list))] }

// at returns a time of the story as a duration since its start.
func at(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func (s *story) clock() time.Duration { return epoch + at(max(s.now, 0)) }

// after plans something.
func (s *story) after(seconds float64, do func()) {
	e := event{s.now + max(seconds, 0), do}
	s.events = slices.Insert(s.events, sort.Search(len(s.events), func(i int) bool { return s.events[i].at > e.at }), e)
}

// tenants puts programs that do not leak on a part of so many MiB.
func (s *story) tenants(free float64) {
	free *= s.between(0.2, 0.8)
	for i := 0; free > 1500; i++ {
		size := min(free, s.between(1000, max(free, 1001)))
		free -= size
		p := Program{Name: fmt.Sprintf("tenant%d", i), Is: "serve", Since: true, Held: fmt.Sprint(0.8 * size), Need: fmt.Sprint(0.15 * size)}
		if s.chance(0.3) {
			p = Program{Name: fmt.Sprintf("job%d", i), Is: "train", Held: fmt.Sprint(size), Pause: "2~1200", Do: []string{"work 10m~2h", "end"}}
		}
		s.start(&p, -1)
	}
}

// next lets the time of one sample pass and shows what is then seen.
func (s *story) next(to *gpu.Sample) bool {
	t := max(s.now, -s.dt) + s.dt
	if t > s.length {
		s.finish()
		return false
	}
	for len(s.events) > 0 && s.events[0].at <= t {
		e := s.events[0]
		s.events = s.events[1:]
		s.now = max(e.at, s.now)
		e.do()
	}
	s.now = t
	s.remains = slices.DeleteFunc(s.remains, func(r remain) bool {
		if r.until > t {
			return false
		}
		s.used -= r.size
		return true
	})
	for i := 0; i < len(s.procs); i++ {
		if p := s.procs[i]; !p.dead {
			p.step()
		}
	}
	s.procs = slices.DeleteFunc(s.procs, func(p *process) bool { return p.dead })
	s.show(to)
	return true
}

// show fills a sample.
func (s *story) show(to *gpu.Sample) {
	*to = gpu.Sample{
		T: epoch + at(s.now), Processes: to.Processes[:0],
		Memory: gpu.Memory{
			Total: gpu.Some(s.capacity), Used: gpu.Some(uint64(math.Ceil(s.used/quantum)*quantum) * mib), Reserved: gpu.Some[uint64](0),
		},
	}
	if s.blind > 0 && s.chance(s.blind*s.dt/3600) {
		s.blindEnd = s.now + s.about(3, 150)
	}
	if s.now < s.blindEnd {
		return
	}
	to.ProcessesKnown, to.ProcessesComplete = true, true
	skewed := s.skew > 0 && s.chance(s.skew)
	for _, p := range s.procs {
		if !p.driver && p.used > 0 {
			to.Processes = append(to.Processes, p.entry(skewed))
		}
	}
}

// refused handles a process that needs more than there is: where leaks have taken it, it fails.
func (s *story) refused(p *process, short float64) bool {
	lost, worst := 0.0, -1
	for i, l := range s.procs {
		if l.dead || l.lost == 0 {
			continue
		}
		if lost += l.lost; worst < 0 || l.lost > s.procs[worst].lost {
			worst = i
		}
	}
	if worst < 0 || short > lost {
		return false
	}
	guilty := s.procs[worst]
	if p.lost > 0 {
		guilty = p
	}
	// One that cannot even begin was never on it: it only fails to start.
	if guilty.leak >= 0 && p.used > 0 {
		l := &s.Truth.Leaks[guilty.leak]
		s.Truth.OOMs = append(s.Truth.OOMs, fleet.OOM{T: s.clock(), Leak: guilty.leak, Growth: s.clock() - l.From})
		l.Fatal = true
	}
	if guilty != p {
		s.after(s.about(60, 1500), guilty.end)
	}
	for _, other := range p.crew.all {
		other.end()
	}
	p.end()
	return true
}

// finish closes the leaks that are still open.
func (s *story) finish() {
	for _, p := range s.procs {
		p.close()
	}
	s.procs = nil
}
