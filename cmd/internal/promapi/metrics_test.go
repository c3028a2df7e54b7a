// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package promapi

import "testing"

// TestQueries reads what queries tell of their unit, and of what bounds their metric.
func TestQueries(t *testing.T) {
	for query, want := range map[string]struct {
		unit   float64
		bounds string // the query for the metrics that bound it
	}{
		"DCGM_FI_DEV_FB_USED":                                 {Mebibyte, `{__name__=~"DCGM_FI_DEV_FB_TOTAL|DCGM_FI_DEV_FB_RESERVED|DCGM_FI_DEV_FB_FREE"}`},
		` gpu_memory_used_bytes{pod="a{b or }", gpu='1'} `:    {1, `{__name__=~"gpu_memory_total_bytes|gpu_memory_reserved_bytes", pod="a{b or }", gpu='1'}`},
		`gpu_memory_used_bytes{pod="a" or pod="b"}`:           {1, ""},
		"gpu_process_memory_used_bytes":                       {1, ""},
		"max by (UUID) (DCGM_FI_DEV_FB_USED)":                 {Mebibyte, ""},
		"DCGM_FI_DEV_FB_USED * 2":                             {0, ""},
		"a_bytes / b_bytes":                                   {0, ""},
		"my_memory":                                           {0, ""},
		"gpu_memory_used_bytes or DCGM_FI_DEV_FB_USED":        {0, ""},
		`nvidia_smi_memory_used_bytes{instance=~"a.*/[0-9]"}`: {1, `{__name__=~"nvidia_smi_memory_total_bytes|nvidia_smi_memory_reserved_bytes|nvidia_smi_memory_free_bytes", instance=~"a.*/[0-9]"}`},
	} {
		unit, err := UnitOfAll(0, []string{""}, query)
		if unit != want.unit || (err == nil) != (unit != 0) {
			t.Errorf("%s: %g, %v", query, unit, err)
		}
		s, ok := ParseSelector(query)
		if got := s.Of(s.Metric.Bounds()...); ok != (want.bounds != "") || ok && got != want.bounds {
			t.Errorf("%s: bounded by %s", query, got)
		}
	}
	if _, err := UnitOfAll(0, []string{"a_bytes", "DCGM_FI_DEV_FB_USED"}, ""); err == nil {
		t.Error("two units are one")
	}
	if unit, err := UnitOfAll(1, []string{"x"}, ""); unit != 1 || err != nil {
		t.Errorf("%g, %v", unit, err)
	}
}
