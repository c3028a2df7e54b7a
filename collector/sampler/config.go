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
	// SlowInterval is the time between readings of everything but memory and processes, on the source's clock. At least once
	// a second of the wall clock is the driver not asked for its GPUs, whatever it is.
	SlowInterval time.Duration
	// Timeout is how long a call may take, on the wall clock, before its GPU counts as one that cannot be read.
	Timeout time.Duration
	// ProcessMax is how many processes of a GPU have series of their own.
	ProcessMax int
	// ProcessMinAge is how old a process must be to have series of its own.
	ProcessMinAge time.Duration
	// Groups are the parts of the slow reading that are wanted.
	Groups []gpu.Group
	// Resolve gives series a configuration of their own; nil gives all of them
	// Detector, which also stands for one that cannot hold. See Configure.
	Resolve Resolver
	// Detector is the configuration of the series.
	Detector detector.Config
	// Owners tells whose a process is, where the source does not; nil leaves it unknown.
	Owners Owners
	// Allocators tells what the memory allocators in processes hold; nil leaves it unknown.
	Allocators Allocators
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
	// Logger takes what an operator should know, once each.
	Logger log.Logger
}

// Allocators tells what the memory allocators in processes hold. Its methods are called from several goroutines, one a GPU.
type Allocators interface {
	// Of returns what is known of a process, one record a GPU; it does not block. The records are immutable.
	Of(id gpu.ProcessID) []allocator.Record
	// Ask has a process tell where it allocates what stays, if that is allowed; SitesOn
	// returns what it told of a GPU, nil if it was not asked. Neither blocks.
	Ask(id gpu.ProcessID, over time.Duration)
	SitesOn(uuid string, s *gpu.Sample, p *gpu.Process) *allocator.Sites
	// Problem says why some processes cannot be asked, and what to do; nil if all can.
	Problem() error
	// Run asks them until ctx is done.
	Run(ctx context.Context)
}

// Owners looks up whose a process is. Its methods are called from several goroutines, one a GPU.
type Owners interface {
	// NameWith gives the secret that gpu.Owner.Runs is made with. It is called once, before all others.
	NameWith(secret []byte)
	// Owner returns what is known of whose process id is; it does not block, and nothing of the process is touched
	// meanwhile. done says that the answer is final; until then it is asked again.
	Owner(id gpu.ProcessID) (owner *gpu.Owner, done bool)
	// Await is Owner once the process was looked up, or once ctx is done.
	Await(ctx context.Context, id gpu.ProcessID) (owner *gpu.Owner, done bool)
	// Holders returns the processes that have a device file of the driver open, and Allotments the GPUs that are allotted to
	// containers. Both may take long and are called at the slow interval.
	Holders(ctx context.Context) ([]DeviceHolder, error)
	Allotments(ctx context.Context) ([]Allotment, error)
	// Unseen returns what the last Holders could not see, and which processes are being looked up for too long.
	Unseen() workload.Unseen
	// Jobs returns the jobs on each GPU that the batch system wrote down; nil where it does not. It is called once a second.
	Jobs() (workload.Jobs, error)
	// Run does in the background what Owner must not wait for, until ctx ends.
	Run(ctx context.Context)
	// Ended reports whether a container has ended well; known is false while that may still become
	// known. It may take seconds.
	Ended(ctx context.Context, containerID string) (well, known bool)
	// RuntimeProblem returns why the container runtime cannot be asked; nil if it can.
	RuntimeProblem() error
}
