// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package lives

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// MaxPrograms and MaxLives bound what is remembered: the program whose last life ended first goes,
// and of a program the oldest life.
const (
	MaxPrograms = 1000
	MaxLives    = 32
)

const (
	// margin is by how much a life may be higher than those before it and still be like them.
	margin = 1.03
	// spiky is by how much what a life held for moments counts above its height: a leak must not hide
	// below a spike. From this on more made no difference on simulated chains of lives.
	spiky = 1.1
	// creeping is how many heights in a row must each exceed the one before to be a leak that is
	// ended too early to be seen: by chance one of six rows of three does.
	creeping = 3
	// remembered is for how long a life counts.
	remembered = 30 * 24 * time.Hour
	// settledPart is the part of a life (one of so many) in the end of which it must not have risen by more
	// than margin to have settled. It was fitted on simulated chains of lives, as sure was.
	settledPart = 5
	// together is how far the starts of processes may be apart that are one run: the ranks of a job.
	together = Seconds(5 * 60)
	// sameEnd is how far apart the end of a life and what is learnt of it later may be.
	sameEnd = time.Minute
	// sure is how many lives must have shown what they hold for growth above that to need no excuse.
	sure = 3
)

// Prior is what the earlier lives of a program say of the present one. The zero Prior is none.
type Prior struct {
	Lives   int     // that taught something
	Basis   Basis   // of the name that they are known by
	Kin     bool    // they were of another version, or had other arguments or another GPU
	Highest Bytes   // that a healthy one held, but for spikes; 0 unknown
	Ceiling Bytes   // a little more than that; 0 unknown
	Rose    Seconds // until which age one of them rose, at the latest
	Sure    bool    // what grows above that has no excuse
	low     Curve   // the least and the most that they held at each age; 0 unknown
	high    Curve
}

// Expected returns the least and the most that earlier lives held at that age; ok is false where no
// life was that old.
func (p *Prior) Expected(age time.Duration) (low, high Bytes, ok bool) {
	for i, a := range ages {
		if age <= a {
			return p.low[i], p.high[i], p.high[i] > 0
		}
	}
	return 0, 0, false
}

// Book remembers the lives of programs. It is safe for concurrent use.
type Book struct {
	mu       sync.Mutex
	programs map[Key]*program
	changed  chan struct{} // has room for one
}

// program is what is known of one.
type program struct {
	id    ID
	lives []Life // oldest first
}

// last returns when the last life ended; there is always one.
func (p *program) last() Seconds { return p.lives[len(p.lives)-1].Ended }

// NewBook returns an empty book.
func NewBook() *Book { return &Book{programs: map[Key]*program{}, changed: make(chan struct{}, 1)} }

// Changed returns what can be received from once the book has changed since the last time. Only one may
// wait for it.
func (b *Book) Changed() <-chan struct{} { return b.changed }

// change notes that the book has changed.
func (b *Book) change() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// Add adds a life that has ended, at the time now, since the Unix epoch. A number in it that cannot be
// counts as not known.
func (b *Book) Add(id ID, l *Life, now time.Duration) {
	if id.Exact == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(id.tidy(), l.tidy(), SecondsOf(now))
	b.change()
}

// add adds a life, unless there is no room for what ended so early.
func (b *Book) add(id ID, l Life, now Seconds) {
	p := b.programs[id.Exact]
	if p == nil {
		if len(b.programs) >= MaxPrograms && !b.forget(l.Ended, now) {
			return
		}
		p = &program{id: id}
		b.programs[id.Exact] = p
	}
	if id.Program != "" {
		p.id = id // what was restored has keys alone
	}
	p.add(l, now)
}

// add adds a life in its place. It takes no more room than MaxLives need. Where there is none, a life of
// the future goes first: the clock was ahead when it ended, and it teaches nothing.
func (p *program) add(l Life, now Seconds) {
	if n := len(p.lives); n == MaxLives && p.last() > now {
		p.lives = p.lives[:n-1]
	}
	at, _ := slices.BinarySearchFunc(p.lives, l.Ended, func(l Life, t Seconds) int { return cmp.Compare(l.Ended, t) })
	switch n := len(p.lives); {
	case n == MaxLives && at == 0:
		return
	case n == MaxLives:
		p.lives = slices.Delete(p.lives, 0, 1)
		at--
	case n == cap(p.lives):
		p.lives = append(make([]Life, 0, min(2*n+1, MaxLives)), p.lives...)
	}
	p.lives = slices.Insert(p.lives, at, l)
}

// Ended notes how the life of a program ended that ended at about that time, since the Unix epoch: the
// one nearest to it of which that is not known yet. It reports whether there is one.
func (b *Book) Ended(id ID, at time.Duration, end End) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.programs[id.Exact]
	if p == nil {
		return false
	}
	var found *Life
	nearest := sameEnd
	for i := range p.lives {
		l := &p.lives[i]
		if off := (l.Ended.Duration() - at).Abs(); l.End == EndUnknown && (off < nearest || off == nearest && found == nil) {
			found, nearest = l, off
		}
	}
	if found == nil {
		return false
	}
	found.End = end
	b.change()
	return true
}

// forget removes the program whose last life ended first, unless that was after t. One whose last life is
// of the future goes before all others.
func (b *Book) forget(t, now Seconds) bool {
	var first Key
	var found *program
	age := func(p *program) Seconds {
		if p.last() > now {
			return 0
		}
		return p.last()
	}
	for key, p := range b.programs {
		if found == nil || age(p) < age(found) || age(p) == age(found) && key < first {
			first, found = key, p
		}
	}
	if age(found) > t {
		return false
	}
	delete(b.programs, first)
	return true
}

// Prior returns what is known at the time now, since the Unix epoch, of a program of that name: what its
// own lives say, or those of the kin that was there last. It does not look at what ended later.
func (b *Book) Prior(id ID, now time.Duration) Prior {
	if id.Exact == 0 {
		return Prior{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if prior := b.programs[id.Exact].prior(now); prior.Lives > 0 {
		return prior
	}
	var best Prior
	var last Seconds
	var from Key
	for key, p := range b.programs {
		if p.id.Kin != id.Kin || id.Kin == 0 {
			continue
		}
		prior := p.prior(now)
		if prior.Lives > 0 && (best.Lives == 0 || p.last() > last || p.last() == last && key < from) {
			best, last, from = prior, p.last(), key
		}
	}
	best.Kin = best.Lives > 0
	return best
}

// prior returns what the lives of a program say.
func (p *program) prior(now time.Duration) Prior {
	if p == nil {
		return Prior{}
	}
	prior := Prior{Basis: p.id.Basis}
	var taught [MaxLives]*Life
	list := taught[:0]
	for i := range p.lives {
		if l := &p.lives[i]; l.Ended.Duration() <= now && now-l.Ended.Duration() <= remembered && l.Teaches() {
			list = append(list, l)
		}
	}
	// The ranks of a run begin together, and may end between those of another.
	slices.SortStableFunc(list, func(a, b *Life) int { return cmp.Compare(a.began(), b.began()) })
	var all [MaxLives]Bytes // the most that each run held
	heights, began := all[:0], Seconds(0)
	for _, l := range list {
		if at := l.began(); len(heights) == 0 || max(at, began)-min(at, began) > together {
			heights, began = append(heights, l.held()), at
		} else {
			heights[len(heights)-1] = max(heights[len(heights)-1], l.held())
		}
		prior.Rose = max(prior.Rose, l.Risen)
		prior.expect(l.Curve())
	}
	if len(heights) == 0 {
		return Prior{}
	}
	prior.Lives, prior.Sure = len(heights), len(heights) >= sure
	prior.Highest = slices.Max(heights[:len(heights)-creep(heights)])
	prior.Ceiling = margin * prior.Highest
	return prior
}

// creep returns how many of the last heights each exceeded the one before: they do not count where they
// are enough to be a leak that is ended again and again before it is seen.
func creep(heights []Bytes) int {
	n := 0
	for i := len(heights) - 1; i > 0 && heights[i] > heights[i-1]; i-- {
		n++
	}
	if n+1 < creeping {
		return 0
	}
	return n
}

// expect widens what is expected by one life.
func (p *Prior) expect(c Curve) {
	for i, held := range c {
		if held == 0 {
			continue
		}
		if p.low[i] == 0 || held < p.low[i] {
			p.low[i] = held
		}
		p.high[i] = max(p.high[i], held)
	}
}
