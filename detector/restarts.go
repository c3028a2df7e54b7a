// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"slices"
	"time"
)

const (
	// leastLives is the fewest lives in a row that can be a crash loop, leastDeaths the same
	// of like ones that filled the memory, and keptLives how many of the last ones are kept.
	leastLives  = 3
	leastDeaths = 2
	keptLives   = 8
	// lifePoints is the fewest troughs that show how a life grew: they have enoughSteps.
	lifePoints = 6
	// loadStep is how many times as large as a typical one the first step of a growth is
	// that still is one of the load before it.
	loadStep = 2
	// loadLasts is how long growth must last, in ns, that is as fast as programs load.
	loadLasts = int64(2 * time.Minute)
	// burstShare is the share of what is kept in the end that each burst takes less of.
	burstShare = 0.5
	// keptShare is the least share of what a life grew by in all that its later half did
	// not give back.
	keptShare = 0.1
	// fatalWithin is how long, in ns, a life may go on with what it holds to have died because that
	// was not enough; or fatalShare of the life, or fatalWaits times as long as it waited for more
	// before, if that is longer.
	fatalWithin = int64(5 * time.Minute)
	fatalShare  = 0.25
	fatalWaits  = 1.25
	// unevenLasts is how long a life must have worked, in ns, that can be seen to grow
	// unevenly, and loadOver the same where nobody knows whether it works: loads by parts are over sooner.
	unevenLasts = int64(2 * time.Minute)
	loadOver    = int64(7 * time.Minute)
	// A life whose second half brought the share lifeHeld of what the first half did kept
	// its pace, and one that brought but lifeSlowed has not. It is known to its end, and
	// has to be more even than growth that goes on.
	lifeSlowed = 0.75
	lifeHeld   = 0.9
	// alikeFactor is by how much the rates of like lives may differ from their median.
	alikeFactor = 1.5
	// sureLives is the fewest lives that leave no doubt. Each one less takes a tenth of
	// the confidence, down to gateConfidence for leastLives and fewer.
	sureLives = 6
	// helperShare is the share of what another process of its group holds up to which a
	// process is its helper: the parent of an engine, a probe that opens the GPU.
	helperShare = 0.25
	// loadedShare is the share of what the lives of a chain had when they began to grow from which one
	// that came after them may be the next.
	loadedShare = 0.5
	// growsAgain is the share of what the last life grew by at which one that comes after a
	// pause is known to do the same.
	growsAgain = 0.25
	// outlives is how many times as long as the longest life of a chain a process
	// must live, without growing, to end it; after that it is looked at again each
	// outliveLook-th of the longest life.
	outlives    = 1.5
	outliveLook = 8
)

// life is that of a process which grew until its end.
type life struct {
	from, to int64 // its first and last sample, ns
	base     int64 // the level at which the growth began: what it had loaded, bytes
	onset    int64 // when, ns
	lasted   int64 // for how long it was seen to grow, ns
	ahead    int64 // what was left to the capacity at its pace, ns; 0 unknown
	trend    trend
	uneven   bool    // it did not grow steadily, or not alone
	step     float64 // the largest step of its growth if that was uneven, bytes
}

// restarts finds a crash loop: a process grows and dies, is started again,
// and so on. Each death gives back all memory, so that neither the process, which
// lives too short, nor the sum of the group, whose troughs fall back, shows the leak.
// The chain is that of the last lives in a row that grew.
type restarts struct {
	lives   [keptLives]life // a ring: the n-th life is at n % keptLives
	n       int             // lives in the chain
	longest int64           // of them, ns
	full    streak          // the last ones, that ended with the memory nearly full
	fatal   streak          // the same, with those that grew unevenly
	alike   streak          // the last ones, of like rate
	proof   int             // lives of the chain that is a leak; 0 it is none
	since   int64           // when it began, ns
	spared  bool            // the last end broke no chain: the life filled the memory, though it did not grow
	paused  bool            // nobody has come in place of the last life for long, or who has does not grow yet
	noted   int64           // the frame that noted the last end of a process, ns
	look    int64           // when a process that outlives them is looked at again, ns

	// What follows from the lives: the median of their rates with its error, and that
	// of their bases.
	trend trend
	base  int64
}

// streak is a part of a chain, up to its end.
type streak struct {
	n      int
	since  int64 // when its first life began, ns
	lasted int64 // for how long its lives grew together, ns
}

func (s *streak) add(l *life) {
	if s.n == 0 {
		s.since = l.from
	}
	s.n++
	s.lasted += l.lasted
}

// clear ends the chain.
func (r *restarts) clear() {
	if r.n > 0 {
		*r = restarts{noted: r.noted}
	}
}

// revoke takes back that the last life ended. What is a leak without it goes on to be one.
func (r *restarts) revoke() {
	if r.proof <= leastLives {
		r.clear()
		return
	}
	r.proof--
}

// add takes a life that grew. full says that it filled the memory.
//
// Three lives or more are a leak when they filled the memory one after another and
// grew for rampTimes MinSpan in all, as growth as fast as a ramp must; or when their rates
// are alike and they grew together for as long as a single growth must that begins with
// its process. Lives that filled the memory, some of them unevenly, have to grow for shortSettle, and
// two of them are enough where they are alike.
func (r *restarts) add(l life, full bool, cfg *Config) {
	var rates [keptLives]float64
	if n := r.rates(&rates, r.alike.n); n > 0 {
		if m := median(rates[:n]); l.trend.rate > alikeFactor*m || m > alikeFactor*l.trend.rate {
			r.alike = streak{}
		}
	}
	again := r.n > 0 && l.uneven && r.lives[(r.n-1)%keptLives].uneven
	l.step = 0 // of no use any more, and not saved
	r.lives[r.n%keptLives] = l
	r.n++
	r.spared = false
	r.longest, r.look = max(r.longest, l.to-l.from), 0
	switch {
	case !full:
		r.full, r.fatal = streak{}, streak{}
	case again:
		r.full = streak{}
	case !l.uneven:
		r.full.add(&l)
	}
	if l.uneven {
		r.alike = streak{}
	} else {
		r.alike.add(&l)
	}
	if full {
		r.fatal.add(&l)
	}
	r.settle()
	if r.proof > 0 {
		r.proof++
		return
	}
	patience := max(int64(cfg.SettleTime), min(int64(patienceShare*float64(l.ahead)), day))
	r.prove(&r.alike, leastLives, patience)
	ramp := int64(rampTimes * float64(cfg.MinSpan))
	r.prove(&r.full, leastLives, ramp)
	deaths := leastLives
	if r.twice() {
		deaths = leastDeaths
	}
	r.prove(&r.fatal, deaths, max(ramp, shortSettle))
}

// twice reports whether the last two lives are like each other.
func (r *restarts) twice() bool {
	if r.n < 2 {
		return false
	}
	a, b := r.lives[(r.n-1)%keptLives].trend.rate, r.lives[(r.n-2)%keptLives].trend.rate
	return a <= alikeFactor*b && b <= alikeFactor*a
}

// prove makes the chain a leak if the streak is long enough.
func (r *restarts) prove(s *streak, lives int, least int64) {
	if s.n >= lives && s.lasted >= least && s.n > r.proof {
		r.proof, r.since = s.n, s.since
	}
}

// rates copies the rates of the last n lives that are kept to out.
func (r *restarts) rates(out *[keptLives]float64, n int) int {
	n = min(n, r.n, keptLives)
	for i := range n {
		out[i] = r.lives[(r.n-1-i)%keptLives].trend.rate
	}
	return n
}

// settle works out what follows from the lives.
func (r *restarts) settle() {
	var rates, bases [keptLives]float64
	n := r.rates(&rates, keptLives)
	if n == 0 {
		return
	}
	r.trend = trend{rate: median(rates[:n]), n: n}
	for i := range n {
		l := &r.lives[(r.n-1-i)%keptLives]
		off := rates[i] - r.trend.rate
		r.trend.variance += off * off / float64(max(n-1, 1))
		r.trend.wander += l.trend.wander / float64(n)
		bases[i] = float64(l.base)
	}
	r.base = int64(median(bases[:n]))
}

// median returns the middle one of at least one value, the mean of two; it sorts them.
func median(v []float64) float64 {
	slices.Sort(v)
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}

// confidence returns how sure a leak is, 0 to 1.
func (r *restarts) confidence() float64 {
	if r.proof == 0 || r.paused {
		return 0
	}
	return float64(10-min(max(0, sureLives-r.proof), sureLives-leastLives)) / 10
}

// lived returns the life of the series' process so far, and whether it grew steadily
// until now at any scale that holds all of it.
func (s *series) lived() (l life, grew bool) {
	l = life{from: s.first, to: s.last}
	if s.cfg.Mute {
		return l, false
	}
	var whole, buffer [scaleBlocks]point
	var finest []point // of the narrowest scale that holds all of it
	for i := range levelScale {
		e := &s.ladder[i]
		if e.closed != int64(e.len) || e.len < lifePoints {
			continue
		}
		pts := e.points(&buffer)
		if finest == nil {
			finest = e.points(&whole)
		}
		for skip := 0; skip <= len(pts)/2 && len(pts)-skip >= lifePoints; skip++ {
			steady := life{from: l.from, to: l.to}
			if s.grewSteadily(pts[skip:], e.width, &steady) && toTheEnd(finest, ticks(steady.onset-s.first), ticks(s.last-s.first)) {
				return steady, true
			}
		}
	}
	return l, s.grewUnevenly(finest, &l)
}

// grewUnevenly reports whether a life grew, not steadily, but by what it did not give back, over
// the troughs after its load; and fills in how. Its load is over when it first computes; where that
// is not known, a load is what grows most of the time, and over in the first quarter of a life.
func (s *series) grewUnevenly(pts []point, l *life) bool {
	loaded, least := s.workedAt-s.first, unevenLasts
	if s.workedAt == 0 {
		if s.idle && s.busyAt == s.first {
			return false // it never computed
		}
		loaded, least = (s.last-s.first)/4, loadOver
	}
	for len(pts) > 0 && int64(pts[0].at)*tick < loaded {
		pts = pts[1:]
	}
	if len(pts) < lifePoints || s.last-s.first-loaded < least || s.workedAt == 0 && !stands(pts) {
		return false
	}
	early, late := lowest(pts[:len(pts)/2]), lowest(pts[len(pts)/2:])
	grown := float64(s.used) - early
	if min(late-early, grown) < max(s.cfg.MinGrowth, keptShare*grown) || s.stood(pts, early/unit) {
		return false
	}
	for i := max(1, len(pts)/4); i < len(pts); i++ {
		l.step = max(l.step, float64(pts[i].bytes()-pts[i-1].bytes()))
	}
	l.base, l.onset, l.uneven = int64(early), s.first+int64(pts[0].at)*tick, true
	l.lasted, l.ahead = s.last-l.onset, 0
	l.trend = trend{rate: grown / seconds(l.lasted), n: len(pts)}
	return true
}

// lowest returns the lowest trough, in bytes.
func lowest(pts []point) float64 {
	v := math.Inf(1)
	for _, p := range pts {
		v = min(v, float64(p.bytes()))
	}
	return v
}

// stands reports whether what troughs keep grows by three bursts or more, none of them half of it,
// and stands still for most of the time in between.
func stands(pts []point) bool {
	var largest, burst float64
	still := 0
	last := pts[len(pts)-1].bytes()
	kept := last // the lowest from here on
	for i := len(pts) - 2; i >= 0; i-- {
		level := min(kept, pts[i].bytes())
		if level == kept {
			still++
			burst = 0
		}
		burst += float64(kept - level)
		largest, kept = max(largest, burst), level
	}
	return largest < burstShare*float64(last-kept) && 2*still >= len(pts)
}

// toTheEnd reports whether the last tenth of what was gained since the onset came in
// the last fifth of the time until the end.
func toTheEnd(pts []point, onset, end int32) bool {
	for len(pts) > 1 && pts[0].at < onset {
		pts = pts[1:]
	}
	low, high := float64(pts[0].v), 0.0
	for _, p := range pts {
		high = max(high, float64(p.v))
	}
	i := slices.IndexFunc(pts, func(p point) bool { return float64(p.v) >= high-(high-low)/10 })
	return 5*int64(end-pts[i].at) <= int64(end-onset)
}

// stood reports whether the process lived for long with what it holds, and longer than it ever waited
// for the next tenth of what it gained above low, in units: what fits does not die.
func (s *series) stood(pts []point, low float64) bool {
	high := low
	for _, p := range pts {
		high = max(high, float64(p.v))
	}
	since, waited, tenth := pts[0].at, int32(0), 1
	for _, p := range pts {
		for ; tenth < 10 && float64(p.v) >= low+float64(tenth)/10*(high-low); tenth++ {
			waited, since = max(waited, p.at-since), p.at
		}
	}
	stands := s.last - s.first - int64(since)*tick
	return stands > max(fatalWithin, int64(fatalShare*float64(s.last-s.first))) && float64(stands) > fatalWaits*float64(int64(waited)*tick)
}

// grewSteadily reports whether a life grew steadily over the troughs, which leave out
// what it loaded, and fills in how. It is no growth to load a model: without compute;
// from an idle memory on at idleLoadRate, which holds where the line of the growth
// leads back to one at the first sample; or at loadRate for less than loadLasts.
func (s *series) grewSteadily(pts []point, width int64, l *life) bool {
	first, last := pts[0], pts[len(pts)-1]
	grown := float64(last.bytes() - first.bytes())
	if f := &s.effort; grown < s.cfg.MinGrowth || f.resting > restingShare*(f.resting+f.working) && f.working*unit < (1-restingShare)*grown {
		return false
	}
	if float64(pts[1].bytes()-first.bytes()) > loadStep*grown/float64(len(pts)-1) {
		return false // the rest of a load
	}
	// The steps of a single process are no jobs that come, however large they are.
	n, _ := steps(pts)
	if keeping(pts, lifeSlowed, lifeHeld)*evenness(pts, evenParts)*clamp((n-fewSteps)/(enoughSteps-fewSteps)) < gateConfidence {
		return false
	}
	fit := fitLine(pts)
	l.base, l.onset = first.bytes(), s.first+int64(first.at)*tick
	l.lasted, l.ahead = int64(last.at-first.at)*tick, 0
	if !(fit.rate > 0) || fit.rate > loadRate && l.lasted < loadLasts {
		return false
	}
	// The trough of a block is where growth began, a width before its end; and the
	// process may have begun up to an interval before it was first seen.
	since := max(0, l.onset-width-s.first) + (s.last-s.first)/max(s.samples-1, 1)
	if fit.rate > idleLoadRate && float64(l.base)-fit.rate*seconds(since) <= idleLevel(s.capacity) {
		return false
	}
	if s.capacity > 0 {
		l.ahead = int64(min(max(0, s.left())/fit.rate*float64(time.Second), math.MaxInt64/2))
	}
	l.trend = trend{rate: fit.rate, variance: fit.variance, wander: fit.wander, n: len(pts)}
	return true
}

// slight reports whether the process never held more than a GPU that nobody uses: a
// check that runs before a program, or a tool.
func (s *series) slight() bool {
	highest := s.used
	e := &s.ladder[0]
	for i := range e.len {
		highest = max(highest, e.ring[(e.head+i)%scaleBlocks].bytes())
	}
	return float64(highest) <= idleLevel(s.capacity)
}

// ended takes the end of a member of g. That of a helper counts for nothing, nor does that of a
// slight one. Who did not grow to its end breaks the chain, but for what dies of what others hold, or
// for once, of a full memory. Who had company of its size, or was there before the last life ended, is
// in a chain only if it filled the memory. Two ends in a frame, as after a gap or when a pod is killed,
// come in no order that could be told: those that filled the memory are one death, others break the chain.
//
// The processes of a program that are in no pod or job need not belong together: of those, what was
// there before the last life ended counts for nothing.
func (d *Domain[K]) ended(key K, g *group[K], m *member) {
	r, cfg := &g.restarts, &m.cfg
	if g.series != nil {
		cfg = &g.cfg
	}
	program := m.group.program
	apart := r.follows(m.first)
	least := helperShare * r.held()
	if apart {
		least = min(least, loadedShare*float64(r.base)) // the next life may have been it, and still
	}
	if m.used.V <= max(least, helperShare*m.company) || m.slight() || program && !apart {
		return
	}
	life, grew := m.lived()
	alone := apart && m.company <= helperShare*m.used.V
	life.uneven = life.uneven || !alone        // of several nobody knows who took whose place
	short := m.room.OK && m.room.V < life.step // of memory for one step more
	filled := grew && (short || d.filled(m, life.onset, life.base))
	if program {
		// Whoever runs a program once more may have done what it was for: only what dies of
		// a full memory is in a loop.
		filled = filled && (short || m.full)
	}
	if program || life.uneven {
		grew = filled
	}
	same := r.noted == d.last
	switch {
	case same && filled: // the same death
	case !grew && !alone && d.filled(m, m.first, 0): // of what the others hold
		return
	case same:
		r.clear()
	case grew:
		r.add(life, filled, cfg)
		g.culprit, g.accused = key, true
	case alone && r.n > 0 && (!r.spared || r.proof > 0) && !m.filledEarly() && d.filled(m, m.first, 0):
		r.spared, r.alike = true, streak{}
	default:
		r.clear()
	}
	r.noted = d.last
}

// filledEarly reports whether the process had nearly all that it holds after a quarter of its life: so
// does what takes at its start what it needs.
func (m *member) filledEarly() bool {
	e := &m.ladder[levelScale-1]
	for i := range levelScale {
		if m.ladder[i].closed == int64(m.ladder[i].len) {
			e = &m.ladder[i]
			break
		}
	}
	var buffer [scaleBlocks]point
	pts := e.points(&buffer)
	return len(pts) > 0 && float64(pts[len(pts)/4].bytes()) >= fullShare*m.used.V
}

// held returns how much the last life of the chain held when it ended, in bytes; 0 without one.
func (r *restarts) held() float64 {
	if r.n == 0 {
		return 0
	}
	l := &r.lives[(r.n-1)%keptLives]
	return float64(l.base) + l.trend.rate*seconds(l.to-l.onset)
}

// follows reports whether a member that was first seen at the given time came after the last life of
// the chain had ended.
func (r *restarts) follows(first int64) bool {
	return r.n == 0 || first > r.lives[(r.n-1)%keptLives].to
}

// filled reports whether the end of a member found the memory nearly full, by what it gained from
// the time onset on, above base: the memory was not full then, or what it gained is three quarters
// or more of what was free when its growth began.
func (d *Domain[K]) filled(m *member, onset, base int64) bool {
	if d.fullness.filled(onset, m.last) {
		return true
	}
	gained := m.used.V - float64(base)
	return m.full && d.fullness.until >= m.last-fullBefore && m.room.V <= gained/3
}

// follow follows the chain in a frame at time t, and who came after its last life, nil if nobody did:
// one that outlives the chain without growing ends it. The chain is paused where nobody came for as long
// as a group may be without members, or only helpers for outlives times the longest life more; and
// forgotten after a day. others is the most that one who was there before holds and that
// may be the next life of a pool, bytes.
func (r *restarts) follow(m *member, others float64, t int64) {
	if r.n == 0 {
		return
	}
	idle, wait := float64(t-r.lives[(r.n-1)%keptLives].to), float64(absence)
	used, base := 0.0, float64(r.base)
	if m != nil {
		used = float64(m.series.used)
	}
	if m != nil || others >= loadedShare*base {
		wait += outlives * float64(r.longest)
	}
	switch {
	case used > base+growsAgain*(r.held()-base):
		r.paused = false
	case used >= loadedShare*base: // it may grow yet
	case idle >= max(wait, float64(day)):
		r.clear()
	case idle >= wait:
		r.paused = true
	}
	if m == nil {
		return
	}
	if r.proof == 0 || t < r.look || float64(t-m.first) <= outlives*float64(r.longest) {
		return
	}
	r.look = t + r.longest/outliveLook
	if _, grew := m.lived(); !grew {
		r.clear()
	}
}

// looping reports whether the group is in a crash loop that is a leak, once it is
// judged.
func (g *group[K]) looping() bool {
	return g.series != nil && !g.cfg.Mute && g.restarts.proof > 0 && !g.restarts.paused && g.restarts.confidence() >= g.cfg.LeakThreshold
}

// lives reports whether the group has a process, listed or missing: what the series of one that has none
// held was given back with the last.
func (g *group[K]) lives() bool { return g.members > 0 || g.unknown }

// verdict is that of the series, with the pattern and the begin of a crash loop where
// there is one.
func (g *group[K]) verdict(v *Verdict) {
	g.series.verdict(v)
	if !v.Judged {
		return
	}
	v.Confidence = max(v.Confidence, g.restarts.confidence())
	if g.looping() {
		g.loop(v)
	}
}

// loop makes a verdict that of the crash loop: its cycles are the lives, of which nothing is
// retained. Where the series shows no leak, the rate is that of the lives before.
func (g *group[K]) loop(v *Verdict) {
	v.Confidence = max(v.Confidence, g.restarts.confidence())
	v.Pattern, v.Since = PatternLeakCyclic, time.Duration(g.restarts.since)
	if v.Leak && g.lives() {
		return // the present life shows by itself, and better, how fast
	}
	v.Leak = true
	v.Rate, v.Leaked = Of(g.restarts.trend.rate), Of(0)
	if g.heir != nil {
		if trough, ok := g.heir.trough(); ok {
			v.Leaked = Of(float64(max(0, trough-g.restarts.base)))
		}
	}
}

func (r *restarts) code(c *codec) {
	c.within(&r.n, 0, math.MaxInt32)
	for i := range min(r.n, keptLives) {
		r.lives[(r.n-1-i)%keptLives].code(c)
	}
	c.natural(&r.longest)
	r.full.code(c, r.n)
	r.fatal.code(c, r.n)
	r.alike.code(c, r.n)
	c.within(&r.proof, 0, r.n)
	c.time(&r.since)
	c.bool(&r.spared)
	c.bool(&r.paused)
	c.time(&r.noted)
	c.natural(&r.look)
	if r.proof > 0 && (r.proof < leastDeaths || r.since == 0) {
		c.fail()
		*r = restarts{}
	}
	if !c.writing {
		r.settle()
	}
}

func (l *life) code(c *codec) {
	for _, v := range []*int64{&l.from, &l.to, &l.onset} {
		c.time(v)
	}
	c.amount(&l.base)
	c.time(&l.lasted)
	c.natural(&l.ahead)
	l.trend.code(c)
	c.bool(&l.uneven)
	if l.to < l.from || !(l.trend.rate > 0 && l.trend.rate <= MaxBytes) {
		c.fail()
	}
}

func (s *streak) code(c *codec, most int) {
	c.within(&s.n, 0, most)
	c.time(&s.since)
	c.time(&s.lasted)
}
