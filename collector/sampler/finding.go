// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// FindingState is what alerts say of a memory with the same culprit.
type FindingState struct {
	Instance gpu.Opt[uint32]
	finding.Finding
}

// Scope is the value of the label scope.
func (f *FindingState) Scope() string {
	switch {
	case f.Whole:
		return "workload"
	case f.Instance.OK:
		return "mig"
	}
	return "gpu"
}

// find decides what alerts say of each memory of the GPU.
func (l *loop) find(state *DeviceState) {
	for _, d := range state.Domains() {
		if d.Judgement.T == 0 {
			continue // nothing is known of it this time
		}
		m, s := l.memories[d.Instance], d.Sample()
		s.Ends, s.FillsWithin = m.deaths, l.sampler.cfg.Detector.FillsWithin
		for _, f := range m.finding.Judge(s) {
			state.Findings = append(state.Findings, FindingState{d.Instance, f})
		}
	}
	for _, m := range l.memories {
		m.deaths = nil
	}
}
