// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"cmp"
	"slices"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
)

// maxSites bounds the lines of code of a process that have a series.
const maxSites = 5

// Site is a line of code that allocates memory that stays.
type Site struct {
	Line  string
	Bytes uint64
}

// LeakSites returns the lines that grew most, the largest first. It adds up a line that was reached by several ways.
func (p *ProcessState) LeakSites() []Site {
	if p.Sites == nil || p.Sites.State != allocator.SitesDone {
		return nil
	}
	var list []Site
	for _, s := range p.Sites.List {
		line := cmp.Or(s.Line, "not in Python code")
		if i := slices.IndexFunc(list, func(l Site) bool { return l.Line == line }); i >= 0 {
			list[i].Bytes += s.Growth
			continue
		}
		list = append(list, Site{line, s.Growth})
	}
	slices.SortStableFunc(list, func(a, b Site) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return list[:min(len(list), maxSites)]
}
