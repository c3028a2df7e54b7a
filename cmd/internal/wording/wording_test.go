// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package wording

import (
	"math"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/fleet"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts"
)

func TestVerdict(t *testing.T) {
	for want, v := range map[string]*verdicts.Verdict{
		NotJudged: {},
		Muted:     {Muted: true},
		Leaks:     {Judged: true, Leak: true, Confidence: new(0.9)},
		NoLeakYet: {Judged: true, Withheld: new("program_begin"), Confidence: new(0.6)},
		NotSure:   {Judged: true, Confidence: new(0.4)},
		NoLeak:    {Judged: true, Confidence: new(0.39)},
	} {
		if got := Verdict(v, 0.4); got != want {
			t.Errorf("%+v: %q, want %q", v, got, want)
		}
	}
	if got := Verdict(&verdicts.Verdict{Judged: true}, 0.4); got != NoLeak {
		t.Errorf("without a confidence: %q", got)
	}
	if got := Verdict(nil, 0.4); got != NotJudged {
		t.Errorf("nil: %q", got)
	}
}

// What the driver reserves can be used by nobody: it is no part of the memory that there is.
func TestMemory(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		m    verdicts.Memory
		want string
	}{
		{verdicts.Memory{Used: new(uint64(37.5 * gib)), Total: new(uint64(80 * gib)), Reserved: new(uint64(gib / 2))}, "37.5 GiB of 79.5 GiB (47 %)"},
		{verdicts.Memory{Used: new(uint64(37.5 * gib)), Total: new(uint64(80 * gib))}, "37.5 GiB of 80.0 GiB (46 %)"},
		{verdicts.Memory{Used: new(uint64(3 * gib)), Reserved: new(uint64(gib))}, "3.00 GiB used"},
		{verdicts.Memory{Used: new(uint64(3 * gib)), Total: new(uint64(gib)), Reserved: new(uint64(2 * gib))}, "3.00 GiB used"},
		{verdicts.Memory{Used: new(uint64(3 * gib)), Total: new(uint64(2 * gib))}, "3.00 GiB of 2.00 GiB (100 %)"},
		{verdicts.Memory{Total: new(uint64(gib))}, "not known"},
	} {
		if got := Memory(c.m); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestInterval(t *testing.T) {
	for _, c := range []struct {
		lower, upper *float64
		want         string
	}{
		{nil, nil, ""},
		{nil, new(60.0), ""},
		{new(3600.0), nil, "at least 1 h"},
		{new(3600.0), new(7200.0), "1 h to 2 h"},
		{new(3600.0), new(3600.1), ""},
	} {
		if got := Interval(c.lower, c.upper); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		Process("train.py", "42"):                   "train.py (pid 42)",
		Process("", "42"):                           "unknown process (pid 42)",
		Place("ml", "train-0", "main", "", "alice"): "pod ml/train-0, container main, user alice",
		Place("", "", "", "4712", ""):               "Slurm job 4712",
		Pattern("leak_staircase", nil):              "grows in steps",
		Pattern("sawtooth", nil):                    "sawtooth",
		Pattern("leak_cyclic", new(1.0)):            "each cycle ends higher",
		Pattern("leak_cyclic", new(0.0)):            "fills up in each life",
		Percent(math.Nextafter(1, 0) - 1e-6):        "99 %",
		Percent(0.7):                                "70 %",
		Joined("", "a", "", "b"):                    "a, b",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestDriver(t *testing.T) {
	for reason, want := range map[string]string{
		"no_permission":  "The driver does not answer (no_permission): this user may not open /dev/nvidiactl.",
		"error_42":       "The driver does not answer (error_42).",
		fleet.ReasonDown: "The Prometheus of --source=prometheus: does not answer. The log says why.",
		"starting":       "The driver does not answer (starting): the exporter has just started.",
	} {
		if got := Driver(reason); got != want {
			t.Errorf("%s: %s, want %s", reason, got, want)
		}
	}
}
