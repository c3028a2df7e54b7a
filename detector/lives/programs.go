// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package lives

import (
	"maps"
	"slices"
	"time"
)

// Program is a program and its lives.
type Program struct {
	ID    ID
	Lives []Life // oldest first; one at least
}

// Programs returns copies of what is known, in the order of the keys.
func (b *Book) Programs() []Program {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]Program, 0, len(b.programs))
	for _, key := range slices.Sorted(maps.Keys(b.programs)) {
		p := b.programs[key]
		list = append(list, Program{p.id, slices.Clone(p.lives)})
	}
	return list
}

// Merge adds the lives of another book whose keys are of the same secret, at the time now, since the Unix
// epoch. A life that is in both stays one. It returns how many lives were added; with the bounds of a book,
// the oldest ones may not be, nor those of the future.
func (b *Book) Merge(other *Book, now time.Duration) (added int) {
	programs := other.Programs()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range programs {
		for _, l := range slices.Backward(p.Lives) { // the newest one tells whether there is room for the program
			if b.has(p.ID.Exact, &l) {
				continue
			}
			b.add(p.ID, l, SecondsOf(now))
			if b.has(p.ID.Exact, &l) {
				added++
			}
		}
	}
	b.change()
	return added
}

// has reports whether the life is known: no other one of that program has ended in that second at
// that height.
func (b *Book) has(key Key, l *Life) bool {
	p := b.programs[key]
	return p != nil && slices.ContainsFunc(p.lives, func(o Life) bool { return o.Ended == l.Ended && o.Height == l.Height })
}

// Forget removes the programs that match, and returns how many those were.
func (b *Book) Forget(match func(ID) bool) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := len(b.programs)
	maps.DeleteFunc(b.programs, func(_ Key, p *program) bool { return match(p.id) })
	b.change()
	return before - len(b.programs)
}
