// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"context"
	"time"

	"github.com/go-kit/log"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/workload"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Config says what a Sampler reads and how.
type Config struct {
	// SlowInterval is the time between readings of everything but memory and processes, on the source's clock. The driver is
	// asked for its GPUs as often, but at most once a second of the wall clock.
	SlowInterval time.Duration
	// Timeout is how long a call may take, on the wall clock, before its GPU counts as one that cannot be read.
	Timeout time.Duration
	// ProcessMax is how many processes of a GPU have series of their own, and ProcessMinAge how old they must be.
	ProcessMax    int
	ProcessMinAge time.Duration
	Groups        []gpu.Group // the parts of the slow reading that are wanted
	// Detector is the configuration of the series. Resolve gives them others; nil gives none. See Configure.
	Detector   detector.Config
	Resolve    Resolver
	Owners     Owners            // of processes, where the source does not tell; nil leaves them unknown
	Allocators *allocator.Reader // what the memory allocators in processes hold; nil leaves it unknown
	// Fleet says that the GPUs are those of many hosts, of which some always come and go: each is worth no line
	// of the log, and one that the source does not list any more is forgotten at once.
	Fleet bool
	// ProcFS is where procfs is mounted; SysFS is the same for sysfs, and "" leaves the PCI bus unread.
	ProcFS, SysFS string
	// StateFile is where the detector's histories, what it remembers of programs, and the secret that these
	// are named with, outlive the exporter; "" for nowhere. A crash loses what was learnt in a StateInterval, for it is written
	// twice in one; and when Run ends. New reads it.
	StateFile     string
	StateInterval time.Duration
	Logger        log.Logger // takes what an operator should know, once each
}

// Owners looks up whose a process is. workload.Resolver does, and says what the methods promise. They are called from several
// goroutines, one a GPU; Holders and Allotments, which may take long, at the slow interval.
type Owners interface {
	NameWith(secret []byte)
	Owner(id gpu.ProcessID) (owner *gpu.Owner, done bool)
	Await(ctx context.Context, id gpu.ProcessID) (owner *gpu.Owner, done bool)
	Holders(ctx context.Context) ([]DeviceHolder, error)
	Allotments(ctx context.Context) ([]workload.Allotment, error)
	Unseen() workload.Unseen
	Jobs() (workload.Jobs, error)
	Run(ctx context.Context)
	Ended(ctx context.Context, containerID string) (well, known bool)
	RuntimeProblem() error
}
