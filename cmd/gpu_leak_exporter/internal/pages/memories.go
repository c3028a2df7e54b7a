// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

// nameOf returns the identifier of a memory on the page, and that of a process on it. In a fleet many GPUs have the
// same index: there it is the UUID that names one, or where it is.
func nameOf(m *sampler.Domain, p *sampler.ProcessState) string {
	info := &m.Device.Info
	name := "gpu-" + info.IndexLabel()
	if where := info.Place[:]; strings.Join(where, "") != "" || info.Index < 0 {
		name = "gpu-" + strings.Map(inName, cmp.Or(strings.TrimPrefix(info.UUID, "GPU-"), finding.Joined("-", append(slices.Clone(where), info.IndexLabel())...)))
	}
	if m.Instance.OK {
		name += fmt.Sprintf("-mig-%d", m.Instance.V)
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

// processesOf says how many processes are on a memory; "" where that is not known.
func processesOf(m sampler.Domain) string {
	if !m.Device.ProcessesKnown {
		return ""
	}
	return humanize.Count(countOf(&m), "process")
}

// countOf returns how many processes are on a memory; on a GPU instance, how many are shown.
func countOf(m *sampler.Domain) (n int) {
	if !m.Instance.OK {
		n = m.Device.ProcessCount - len(m.Device.Processes) // those that are not shown
	}
	for i := range m.Device.Processes {
		if m.Device.Processes[i].Instance == m.Instance {
			n++
		}
	}
	return n
}
