// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/ablate"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/process"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
)

// helperShare is the share of what another process of its group holds up to which a process is its
// helper: the parent of an engine, a probe that opens the GPU. It was fitted by hand on generated series.
const helperShare = 0.25

// groupName names a group: a pod or job, or the program that the processes run who belong to
// none. The memory of those is nobody's sum: they are followed one after the other alone.
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

// less orders names.
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

type group[K comparable] struct {
	*series.Series
	groupPast
	// last is the member that was the only one of a frame last; single says that there
	// was one.
	last   K
	single bool
	// culprit is the process of the last life of the loop; accused says that it is known.
	culprit K
	accused bool
	frame   groupFrame
	key     K    // of the last member of the last frame
	leaking bool // a member does; of the last judgement
	// filling is the growth of the members' pools, in bytes per second; of the last judgement.
	filling float64
}

// groupPast is what a group has beside its series and its members.
type groupPast struct {
	Seen    time.Duration // last frame with a member
	Ended   process.Cohort
	Pool    process.Pool
	Loop    lives.Loop
	Runs    lives.Key // what the last life of the loop ran; 0 unknown
	Most    int       // members at once so far
	Busiest int       // the most of them that did not rest
	// Vacant says that who held most has ended, beside helpers, and nobody has come since.
	Vacant bool
	// The two largest amounts that one member of the last frame held.
	Largest, Second stat.Bytes
}

// groupFrame is what the last frame tells of a group: the sum of the members, how many they are, how
// many of them have not computed for long and will not again, whether the memory of one is not known,
// whether one of them was not seen before, and who holds most of those that came after the last life of
// the loop, nil if nobody did.
type groupFrame struct {
	sum     stat.Bytes
	members int
	resting int
	unknown bool
	joined  bool
	heir    *member
	// ceiling is the sum of what the members may reach, by their earlier lives; strange says that one
	// of those that compute has none.
	ceiling float64
	rose    time.Duration // until which age one of their earlier lives rose
	strange bool
}

// addToGroup adds a member's memory to the sum of its group and returns the
// group; nil if it has none. Without the memory of one member there is no sum: used
// is what it held last, then.
func (d *Domain[K]) addToGroup(in *Member[K], used stat.Bytes, known bool) *group[K] {
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
	g.Seen, g.key = d.past.Last, in.Key
	if g.frame.members == 0 {
		g.Largest, g.Second = 0, 0
	}
	if used > g.Largest {
		g.Largest, g.Second = used, g.Largest
	} else {
		g.Second = max(g.Second, used)
	}
	g.frame.sum += used
	g.frame.members++
	g.frame.unknown = g.frame.unknown || !known
	return g
}

// take notes what a member of the frame at time t means for the group: whether it is new, rests, or
// may be the next life of the group's loop.
func (g *group[K]) take(m *member, in *Member[K], used stat.Bytes, joined bool, t time.Duration) {
	h := &g.frame
	h.joined = h.joined || joined
	a := &m.Activity
	rests := in.SM.OK && a.Rested(t) && (a.Lost > 0 || g.Pool.Forgets(a, m.Program, used))
	if rests {
		h.resting++
	}
	h.reach(m, rests)
	if g.Loop.Follows(m.First) && (h.heir == nil || m.Used > h.heir.Used) {
		h.heir = m
	}
}

// observeGroups adds the sums to the series of the groups that have had two
// members, at once or one after the other.
func (d *Domain[K]) observeGroups(o series.Sample, complete bool) {
	for name, g := range d.groups {
		if g.frame.joined && g.Loop.N == 0 && !name.Program {
			d.inherit(g)
		}
	}
	for name, g := range d.groups {
		if o.T-g.Seen >= process.Absence {
			d.retire(name, g)
			continue
		}
		h := &g.frame
		lacks := d.lacks(name)
		h.unknown = h.unknown || lacks || name.Program && h.members > 1
		if g.Series == nil && (h.members >= 2 && !name.Program || g.replaced() || g.Loop.N > 0 && h.members > 0) {
			g.Series = d.newSeries(g.subject(name))
		}
		if complete && h.members == 0 && !h.unknown {
			g.Pool = process.Pool{} // who comes next may be the parent of others
		}
		g.turn(o.T)
		if h.members > 0 && !lacks {
			g.follow(o.T, name.Program)
		}
		if g.summed() {
			o.Used, o.Prior = min(h.sum, MaxBytes), h.prior()
			g.Observe(&o)
		}
	}
}

// retire forgets a group that has had no member for long, but not its loop, if it has one.
func (d *Domain[K]) retire(name groupName, g *group[K]) {
	if g.Loop.Next(nil, 0, d.past.Last); g.Loop.N == 0 {
		delete(d.groups, name)
		return
	}
	if g.Series == nil && g.Loop.Paused {
		return // it is already
	}
	*g = group[K]{groupPast: groupPast{Seen: g.Seen, Loop: g.Loop}, culprit: g.culprit, accused: g.accused}
	g.Loop.Paused = true
}

// makeRoom forgets the group that has been retired for longest, for a program one of a program, and
// reports whether there was one.
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

// replaced reports whether the only member of the frame is not the one that was the
// only one before.
func (g *group[K]) replaced() bool { return g.frame.members == 1 && g.single && g.key != g.last }

// turn follows how many members a frame at time t has, and which. A pool of which more members
// work than ever did grows, and does not leak; one that is larger only by members that will not work
// again may leak. A process that takes the place of the only one, or of the only one that is no
// helper, begins anew, and so does a group that has a second one for the first time: growth that begins
// there has the excuses of growth that begins with a process.
func (g *group[K]) turn(t time.Duration) {
	if ablate.Off(ablate.Turn) {
		return
	}
	h := &g.frame
	working := h.members - h.resting
	grows := working > g.Busiest
	g.Busiest = max(g.Busiest, working)
	follows := g.Vacant && h.joined
	g.Vacant = g.Vacant && !h.joined
	if g.Series != nil && (grows || follows || g.Most == 1 && g.replaced()) {
		g.Interrupt()
		if g.Most <= 1 || follows {
			g.Succeed(t)
		}
	}
	g.Most = max(g.Most, h.members)
	if h.members == 1 {
		g.last, g.single = g.key, true
	}
}

// follow follows the loop of the group in a frame at time t.
func (g *group[K]) follow(t time.Duration, program bool) {
	others := g.Largest
	if program {
		others = 0
	}
	var heir *series.Series
	if g.frame.heir != nil {
		heir = g.frame.heir.Series
	}
	g.Loop.Next(heir, others, t)
}

// company returns the most that one of the others held in the last frame in which m, a member
// of the group, was seen; that frame was the last one.
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

// lives reports whether the group has a process, listed or missing: what the series of one that has none
// held was given back with the last.
func (g *group[K]) lives() bool { return g.frame.members > 0 || g.frame.unknown }

// interrupted reports whether the group leaked when it had a sum last, not long before t, which it
// lacks only because the memory of a member is not known.
func (g *group[K]) interrupted(t time.Duration) bool {
	return g.Series != nil && g.frame.unknown && g.Leaks() && t-g.Last < process.Absence
}

// looping reports whether the group is in a crash loop that is a leak, once it is
// judged.
func (g *group[K]) looping() bool {
	return g.Series != nil && !g.Config().Mute && g.Loop.Proven && !g.Loop.Paused && g.Loop.Confidence() >= g.Config().LeakThreshold
}

// pools reports whether the growth of the sum is mostly that of pools, which is no leak of a member.
func (g *group[K]) pools() bool { return g.filling > 0 && 2*g.filling >= g.Leak.Trend.Rate }

// verdict is that of the series, with the pattern and the begin of a crash loop where
// there is one.
func (g *group[K]) verdict(v *Verdict) {
	g.Judge(v)
	if !v.Judged {
		return
	}
	if v.Leak && !g.leaking && g.pools() {
		v.Leak, v.Confidence, v.Since, v.Pattern = false, 0, 0, PatternPlateau
		v.Rate, v.Bend, v.Leaked = Value{}, 0, Value{}
	}
	v.Confidence = max(v.Confidence, g.Loop.Confidence())
	if g.looping() {
		g.loop(v)
	}
}

// loop makes a verdict that of the crash loop: its cycles are the lives, of which nothing is
// retained. Where the series shows no leak, the rate is that of the lives before.
func (g *group[K]) loop(v *Verdict) {
	v.Confidence = max(v.Confidence, g.Loop.Confidence())
	v.Pattern, v.Since, v.Withheld, v.Lasted, v.WithheldFor = PatternLeakCyclic, g.Loop.Since, WithheldNone, 0, 0
	if v.Leak && g.lives() {
		return // the present life shows by itself, and better, how fast
	}
	v.Leak = true
	v.Rate, v.Leaked = Of(g.Loop.Trend.Rate), Of(0)
	if heir := g.frame.heir; heir != nil {
		if trough, ok := heir.Trough(); ok {
			v.Leaked = Of(float64(max(0, trough-g.Loop.Base)))
		}
	}
}
