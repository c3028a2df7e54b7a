// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package source opens the GPUs that a command line names: those of the driver,
// scripted ones or a recording.
package source

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu/nvml"
	"github.com/gpuleak/gpu_leak_exporter/collector/workload"
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
		limitFiles()
		src, err = nvml.New(nvml.Config{
			LibraryPath: c.LibraryPath, Interval: c.Interval, ProcFS: c.ProcFS, SysFS: c.SysFS, Timeout: c.Timeout,
		})
	default:
		err = fmt.Errorf("there is no kind %q", c.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("--source=%s: %w", c.Spec(), err)
	}
	return src, nil
}

// OwnersConfig says what is told of processes, and who is asked.
type OwnersConfig = workload.Config

// Owners returns what tells whose a process of the driver's source is. The procfs is
// that of the source.
func Owners(c Config, w OwnersConfig) (*workload.Resolver, error) {
	w.ProcFS = c.ProcFS
	r, err := workload.New(w)
	if err != nil {
		return nil, fmt.Errorf("--path.procfs=%s: %w", c.ProcFS, err)
	}
	return r, nil
}

// Allocators returns what tells what the allocators in processes of the driver's source hold.
// Its Run must run. sites lets processes be asked where they allocate what stays.
func Allocators(c Config, sites bool) (*allocator.Reader, error) {
	r, err := allocator.New(allocator.Options{ProcFS: c.ProcFS, Sites: sites})
	if err != nil {
		return nil, fmt.Errorf("read what allocators hold: %w", err)
	}
	return r, nil
}

// maxFiles is many more than the exporter opens: listeners, scrapes, procfs.
const maxFiles = 4096

// limitFiles lowers the soft limit of open files, which Go raises to the hard one
// at the start of a program. The RPC code with which the driver's library talks
// to nvidia-persistenced is suspected of allocating by that limit: gigabytes,
// where a container runtime sets it to a billion.
func limitFiles() {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur <= maxFiles {
		return
	}
	limit.Cur = maxFiles
	// Lowering a soft limit is everybody's right. If it fails even so, the
	// exporter works as well as without.
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}
