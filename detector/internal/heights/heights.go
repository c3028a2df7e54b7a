// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package heights remembers heights of memory that programs gave back. If a program holds as much
// again, that is no leak: an epoch, a batch job each hour, a cache that is built again, a server that is restarted.
//
// A peak is closed when the memory has fallen to half of it, both taken above the lowest use,
// or when its program has ended. It counts if the program lives for settles after it, or ends well.
// There are two kinds of heights: crests (the highest use of each minute) for pages, and lows for the verdict.
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

// Program identifies a program on a model of GPU, by its binary or script, image, owner and
// arguments. It is a salted hash, which hides the arguments. The zero Program is unknown.
type Program uint64

// On returns the same program on a GPU of that model: a hash by FNV-1a.
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

// Kind is the kind of a height.
type Kind uint8

// The kinds of heights.
const (
	Crest Kind = iota // the highest use of a minute
	Low               // the lowest use of a minute
	kinds
)

const (
	// MaxPrograms bounds the programs that are remembered: a new one replaces the one that was not seen for longest.
	MaxPrograms = 1000
	// remembered is the time for which a height counts: a month of nightly jobs.
	remembered = 30 * 24 * time.Hour
	// lastPeaks is the number of last peaks that are kept one by one.
	lastPeaks = 8
	// Peaks that rise one above the other, rising or more in a row with the present use, are a leak: by chance one in 24 rows of
	// four rises.
	rising = 3
	// After sure lives, growth above their heights has no excuse.
	sure = 3
	// A height may be exceeded by over of its height above the lowest use, and by ofRest of the memory
	// above it: lives are not all alike, but no two of them differ by all that is free.
	over, ofRest = 0.1, 0.25
)

// Height is a height that was given back.
type Height struct {
	Bytes float64
	Fell  float64 // the part of Bytes that was given back
	At    time.Duration
}

// Given are the heights of one kind that a program gave back. The zero Given are none.
type Given struct {
	Before Height            // the highest one of those before Last
	Last   [lastPeaks]Height // the last N ones, oldest first
	N      int
}

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

// Highest returns the highest height that counts at the time now, 0 if there is none. use is the present memory, and grown its
// growth, in bytes. The last heights do not count if they rise one above the other up to use, nor do those that gave back less
// than half of grown.
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

// Record holds the heights of a program, or of a memory. The zero Record is empty.
type Record struct {
	Given [kinds]Given
	Lives int           // whole ones that ended
	Ended time.Duration // when the last one did
	Doubt [kinds]Height // of the last life, if it ended in a full memory: it may become known that it ended well
	Whole bool          // that life lasted for begins
	Seen  time.Duration // when the record was last used
}

// Prior holds the heights of a record that count for a life. The zero Prior has none.
type Prior struct {
	Given  [kinds]float64 // the height by kind, in bytes; 0 if there is none
	Within [kinds]float64 // Given with its margin
	Sure   bool           // growth above it has no excuse
}

// Holds reports whether the crest of a life is within a height that was given back.
func (p *Prior) Holds(l *Life) bool {
	return p.Within[Crest] > 0 && p.Within[Crest] >= max(l.Climbs[Crest].Top, l.Open[Crest])
}

// Prior returns the heights that count for a life now that grew by so many bytes, in a memory of that capacity (0 unknown).
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

// list returns copies of the records, in the order of the programs.
func (b *Book) list() []saved {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]saved, 0, len(b.programs))
	for _, p := range slices.Sorted(maps.Keys(b.programs)) {
		list = append(list, saved{p, *b.programs[p]})
	}
	return list
}

// Save returns the state of the book: the same book has the same bytes. It does not lock the book while it encodes.
func (b *Book) Save() []byte {
	var to bytes.Buffer
	if err := gob.NewEncoder(&to).Encode(b.list()); err != nil {
		panic("heights: saving: " + err.Error()) // of a type that gob cannot write, not of a value
	}
	return to.Bytes()
}

// Restore replaces the book by one that Save returned. No time in it is much later than now. On an error nothing changes.
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

// Check implements state.Checker.
func (g *Given) Check(time.Duration) bool { return g.N <= lastPeaks }

// With calls f with the record of a program, which may be new.
func (b *Book) With(p Program, now time.Duration, f func(*Record)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.programs[p]
	if r == nil {
		if len(b.programs) >= MaxPrograms {
			b.expire()
		}
		r = &Record{}
		b.programs[p] = r
	}
	r.Seen = now
	f(r)
}

// expire removes the program that was not seen for longest.
func (b *Book) expire() {
	var first Program
	for p, r := range b.programs {
		if of := b.programs[first]; of == nil || r.Seen < of.Seen || r.Seen == of.Seen && p < first {
			first = p
		}
	}
	delete(b.programs, first)
}

// Ended notes that the process of a program that ended at about that time ended well: with exit code 0, or by SIGTERM.
// So it gave back its memory, although the memory was full. It returns false if there was no such process.
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

// take adds the heights of a life that ended, and the life if it was whole. The ranks of a job are one life: the
// highest counts; more says that this is not the first rank.
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
