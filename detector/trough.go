// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
)

// Trough is the lowest value V of a stretch of a series, in bytes, at its end on the clock of
// Frame.T.
type Trough struct {
	At time.Duration
	V  float64
}

// Troughs appends to dst the troughs that the used memory of a subject is judged by, oldest first,
// from the time since on: of the whole memory (KindDevice) or of a member (KindMember). They are of
// one width, the narrowest that reaches back to since, or that of the line which a leak follows if
// that is wider: a hundred at most. It is for drawings: nothing changes, and what is not followed
// has none.
func (d *Domain[K]) Troughs(dst []Trough, of Subject[K], since time.Duration) []Trough {
	var s *series.Series
	switch of.Kind {
	case KindDevice:
		s = d.used
	case KindMember:
		if m := d.members[of.Key]; m != nil {
			s = m.Series
		}
	case KindResidual, KindGroup:
	}
	if s == nil {
		return dst
	}
	for _, p := range s.Troughs(since) {
		dst = append(dst, Trough{p.At, float64(p.V)})
	}
	return dst
}
