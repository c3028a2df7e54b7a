// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// record is what the rules said of one memory, asked once a minute.
type record struct {
	instance gpu.Opt[uint32] // absent for the GPU itself
	judges   []judge
	minutes  []minute
	said     [][]answer // by rule, then as minutes
}

// minute is when the rules were asked, and the memory then in bytes.
type minute struct {
	t              time.Duration // on the clock of the samples
	used, capacity float64       // 0 where not known
}

// watched is all that was recorded of a scenario. It is scored afterwards, since what is true is known at the end alone.
type watched struct {
	truth   fleet.Truth
	length  time.Duration // from the first sample to the last
	listed  bool          // whose memory it is could be told: the list of processes was complete at some time
	records []*record
}

// watch runs a scenario to its end. Each memory, the GPU or a GPU instance, has judges of its own.
func watch(s *fleet.Scenario, judges func() []judge) (*watched, error) {
	w := &watched{}
	var sample gpu.Sample
	first, last := never, never
	for s.Next(&sample) {
		if first == never {
			first, last = sample.T, sample.T
		}
		ask := sample.T.Truncate(time.Minute) > last.Truncate(time.Minute)
		last = sample.T
		w.listed = w.listed || sample.ProcessesComplete
		for i := range max(len(sample.Instances), 1) {
			var in *gpu.Instance
			if len(sample.Instances) > 0 {
				in = &sample.Instances[i]
			}
			if err := w.of(in, judges).observe(&sample, in, ask); err != nil {
				return nil, err
			}
		}
	}
	w.truth, w.length = s.Truth, last-first
	return w, nil
}

// of returns the record of a GPU instance, or of the GPU itself.
func (w *watched) of(in *gpu.Instance, judges func() []judge) *record {
	var id gpu.Opt[uint32]
	if in != nil {
		id = gpu.Some(in.ID)
	}
	for _, r := range w.records {
		if r.instance == id {
			return r
		}
	}
	list := judges()
	r := &record{instance: id, judges: list, said: make([][]answer, len(list))}
	w.records = append(w.records, r)
	return r
}

// observe hands a sample to the judges of the memory, and asks them.
func (r *record) observe(s *gpu.Sample, in *gpu.Instance, ask bool) error {
	m := s.Memory
	if in != nil {
		m = in.Memory
	}
	for i, judge := range r.judges {
		if err := judge.observe(s, in, m); err != nil {
			return err
		}
		if ask {
			r.said[i] = append(r.said[i], judge.ask())
		}
	}
	if ask {
		r.minutes = append(r.minutes, minute{s.T, float64(m.Used.V), float64(m.Capacity().V)})
	}
	return nil
}
