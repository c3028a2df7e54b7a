// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/process"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// insideLate is the longest time until the exporter finds the page of the allocator of a process. It is chosen: four times the
// interval at which the exporter looks.
const insideLate = time.Minute

// piecesShare is the share of an allocator's memory which is a fragmentation if it is free and cannot be given back:
// gpumemprof's inactive_split over reserved.
const piecesShare = 0.3

// counts reports whether the last values of the probe still count. A pause without frames is no
// silence: after a restart the pages are found some seconds after the first sample.
func (m *member) counts() bool {
	return m.Live != nil && (m.Silent == 0 || m.Last-m.Silent < process.Absence)
}

// Inside names the part of the memory of a process that grows, where the allocator in it has a probe.
type Inside uint8

// The parts.
const (
	InsideUnknown   Inside = iota // no part grows, or there is no probe
	InsideTensors                 // live objects, which are not freed
	InsideUntracked               // memory that a library took without the allocator
	InsidePool                    // only the pool of the allocator: it fills, or is fragmented
)

var insideNames = []string{"", "tensors", "untracked", "pool"}

// String returns the name as logs and JSON have it; "" for InsideUnknown.
func (i Inside) String() string { return stat.Name(insideNames, i) }

// grows returns the part of m that grows.
func (m *member) grows() Inside {
	switch {
	case !m.counts():
	case m.Live.Leaks():
		return InsideTensors
	case m.Untracked.Leaks():
		return InsideUntracked
	case m.Series.Leaks() && !m.Leaks():
		return InsidePool
	}
	return InsideUnknown
}

// observeInside adds the values of the probe in the process. o is the sample of all its memory, which bounds them.
func (d *Domain[K]) observeInside(m *member, in *Member[K], o series.Sample) {
	live, ok := bytesOf(in.Allocated)
	reserved, known := bytesOf(in.Reserved)
	m.Pieces = in.Split.OK && known && in.Split.V >= max(piecesShare*float64(reserved), m.Config().MinHeld)
	if !ok || !known {
		if m.Live != nil && m.Silent == 0 {
			m.Silent = o.T
		}
		return
	}
	m.Silent = 0
	if m.Live == nil {
		subject := Subject[K]{Kind: KindMember, Key: in.Key, Group: in.Group}
		m.Live, m.Untracked = d.newSeries(subject), d.newSeries(subject)
	}
	used := o.Used
	reserved = min(reserved, used)
	o.Prior, o.Poolless = series.Prior{}, true
	o.Used = min(live, reserved)
	o.Left += reserved - o.Used // the pool serves the next allocations
	m.Live.Observe(&o)
	o.Left -= reserved - o.Used
	o.Used = used - reserved
	m.Untracked.Observe(&o)
}

// decisive returns the series that decides whether m leaks. Growth of the memory is a leak only if live objects or untracked
// memory grow: otherwise a pool fills, or is fragmented. Live objects may leak long before the memory grows. If both do, the
// memory decides, because it runs out. Before there is a leak the surer of the two decides, unless the growth began before the
// probe had values.
func (m *member) decisive() *series.Series {
	switch {
	case !m.counts():
	case m.Live.Leaks() || m.Untracked.Leaks():
		switch {
		case m.Series.Leaks():
		case m.Live.Leaks():
			return m.Live
		default:
			return m.Untracked
		}
	case m.Live.First > max(m.since(), m.First+insideLate):
	case !m.Series.Leaks() && m.Untracked.Leak.Confidence > m.Live.Leak.Confidence:
		return m.Untracked
	default:
		return m.Live
	}
	return m.Series
}

// since returns when the leak began, or the growth that is most like one; 0 where nothing grows.
func (m *member) since() time.Duration {
	if m.Series.Leaks() {
		return m.Leak.Since
	}
	return m.Growths[m.Leak.Best].Since
}

// Leaks reports whether m leaks, in its decisive series.
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
