// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package source opens the GPUs that a command line names: those of the driver,
// scripted ones, a recording, or a fleet that a Prometheus knows.
package source

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-kit/log"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/fleet"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
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
	Fleet Fleet
	// Logger is told what Prometheus answers amiss; nil for nobody.
	Logger log.Logger
}

// Fleet says what to ask a Prometheus for, and how: see fleet.Config.
type Fleet struct {
	Query, Capacity string
	Unit            float64
	HTTPConfigFile  string
	History, MaxAge time.Duration
	Labels          []string
	Shard           fleet.Shard
}

// SetShard sets the part of a fleet from INDEX/NUMBER, such as 0/3.
func (f *Fleet) SetShard(text string) error {
	i, n, ok := strings.Cut(text, "/")
	index, err := strconv.Atoi(i)
	of, err2 := strconv.Atoi(n)
	if !ok || err != nil || err2 != nil || of < 1 || of > maxShards || index < 0 || index >= of {
		return fmt.Errorf("must be INDEX/NUMBER, such as 0/3, 1/3 and 2/3 for three exporters; %d at most", maxShards)
	}
	f.Shard = fleet.Shard{Index: index, Of: of}
	return nil
}

const maxShards = 1000

// choices are what SetSpec takes.
const choices = "choose nvml, sim:SCENARIO, replay:FILE or prometheus:URL"

// SetSpec sets Kind and Name from nvml, sim:SCENARIO, replay:FILE or prometheus:URL.
func (c *Config) SetSpec(spec string) error {
	kind, name, named := strings.Cut(spec, ":")
	switch k := Kind(kind); {
	case k == NVML && !named, (k == Sim || k == Replay) && name != "":
		c.Kind, c.Name = k, name
		return nil
	case k == Sim:
		return fmt.Errorf("name a scenario: sim:%s", strings.Join(gpu.Scenarios(), ", sim:"))
	case k == Replay:
		return errors.New("name a recording: replay:FILE")
	case k == Prometheus:
		return c.setPrometheus(name)
	}
	return errors.New(choices)
}

func (c *Config) setPrometheus(address string) error {
	if address == "" {
		return errors.New("name a Prometheus: prometheus:http://localhost:9090")
	}
	if _, err := promapi.ParseURL(address); err != nil {
		return errors.New("the address must be one such as http://localhost:9090, without ? and #")
	}
	c.Kind, c.Name = Prometheus, address
	return nil
}

// Spec returns what SetSpec takes, but for who asks a Prometheus.
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
		src, err = gpu.NewSim(c.Name, gpu.SimOptions{Interval: c.Interval, Speed: c.Speed})
	case Replay:
		src, err = gpu.NewReplay(c.Name, gpu.ReplayOptions{Speed: c.Speed})
	case NVML:
		src, err = openNVML(c)
	case Prometheus:
		src, err = openFleet(c)
	default:
		err = fmt.Errorf("there is no kind %q", c.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("--source=%s: %w", c.Spec(), err)
	}
	return src, nil
}

// openFleet returns a source of the GPUs that a Prometheus knows.
func openFleet(c Config) (gpu.Source, error) {
	f := c.Fleet
	client, err := promapi.NewClient(promapi.ClientConfig{
		URL: c.Name, HTTPConfigFile: f.HTTPConfigFile, HTTPConfigFlag: "source.http-config", Program: "gpu_leak_exporter", KeepAlive: true,
	})
	if err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = log.NewNopLogger()
	}
	return fleet.New(fleet.Config{
		Client: client, Query: f.Query, Capacity: f.Capacity, Unit: f.Unit, Interval: c.Interval, History: f.History, MaxAge: f.MaxAge,
		Labels: f.Labels, Shard: f.Shard, Logger: c.Logger,
	})
}
