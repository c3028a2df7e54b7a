// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// without removes the series of that name; all that carry the labels, if there are
// any.
func (e expected) without(name string, labels ...string) {
	maps.DeleteFunc(e, func(key string, _ bounds) bool {
		if !strings.HasPrefix(key, name+"{") {
			return false
		}
		for _, l := range labels {
			if !strings.Contains(key, l) {
				return false
			}
		}
		return true
	})
}

// TestOldDrivers compares every series of drivers that lack functions with the
// model: what they lack is absent, and all else is as it is with the newest one.
// Calling a function that is not there would end the process.
func TestOldDrivers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		driver []string
		v1     bool
		lacks  func(expected)
	}{
		{"535", fakenvml.Driver535(), false, func(e expected) {
			e.without("gpu_temperature_margin_celsius")
		}},
		{"470", fakenvml.Driver470(), true, func(e expected) {
			e.without("gpu_temperature_margin_celsius")
			e.without("gpu_jpeg_utilization_ratio")
			e.without("gpu_ofa_utilization_ratio")
			e.without("gpu_fan_speed_ratio", `fan="1"`) // it tells about one
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := richNode(t, tc.driver...)
			begin := time.Now()
			p := m.start(t, "--no-collector.detector", "--collector.nvlink")
			model := &model{machine: m, t: t, begin: begin, v1: tc.v1}
			eventually(t, p, func(s harness.Metrics) error {
				model.compute()
				tc.lacks(model.want)
				return model.want.compare(s)
			})
			t.Logf("%d series compared", len(model.want))
		})
	}
}
