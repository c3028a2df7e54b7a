// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"reflect"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
)

// TestLeakSites has lines become labels once a process has told all: not while it records.
func TestLeakSites(t *testing.T) {
	list := []allocator.Site{{Line: "a", Growth: 1}, {Line: "b", Growth: 2}, {Growth: 9}, {Line: "a", Growth: 3}}
	for state, want := range map[allocator.SitesState][]Site{
		allocator.SitesAsked:     nil,
		allocator.SitesRecording: nil,
		allocator.SitesRefused:   nil,
		allocator.SitesDone:      {{"not in Python code", 9}, {"a", 4}, {"b", 2}},
	} {
		p := &ProcessState{Sites: &allocator.Sites{State: state, List: list}}
		if got := p.LeakSites(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", state, got, want)
		}
	}
}
