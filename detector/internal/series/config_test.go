// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// What stands at the edge is valid, and what is beyond it is named.
func TestValidate(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name   string
		change func(c *Config)
		want   string // part of the error; "" for none
	}{
		{"the defaults", func(*Config) {}, ""},
		{"most windows", func(c *Config) { c.Windows = []time.Duration{MinWindow, time.Hour, 2 * time.Hour, MaxWindow} }, ""},
		{"no windows", func(c *Config) { c.Windows = nil }, "0 windows"},
		{"too many windows", func(c *Config) { c.Windows = make([]time.Duration, MaxWindows+1) }, "5 windows"},
		{"a short window", func(c *Config) { c.Windows = []time.Duration{MinWindow - 1} }, "59.999999999s"},
		{"a long window", func(c *Config) { c.Windows = []time.Duration{MaxWindow + 1} }, "24h0m0.000000001s"},
		{"the same window twice", func(c *Config) { c.Windows = []time.Duration{time.Hour, time.Hour} }, "does not come after"},
		{"leak threshold 1", func(c *Config) { c.LeakThreshold = 1 }, ""},
		{"leak threshold above 1", func(c *Config) { c.LeakThreshold = 1.1 }, "leak threshold"},
		{"leak threshold 0", func(c *Config) { c.LeakThreshold = 0 }, "leak threshold"},
		{"leak threshold NaN", func(c *Config) { c.LeakThreshold = nan }, "leak threshold"},
		{"no growth", func(c *Config) { c.MinGrowth = 0 }, "minimum growth"},
		{"too much growth", func(c *Config) { c.MinGrowth = stat.MaxBytes + 1 }, "minimum growth"},
		{"no span", func(c *Config) { c.MinSpan = 0 }, "minimum span"},
		{"a long span", func(c *Config) { c.MinSpan = MaxWindow + 1 }, "minimum span"},
		{"no settle time", func(c *Config) { c.SettleTime = 0 }, ""},
		{"a negative settle time", func(c *Config) { c.SettleTime = -1 }, "settle time"},
		{"a long settle time", func(c *Config) { c.SettleTime = MaxWindow + 1 }, "settle time"},
		{"never woken", func(c *Config) { c.PageWithin, c.FillsWithin = 0, 0 }, ""},
		{"a negative time to a page", func(c *Config) { c.PageWithin = -1 }, "page within"},
		{"a long one", func(c *Config) { c.PageWithin = MaxWindow + 1 }, "page within"},
		{"a negative time to fill", func(c *Config) { c.FillsWithin = -1 }, "fills within"},
		{"a long time to fill", func(c *Config) { c.FillsWithin = MaxWindow + 1 }, "fills within"},
		{"zombie at once", func(c *Config) { c.ZombieAfter = 0 }, "zombie"},
		{"unreleased at once", func(c *Config) { c.UnreleasedAfter = 0 }, "unreleased"},
		{"no held memory", func(c *Config) { c.MinHeld = 0 }, "held memory"},
		{"NaN held memory", func(c *Config) { c.MinHeld = nan }, "held memory"},
		{"no spike height", func(c *Config) { c.SpikeHeight = 0 }, "spike height"},
		{"NaN spike height", func(c *Config) { c.SpikeHeight = nan }, "spike height"},
		{"no spike ratio", func(c *Config) { c.SpikeRatio = 0 }, ""},
		{"spike ratio above 1", func(c *Config) { c.SpikeRatio = 1.1 }, "spike ratio"},
		{"no spike width", func(c *Config) { c.SpikeWidth = 0 }, "spike width"},
	} {
		cfg := DefaultConfig()
		c.change(&cfg)
		switch err := cfg.Validate(); {
		case err == nil && c.want != "":
			t.Errorf("%s: no error", c.name)
		case err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
