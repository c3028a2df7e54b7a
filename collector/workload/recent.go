// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import "time"

// recent keeps the values that were used last, in two generations of half the size. Its user has a lock.
type recent[K comparable, V any] struct {
	half       int     // of the values that are kept
	young, old map[K]V // used since turned, and only before
	turned     time.Time
}

func newRecent[K comparable, V any](most int) recent[K, V] {
	return recent[K, V]{half: most / 2, young: map[K]V{}, turned: time.Now()}
}

// get returns a value, and keeps it for longer.
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

func (r *recent[K, V]) put(k K, v V) {
	if _, ok := r.young[k]; !ok && len(r.young) >= r.half {
		r.turn()
	}
	r.young[k] = v
	delete(r.old, k)
}

// turn drops the old generation and begins a new one.
func (r *recent[K, V]) turn() {
	r.old, r.young = r.young, map[K]V{}
	r.turned = time.Now()
}
