// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package lives

import (
	"maps"
	"slices"
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
