// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/ablate"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

const (
	// missingFor is how long a process may be missing from complete lists before it has
	// ended though the memory did not fall; a few frames where those are further
	// apart.
	missingFor    = 10 * time.Second
	missingFrames = 3
	// maxMissing bounds how many are waited for: a bound of cost.
	maxMissing = 64
)

// missing is a member that is not in the list any more, while what it held is still in use:
// lists lack a process for a moment now and then.
type missing[K comparable] struct {
	key K
	*member
	since time.Duration // the first frame without it
	rest  stat.Bytes    // what no process accounted for in the frame before, listed or missing
}

// unowned returns the used memory that no process of a complete list accounts for, which may be
// negative; ok is false where that is not known.
func (d *Domain[K]) unowned(f *Frame[K]) (rest stat.Bytes, ok bool) {
	rest, ok = bytesOf(f.Used)
	if !ok || !f.Complete {
		return 0, false
	}
	for i := range f.Members {
		if used, _ := bytesOf(f.Members[i].Used); !d.present[i].twice {
			rest = max(rest-used, -MaxBytes)
		}
	}
	return rest, true
}

// depart takes the end of a member that is not in a complete list any more, unless it may only
// be missing: what it held is still in use, by nobody else. Of what no process accounts for, if
// that is known, there was before in the last frame, and there is more now.
func (d *Domain[K]) depart(key K, m *member, more, before stat.Bytes, known bool) {
	if ablate.Off(ablate.Missing) || !known || !m.Held.OK || !m.holds(more) {
		d.bury(key, m)
		return
	}
	if len(d.missing) == maxMissing {
		first := d.missing[0]
		d.forget(append(d.missing[:0], d.missing[1:]...))
		d.bury(first.key, first.member)
	}
	d.missing = append(d.missing, missing[K]{key, m, d.past.Last, before})
}

// holds reports whether the member may be who holds what is in use beyond what is accounted for.
func (m *member) holds(more stat.Bytes) bool { return 2*float64(more) > m.Held.V }

// search ends the wait for those that are missing for too long, or whose memory was given back.
func (d *Domain[K]) search(rest stat.Bytes, known bool, interval time.Duration) {
	for i := d.freed(rest); known && i >= 0; i = d.freed(rest) {
		x := d.missing[i]
		d.missing = slices.Delete(d.missing, i, i+1)
		d.bury(x.key, x.member)
	}
	kept := d.missing[:0]
	for _, x := range d.missing {
		if d.past.Last-x.since >= max(missingFor, missingFrames*interval) {
			d.bury(x.key, x.member)
		} else {
			kept = append(kept, x)
		}
	}
	d.forget(kept)
}

// freed returns the number of the one that is missing whose memory was given back, rest being what
// no process accounts for; of several the one that held most nearly as much as is lacking; -1 if
// none.
func (d *Domain[K]) freed(rest stat.Bytes) int {
	held, best, least := d.unlisted(), -1, stat.Bytes(0)
	for i := range d.missing {
		x := &d.missing[i]
		used := stat.Bytes(x.Held.V)
		lacking := held - (rest - x.rest)
		if off := max(lacking-used, used-lacking); !x.holds(used-lacking) && (best < 0 || off < least) {
			best, least = i, off
		}
	}
	return best
}

// forget shortens the list of those that are missing to its first ones.
func (d *Domain[K]) forget(kept []missing[K]) {
	clear(d.missing[len(kept):])
	d.missing = kept
}

// reclaim takes a member back that was missing, and returns it; nil if it was not.
func (d *Domain[K]) reclaim(key K) *member {
	i := slices.IndexFunc(d.missing, func(x missing[K]) bool { return x.key == key })
	if i < 0 || len(d.members) >= MaxMembers {
		return nil
	}
	m := d.missing[i].member
	d.missing = slices.Delete(d.missing, i, i+1)
	d.members[key] = m
	d.exits.Back(key)
	return m
}

// supersede ends the wait for those of a group to which somebody comes who is new: they have
// ended before.
func (d *Domain[K]) supersede(group groupName) {
	if group == (groupName{}) {
		return
	}
	kept := d.missing[:0]
	for _, x := range d.missing {
		if x.group == group {
			d.bury(x.key, x.member)
		} else {
			kept = append(kept, x)
		}
	}
	d.forget(kept)
}

// lacks reports whether a group misses a member: then its sum is not known.
func (d *Domain[K]) lacks(group groupName) bool {
	for i := range d.missing {
		if d.missing[i].group == group {
			return true
		}
	}
	return false
}

// unlisted returns what those hold that are missing, in bytes.
func (d *Domain[K]) unlisted() stat.Bytes {
	var sum stat.Bytes
	for i := range d.missing {
		sum += stat.Bytes(d.missing[i].Held.V)
	}
	return sum
}
