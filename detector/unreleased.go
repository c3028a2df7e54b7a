// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"slices"
	"time"
)

const (
	// MaxUnreleased bounds how many processes of a domain are named as those whose
	// memory has stayed; maxPartings how many exits are watched at once.
	MaxUnreleased = 8
	maxPartings   = 32
	// releaseGrace is how long a driver may take to free what a process held. Exits
	// so close to each other share what stays.
	releaseGrace = int64(10 * time.Second)
	// residuals is over how many frames the residual is remembered.
	residuals = 9
	// stale is from which age on the last residual says nothing of the level before
	// an exit.
	stale = int64(time.Minute)
)

// Unreleased is memory that stayed after its process had ended.
type Unreleased[K comparable] struct {
	Key K
	// Used is what still stays, in bytes.
	Used float64
	// Since is when the process ended.
	Since time.Duration
}

// parting is an exit whose memory may stay, or has stayed.
type parting[K comparable] struct {
	key    K
	used   int64 // what the process held last, bytes
	since  int64 // the first frame without it, ns
	opened int64 // exits that share what stays have the same, ns
	before int64 // residual before these exits, bytes
	frames int   // with a residual since
	held   int64 // what stays at most, bytes
	stays  bool  // it is unreleased
}

// partings finds memory that stays after its process has ended: the residual,
// used memory minus that of all members, is higher after the exit than it was
// before, and stays so.
//
// Before: the median of the last nine residuals, because the list of processes is
// read a moment apart from the memory; or the lower one of the last two, if that is more. After: the higher of two in a row, for the
// same reason. What stays is the least of that since the exit, so that memory
// which somebody takes later, or which belongs to a process that is not in the
// list yet, is not blamed on the dead: it would have to come as the memory goes,
// and stay without an owner. What exits within ten seconds share it in proportion
// to what they held.
//
// Memory is unreleased when MinUnreleased or more of it has stayed for
// UnreleasedAfter, and until the residual falls by half of it. It shrinks with the
// residual; what comes on top and stays for nine frames is somebody else's.
type partings[K comparable] struct {
	recent [residuals]int64 // a ring
	next   int
	len    int
	at     int64 // time of the newest, ns
	list   []parting[K]
	top    int64 // level of the residual from which what stays is counted down, bytes
	fall   int64 // by how much the residual lies below that, bytes
}

// clear forgets everything.
func (p *partings[K]) clear() {
	list := p.list[:0]
	if list == nil {
		list = make([]parting[K], 0, maxPartings)
	}
	*p = partings[K]{list: list}
}

// leave notes that a process which held used bytes is gone from a complete list.
// Where the residual just before is not known, nothing can be said of it. Those
// that left together are ordered by what they held, because the order in which
// they are found means nothing.
func (p *partings[K]) leave(key K, t, interval, used int64, cfg *Config) {
	if float64(used) < cfg.MinUnreleased || p.len == 0 || t-p.at > max(stale, 3*interval) {
		return
	}
	e := parting[K]{key: key, used: used, held: used, since: t, opened: t}
	i := len(p.list)
	if i > 0 && !p.list[i-1].stays && t-p.list[i-1].opened <= releaseGrace {
		e.opened, e.before = p.list[i-1].opened, p.list[i-1].before
	} else {
		e.before = p.before()
	}
	for i > 0 && p.list[i-1].opened == e.opened && p.list[i-1].used < used {
		i--
	}
	if n := len(p.list); n == maxPartings {
		if i == n {
			return
		}
		p.list = p.list[:n-1]
	}
	p.list = slices.Insert(p.list, i, e)
}

// before returns the residual just before now: the middle one of the last ones, or the lower
// one of the last two where it grows, so that what it gained on the way is nobody's.
func (p *partings[K]) before() int64 {
	sorted := p.recent
	slices.Sort(sorted[:p.len])
	last := p.recent[(p.next+residuals-1)%residuals]
	if p.len > 1 {
		last = min(last, p.recent[(p.next+residuals-2)%residuals])
	}
	return max(sorted[p.len/2], last)
}

// last returns the residual of the last frame that had one.
func (p *partings[K]) last() (residual int64, ok bool) {
	return p.recent[(p.next+residuals-1)%residuals], p.len > 0
}

// observe adds the residual of a frame, which may be negative. pace is that at which it is known to
// leak, in bytes per second: what comes by that is not left by who has ended.
func (p *partings[K]) observe(t, interval, residual int64, pace float64, cfg *Config) {
	if p.len > 0 && t-p.at > max(stale, 3*interval) {
		p.next, p.len = 0, 0
		p.list = slices.DeleteFunc(p.list, func(e parting[K]) bool { return !e.stays })
	}
	level := residual
	if p.len > 0 {
		level = max(level, p.recent[(p.next+residuals-1)%residuals])
	}
	p.recent[p.next] = residual
	p.next = (p.next + 1) % residuals
	p.len = min(p.len+1, residuals)
	p.at = t
	if len(p.list) == 0 {
		return
	}
	p.countDown(level)
	for i := 0; i < len(p.list); {
		n := 1
		for i+n < len(p.list) && p.list[i+n].opened == p.list[i].opened {
			n++
		}
		if !p.list[i].stays {
			n = p.wait(i, n, t, residual, level, int64(pace*seconds(t-p.list[i].opened+interval)), cfg)
		}
		i += n
	}
	p.list = slices.DeleteFunc(p.list, func(e parting[K]) bool { return e.stays && e.held == 0 })
}

// wait watches the n exits from the i-th on, which share what stays, and returns
// how many of them stay in the list. leaked is what else the residual has gained since.
func (p *partings[K]) wait(i, n int, t, residual, level, leaked int64, cfg *Config) int {
	batch := p.list[i : i+n]
	var all, held, newest int64
	frames := math.MaxInt // since the newest
	for k := range batch {
		e := &batch[k]
		e.frames++
		all += e.used
		frames, newest = min(frames, e.frames), max(newest, e.since)
	}
	if frames < 2 {
		return n // level is still partly that of the frame before the exit
	}
	before := batch[0].before + leaked
	excess := float64(level - before)
	for k := range batch {
		e := &batch[k]
		e.held = max(0, min(e.held, int64(float64(e.used)*excess/float64(all))))
		held += e.held
	}
	// Three frames: what the second one tells may be that of the first, when the
	// memory was just being freed. The last one may tell that it is free by now.
	stays := t-newest >= max(int64(cfg.UnreleasedAfter), releaseGrace) && frames >= 3 &&
		float64(residual-before) >= cfg.MinUnreleased
	named := n
	switch {
	case float64(held) < cfg.MinUnreleased:
		named = 0
	case stays:
		named = max(0, min(n, MaxUnreleased-p.staying()))
		p.settle(batch[:named], level, held)
	}
	p.list = slices.Delete(p.list, i+named, i+n)
	return named
}

// settle calls what exits have left behind unreleased, held bytes in all. What
// older ones left may have gone meanwhile, behind that.
func (p *partings[K]) settle(batch []parting[K], level, held int64) {
	p.countDown(level - held)
	left := p.remaining()
	for i := range p.list {
		if e := &p.list[i]; e.stays {
			e.held = int64(float64(e.held) * left)
		}
	}
	p.top, p.fall = level, 0
	for i := range batch {
		batch[i].stays = true
	}
}

// staying returns how many are unreleased.
func (p *partings[K]) staying() int {
	n := 0
	for i := range p.list {
		if p.list[i].stays {
			n++
		}
	}
	return n
}

// back forgets a process that is in the list again.
func (p *partings[K]) back(key K) {
	p.list = slices.DeleteFunc(p.list, func(e parting[K]) bool { return e.key == key })
}

// countDown takes what the residual has fallen by from what stays. A fall of half
// of it or more is its end; of several, that of which it is nearest to.
func (p *partings[K]) countDown(level int64) {
	waiting := slices.ContainsFunc(p.list, func(e parting[K]) bool { return !e.stays })
	if !waiting && p.len == residuals {
		p.top = max(p.top, slices.Min(p.recent[:]))
	}
	for p.fall = max(0, p.top-level); p.fall > 0; p.fall = max(0, p.top-level) {
		best := -1
		for i := range p.list {
			if e := &p.list[i]; e.stays && e.held > 0 && 2*p.fall >= e.held && (best < 0 || distance(e.held, p.fall) < distance(p.list[best].held, p.fall)) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		p.top = max(level, p.top-p.list[best].held)
		p.list[best].held = 0
	}
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

// remaining returns which share of what stays is left after the fall.
func (p *partings[K]) remaining() float64 {
	var all int64
	for i := range p.list {
		if p.list[i].stays {
			all += p.list[i].held
		}
	}
	if all == 0 {
		return 0
	}
	return clamp(1 - float64(p.fall)/float64(all))
}

// judgeUnreleased tells what stays: only where the members and the residual are
// judged, because elsewhere memory that nobody is known to own is nothing unusual.
// It names the pattern of the residual and of the memory as a whole.
func (d *Domain[K]) judgeUnreleased() {
	d.out.Unreleased = d.out.Unreleased[:0]
	if !d.attributed || d.residual == nil || d.residual.cfg.Mute {
		return
	}
	left := d.partings.remaining()
	for i := range d.partings.list {
		if e := &d.partings.list[i]; e.stays {
			d.out.Unreleased = append(d.out.Unreleased, Unreleased[K]{
				Key: e.key, Used: float64(e.held) * left, Since: time.Duration(e.since),
			})
		}
	}
	if len(d.out.Unreleased) == 0 {
		return
	}
	for _, v := range []*Verdict{&d.out.Device, &d.out.Residual} {
		if v.Judged && !v.Leak {
			v.Pattern = PatternUnreleased
		}
	}
}

// Knows reports whether the domain judges that process, waits for it, or watches what it
// left behind: its key can still be in a Judgement.
func (d *Domain[K]) Knows(key K) bool {
	return d.members[key] != nil || slices.ContainsFunc(d.missing, func(x missing[K]) bool { return x.key == key }) ||
		slices.ContainsFunc(d.partings.list, func(e parting[K]) bool { return e.key == key })
}

// code codes all but the keys.
func (p *partings[K]) code(c *codec) {
	for i := range p.recent {
		c.level(&p.recent[i])
	}
	c.within(&p.next, 0, residuals-1)
	c.within(&p.len, 0, residuals)
	c.time(&p.at)
	c.level(&p.top)
	c.natural(&p.fall)
}

func (e *parting[K]) code(c *codec) {
	c.amount(&e.used)
	c.time(&e.since)
	c.time(&e.opened)
	c.level(&e.before)
	c.within(&e.frames, 0, math.MaxInt)
	c.amount(&e.held)
	c.bool(&e.stays)
	if e.used == 0 || e.held > e.used {
		c.fail()
	}
}

// level codes a residual in bytes, which may be negative.
func (c *codec) level(v *int64) {
	c.int(v)
	if !c.writing && (*v < -MaxBytes || *v > MaxBytes) {
		c.fail()
		*v = 0
	}
}
