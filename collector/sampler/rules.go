// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Resolver returns the configuration of the detector's series with these labels. They are the labels of the metrics, and
//
//	scope    gpu, mig, process, workload, or residual for the memory that no process
//	         of a GPU or GPU instance accounts for
//	name     the model of the GPU
//	profile  that of the GPU instance
//
// Several goroutines call it, one a GPU. It must not block.
type Resolver func(labels map[string]string) detector.Config

// Configure replaces Config.Resolve. New series ask resolve for their configuration at once, the others with the next sample of
// their GPU. They keep their history, but a window of another length starts empty. You may call it at any time.
func (s *Sampler) Configure(resolve Resolver) { s.resolve.Store(&resolve) }

// newMemory returns a memory without history.
func (p *progress) newMemory(of MemoryState) *memory {
	m := &memory{MemoryState: of}
	d, err := detector.NewDomain(func(s detector.Subject[gpu.ProcessID]) detector.Config {
		if *p.resolve != nil {
			if cfg := (*p.resolve)(p.loop.labelsOf(&s, m)); cfg.Validate() == nil {
				return cfg
			}
		}
		return p.loop.sampler.cfg.Detector
	})
	if err != nil {
		panic(err) // both configurations are valid
	}
	d.Remember(p.loop.sampler.heights)
	m.domain = d
	return m
}

// reconfigure makes the series ask for their configuration again, if the rules or the labels of a series have changed.
func (l *loop) reconfigure() {
	now := l.sampler.resolve.Load()
	if now == l.resolve && (!l.processes.renamed || *now == nil) {
		return
	}
	l.resolve = now
	for _, m := range l.memories {
		m.domain.Reconfigure()
	}
}

// labelsOf returns the labels of a series of a memory.
func (l *loop) labelsOf(s *detector.Subject[gpu.ProcessID], m *memory) map[string]string {
	labels := map[string]string{
		"scope": m.Scope(), "gpu": l.info.IndexLabel(), "uuid": l.info.UUID, "name": l.info.Name, "gpu_instance": InstanceID(m.Instance),
	}
	if !m.IsLimit() {
		labels["profile"] = m.Profile
	}
	for i, name := range l.sampler.cfg.Places {
		labels[name] = l.info.Place[i]
	}
	who := m.Who
	switch s.Kind {
	case detector.KindResidual:
		labels["scope"] = "residual"
	case detector.KindMember:
		who = finding.Of(l.processes.entry(processKey{s.Key, m.Instance}).owner)
		labels["scope"], labels["pid"] = "process", strconv.FormatUint(uint64(s.Key.PID), 10)
		labels["process"] = who.Process
	case detector.KindGroup:
		labels["scope"], who = "workload", l.processes.whoIs(s.Group)
	}
	labels["namespace"], labels["pod"], labels["container"], labels["slurm_job"] = who.Namespace, who.Pod, who.Container, who.SlurmJob
	for name, value := range labels {
		labels[name] = LabelValue(name, value)
	}
	return labels
}

// whoIs returns the pod or job that a group is. A pod has no job: its members may be of several, and its series would change their
// names. If no process is known, it takes the name of the group apart.
func (t *processTable) whoIs(group string) finding.Who {
	for _, e := range t.entries {
		if e.owner.Group() == group {
			return finding.Of(e.owner).AsWhole()
		}
	}
	namespace, name, _ := strings.Cut(group, "/")
	if o := (gpu.Owner{SlurmJob: name}); o.Group() == group {
		return finding.Of(&o).AsWhole()
	}
	return finding.Who{Namespace: namespace, Pod: name, Whole: true}
}

// LabelValue returns value as it can stand in a label: valid UTF-8, and cut to what the label needs. Processes choose their own
// names.
func LabelValue(label, value string) string {
	limit := 128
	switch label {
	case "command":
		limit = 256
	case "pod":
		limit = 253 // Kubernetes allows so many, and half a name joins with nothing
	}
	value = strings.ToValidUTF8(value, string(utf8.RuneError))
	if len(value) <= limit {
		return value
	}
	for !utf8.RuneStart(value[limit]) {
		limit--
	}
	return value[:limit]
}
