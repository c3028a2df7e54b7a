// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
)

// lost says of a GPU that cannot be read since when.
func (h *predictor) lost(s *collector.State, d *collector.DeviceState) string {
	text := fmt.Sprintf("%s (%s) cannot be read", d.Name(), finding.Joined(", ", d.Info.Name, d.Info.UUID))
	if d.SampleTime.IsZero() {
		return text + "."
	}
	text += "; its last sample is of " + h.moment(d.SampleTime, s.Time, "15:04:05 MST")
	if h.Note == "" { // else it is of another clock than the state
		text += ", " + humanize.Duration(max(0, s.Time.Sub(d.SampleTime))) + " ago"
	}
	return text + "."
}

// blind says of a memory that nothing tells how much of it is used, and why as far as that is known.
func blind(s *collector.State, m *collector.Domain) string {
	info := m.Device.Info
	text := fmt.Sprintf("%s (%s) does not tell how much memory is used, so that it is not judged", m.Name, finding.Joined(", ", info.Name, info.UUID))
	var errs []string
	for _, e := range s.Calls.Errors {
		if e.UUID == info.UUID && strings.HasPrefix(e.Call, "nvmlDeviceGetMemoryInfo") && !slices.Contains(errs, e.Error) {
			errs = append(errs, e.Error)
		}
	}
	if len(errs) > 0 {
		text += ": the driver answered " + strings.Join(errs, ", ")
	}
	return text + "."
}
