// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

// problem is one thing that is not well with a GPU or its driver.
type problem struct{ Text, Runbook string }

// broken says what is wrong with the hardware of a GPU, or why it cannot be read.
func broken(s *sampler.State, d *sampler.DeviceState) (list []problem) {
	for _, m := range d.Hardware(s.Time).Messages() {
		list = append(list, problem{m.Text(), RunbookPath + "#" + strings.ToLower(m.Alert)})
	}
	return list
}

// blind says of a memory that nothing tells how much of it is used, and why as far as that is known.
func blind(s *sampler.State, m *sampler.Domain) string {
	info := m.Device.Info
	text := fmt.Sprintf("%s (%s) does not tell how much memory is used, so that it is not judged", m.Name, finding.Joined(", ", info.Name, info.UUID))
	var errs []string
	for _, e := range s.Calls.Errors {
		if e.UUID == info.UUID && strings.HasPrefix(e.Call, "nvmlDeviceGetMemoryInfo") {
			errs = append(errs, e.Error)
		}
	}
	if len(errs) > 0 {
		text += ": the driver answered " + strings.Join(errs, ", ")
	}
	return text + "."
}
