// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"context"
	"time"

	"github.com/go-kit/log"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/collector/workload"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Config says what a Sampler reads and how.
type Config struct {
	// SlowInterval is the time between two readings of all but memory and processes, on the source's clock. The sampler asks
	// the driver for its GPUs as often, but at most once a second of the wall clock.
	SlowInterval time.Duration
	// Timeout is how long a call may take on the wall clock. After that its GPU counts as down.
	Timeout time.Duration
	// ProcessMax bounds the processes of a GPU that have series of their own. ProcessMinAge is how old they must be.
	ProcessMax    int
	ProcessMinAge time.Duration
	Groups        []gpu.Group // the parts of the slow reading that are wanted
	// Detector is the configuration of all series, unless Resolve gives a series another one. Resolve may be nil. See Configure.
	Detector   detector.Config
	Resolve    Resolver
	Owners     Owners     // of processes, where the source does not tell; nil leaves them unknown
	Allocators Allocators // of processes; nil leaves unknown what these hold
	// Places names the labels of gpu.Info.Place, if the GPUs are those of many hosts. Some of these always come and go: the log
	// has no line for each, and the sampler forgets at once a GPU that the source does not list any more.
	Places []string
	// ProcFS and SysFS are where these file systems are mounted. Without SysFS the sampler does not read the PCI bus.
	ProcFS, SysFS string
	// StateFile keeps the detector's histories, what it remembers of programs, and the secret that names these; "" is no file.
	// New reads it. The sampler writes it twice in a StateInterval, and when Run ends. A crash loses a StateInterval at most.
	StateFile     string
	StateInterval time.Duration
	Incidents     *incident.Store // gets each out-of-memory and the like; nil is one without a directory
	Logger        log.Logger      // gets what an operator should know, once each
}

// Allocators reads what the memory allocators in processes hold. allocator.Reader does, where there is Linux, and says what the methods
// promise.
type Allocators interface {
	Run(ctx context.Context)
	Of(id gpu.ProcessID) []allocator.Record
	Ask(id gpu.ProcessID, over time.Duration)
	RefusedOn(uuid string, s *gpu.Sample, p *gpu.Process) *allocator.Refusal
	SitesOn(uuid string, s *gpu.Sample, p *gpu.Process) *allocator.Sites
	Problem() error
}

// Owners looks up owners of processes. workload.Resolver is one, and says what the methods promise. Several goroutines call
// them, one a GPU. Holders and Allotments may take long: the sampler calls them at the slow interval.
type Owners interface {
	NameWith(secret []byte)
	Owner(id gpu.ProcessID) (owner *gpu.Owner, done bool)
	Await(ctx context.Context, id gpu.ProcessID) (owner *gpu.Owner, done bool)
	Holders(ctx context.Context) ([]DeviceHolder, error)
	Allotments(ctx context.Context) ([]workload.Allotment, error)
	Unseen() workload.Unseen
	Jobs() (workload.Jobs, error)
	Run(ctx context.Context)
	Ended(ctx context.Context, containerID string) (code gpu.Opt[int32], known bool)
	RuntimeProblem() error
}
