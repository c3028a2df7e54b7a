// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package source opens the GPUs that a command line names: those of the driver,
// scripted ones or a recording.
package source

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// Kind is where GPUs come from.
type Kind string

// The kinds, as the flag names them.
const (
	NVML   Kind = "nvml"
	Sim    Kind = "sim"
	Replay Kind = "replay"
)

// Config says which GPUs to read and how.
type Config struct {
	Kind Kind
	// Name is the scenario of Sim, or the file of Replay.
	Name string
	// Speed is how many seconds of Sim or Replay pass in a real one.
	Speed float64
	// Interval is the time between two samples of a GPU. A recording has its own.
	Interval time.Duration
	// LibraryPath, Timeout, ProcFS and SysFS are those of nvml.Config.
	LibraryPath   string
	Timeout       time.Duration
	ProcFS, SysFS string
}

// SetSpec sets Kind and Name from nvml, sim:SCENARIO or replay:FILE.
func (c *Config) SetSpec(spec string) error {
	kind, name, named := strings.Cut(spec, ":")
	switch k := Kind(kind); {
	case k == NVML && !named, (k == Sim || k == Replay) && name != "":
		c.Kind, c.Name = k, name
		return nil
	case k == Sim:
		return fmt.Errorf("name a scenario: %s", strings.Join(scenarios(), ", "))
	case k == Replay:
		return errors.New("name a recording: replay:FILE")
	}
	return errors.New("choose nvml, sim:SCENARIO or replay:FILE")
}

// Spec returns what SetSpec takes.
func (c *Config) Spec() string {
	if c.Name == "" {
		return string(c.Kind)
	}
	return string(c.Kind) + ":" + c.Name
}

func scenarios() []string {
	var list []string
	for _, s := range gpu.Scenarios() {
		list = append(list, "sim:"+s.Name)
	}
	return list
}

// Open returns the source. That no driver is there is no error: the source says
// so when it is asked for its GPUs.
func Open(c Config) (gpu.Source, error) {
	var src gpu.Source
	var err error
	switch c.Kind {
	case Sim:
		src, err = gpu.NewSim(c.Name, gpu.SimOptions{Interval: c.Interval, Speed: c.Speed})
	case Replay:
		src, err = gpu.NewReplay(c.Name, gpu.ReplayOptions{Speed: c.Speed})
	case NVML:
		src, err = openNVML(c)
	default:
		err = fmt.Errorf("there is no kind %q", c.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("--source=%s: %w", c.Spec(), err)
	}
	return src, nil
}
