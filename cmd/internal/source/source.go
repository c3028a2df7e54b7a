// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package source opens the GPUs that a command line names: those of the driver,
// scripted ones, a recording, or a fleet that a Prometheus knows.
package source

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/fleet"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/replay"
	"github.com/gpuleak/gpu_leak_exporter/collector/sim"
)

// Kind is where GPUs come from.
type Kind string

// The kinds, as the flag names them.
const (
	NVML       Kind = "nvml"
	Sim        Kind = "sim"
	Replay     Kind = "replay"
	Prometheus Kind = "prometheus"
)

// Config says which GPUs to read and how.
type Config struct {
	Kind Kind
	// Name is the scenario of Sim, the file of Replay, or the address of a Prometheus.
	Name string
	// Speed is how many seconds of Sim or Replay pass in a real one.
	Speed float64
	// Interval is the time between two samples of a GPU. A recording has its own.
	Interval time.Duration
	// LibraryPath, SlowInterval, Timeout, ProcFS and SysFS are those of nvml.Config.
	LibraryPath           string
	SlowInterval, Timeout time.Duration
	ProcFS, SysFS         string
	// Fleet is what to ask a Prometheus for.
	Fleet fleet.Config
}

// SetSpec sets Kind and Name from nvml, sim:SCENARIO, replay:FILE or prometheus:URL.
func (c *Config) SetSpec(spec string) error {
	kind, name, named := strings.Cut(spec, ":")
	switch k := Kind(kind); {
	case k == NVML && !named, (k == Sim || k == Replay) && name != "":
		c.Kind, c.Name = k, name
		return nil
	case k == Sim:
		return fmt.Errorf("name a scenario: sim:%s", strings.Join(sim.Scenarios(), ", sim:"))
	case k == Replay:
		return errors.New("name a recording: replay:FILE")
	case k == Prometheus:
		if _, err := promapi.ParseURL(name); err != nil {
			return errors.New("the address must be one such as http://localhost:9090, without ? and #")
		}
		c.Kind, c.Name = k, name
		return nil
	}
	return errors.New("choose nvml, sim:SCENARIO, replay:FILE or prometheus:URL")
}

// Spec returns the value for SetSpec, without the settings of a Prometheus.
func (c *Config) Spec() string {
	if c.Kind == Prometheus {
		return string(c.Kind) + ":" + promapi.Redacted(c.Name)
	}
	if c.Name == "" {
		return string(c.Kind)
	}
	return string(c.Kind) + ":" + c.Name
}

// Open returns the source. That no driver is there is no error: the source says
// so when it is asked for its GPUs.
func Open(c Config) (gpu.Source, error) {
	var src gpu.Source
	var err error
	switch c.Kind {
	case Sim:
		src, err = sim.New(c.Name, sim.Options{Interval: c.Interval, Speed: c.Speed})
	case Replay:
		src, err = replay.New(c.Name, c.Speed)
	case NVML:
		src, err = openNVML(c)
	case Prometheus:
		src, err = fleet.Open(c.Name, c.Fleet)
	default:
		err = fmt.Errorf("there is no kind %q", c.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("--source=%s: %w", c.Spec(), err)
	}
	return src, nil
}
