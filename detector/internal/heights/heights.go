// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package heights remembers which heights of memory were given back. What a program held
// before, and gave back, is no leak when it holds it again: an epoch, a batch job that comes
// each hour, a cache that is built anew, a server that is started again.
//
// A peak is closed when the memory has fallen to half of it, both taken above the lowest use,
// or when its program has ended. It counts if the program lived on for settles, or ended well.
// Two heights are followed side by side: crests (the highest use of each minute), by which pages
// are held back, and lows, by which the verdict is.
package heights

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/state"
)

// Program names what a process runs on a model of GPU: its binary or script, image, owner and
// arguments. The zero Program is not known. It is a salted hash, so that it tells nobody the arguments.
type Program uint64

// On returns the name of the same on a GPU of that model: FNV-1a of what anybody may know.
func (p Program) On(model string) Program {
	if p == 0 || model == "" {
		return p
	}
	const prime = 1099511628211
	h := uint64(p)
	for i := range len(model) {
		h = (h ^ uint64(model[i])) * prime
	}
	return Program(max(1, h))
}

// Kind says of what a height is.
type Kind uint8

// The kinds of heights.
const (
	Crest Kind = iota // the highest use of a minute
	Low               // the lowest use of a minute
	kinds
)

const (
	// MaxPrograms bounds how many programs are remembered: the one that was seen last the longest ago goes.
	MaxPrograms = 1000
	// remembered is for how long a height counts: a month of nightly jobs.
	remembered = 30 * 24 * time.Hour
	// lastPeaks is how many of the last peaks are kept one by one.
	lastPeaks = 8
	// rising is how many peaks and the use of now in a row must rise one above the other to be what leaks
	// and not what is given back: by chance one in 24 rows of four does.
	rising = 3
	// sure is how many lives must have shown what they hold for growth above that to need no excuse.
	sure = 3
	// A height may be exceeded by a tenth of what it is above the lowest use, and by a quarter of what is
	// left above it: lives are not all alike, but no two of them differ by all that is free.
	over, ofRest = 0.1, 0.25
)

// Height is one that was given back.
type Height struct {
	Bytes float64
	Fell  float64 // how many of the bytes were given back
	At    time.Duration
}

// Given are the heights of one kind that a program gave back. The zero Given are none.
type Given struct {
	Before Height            // the highest one of those before Last
	Last   [lastPeaks]Height // the last N ones, oldest first
	N      int
}

// add adds a height.
func (g *Given) add(h Height) {
	if g.N == lastPeaks {
		if old := g.Last[0]; old.Bytes >= g.Before.Bytes || h.At-g.Before.At > remembered {
			g.Before = old
		}
		copy(g.Last[:], g.Last[1:])
		g.N--
	}
	g.Last[g.N] = h
	g.N++
}

// Highest returns the highest height that counts at the time now, when the memory holds use and grew by so many bytes: the last
// ones that rise one above the other, up to use, are none, nor is one of which less than half as much was given back. It is 0
// where there is none.
func (g *Given) Highest(use, grown float64, now time.Duration) (highest float64) {
	n, next := g.N, use
	for n > 0 && g.Last[n-1].Bytes < next {
		n--
		next = g.Last[n].Bytes
	}
	if g.N-n < rising {
		n = g.N
	}
	for i := -1; i < n; i++ {
		h := g.Before
		if i >= 0 {
			h = g.Last[i]
		}
		if now-h.At <= remembered && fallen*grown <= h.Fell {
			highest = max(highest, h.Bytes)
		}
	}
	return highest
}

// Record is what is remembered of a program, or of a memory. The zero Record is empty.
type Record struct {
	Given [kinds]Given
	Lives int           // that ended, and showed what they hold
	Ended time.Duration // the last one
	Doubt [kinds]Height // of the last life that ended in a full memory: how it ended may become known
	Whole bool          // that life was long enough to show what its program holds
	Seen  time.Duration // when it was last used
}

// Prior is what a record says of a life. The zero Prior is that of none.
type Prior struct {
	// Within is up to which height the use of now counts as given back, by kind, in bytes; 0 where nothing was.
	Within [kinds]float64
	Given  [kinds]float64 // the height itself, which has to fit into the memory beside others
	Sure   bool           // enough lives have shown what they hold for what grows above that to need no excuse
}

// Holds reports whether the crest of a life is one that was given back before.
func (p *Prior) Holds(l *Life) bool {
	return p.Within[Crest] > 0 && p.Within[Crest] >= max(l.Climbs[Crest].Top, l.Open[Crest])
}

// Prior returns what the record says of a life now that grew by so many bytes, in a memory of that capacity (0: not known).
func (r *Record) Prior(l *Life, grown, capacity float64, now time.Duration) Prior {
	p := Prior{Sure: r.Lives >= sure}
	for k := range l.Climbs {
		c := &l.Climbs[k]
		h := r.Given[k].Highest(max(c.Top, l.Open[k]), grown, now)
		if h == 0 {
			continue
		}
		margin := over * max(0, h-c.Base)
		if capacity > 0 {
			margin = min(margin, ofRest*max(0, capacity-h))
		}
		p.Within[k], p.Given[k] = h+margin, h
	}
	return p
}

// Book remembers programs over all memories of a node. It is safe for concurrent use.
type Book struct {
	mu       sync.Mutex
	programs map[Program]*Record
}

// NewBook returns an empty book.
func NewBook() *Book { return &Book{programs: map[Program]*Record{}} }

// saved is a program in a state.
type saved struct {
	Program Program
	Record  Record
}

// list returns copies of what is remembered, in the order of the programs.
func (b *Book) list() []saved {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]saved, 0, len(b.programs))
	for _, p := range slices.Sorted(maps.Keys(b.programs)) {
		list = append(list, saved{p, *b.programs[p]})
	}
	return list
}

// Save returns what is remembered: the same is the same bytes. Nobody waits while it is written.
func (b *Book) Save() []byte {
	var to bytes.Buffer
	if err := gob.NewEncoder(&to).Encode(b.list()); err != nil {
		panic("heights: saving: " + err.Error()) // of a type that gob cannot write, not of a value
	}
	return to.Bytes()
}

// Restore replaces what is remembered by what Save returned. No time in it is much later than now. On an error nothing changes.
func (b *Book) Restore(from []byte, now time.Duration) error {
	var list []saved
	err := gob.NewDecoder(bytes.NewReader(from)).Decode(&list)
	if err == nil && (len(list) > MaxPrograms || !state.Possible(&list, now)) {
		err = errors.New("it holds what cannot be")
	}
	if err != nil {
		return fmt.Errorf("restoring what programs gave back: %w: %w", state.Err, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.programs)
	for i := range list {
		b.programs[list[i].Program] = &list[i].Record
	}
	return nil
}

// Check reports whether the heights can be some that were read from a state file: see state.Checker.
func (g *Given) Check(time.Duration) bool { return g.N >= 0 && g.N <= lastPeaks }

// With calls f with the record of a program, a new one if there is none.
func (b *Book) With(p Program, now time.Duration, f func(*Record)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.programs[p]
	if r == nil {
		if len(b.programs) >= MaxPrograms {
			b.forget()
		}
		r = &Record{}
		b.programs[p] = r
	}
	r.Seen = now
	f(r)
}

// forget removes the program that was seen last the longest ago.
func (b *Book) forget() {
	var first Program
	for p, r := range b.programs {
		if of := b.programs[first]; of == nil || r.Seen < of.Seen || r.Seen == of.Seen && p < first {
			first = p
		}
	}
	delete(b.programs, first)
}

// Ended notes that the process of a program that ended at about that time ended well: with exit code 0, or because it was told to.
// So what it held in a full memory was given back.
func (b *Book) Ended(p Program, at time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.programs[p]
	if r == nil || (r.Ended-at).Abs() > together {
		return false
	}
	r.take(&r.Doubt, true, r.Whole)
	r.Doubt, r.Whole = [kinds]Height{}, false
	return true
}

// take lets the heights of a life count, and the life if it was a whole one. Of the ends of a life, which are those of the ranks of a
// job, the highest counts; more says that this is not the first one.
func (r *Record) take(heights *[kinds]Height, more, whole bool) {
	for k, h := range heights {
		g := &r.Given[k]
		switch {
		case h.Bytes == 0:
		case more && g.N > 0 && (h.At-g.Last[g.N-1].At).Abs() < together:
			last := &g.Last[g.N-1]
			*last = Height{max(h.Bytes, last.Bytes), max(h.Fell, last.Fell), h.At}
		default:
			if g.add(h); Kind(k) == Low && whole {
				r.Lives++
			}
		}
	}
}
