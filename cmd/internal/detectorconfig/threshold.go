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

// Threshold is a setting of detector.Config that is one number. It is a key of the rules in a file, and some are a flag.
type Threshold struct {
	Name   string // of the flag without the leading detector, and with underscores of the key
	isFlag bool
	value  func(*detector.Config) *cli.Value
	// Help says what the threshold is, and Reason why its default is what it is, for the documentation.
	Help, Reason string
}

// Flag returns the name of the threshold's flag, without dashes before it.
func (t *Threshold) Flag() string { return "detector." + t.Name }

// Key returns the threshold's key in a file.
func (t *Threshold) Key() string { return strings.ReplaceAll(t.Name, "-", "_") }

// Value returns the threshold in c as the value of its flag.
func (t *Threshold) Value(c *detector.Config) *cli.Value {
	return t.value(c).Named("--" + t.Flag() + "=")
}

// Default returns the default as the flag takes it.
func (t *Threshold) Default() string {
	c := detector.DefaultConfig()
	return t.Value(&c).String()
}

// Thresholds returns those that are flags, too, in the order in which they are explained.
func Thresholds() []Threshold {
	return slices.DeleteFunc(slices.Clone(thresholds), func(t Threshold) bool { return !t.isFlag })
}

const (
	day = 24 * time.Hour
	// least is the shortest time that a threshold can be which is not 0.
	least = time.Second
)

var thresholds = []Threshold{
	{
		"leak-threshold", true, func(c *detector.Config) *cli.Value { return cli.Float("", &c.LeakThreshold, 0.01, 1) },
		"Confidence (0 to 1) at which growth is called a leak. Under half of it that is taken back.",
		"neither chance nor a cache that fills explains growth of that confidence, and a steady leak reaches it within minutes.",
	},
	{
		"min-growth", true, func(c *detector.Config) *cli.Value {
			return cli.Bytes("", &c.MinGrowth, leastAmount, detector.MaxBytes)
		},
		"The least retained growth that can be a leak, such as 16MiB.",
		"eight of the steps of 2 MiB in which the driver counts the memory of a process.",
	},
	{
		"min-span", true, func(c *detector.Config) *cli.Value { return cli.Duration("", &c.MinSpan, least, day) },
		"The shortest growth that can be a leak.",
		"less than half of the 15 minutes in which a leak should be found.",
	},
	{
		"settle-time", true, func(c *detector.Config) *cli.Value { return cli.Duration("", &c.SettleTime, 0, day) },
		"How long growth from the start of a process must last to be a leak. Where the memory fills sooner, 20 minutes may be enough.",
		"an epoch, a cache that fills, a warm-up last less.",
	},
	{
		"zombie-after", false, func(c *detector.Config) *cli.Value { return cli.Duration("", &c.ZombieAfter, least, 7*day) },
		"How long a process must have computed nothing before its memory can be a zombie's.",
		"an evaluation, or a checkpoint that is written, pauses a GPU for minutes.",
	},
	{
		"unreleased-after", false, func(c *detector.Config) *cli.Value { return cli.Duration("", &c.UnreleasedAfter, least, day) },
		"How long memory must stay after its process ended to be unreleased.",
		"the driver takes seconds to free the memory of a large process.",
	},
	{
		"held-min", false, func(c *detector.Config) *cli.Value { return cli.Bytes("", &c.MinHeld, leastAmount, detector.MaxBytes) },
		"The least memory that can be a zombie's, or unreleased.",
		"memory and processes are read a moment apart, and what the driver itself holds changes by less.",
	},
	{
		"page-within", false, func(c *detector.Config) *cli.Value { return cli.Duration("", &c.PageWithin, 0, day) },
		"How soon a leak must fill the memory for somebody to be woken.",
		"an hour is enough to save a checkpoint and to restart what leaks. What takes longer can wait for the morning.",
	},
	{
		"fills-within", false, func(c *detector.Config) *cli.Value { return cli.Duration("", &c.FillsWithin, 0, day) },
		"How soon a memory that fills must be full for somebody to be woken, though nobody knows whether it leaks.",
		"most growth that is no leak ends before; later than this the detector may yet make sure.",
	},
	{
		"spike-height", false, func(c *detector.Config) *cli.Value {
			return cli.Bytes("", &c.SpikeHeight, leastAmount, detector.MaxBytes)
		},
		"The least rise that can be a spike.",
		"smaller moves are the daily work of an allocator.",
	},
	{
		"spike-ratio", false, func(c *detector.Config) *cli.Value { return cli.Float("", &c.SpikeRatio, 0, 1) },
		"The least rise that can be a spike, as a share (0 to 1) of the capacity. The larger of the two holds.",
		"on a large GPU the daily moves are larger.",
	},
	{
		"spike-width", false, func(c *detector.Config) *cli.Value { return cli.Duration("", &c.SpikeWidth, least, day) },
		"The longest time from the rise of a spike to its end.",
		"the autotuning of kernels allocates and frees within seconds; what stays for longer is a step.",
	},
}
