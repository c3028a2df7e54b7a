// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

// Fleet says how the GPUs of many hosts are exported, that come from one source: see gpu.Info.Place. The
// zero Fleet is for those of one host.
type Fleet struct {
	// Labels are the names of the labels that tell where a GPU is, such as instance, in the order of
	// gpu.Info.Place, as many as that has at most. Each series of a GPU has them, and namespace, pod and container of whom it is allotted to.
	Labels []string
}

// ownerLabels are those that the GPUs of a fleet have of whom they are allotted to.
var ownerLabels = []string{"namespace", "pod", "container"}

// ReservedLabels are names that Fleet.Labels must not have: other labels of series have them.
var ReservedLabels = slices.Concat(processLabels, []string{
	"profile", "scope", "user", "source", "evidence", "state", "window", "reason", "pattern", "name", "pci_bus_id", "serial", "vbios_version",
	"architecture", "driver_version", "cuda_version", "memory", "job", "version",
})

// scopes are the labels of each scope, and their order by name.
type scopes struct {
	names [numScopes][]string
	order [numScopes][]int
}

func newScopes(f Fleet) *scopes {
	s := &scopes{names: scopeLabels}
	if len(f.Labels) > 0 {
		for _, scope := range []scope{ofGPU, ofInstance} {
			s.names[scope] = slices.Concat(scopeLabels[scope], ownerLabels, f.Labels)
		}
		s.names[ofFinding] = slices.Concat(scopeLabels[ofFinding], f.Labels)
	}
	for i, labels := range s.names {
		s.order[i] = sortedOrder(labels)
	}
	return s
}

// places returns the values of what a fleet's labels add; nothing for one host.
func (f Fleet) places(d *sampler.DeviceState, who finding.Who) []string {
	if len(f.Labels) == 0 {
		return nil
	}
	return append([]string{who.Namespace, who.Pod, who.Container}, d.Info.Place[:len(f.Labels)]...)
}

// ofHost are the beginnings of metrics that tell of the host that reads a GPU. Nobody reads those of a fleet.
var ofHost = []string{"gpu_driver_", "gpu_nvml_", "gpu_pci_devices", "gpu_collector_", "gpu_allocated", "gpu_process", "gpu_samples_missed_"}

// shows reports whether a fleet has a metric.
func (f Fleet) shows(m *metric) bool {
	if len(f.Labels) == 0 {
		return true
	}
	return !slices.ContainsFunc(ofHost, func(prefix string) bool { return strings.HasPrefix(m.name, prefix) })
}
