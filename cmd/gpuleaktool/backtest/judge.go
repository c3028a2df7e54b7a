// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/history"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/detectorconfig"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/plot"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// judge has the exporter's own judge see a history, and notes what it says.
type judge struct {
	rules    *detectorconfig.Config
	common   detector.Config // of series without a rule
	step     time.Duration   // between two lines
	interval time.Duration   // between two verdicts, of which step is a multiple
	output   string
	heights  *detector.Heights // what programs gave back in this history
	gpus     map[*history.Memory]*judgedGPU
	order    []*judgedGPU // as they were first seen
	lines    []Line

	incidents *incident.Store
}

// mostIncidents is how many incidents of a history are told, the last ones.
const mostIncidents = 1000

// judgedGPU is a GPU, or one series of a metric.
type judgedGPU struct {
	memory  *history.Memory
	offline *sampler.Offline
	results []*result     // of the GPU, or of each GPU instance that it has had
	sample  gpu.Sample    // the last one, which was not judged yet
	due     time.Duration // its step; 0 before the first sample
	tells   bool          // how much memory is used
}

func newJudge(rules *detectorconfig.Config, step time.Duration, output string) *judge {
	return &judge{rules: rules, common: rules.For(nil), step: step, interval: min(step, mostApart), output: output, heights: detector.NewHeights(), gpus: map[*history.Memory]*judgedGPU{}, incidents: incident.NewStore("", mostIncidents, nil)}
}

// of returns what judges a memory.
func (j *judge) of(m *history.Memory) (g *judgedGPU, err error) {
	if g = j.gpus[m]; g != nil {
		return g, nil
	}
	g = &judgedGPU{memory: m}
	if g.offline, err = sampler.NewOffline(m.Info, sampler.Config{
		SlowInterval: neverDrawn, ProcessMax: detector.MaxMembers, Detector: j.common, Resolve: j.resolver(m), Incidents: j.incidents,
	}, j.heights); err != nil {
		return nil, err
	}
	j.gpus[m] = g
	j.order = append(j.order, g)
	return g, nil
}

// add takes a sample. Only the last one of each step is judged; the others are learnt from.
func (j *judge) add(g *judgedGPU, s *gpu.Sample) {
	switch {
	case g.due == 0: // it is the first one
	case s.T > g.due:
		j.judge(g, g.due, g.due%j.step == 0)
	default:
		for d := range g.offline.Learn(&g.sample).Domains() {
			j.result(g, &d).add(g.sample.T, d.Memory)
		}
	}
	if s.T > g.due {
		g.due = ceil(s.T, j.interval)
	}
	g.sample = *s // the caller uses the lists again
	g.sample.Processes, g.sample.Instances = slices.Clone(s.Processes), slices.Clone(s.Instances)
}

// judge judges the last sample of a GPU, for the step at time t. line says that the step has lines.
func (j *judge) judge(g *judgedGPU, t time.Duration, line bool) {
	state := g.offline.Judge(&g.sample)
	for d := range state.Domains() {
		r := j.result(g, &d)
		r.add(g.sample.T, d.Memory)
		r.judge(t, &d)
		if j.output == outputJSON && line {
			j.lines = append(j.lines, linesOf(g.memory.Labels, r, &d, t)...)
		}
	}
}

// neverDrawn is an interval after which curves are made anew. Nobody looks at them here.
const neverDrawn = 365 * 24 * time.Hour

// resolver returns the rules for the series of a memory. Their labels are those of the history.
func (j *judge) resolver(m *history.Memory) sampler.Resolver {
	return func(labels map[string]string) detector.Config {
		labels["gpu"], labels["uuid"] = m.Labels["gpu"], m.Labels.UUID()
		for name, value := range m.Labels {
			if name != "scope" {
				labels[name] = value
			}
		}
		if m.Scope != "" && labels["scope"] == "gpu" {
			labels["scope"] = m.Scope
		}
		return j.rules.For(labels)
	}
}

// mostApart is how far two verdicts may be apart, whatever step is asked for: a leak between two steps was a leak. Any longer
// step is a multiple of it.
const mostApart = time.Minute

// ceil returns the first multiple of step that is not before t.
func ceil(t, step time.Duration) time.Duration { return t + (step-t%step)%step }

// result returns the result of a memory.
func (j *judge) result(g *judgedGPU, d *sampler.Domain) *result {
	key := memoryKey{d.MemoryKey, d.Profile}
	for _, r := range g.results {
		if r.memory == key {
			return r
		}
	}
	r := &result{memory: key, name: d.Name(), labels: g.memory.Labels, current: map[eventKey]*event{}}
	if j.output == outputHTML {
		r.plot = &plot.Envelope{}
	}
	g.results = append(g.results, r)
	return r
}

// end judges the last samples, and returns the results in the order of the GPUs.
func (j *judge) end() (list []*result) {
	slices.SortStableFunc(j.order, func(a, b *judgedGPU) int {
		return cmp.Or(cmp.Compare(a.memory.Info.Index, b.memory.Info.Index), cmp.Compare(a.memory.Info.UUID, b.memory.Info.UUID))
	})
	for _, g := range j.order {
		j.judge(g, g.sample.T, true)
		for _, r := range g.results {
			if r.said.MemoryState != nil {
				r.word, r.text = r.said.Verdict(history.Wall(r.saidAt))
			}
			list = append(list, r)
		}
	}
	slices.SortStableFunc(j.lines, func(a, b Line) int { return a.Time.Compare(b.Time) })
	return list
}
