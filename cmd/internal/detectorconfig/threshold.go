// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detectorconfig

import (
	"slices"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// leastAmount is the least amount of memory that a threshold may be, in bytes: the detector
// keeps memory in units of that, and less is a number without its unit.
const leastAmount = 64 << 10

// Threshold is a setting of detector.Config that is one number. It is a flag, most
// of them, and a key of the rules in a file.
type Threshold struct {
	// Name is that of the flag without the leading detector, and with underscores
	// that of the key.
	Name string
	// Help says what the threshold is, and Reason why its default is what it is, for the documentation.
	Help, Reason string

	value    func(flag string, c *detector.Config) *cli.Value
	copy     func(to, from *detector.Config)
	fileOnly bool // there is no flag
}

// Flag returns the name of the threshold's flag, without dashes before it.
func (t *Threshold) Flag() string { return "detector." + t.Name }

// Key returns the threshold's key in a file.
func (t *Threshold) Key() string { return strings.ReplaceAll(t.Name, "-", "_") }

// Value returns the threshold in c as the value of its flag.
func (t *Threshold) Value(c *detector.Config) *cli.Value { return t.value(t.Flag(), c) }

// Default returns the default as the flag takes it.
func (t *Threshold) Default() string {
	c := detector.DefaultConfig()
	return t.Value(&c).String()
}

// Thresholds returns those that are flags, too, in the order in which they are explained.
func Thresholds() []Threshold {
	return slices.DeleteFunc(slices.Clone(thresholds), func(t Threshold) bool { return t.fileOnly })
}

const (
	day = 24 * time.Hour
	// least is the shortest time that a threshold can be which is not 0.
	least = time.Second
)

var thresholds = []Threshold{
	number("leak-threshold", 0.01, 1, func(c *detector.Config) *float64 { return &c.LeakThreshold },
		"Confidence (0 to 1) at which growth is called a leak. Under half of it that is taken back.",
		"neither chance nor a cache that fills explains growth of that confidence, and a steady leak reaches it within minutes."),
	amount("min-growth", func(c *detector.Config) *float64 { return &c.MinGrowth },
		"The least retained growth that can be a leak, such as 16MiB.",
		"eight of the steps of 2 MiB in which the driver counts the memory of a process."),
	period("min-span", least, day, func(c *detector.Config) *time.Duration { return &c.MinSpan },
		"The shortest growth that can be a leak.",
		"less than half of the 15 minutes in which a leak should be found."),
	period("settle-time", 0, day, func(c *detector.Config) *time.Duration { return &c.SettleTime },
		"How long growth from the start of a process must last to be a leak. Where the memory fills sooner, 20 minutes may be enough.",
		"an epoch, a cache that fills, a warm-up last less."),
	inFile(period("zombie-after", least, 7*day, func(c *detector.Config) *time.Duration { return &c.ZombieAfter },
		"How long a process must have computed nothing before its memory can be a zombie's.",
		"an evaluation, or a checkpoint that is written, pauses a GPU for minutes.")),
	inFile(period("unreleased-after", least, day, func(c *detector.Config) *time.Duration { return &c.UnreleasedAfter },
		"How long memory must stay after its process ended to be unreleased.",
		"the driver takes seconds to free the memory of a large process.")),
	inFile(amount("held-min", func(c *detector.Config) *float64 { return &c.MinHeld },
		"The least memory that can be a zombie's, or unreleased.",
		"memory and processes are read a moment apart, and what the driver itself holds changes by less.")),
	inFile(period("page-within", 0, day, func(c *detector.Config) *time.Duration { return &c.PageWithin },
		"How soon a leak must fill the memory for somebody to be woken.",
		"an hour is enough to save a checkpoint and to restart what leaks. What takes longer can wait for the morning.")),
	inFile(period("fills-within", 0, day, func(c *detector.Config) *time.Duration { return &c.FillsWithin },
		"How soon a memory that fills must be full for somebody to be woken, though nobody knows whether it leaks.",
		"most growth that is no leak ends before; later than this the detector may yet make sure.")),
	inFile(amount("spike-height", func(c *detector.Config) *float64 { return &c.SpikeHeight },
		"The least rise that can be a spike.",
		"smaller moves are the daily work of an allocator.")),
	inFile(number("spike-ratio", 0, 1, func(c *detector.Config) *float64 { return &c.SpikeRatio },
		"The least rise that can be a spike, as a share (0 to 1) of the capacity. The larger of the two holds.",
		"on a large GPU the daily moves are larger.")),
	inFile(period("spike-width", least, day, func(c *detector.Config) *time.Duration { return &c.SpikeWidth },
		"The longest time from the rise of a spike to its end.",
		"the autotuning of kernels allocates and frees within seconds; what stays for longer is a step.")),
}

// inFile returns a threshold that has no flag. Rules for all series set it for all of them.
func inFile(t Threshold) Threshold {
	t.fileOnly = true
	return t
}

// number returns a threshold without a unit.
func number(name string, lo, hi float64, at func(*detector.Config) *float64, help, reason string) Threshold {
	return Threshold{
		Name: name, Help: help, Reason: reason, copy: copier(at),
		value: func(flag string, c *detector.Config) *cli.Value { return cli.Float(flag, at(c), lo, hi) },
	}
}

// amount returns a threshold in bytes.
func amount(name string, at func(*detector.Config) *float64, help, reason string) Threshold {
	return Threshold{
		Name: name, Help: help, Reason: reason, copy: copier(at),
		value: func(flag string, c *detector.Config) *cli.Value {
			return cli.Bytes(flag, at(c), leastAmount, detector.MaxBytes)
		},
	}
}

// period returns a threshold that is a time.
func period(name string, lo, hi time.Duration, at func(*detector.Config) *time.Duration, help, reason string) Threshold {
	return Threshold{
		Name: name, Help: help, Reason: reason, copy: copier(at),
		value: func(flag string, c *detector.Config) *cli.Value { return cli.Duration(flag, at(c), lo, hi) },
	}
}

func copier[T any](at func(*detector.Config) *T) func(to, from *detector.Config) {
	return func(to, from *detector.Config) { *at(to) = *at(from) }
}
