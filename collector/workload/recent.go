// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import "time"

// recent keeps what was asked for lately. Two generations of half the size do what a list in order of use would, without
// one. Who uses it has a lock.
type recent[K comparable, V any] struct {
	half int // of how many are kept
	// young holds those since turned, old those of the generation before that were not asked for since.
	young, old map[K]V
	turned     time.Time
}

func newRecent[K comparable, V any](most int) recent[K, V] {
	return recent[K, V]{half: most / 2, young: map[K]V{}, turned: time.Now()}
}

// get returns a value, and saves it from being forgotten.
func (r *recent[K, V]) get(k K) (V, bool) {
	if v, ok := r.young[k]; ok {
		return v, true
	}
	v, ok := r.old[k]
	if ok {
		r.put(k, v)
	}
	return v, ok
}

// put keeps a value, the only one of its key.
func (r *recent[K, V]) put(k K, v V) {
	if _, ok := r.young[k]; !ok && len(r.young) >= r.half {
		r.turn()
	}
	r.young[k] = v
	delete(r.old, k)
}

// turn begins a new generation and drops the one before the last.
func (r *recent[K, V]) turn() {
	r.old, r.young = r.young, map[K]V{}
	r.turned = time.Now()
}
