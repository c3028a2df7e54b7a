// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"fmt"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// Bounds of the configuration.
const (
	// MaxWindows is how many windows a series can have.
	MaxWindows = 4
	// MinWindow and MaxWindow bound the length of a window.
	MinWindow = time.Minute
	MaxWindow = 24 * time.Hour
)

// Config holds the windows and thresholds of one series.
type Config struct {
	// Windows are the lengths of the windows of slope, R² and spikes, in increasing order.
	Windows []time.Duration
	// LeakThreshold is the confidence (0 to 1) at which a leak is declared.
	LeakThreshold float64
	// MinGrowth is the least retained growth in bytes that can be a leak.
	MinGrowth float64
	// MinSpan is the shortest growth that can be a leak.
	MinSpan time.Duration
	// SettleTime is the shortest growth that can be a leak if the memory before it is unknown: the
	// growth began with its process, or before the first sample. Growth for 20 minutes is enough if it has lasted five times as
	// long as it still takes to fill the memory.
	SettleTime time.Duration
	// ZombieAfter is the shortest time without computing of a zombie, and UnreleasedAfter the shortest time
	// that unreleased memory stays after its process ended. MinHeld is the least such memory in bytes.
	ZombieAfter, UnreleasedAfter time.Duration
	MinHeld                      float64
	// A page begins when a leak fills the memory within PageWithin, or other growth within FillsWithin.
	PageWithin, FillsWithin time.Duration
	// Mute removes the judgement. The statistics stay.
	Mute bool
	// SpikeHeight is the least rise in bytes that can be a spike; SpikeRatio is
	// the same as a share (0 to 1) of the capacity. The larger one holds.
	SpikeHeight, SpikeRatio float64
	// SpikeWidth is the longest time from the rise of a spike to its end.
	SpikeWidth time.Duration
}

// DefaultConfig returns the defaults; detector/README.md gives the reason for each.
func DefaultConfig() Config {
	return Config{
		Windows:       []time.Duration{10 * time.Minute, time.Hour},
		LeakThreshold: 0.7,
		MinGrowth:     16 << 20,
		MinSpan:       6 * time.Minute,
		SettleTime:    time.Hour,
		PageWithin:    time.Hour,
		FillsWithin:   15 * time.Minute,

		ZombieAfter:     10 * time.Minute,
		UnreleasedAfter: time.Minute,
		MinHeld:         64 << 20,

		SpikeHeight: 64 << 20,
		SpikeRatio:  0.02,
		SpikeWidth:  time.Minute,
	}
}

// ClearThreshold returns the confidence under which a leak stops: half of the leak threshold, so that no alert flaps when a
// leak pauses for a while.
func (c *Config) ClearThreshold() float64 { return c.LeakThreshold / 2 }

// Validate returns an error that names the first invalid setting and its bounds.
func (c Config) Validate() error {
	if len(c.Windows) == 0 || len(c.Windows) > MaxWindows {
		return fmt.Errorf("%d windows given, 1 to %d are possible", len(c.Windows), MaxWindows)
	}
	for i, w := range c.Windows {
		if w < MinWindow || w > MaxWindow {
			return fmt.Errorf("window %s is not between %s and %s", w, MinWindow, MaxWindow)
		}
		if i > 0 && w <= c.Windows[i-1] {
			return fmt.Errorf("window %s does not come after %s: give each once, shortest first", w, c.Windows[i-1])
		}
	}
	const bytes = "(0, 2^48]"
	for _, s := range []struct {
		name     string
		value    any
		possible bool
		bounds   string
	}{
		{"leak threshold", c.LeakThreshold, c.LeakThreshold > 0 && c.LeakThreshold <= 1, "(0, 1]"},
		{"minimum growth in bytes", c.MinGrowth, c.MinGrowth > 0 && c.MinGrowth <= stat.MaxBytes, bytes},
		{"minimum span", c.MinSpan, c.MinSpan > 0 && c.MinSpan <= MaxWindow, "(0, 24h]"},
		{"settle time", c.SettleTime, c.SettleTime >= 0 && c.SettleTime <= MaxWindow, "[0, 24h]"},
		{"page within", c.PageWithin, c.PageWithin >= 0 && c.PageWithin <= MaxWindow, "[0, 24h]"},
		{"fills within", c.FillsWithin, c.FillsWithin >= 0 && c.FillsWithin <= MaxWindow, "[0, 24h]"},
		{"time until a zombie", c.ZombieAfter, c.ZombieAfter > 0, "(0, ∞)"},
		{"time until memory is unreleased", c.UnreleasedAfter, c.UnreleasedAfter > 0, "(0, ∞)"},
		{"minimum held memory in bytes", c.MinHeld, c.MinHeld > 0 && c.MinHeld <= stat.MaxBytes, bytes},
		{"spike height in bytes", c.SpikeHeight, c.SpikeHeight > 0 && c.SpikeHeight <= stat.MaxBytes, bytes},
		{"spike ratio", c.SpikeRatio, c.SpikeRatio >= 0 && c.SpikeRatio <= 1, "[0, 1]"},
		{"spike width", c.SpikeWidth, c.SpikeWidth > 0, "(0, ∞)"},
	} {
		if !s.possible {
			return fmt.Errorf("%s %v is not in %s", s.name, s.value, s.bounds)
		}
	}
	return nil
}
