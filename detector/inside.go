// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/process"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
)

// insideLate is how long after a process the page of its allocator is found, at the latest. It is chosen:
// four times as long as the exporter waits between two looks.
const insideLate = time.Minute

// piecesShare is the share of what an allocator has that is a fragmentation if it is free and cannot be given back:
// gpumemprof's inactive_split over reserved.
const piecesShare = 0.3

// inside is what the memory of a member is made of, where the allocator in the process tells: nil
// where it does not. What a pool keeps is in neither.
type inside struct {
	live      *series.Series // what live objects hold
	untracked *series.Series // what the driver counts beside the allocator: libraries, CUDA itself
	// silent is the first frame since the allocator told for the last time; 0 while it tells.
	silent time.Duration
}

// told reports whether what the allocator told still counts at that time. A pause without frames is no
// silence: after a restart the pages are found some seconds after the first sample.
func (in *inside) told(at time.Duration) bool {
	return in.live != nil && (in.silent == 0 || at-in.silent < process.Absence)
}

// Inside names what of the memory of a process grows, where the allocator in it tells.
type Inside uint8

// What can grow.
const (
	InsideUnknown   Inside = iota // nothing does, or nobody tells
	InsideTensors                 // what is alive: objects that nobody frees
	InsideUntracked               // what a library took without the allocator
	InsidePool                    // only what the allocator keeps: it fills, or falls to pieces
)

var insideNames = [...]string{"", "tensors", "untracked", "pool"}

// String returns the name as logs and JSON have it; "" for InsideUnknown.
func (i Inside) String() string { return insideNames[min(int(i), len(insideNames)-1)] }

// grows returns what of m grows.
func (m *member) grows() Inside {
	switch {
	case !m.told(m.Last):
	case m.live.Leaks():
		return InsideTensors
	case m.untracked.Leaks():
		return InsideUntracked
	case m.Series.Leaks() && !m.Leaks():
		return InsidePool
	}
	return InsideUnknown
}

// observeInside adds what the allocator in the process tells. o is the sample of all its memory. What
// an allocator says of more than that is not believed.
func (d *Domain[K]) observeInside(m *member, in *Member[K], o series.Sample) {
	live, ok := bytesOf(in.Allocated)
	reserved, known := bytesOf(in.Reserved)
	m.Pieces = in.Split.OK && known && in.Split.V >= max(piecesShare*float64(reserved), m.Config().MinHeld)
	if !ok || !known {
		if m.live != nil && m.silent == 0 {
			m.silent = o.T
		}
		return
	}
	m.silent = 0
	if m.live == nil {
		subject := Subject[K]{Kind: KindMember, Key: in.Key, Group: in.Group}
		m.inside = inside{live: d.newSeries(subject), untracked: d.newSeries(subject)}
	}
	used := o.Used
	reserved = min(reserved, used)
	o.Prior, o.Poolless = series.Prior{}, true
	o.Used = min(live, reserved)
	o.Left += reserved - o.Used // what the pool keeps serves the next allocations
	m.live.Observe(&o)
	o.Left -= reserved - o.Used
	o.Used = used - reserved
	m.untracked.Observe(&o)
}

// decisive returns the series that decides whether m leaks. Growth of the memory is a leak only if what
// is alive grows, or what its allocator does not track: else a pool fills, or falls to pieces. What
// is alive may leak long before the memory grows. Where both do, the memory is the measure: that is what runs
// out. Before anything leaks the surer of the two decides, unless the growth began before its allocator told.
func (m *member) decisive() *series.Series {
	switch {
	case !m.told(m.Last):
	case m.live.Leaks() || m.untracked.Leaks():
		switch {
		case m.Series.Leaks():
		case m.live.Leaks():
			return m.live
		default:
			return m.untracked
		}
	case m.live.First > max(m.since(), m.First+insideLate):
	case !m.Series.Leaks() && m.untracked.Leak.Confidence > m.live.Leak.Confidence:
		return m.untracked
	default:
		return m.live
	}
	return m.Series
}

// since returns when the growth of the memory began, of a leak or of what is most like one; 0 where nothing grows.
func (m *member) since() time.Duration {
	if m.Series.Leaks() {
		return m.Leak.Since
	}
	return m.Growths[m.Leak.Best].Since
}

// Leaks reports whether m leaks, whichever of its series shows it.
func (m *member) Leaks() bool { return m.decisive().Leaks() }

// judge fills v with the verdict on m, and returns the decisive series. Windows, spikes and troughs are those of its memory.
func (m *member) judge(v *Verdict) (by *series.Series) {
	m.Judge(v)
	if by = m.decisive(); by != m.Series && v.Judged {
		var of Verdict
		by.Judge(&of)
		overrule(v, &of)
	}
	return by
}

// overrule makes v say of leaks what another verdict says. Its statistics stay.
func overrule(v, by *Verdict) {
	v.CopyLeak(by)
	v.CopyWait(by)
	switch {
	case by.Leak:
		v.Pattern = by.Pattern
	case v.Pattern.Leaks():
		v.Pattern = PatternPlateau
	}
}
