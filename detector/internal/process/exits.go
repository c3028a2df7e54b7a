// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"math"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

const (
	// MaxUnreleased bounds how many processes of a domain are named as those whose memory has stayed.
	MaxUnreleased = 8
	// MaxExits bounds how many exits are watched at once. Both are bounds of cost, and the others are
	// chosen, from how drivers free memory and lists lag behind it.
	MaxExits = 32
	// ReleaseGrace is how long a driver may take to free what a process held. Exits
	// so close to each other share what stays.
	ReleaseGrace = 10 * time.Second
	// residuals is over how many frames the residual is remembered.
	residuals = 9
	// stale is from which age on the last residual says nothing of the level before
	// an exit.
	stale = time.Minute
)

// Exit is an exit whose memory may stay, or has stayed.
type Exit[K comparable] struct {
	Key    K
	Used   stat.Bytes    // what the process held last
	Since  time.Duration // the first frame without it
	Opened time.Duration // exits that share what stays have the same
	Before stat.Bytes    // residual before these exits
	Frames int           // with a residual since
	Held   stat.Bytes    // what stays at most
	Stays  bool          // it is unreleased
}

// Exits finds memory that stays after its process has ended: the residual,
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
// Memory is unreleased when MinHeld or more of it has stayed for
// UnreleasedAfter, and until the residual falls by half of it. It shrinks with the
// residual; what comes on top and stays for nine frames is somebody else's.
type Exits[K comparable] struct {
	Recent [residuals]stat.Bytes // a ring
	Next   int
	Len    int
	At     time.Duration // of the newest
	List   []Exit[K]
	Top    stat.Bytes // level of the residual from which what stays is counted down
	Fall   stat.Bytes // by how much the residual lies below that
}

// Add notes that a process which held used bytes is gone from a complete list.
// Where the residual just before is not known, nothing can be said of it. Those
// that left together are ordered by what they held, because the order in which
// they are found means nothing.
func (p *Exits[K]) Add(key K, t, interval time.Duration, used stat.Bytes, cfg *series.Config) {
	if float64(used) < cfg.MinHeld || p.Len == 0 || t-p.At > max(stale, 3*interval) {
		return
	}
	e := Exit[K]{Key: key, Used: used, Held: used, Since: t, Opened: t}
	i := len(p.List)
	if i > 0 && !p.List[i-1].Stays && t-p.List[i-1].Opened <= ReleaseGrace {
		e.Opened, e.Before = p.List[i-1].Opened, p.List[i-1].Before
	} else {
		e.Before = p.before()
	}
	for i > 0 && p.List[i-1].Opened == e.Opened && p.List[i-1].Used < used {
		i--
	}
	if n := len(p.List); n == MaxExits {
		if i == n {
			return
		}
		p.List = p.List[:n-1]
	}
	p.List = slices.Insert(p.List, i, e)
}

// before returns the residual just before now: the middle one of the last ones, or the lower
// one of the last two where it grows, so that what it gained on the way is nobody's.
func (p *Exits[K]) before() stat.Bytes {
	sorted := p.Recent
	slices.Sort(sorted[:p.Len])
	last := p.Recent[(p.Next+residuals-1)%residuals]
	if p.Len > 1 {
		last = min(last, p.Recent[(p.Next+residuals-2)%residuals])
	}
	return max(sorted[p.Len/2], last)
}

// Observe adds the residual of a frame, which may be negative. pace is that at which it is known to
// leak, in bytes per second: what comes by that is not left by who has ended.
func (p *Exits[K]) Observe(t, interval time.Duration, residual stat.Bytes, pace float64, cfg *series.Config) {
	if p.Len > 0 && t-p.At > max(stale, 3*interval) {
		p.Next, p.Len = 0, 0
		p.List = slices.DeleteFunc(p.List, func(e Exit[K]) bool { return !e.Stays })
	}
	level := residual
	if p.Len > 0 {
		level = max(level, p.Recent[(p.Next+residuals-1)%residuals])
	}
	p.Recent[p.Next] = residual
	p.Next = (p.Next + 1) % residuals
	p.Len = min(p.Len+1, residuals)
	p.At = t
	if len(p.List) == 0 {
		return
	}
	p.countDown(level)
	for i := 0; i < len(p.List); {
		n := 1
		for i+n < len(p.List) && p.List[i+n].Opened == p.List[i].Opened {
			n++
		}
		if !p.List[i].Stays {
			n = p.wait(i, n, t, residual, level, stat.Bytes(pace*(t-p.List[i].Opened+interval).Seconds()), cfg)
		}
		i += n
	}
	p.List = slices.DeleteFunc(p.List, func(e Exit[K]) bool { return e.Stays && e.Held == 0 })
}

// wait watches the n exits from the i-th on, which share what stays, and returns
// how many of them stay in the list. leaked is what else the residual has gained since.
func (p *Exits[K]) wait(i, n int, t time.Duration, residual, level, leaked stat.Bytes, cfg *series.Config) int {
	batch := p.List[i : i+n]
	var all, held stat.Bytes
	var newest time.Duration
	frames := math.MaxInt // since the newest
	for k := range batch {
		e := &batch[k]
		e.Frames++
		all += e.Used
		frames, newest = min(frames, e.Frames), max(newest, e.Since)
	}
	if frames < 2 {
		return n // level is still partly that of the frame before the exit
	}
	before := batch[0].Before + leaked
	excess := float64(level - before)
	for k := range batch {
		e := &batch[k]
		e.Held = max(0, min(e.Held, stat.Bytes(float64(e.Used)*excess/float64(all))))
		held += e.Held
	}
	// Three frames: what the second one tells may be that of the first, when the
	// memory was just being freed. The last one may tell that it is free by now.
	stays := t-newest >= max(cfg.UnreleasedAfter, ReleaseGrace) && frames >= 3 &&
		float64(residual-before) >= cfg.MinHeld
	named := n
	switch {
	case float64(held) < cfg.MinHeld:
		named = 0
	case stays:
		named = max(0, min(n, MaxUnreleased-p.staying()))
		p.settle(batch[:named], level, held)
	}
	p.List = slices.Delete(p.List, i+named, i+n)
	return named
}

// settle calls what exits have left behind unreleased, held bytes in all. What
// older ones left may have gone meanwhile, behind that.
func (p *Exits[K]) settle(batch []Exit[K], level, held stat.Bytes) {
	p.countDown(level - held)
	left := p.Remaining()
	for i := range p.List {
		if e := &p.List[i]; e.Stays {
			e.Held = stat.Bytes(float64(e.Held) * left)
		}
	}
	p.Top, p.Fall = level, 0
	for i := range batch {
		batch[i].Stays = true
	}
}

// staying returns how many are unreleased.
func (p *Exits[K]) staying() int {
	n := 0
	for i := range p.List {
		if p.List[i].Stays {
			n++
		}
	}
	return n
}

// Remove removes a process that is in the list again.
func (p *Exits[K]) Remove(key K) {
	p.List = slices.DeleteFunc(p.List, func(e Exit[K]) bool { return e.Key == key })
}

// countDown takes what the residual has fallen by from what stays. A fall of half
// of it or more is its end; of several, that of which it is nearest to.
func (p *Exits[K]) countDown(level stat.Bytes) {
	waiting := slices.ContainsFunc(p.List, func(e Exit[K]) bool { return !e.Stays })
	if !waiting && p.Len == residuals {
		p.Top = max(p.Top, slices.Min(p.Recent[:]))
	}
	for p.Fall = max(0, p.Top-level); p.Fall > 0; p.Fall = max(0, p.Top-level) {
		best := -1
		for i := range p.List {
			if e := &p.List[i]; e.Stays && e.Held > 0 && 2*p.Fall >= e.Held && (best < 0 || distance(e.Held, p.Fall) < distance(p.List[best].Held, p.Fall)) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		p.Top = max(level, p.Top-p.List[best].Held)
		p.List[best].Held = 0
	}
}

func distance(a, b stat.Bytes) stat.Bytes { return max(a-b, b-a) }

// Remaining returns which share of what stays is left after the fall.
func (p *Exits[K]) Remaining() float64 {
	var all stat.Bytes
	for i := range p.List {
		if p.List[i].Stays {
			all += p.List[i].Held
		}
	}
	if all == 0 {
		return 0
	}
	return stat.Clamp(1 - float64(p.Fall)/float64(all))
}
