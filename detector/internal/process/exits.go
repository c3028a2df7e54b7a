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
	// MaxUnreleased bounds the exits of a domain whose memory has stayed.
	MaxUnreleased = 8
	// maxExits bounds all exits that are watched. Both are bounds of cost. The others are
	// chosen: drivers take seconds to free memory, and lists lag behind it.
	maxExits = 32
	// ReleaseGrace is the longest time that a driver takes to free the memory of a process. Exits
	// within it share the memory that stays.
	ReleaseGrace = 10 * time.Second
	// residuals is the number of frames of which the residual is remembered.
	residuals = 9
	// stale is the age from which on a residual is too old to be the level before an exit.
	stale = time.Minute
)

// Exit is an exit whose memory may stay, or has stayed.
type Exit[K comparable] struct {
	Key    K
	Used   stat.Bytes    // the memory of the process in its last frame
	Since  time.Duration // the first frame without it
	Opened time.Duration // the first Since of the exits that share what stays
	Before stat.Bytes    // residual before these exits
	Frames int           // with a residual since
	Held   stat.Bytes    // bound of the memory that stays
	Stays  bool          // it is unreleased
}

// Exits finds memory that stays after its process has ended: the residual,
// used memory minus that of all members, is higher after the exit than before. The zero Exits is empty.
//
// Before is the median of the last nine residuals, because the list of processes is
// read a moment apart from the memory; or the lower one of the last two, if that is higher. After is the higher of two in a row,
// for the same reason. The least difference since the exit has stayed: memory that another process
// takes later does not count. Exits within ReleaseGrace share it in proportion to their memory.
//
// Memory is unreleased when MinHeld or more of it has stayed for
// UnreleasedAfter, until the residual falls by half of it. It shrinks with the
// residual. A rise of the residual that lasts for nine frames has another reason.
type Exits[K comparable] struct {
	Recent []stat.Bytes  // the last residuals, oldest first
	At     time.Duration // of the newest
	List   []Exit[K]
	Top    stat.Bytes // the residual with all that stays
	Fall   stat.Bytes // the residual is so far below Top
}

// Add adds the exit of a process that held used bytes and is gone from a complete list,
// if the residual just before is known. Exits that share what stays are ordered by their memory, because their own order is
// unknown.
func (p *Exits[K]) Add(key K, t, interval time.Duration, used stat.Bytes, cfg *series.Config) {
	if float64(used) < cfg.MinHeld || len(p.Recent) == 0 || t-p.At > max(stale, 3*interval) {
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
	if n := len(p.List); n == maxExits {
		if i == n {
			return
		}
		p.List = p.List[:n-1]
	}
	p.List = slices.Insert(p.List, i, e)
}

// before returns the residual before an exit: see Exits.
func (p *Exits[K]) before() stat.Bytes {
	n := len(p.Recent)
	return max(slices.Sorted(slices.Values(p.Recent))[n/2], slices.Min(p.Recent[max(0, n-2):]))
}

// Observe adds the residual of a frame, which may be negative. pace is the rate of its leak, in bytes per second, which
// is no memory of an exit.
func (p *Exits[K]) Observe(t, interval time.Duration, residual stat.Bytes, pace float64, cfg *series.Config) {
	if t-p.At > max(stale, 3*interval) {
		p.Recent = p.Recent[:0]
		p.List = slices.DeleteFunc(p.List, func(e Exit[K]) bool { return !e.Stays })
	}
	if len(p.Recent) == residuals {
		p.Recent = slices.Delete(p.Recent, 0, 1)
	}
	p.Recent, p.At = append(p.Recent, residual), t
	level := slices.Max(p.Recent[max(0, len(p.Recent)-2):])
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

// wait updates the n exits from the i-th on, which share what stays, and returns
// how many of them stay in the list. leaked is the growth of the residual by its leak.
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
	// Three frames: the second one may have the value of the first, when the
	// memory was just being freed. In the last one it may be free.
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

// settle makes exits unreleased, held bytes in all. The memory of older ones may have been freed meanwhile.
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

// countDown takes a fall of the residual from the memory that stays. A fall by half of an exit or more removes it; of several the
// one that is nearest to the fall.
func (p *Exits[K]) countDown(level stat.Bytes) {
	waiting := slices.ContainsFunc(p.List, func(e Exit[K]) bool { return !e.Stays })
	if !waiting && len(p.Recent) == residuals {
		p.Top = max(p.Top, slices.Min(p.Recent))
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

// Remaining returns the share (0 to 1) of the memory that stays which is left after the fall.
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

// Check implements state.Checker.
func (p *Exits[K]) Check(time.Duration) bool {
	return len(p.Recent) <= residuals && len(p.List) <= maxExits && p.staying() <= MaxUnreleased
}

// Check implements state.Checker.
func (e *Exit[K]) Check(last time.Duration) bool {
	return e.Used > 0 && e.Held >= 0 && e.Held <= e.Used && e.Since > 0 && e.Since <= last
}
