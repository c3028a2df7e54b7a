// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	// MaxMembers bounds how many members of a domain are judged; the memory of
	// further ones still counts in the sums.
	MaxMembers = 1024
	// MaxGroups is the same for groups.
	MaxGroups = 256
	// absence is how long a member may be missing from incomplete lists before it
	// counts as gone, and a group may be without members.
	absence = int64(10 * time.Minute)
	// nearCapacity is the share of the capacity from which an exit may have been
	// an out-of-memory.
	nearCapacity = 0.95
	// intervalSamples is over how many frames the typical interval is the median.
	intervalSamples = 9
)

// ErrTime says that a frame is not later than the one before it.
var ErrTime = errors.New("time did not increase")

// Kind is what a series of a domain is about.
type Kind uint8

// The kinds of series.
const (
	KindDevice   Kind = iota // the used memory as a whole
	KindResidual             // used memory minus all members
	KindMember
	KindGroup
)

// Subject names a series of a domain.
type Subject[K comparable] struct {
	Kind  Kind
	Key   K      // of a member
	Group string // of a group, or of the member's
}

// Domain judges one memory: that of a GPU, or of a GPU instance of a MIG GPU.
// One goroutine owns it. Its memory is bounded by MaxMembers and MaxGroups, and
// Observe allocates only when a series is born.
type Domain[K comparable] struct {
	config   func(Subject[K]) Config
	last     int64 // time of the last frame, ns; 0 before the first
	frames   int
	deltas   [intervalSamples]int64
	used     *series
	residual *series
	resting  *series // the sum of the members that have not computed for long
	members  map[K]*member
	groups   map[groupName]*group[K]
	crest    Crest[int64]
	reached  int64 // the highest use before the slots of the crest, since a process of weight left, bytes
	reaching int64 // when the oldest slot begins that was looked at for it, ns
	leftAt   int64 // when a process ended last that held much of the crest, ns; 0 never
	fullness fullness
	partings partings[K]
	missing  []missing[K]
	crowd    int // the most members at once so far
	// attributed and attributedAt remember the last complete list: one that could
	// not be read is no reason to judge the device by other means for a frame.
	attributed   bool
	attributedAt int64
	free         []*series

	// Of the last frame: its list in order, whether that was complete, whether the
	// used memory was known, its crest and its capacity.
	present     []listing[K]
	leaving     []K
	listed      bool
	known       bool
	top         int64
	capacity    int64
	hasCapacity bool

	// Of the last judgement: what is told, whether it was, what leaks, and the
	// highest confidence of what the frame does not tell the memory of.
	out      Judgement[K]
	told     bool
	grown    []grower
	held     float64
	programs []groupName // in a crash loop
}

// listing is an entry of the list of a frame. Without a member it is one too many
// or listed twice; known says that its memory is.
type listing[K comparable] struct {
	key    K
	member *member
	group  *group[K]
	known  bool
	twice  bool // it was listed before in the frame
}

type member struct {
	*series
	group groupName // of the last frame
	// program is what it runs, "" where that is not known.
	program string
	seen    int64 // last frame that listed it, ns
	place   int   // in the list of that frame
	used    Value
	full    bool  // then the memory as a whole was near its capacity
	room    Value // and what was free of it, bytes
	// company is the most that one other of its group held when it was listed last.
	company float64

	activity activity
	flushing flushing
}

// groupName names a group: a pod or job, or the program that the processes run who belong to
// none. The memory of those is nobody's sum: they are followed one after the other alone.
type groupName struct {
	name    string
	program bool
}

// groupOf returns the name of the group of a member; the zero one if it has none.
func groupOf[K comparable](in *Member[K]) groupName {
	if in.Group != "" || in.Program == "" {
		return groupName{name: in.Group}
	}
	return groupName{in.Program, true}
}

type group[K comparable] struct {
	*series
	seen     int64 // last frame with a member, ns
	ended    cohort
	pool     pool
	restarts restarts
	most     int // members at once so far
	busiest  int // the most of them that did not rest
	// last is the member that was the only one of a frame last; single says that there
	// was one.
	last   K
	single bool
	// vacant says that who held most has ended, beside helpers, and nobody has come since.
	vacant bool
	// culprit is the process of the last life of the chain; accused says that it is known.
	culprit K
	accused bool
	// Of the last frame: the sum of the members, how many they are, whether the
	// memory of one is not known, and the key of the last of them.
	sum     float64
	members int
	resting int // of them, those that have not computed for long and will not again
	unknown bool
	joined  bool // one of them was not seen before
	key     K
	leaking bool // one of them does; of the last judgement
	// The two largest amounts that one of them held, and who holds most of those that
	// came after the last life of the chain, nil if nobody did.
	largest, second float64
	heir            *member
}

// NewDomain returns a Domain without history. config is asked once a series, at
// its birth; the error is that of the configuration it gives for the device.
func NewDomain[K comparable](config func(Subject[K]) Config) (*Domain[K], error) {
	if err := config(Subject[K]{Kind: KindDevice}).Validate(); err != nil {
		return nil, fmt.Errorf("detector configuration: %w", err)
	}
	d := &Domain[K]{config: config}
	d.clear()
	return d, nil
}

// clear forgets all series.
func (d *Domain[K]) clear() {
	d.used, d.residual, d.resting = nil, nil, nil
	d.members, d.groups = map[K]*member{}, map[groupName]*group[K]{}
	d.crest, d.leftAt, d.fullness = Crest[int64]{}, 0, fullness{}
	d.reached, d.reaching = 0, 0
	d.partings.clear()
	if d.missing == nil {
		d.missing = make([]missing[K], 0, maxMissing)
	}
	d.forget(d.missing[:0])
	d.crowd = 0
	d.attributed = false
	d.frames = 0
	d.present, d.listed, d.known, d.hasCapacity = d.present[:0], false, false, false
}

// Reset throws the history away, because it is not that of the memory any more,
// and counts the reason. The clock may start anew.
func (d *Domain[K]) Reset(r Reason) {
	d.clear()
	d.last = 0
	d.out.Exited, d.out.Attributed = d.out.Exited[:0], false
	if r < NumReasons {
		d.out.Resets[r]++
	}
}

// Observe adds a frame. The error is ErrTime, wrapped; nothing has changed then.
// It does not allocate but when a series is born; what is to be said after the
// frame is worked out by Judgement alone.
func (d *Domain[K]) Observe(f *Frame[K]) error {
	t := int64(f.T)
	if t <= d.last {
		return fmt.Errorf("frame %s before the last one: %w", time.Duration(d.last)-f.T, ErrTime)
	}
	if d.last > 0 {
		d.deltas[d.frames%intervalSamples] = t - d.last
		d.frames++
	}
	d.last = t
	o := observation{t: t, interval: d.interval(), whole: d.used}
	d.capacity, d.hasCapacity = bytesOf(f.Capacity)
	d.hasCapacity = d.hasCapacity && d.capacity > 0
	o.capacity = float64(d.capacity)
	used, ok := bytesOf(f.Used)
	room := Value{V: max(0, o.capacity-float64(used)), OK: ok && d.hasCapacity}
	if ok {
		d.fullness.note(t, used, d.capacity)
	}
	o.full = d.fullness
	rest, known := d.exits(f, o.interval)
	d.observeMembers(f, o, room)
	d.search(rest, known, o.interval)
	d.observeResting(f, o)
	d.observeGroups(o, f.Complete)
	d.listed, d.known = f.Complete, ok
	if ok {
		d.observeDevice(f, o, used)
	}
	return nil
}

// bytesOf returns v as whole bytes; ok is false where it is absent or cannot be
// an amount of memory.
func bytesOf(v Value) (bytes int64, ok bool) {
	if !v.OK || !(v.V >= 0 && v.V <= MaxBytes) {
		return 0, false
	}
	return int64(math.Round(v.V)), true
}

// interval returns the median of the last times between frames in ns.
func (d *Domain[K]) interval() int64 {
	n := min(d.frames, intervalSamples)
	if n == 0 {
		return int64(time.Second)
	}
	sorted := d.deltas
	slices.Sort(sorted[:n])
	return sorted[n/2]
}

// newSeries returns an empty series, a used one if there is any.
func (d *Domain[K]) newSeries(subject Subject[K]) *series {
	cfg := d.config(subject)
	if cfg.Validate() != nil {
		cfg = d.config(Subject[K]{Kind: KindDevice}) // NewDomain has checked this one
	}
	var s *series
	if n := len(d.free); n > 0 {
		s = d.free[n-1]
		d.free = d.free[:n-1]
		s.reset(cfg)
	} else {
		s = newSeries(cfg)
	}
	s.loadless = subject.Kind == KindResidual
	return s
}

// Reconfigure asks for the configuration of every series again. History stays,
// but for windows of another length, which start empty.
func (d *Domain[K]) Reconfigure() {
	again := func(s *series, subject Subject[K]) {
		if s == nil {
			return
		}
		if cfg := d.config(subject); cfg.Validate() == nil {
			s.configure(cfg)
		}
	}
	again(d.used, Subject[K]{Kind: KindDevice})
	again(d.residual, Subject[K]{Kind: KindResidual})
	again(d.resting, Subject[K]{Kind: KindResidual})
	for key, m := range d.members {
		again(m.series, Subject[K]{Kind: KindMember, Key: key, Group: m.group.pod()})
	}
	for i := range d.missing {
		x := &d.missing[i]
		again(x.series, Subject[K]{Kind: KindMember, Key: x.key, Group: x.group.pod()})
	}
	for name, g := range d.groups {
		if !name.program || d.Knows(g.key) { // between two processes there is nobody to ask for
			again(g.series, g.subject(name))
		}
	}
}

// release keeps a series that is not needed any more for the next newcomer.
func (d *Domain[K]) release(s *series) {
	if s != nil && len(d.free) < MaxMembers {
		d.free = append(d.free, s)
	}
}

// exits takes back the members that were missing and removes those that are gone. interval is the
// typical time between frames. It returns the memory that no process of the frame accounts for, if
// that is known.
func (d *Domain[K]) exits(f *Frame[K], interval int64) (rest int64, known bool) {
	if d.told {
		d.out.Exited, d.told = d.out.Exited[:0], false
	}
	t, seen := int64(f.T), 0
	before, was := d.partings.last()
	before -= d.unlisted() // they were missing then
	d.present = d.present[:0]
	for i := range f.Members {
		key := f.Members[i].Key
		m := d.members[key]
		if m == nil {
			m = d.reclaim(key)
		}
		d.present = append(d.present, listing[K]{key: key, member: m, twice: m != nil && m.seen == t})
		if m != nil && m.seen != t {
			m.seen, m.place = t, i
			seen++
		}
	}
	rest, known = d.unowned(f)
	if seen == len(d.members) {
		return rest, known
	}
	more := rest - before - d.unlisted()
	for _, key := range d.gone(f) {
		m := d.members[key]
		delete(d.members, key)
		if g := d.groups[m.group]; g != nil {
			m.company = g.company(m)
		}
		if !f.Complete {
			d.bury(key, m)
			continue
		}
		if d.residual != nil {
			d.partings.leave(key, t, interval, m.series.used, &d.residual.cfg)
		}
		d.depart(key, m, more, before, known && was)
	}
	return rest, known
}

// gone returns the members that left, in the order of the last list of each: that of a map
// would tell the same frames differently each time.
func (d *Domain[K]) gone(f *Frame[K]) []K {
	d.leaving = d.leaving[:0]
	for key, m := range d.members {
		if m.seen < int64(f.T) && (f.Complete || int64(f.T)-m.seen >= absence) {
			d.leaving = append(d.leaving, key)
		}
	}
	slices.SortFunc(d.leaving, func(a, b K) int {
		x, y := d.members[a], d.members[b]
		return cmp.Or(cmp.Compare(x.seen, y.seen), cmp.Compare(x.place, y.place))
	})
	return d.leaving
}

// observeMembers adds the frame to the members' series and sums their groups.
// room is what is free of the memory as a whole.
func (d *Domain[K]) observeMembers(f *Frame[K], o observation, room Value) {
	full := room.OK && room.V <= (1-nearCapacity)*o.capacity
	for _, g := range d.groups {
		g.sum, g.members, g.resting, g.unknown, g.joined = 0, 0, 0, false, false
		g.largest, g.second, g.heir = 0, 0, nil
	}
	for i := range f.Members {
		in, at := &f.Members[i], &d.present[i]
		joined := at.member == nil
		if joined {
			at.member = d.member(in)
		}
		m := at.member
		if m != nil && m.last == o.t {
			at.member, at.twice = nil, true
			continue
		}
		used, ok := bytesOf(in.Used)
		held := used
		if m != nil && !ok {
			held = m.series.used // for all that is known
		}
		g := d.addToGroup(in, held, ok)
		at.group, at.known = g, ok
		if m == nil {
			continue
		}
		if g != nil {
			g.joined = g.joined || joined
		}
		m.seen, m.place, m.group, m.program = o.t, i, groupOf(in), in.Program
		m.used, m.full, m.room = Value{V: float64(used), OK: ok}, full, room
		m.activity.note(o.t, o.interval, m.cfg.allowance(), in.SM, in.CPU, in.State, in.Started)
		if g != nil && in.SM.OK && m.activity.rested(o.t) && (m.activity.lost > 0 || g.pool.forgets(&m.activity, m.program, used)) {
			g.resting++
		}
		if ok {
			m.flushing.note(o.t, o.interval, used, d.capacity, &d.fullness)
			o.used, o.started, o.sm = used, int64(in.Started), in.SM
			m.again = g != nil && g.restarts.full.n > 0 && g.restarts.follows(m.first)
			m.observe(&o)
		}
		g.inherit(m)
	}
}

// member returns the member of that key, making it at first sight; nil beyond the
// bound.
func (d *Domain[K]) member(in *Member[K]) *member {
	m := d.members[in.Key]
	if m == nil {
		m = d.reclaim(in.Key)
	}
	if m == nil && len(d.members) < MaxMembers {
		d.supersede(groupOf(in))
		if g := d.groups[groupOf(in)]; g != nil && g.accused && g.culprit == in.Key {
			g.restarts.revoke() // one that is seen again has not ended
		}
		m = &member{series: d.newSeries(Subject[K]{Kind: KindMember, Key: in.Key, Group: in.Group})}
		d.members[in.Key] = m
		d.partings.back(in.Key)
	}
	return m
}

// addToGroup adds a member's memory to the sum of its group and returns the
// group; nil if it has none. Without the memory of one member there is no sum: used
// is what it held last, then.
func (d *Domain[K]) addToGroup(in *Member[K], used int64, known bool) *group[K] {
	name := groupOf(in)
	if name == (groupName{}) {
		return nil
	}
	g := d.groups[name]
	if g == nil {
		most := MaxGroups
		if name.program {
			most /= 2 // pods come first
		}
		if len(d.groups) >= most && !d.makeRoom(name.program) {
			return nil
		}
		g = &group[K]{}
		d.groups[name] = g
	}
	g.seen, g.key = d.last, in.Key
	g.sum += float64(used)
	if u := float64(used); u > g.largest {
		g.largest, g.second = u, g.largest
	} else {
		g.second = max(g.second, u)
	}
	g.members++
	g.unknown = g.unknown || !known
	return g
}

// observeGroups adds the sums to the series of the groups that have had two
// members, at once or one after the other.
func (d *Domain[K]) observeGroups(o observation, complete bool) {
	for name, g := range d.groups {
		if o.t-g.seen >= absence {
			d.retire(name, g)
			continue
		}
		lacks := d.lacks(name)
		g.unknown = g.unknown || lacks || name.program && g.members > 1
		if g.series == nil && (g.members >= 2 && !name.program || g.replaced() || g.restarts.n > 0 && g.members > 0) {
			g.series = d.newSeries(g.subject(name))
		}
		if complete && g.members == 0 && !g.unknown {
			g.pool = pool{} // who comes next may be the parent of others
		}
		g.turn(o.t)
		if g.members > 0 && !lacks {
			g.follow(o.t, name.program)
		}
		if g.summed() {
			o.used, _ = bytesOf(Of(min(g.sum, MaxBytes)))
			g.observe(&o)
		}
	}
}

// retire forgets a group that has had no member for long, but for a day its chain of lives, if it
// has one: who restarts a job by hand takes a while for it.
func (d *Domain[K]) retire(name groupName, g *group[K]) {
	if g.restarts.n == 0 || d.last-g.seen >= day {
		d.release(g.series)
		delete(d.groups, name)
		return
	}
	if g.series == nil && g.restarts.paused {
		return // it is already
	}
	d.release(g.series)
	*g = group[K]{seen: g.seen, restarts: g.restarts, culprit: g.culprit, accused: g.accused}
	g.restarts.paused = true
}

// makeRoom forgets the group that has been retired for longest, for a program one of a program, and
// reports whether there was one.
func (d *Domain[K]) makeRoom(program bool) bool {
	var first groupName
	var found *group[K]
	for name, g := range d.groups {
		if d.last-g.seen >= absence && (name.program || !program) && (found == nil || g.seen < found.seen || g.seen == found.seen && name.less(first)) {
			first, found = name, g
		}
	}
	if found != nil {
		d.release(found.series)
		delete(d.groups, first)
	}
	return found != nil
}

// less orders names.
func (n groupName) less(other groupName) bool {
	if n.name != other.name {
		return n.name < other.name
	}
	return !n.program && other.program
}

// pod returns the name of a pod or job; "" for that of a program.
func (n groupName) pod() string {
	if n.program {
		return ""
	}
	return n.name
}

// subject names the group's series. That of a program has the configuration of its process.
func (g *group[K]) subject(name groupName) Subject[K] {
	if name.program {
		return Subject[K]{Kind: KindMember, Key: g.key}
	}
	return Subject[K]{Kind: KindGroup, Group: name.name}
}

// replaced reports whether the only member of the frame is not the one that was the
// only one before.
func (g *group[K]) replaced() bool { return g.members == 1 && g.single && g.key != g.last }

// turn follows how many members a frame at time t has, and which. A pool of which more members
// work than ever did grows, and does not leak; one that is larger only by members that will not work
// again may leak. A process that takes the place of the only one, or of the only one that is no
// helper, begins anew, and so does a group
// that has a second one for the first time: growth that begins there has the excuses of growth that
// begins with a process.
func (g *group[K]) turn(t int64) {
	working := g.members - g.resting
	grows := working > g.busiest
	g.busiest = max(g.busiest, working)
	follows := g.vacant && g.joined
	g.vacant = g.vacant && !g.joined
	if g.series != nil && (grows || follows || g.most == 1 && g.replaced()) {
		g.interrupt()
		if g.most <= 1 || follows {
			g.succeed(t)
		}
	}
	g.most = max(g.most, g.members)
	if g.members == 1 {
		g.last, g.single = g.key, true
	}
}

// follow follows the chain of the group in a frame at time t.
func (g *group[K]) follow(t int64, program bool) {
	others := g.largest
	if program {
		others = 0
	}
	g.restarts.follow(g.heir, others, t)
}

// inherit notes that m, which the frame has, may be the next life of the group's chain: of
// those that came after the last one, who holds most.
func (g *group[K]) inherit(m *member) {
	if g != nil && g.restarts.follows(m.first) && (g.heir == nil || m.series.used > g.heir.series.used) {
		g.heir = m
	}
}

// company returns the most that one of the others held in the last frame in which m, a member
// of the group, was seen, in bytes; that frame was the last one.
func (g *group[K]) company(m *member) float64 {
	if m.used.V < g.largest {
		return g.largest
	}
	return g.second
}

// summed reports whether the last frame gave the group's series a sample.
func (g *group[K]) summed() bool { return g.series != nil && g.members > 0 && !g.unknown }

// interrupted reports whether the group leaked when it had a sum last, not long before t, which it
// lacks only because the memory of a member is not known.
func (g *group[K]) interrupted(t int64) bool {
	return g.series != nil && g.unknown && g.leak.on && t-g.series.last < absence
}

// observeDevice adds the frame to the raw series, whose value is used, and to the
// residual.
func (d *Domain[K]) observeDevice(f *Frame[K], o observation, used int64) {
	if d.used == nil {
		d.used = d.newSeries(Subject[K]{Kind: KindDevice})
	}
	// A driver takes a while to free what a large process held.
	freeing := d.leftAt > 0 && o.t-d.leftAt < max(releaseGrace, missingFrames*o.interval) && used < d.used.used
	o.used = used
	d.used.observe(&o)
	if freeing || float64(used) <= idleLevel(o.capacity) {
		d.crest, d.reached, d.reaching = Crest[int64]{}, 0, 0
	}
	d.top = d.crest.Add(f.T, crestSpan, used)
	d.reach()
	if !f.Complete {
		return
	}
	d.attributed, d.attributedAt = true, o.t
	if d.residual == nil {
		d.residual = d.newSeries(Subject[K]{Kind: KindResidual})
	}
	for i := range f.Members {
		if member, _ := bytesOf(f.Members[i].Used); !d.present[i].twice {
			o.used = max(o.used-member, -MaxBytes)
		}
	}
	pace := 0.0
	if l := &d.residual.leak; l.on {
		pace = l.trend.rate
	}
	d.partings.observe(o.t, o.interval, o.used, pace, &d.residual.cfg)
	if n := len(f.Members); n > d.crowd {
		d.crowd = n // the driver needs something for each process that it tells of nobody
		d.residual.interrupt()
	}
	o.used = max(o.used-d.unlisted(), 0) // the lists are read a moment apart from the memory
	d.residual.observe(&o)
}
