// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// domain is a memory of its own: a GPU, or a GPU instance of one in MIG mode.
type domain struct {
	device    *collector.DeviceState
	name      string
	instance  gpu.Opt[uint32]
	memory    gpu.Memory
	judgement *detector.Judgement[gpu.ProcessID]
	curve     *collector.Curve
}

// domainsOf returns the memories of a GPU. One in MIG mode has only those of its
// instances: the GPU itself cannot run out of memory.
func domainsOf(d *collector.DeviceState) []domain {
	name := gpuName(d)
	if len(d.Instances) == 0 {
		return []domain{{device: d, name: name, memory: d.Memory, judgement: &d.Judgement, curve: d.Curve}}
	}
	var list []domain
	for i := range d.Instances {
		in := &d.Instances[i]
		list = append(list, domain{
			device: d, name: fmt.Sprintf("%s, MIG\u00a0%d (%s)", name, in.ID, in.Profile),
			instance: gpu.Some(in.ID), memory: in.Memory, judgement: &in.Judgement, curve: in.Curve,
		})
	}
	return list
}

// gpuName names a GPU by its index, and one of a fleet also by the first label that tells where it is.
func gpuName(d *collector.DeviceState) string {
	name := "GPU\u00a0" + cmp.Or(d.Info.IndexLabel(), d.Info.UUID)
	for _, place := range d.Info.Place {
		if place != "" {
			return name + " of " + place
		}
	}
	return name
}

// nameOf returns the identifier of a memory on the page, and that of a process on it. In a fleet many GPUs have the
// same index: there it is the UUID that names one, or where it is.
func nameOf(m *domain, p *collector.ProcessState) string {
	info := &m.device.Info
	name := "gpu-" + info.IndexLabel()
	if where := info.Place[:]; strings.Join(where, "") != "" || info.Index < 0 {
		name = "gpu-" + strings.Map(inName, cmp.Or(strings.TrimPrefix(info.UUID, "GPU-"), joinedBy("-", append(slices.Clone(where), info.IndexLabel())...)))
	}
	if m.instance.OK {
		name += fmt.Sprintf("-mig-%d", m.instance.V)
	}
	if p != nil {
		name += fmt.Sprintf("-pid-%d", p.ID.PID)
	}
	return name
}

// inName returns r if it can stand in an identifier and in a path, else a hyphen.
func inName(r rune) rune {
	if r == '.' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
		return r
	}
	return '-'
}

// watchedFor returns how far the fullest window looks back.
func watchedFor(j *detector.Judgement[gpu.ProcessID]) (d time.Duration) {
	for _, f := range j.Device.Windows {
		d = max(d, time.Duration(float64(f.Span)*f.Fill))
	}
	return d
}

// processesOf says how many processes are on a memory.
func processesOf(m domain) string {
	n, muted := countOf(&m), 0
	for i := range m.device.Processes {
		if p := &m.device.Processes[i]; p.Instance == m.instance && p.Verdict.Muted {
			muted++
		}
	}
	text := processes(n)
	if muted > 0 {
		text += fmt.Sprintf(" (%d muted)", muted)
	}
	return text
}

// countOf returns how many processes are on a memory; on a GPU instance, how many are shown.
func countOf(m *domain) (n int) {
	if !m.instance.OK {
		n = m.device.ProcessCount - len(m.device.Processes) // those that are not shown
	}
	for i := range m.device.Processes {
		if m.device.Processes[i].Instance == m.instance {
			n++
		}
	}
	return n
}
