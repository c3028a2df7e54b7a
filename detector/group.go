// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/heights"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/process"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// helperShare bounds the memory of a helper, as a share of that of another process of its group. Helpers are the parent of an
// engine, or a probe that opens the GPU. The share was fitted by hand on generated series.
const helperShare = 0.25

// groupName names a group: a pod or job, or the program of processes that are in none. A program has no sum: its processes
// only count one after the other.
type groupName struct {
	Name    string
	Program bool
}

// groupOf returns the name of the group of a member; the zero one if it has none.
func groupOf[K comparable](in *Member[K]) groupName {
	if in.Group != "" || in.Program == "" {
		return groupName{Name: in.Group}
	}
	return groupName{in.Program, true}
}

func (n groupName) less(other groupName) bool {
	if n.Name != other.Name {
		return n.Name < other.Name
	}
	return !n.Program && other.Program
}

// pod returns the name of a pod or job; "" for that of a program.
func (n groupName) pod() string {
	if n.Program {
		return ""
	}
	return n.Name
}

// group are the processes of a pod or job, or of a program. Exported fields are those of a state.
type group[K comparable] struct {
	*series.Series               // of the sum, for its statistics; nil while there was one member only
	Seen           time.Duration // last frame with a member
	Members        int           // so far
	Loop           crashLoop
	Runs           heights.Program // what the last life of the loop ran; 0 unknown
	// The memory of the two largest members of the last frame.
	Largest, Second stat.Bytes
	Culprit         K    // the process of the last life of the loop
	Accused         bool // Culprit is known

	frame groupFrame
	key   K   // of the last member of the last frame
	sum   sum // of the members' verdicts, in the last judgement
}

// groupFrame is a group in the last frame.
type groupFrame struct {
	sum     stat.Bytes
	members int
	unknown bool    // the memory of a member is unknown
	joined  bool    // a member is new
	heir    *member // the largest of those that came after the last life of the loop; nil if none did
}

// join adds a member of the frame to its group and returns the group; nil if it has none. joined says that the member is new.
// If its memory is not known, used is its last known memory.
func (d *Domain[K]) join(in *Member[K], m *member, used stat.Bytes, known, joined bool) *group[K] {
	name := groupOf(in)
	if name == (groupName{}) {
		return nil
	}
	g := d.groups[name]
	if g == nil {
		most := MaxGroups
		if name.Program {
			most /= 2 // pods come first
		}
		if len(d.groups) >= most && !d.makeRoom(name.Program) {
			return nil
		}
		g = &group[K]{}
		d.groups[name] = g
	}
	h := &g.frame
	g.Seen, g.key = d.past.Last, in.Key
	if h.members == 0 {
		g.Largest, g.Second = 0, 0
	}
	if used > g.Largest {
		g.Largest, g.Second = used, g.Largest
	} else {
		g.Second = max(g.Second, used)
	}
	h.sum += used
	h.members++
	h.unknown, h.joined = h.unknown || !known, h.joined || joined
	if joined {
		g.Members = min(g.Members+1, math.MaxInt32)
	}
	if m != nil && known && g.Loop.follows(m.First) && (h.heir == nil || m.Used > h.heir.Used) {
		h.heir = m
	}
	return g
}

// observeGroups updates the crash loops, and the series of the pods and jobs that have had two members or more.
func (d *Domain[K]) observeGroups(o series.Sample) {
	for name, g := range d.groups {
		if g.frame.joined && g.Loop.N == 0 && !name.Program {
			d.inherit(g)
		}
	}
	for name, g := range d.groups {
		if o.T-g.Seen >= process.Absence {
			d.expire(name, g)
			continue
		}
		h := &g.frame
		if g.Series == nil && ((h.members >= 2 || g.Members >= 2) && !name.Program || g.Loop.N > 0 && h.members > 0) {
			g.Series = d.newSeries(g.subject(name))
		}
		if h.members > 0 {
			others, heir := g.Largest, (*series.Series)(nil)
			if name.Program {
				others = 0
			}
			if h.heir != nil {
				heir = h.heir.Series
			}
			g.Loop.next(heir, others, o.T)
		}
		if g.summed() && !name.Program {
			o.Used = min(h.sum, MaxBytes)
			g.Observe(&o)
		}
	}
}

// expire removes a group that has had no member for process.Absence. If it has a loop, the loop stays for a day.
func (d *Domain[K]) expire(name groupName, g *group[K]) {
	if g.Loop.next(nil, 0, d.past.Last); g.Loop.N == 0 {
		delete(d.groups, name)
		return
	}
	*g = group[K]{Seen: g.Seen, Loop: g.Loop, Runs: g.Runs, Culprit: g.Culprit, Accused: g.Accused}
}

// makeRoom removes the group that expired first, and reports whether there was one. A program takes the place of a program only.
func (d *Domain[K]) makeRoom(program bool) bool {
	var first groupName
	var found *group[K]
	for name, g := range d.groups {
		if d.past.Last-g.Seen >= process.Absence && (name.Program || !program) && (found == nil || g.Seen < found.Seen || g.Seen == found.Seen && name.less(first)) {
			first, found = name, g
		}
	}
	if found != nil {
		delete(d.groups, first)
	}
	return found != nil
}

// subject names the group's series. That of a program has the configuration of its process.
func (g *group[K]) subject(name groupName) Subject[K] {
	if name.Program {
		return Subject[K]{Kind: KindMember, Key: g.key}
	}
	return Subject[K]{Kind: KindGroup, Group: name.Name}
}

// company returns the memory of the largest other member in the last frame, in which m was a member.
func (g *group[K]) company(m *member) stat.Bytes {
	if m.Held.V < float64(g.Largest) {
		return g.Largest
	}
	return g.Second
}

// summed reports whether the last frame gave the group's series a sample.
func (g *group[K]) summed() bool {
	return g.Series != nil && g.frame.members > 0 && !g.frame.unknown
}

// looping reports whether the group is in a crash loop that is a leak.
func (g *group[K]) looping() bool {
	return g.Series != nil && !g.Config().Mute && g.Loop.Proven && !g.Loop.Paused && g.Loop.confidence() >= g.Config().LeakThreshold
}

// verdict fills v with the statistics of the sum, the verdict of the members, and the crash loop if there is one.
func (g *group[K]) verdict(v *Verdict) {
	g.Judge(v)
	if !v.Judged {
		return
	}
	if overrule(v, &g.sum.Verdict); v.Leak {
		v.CopyWait(&Verdict{})
	}
	v.Confidence = max(v.Confidence, g.Loop.confidence())
	if g.looping() {
		g.loop(v)
	}
}

// loop makes a verdict that of the crash loop. If no process leaks by itself, the rate is that of the lives before, and nothing
// but the growth of the present life has leaked: the end of a process gives all back.
func (g *group[K]) loop(v *Verdict) {
	v.Confidence = max(v.Confidence, g.Loop.confidence())
	v.Pattern, v.Since = PatternCrashLoop, g.Loop.Since
	v.CopyWait(&Verdict{})
	if v.Leak && g.frame.members > 0 {
		return // the present life has a better rate
	}
	v.Leak = true
	v.Rate, v.Leaked = Of(g.Loop.Trend.Rate), Of(0)
	if heir := g.frame.heir; heir != nil {
		if trough, ok := heir.Trough(); ok {
			v.Leaked = Of(float64(max(0, trough-g.Loop.Base)))
		}
	}
}
