// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-kit/log/level"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
	"github.com/gpuleak/gpu_leak_exporter/collector/workload"
)

// jobsInterval is the time between two readings of the mapping files. A process must have its job before its first series.
const jobsInterval = time.Second

// host is what the system shows of the GPUs, not the driver. It is immutable.
type host struct {
	pci        gpu.Opt[int]
	holders    []DeviceHolder
	allotments []workload.Allotment
	// walked says that the owners were asked, failed that a part of that failed, and took how long it took.
	walked, failed bool
	took           time.Duration
	unresolved     int // how many processes could not be looked up
	overdue        int // how many have been looked up for too long
}

// jobsState is what is known of the mapping files. It is immutable.
type jobsState struct {
	jobs   workload.Jobs // of the last reading that succeeded
	began  time.Time     // when that began; zero before the first
	failed bool          // the last reading has
}

// lookAround publishes again and again what the system shows of the GPUs. It walks through all of procfs and asks the kubelet.
// That takes long and may hang, so nothing waits for it.
func (s *Sampler) lookAround(ctx context.Context) {
	c := newComplaints(s.cfg.Logger)
	for ctx.Err() == nil {
		for _, l := range s.shared.Load().loops {
			l.logHang()
		}
		now := *s.host.Load()
		if s.cfg.SysFS != "" {
			// This is early: what follows may hang.
			there, err := hostfs.GPUs(s.cfg.SysFS)
			now.pci = gpu.Opt[int]{V: len(there), OK: err == nil}
			bus := now
			s.host.Store(&bus)
		}
		if s.cfg.Owners != nil {
			s.askOwners(ctx, &now, &c)
		}
		s.host.Store(&now)
		select {
		case <-ctx.Done():
		case <-time.After(s.cfg.SlowInterval):
		}
	}
}

// askOwners fills in the holders of device files and the allotments of GPUs. What fails is absent until the next time.
func (s *Sampler) askOwners(ctx context.Context, now *host, c *complaints) {
	began := time.Now()
	s.walking.start()
	defer s.walking.stop()
	var held, allotted error
	now.holders, held = s.cfg.Owners.Holders(ctx)
	now.allotments, allotted = s.cfg.Owners.Allotments(ctx)
	if ctx.Err() != nil {
		return
	}
	failed := c.about("cannot see who holds the device files", held)
	failed = c.about("cannot ask the kubelet which pods have GPUs", allotted) || failed
	// A missing right is logged, and is no failure.
	runtime := s.cfg.Owners.RuntimeProblem()
	failed = c.about("cannot ask the container runtime for pods", runtime) && !errors.Is(runtime, fs.ErrPermission) || failed
	unseen := s.cfg.Owners.Unseen()
	for _, id := range unseen.Stuck {
		level.Warn(s.cfg.Logger).Log("msg", "a process, or its parent, keeps whoever reads its files in procfs waiting; whose it is stays unknown until that ends", "pid", id.PID)
	}
	now.overdue = unseen.Overdue
	s.logHidden(now, c, unseen)
	now.walked, now.failed, now.took = true, failed || now.overdue > 0, time.Since(began)
}

// What a missing right hides is absent, and logged once. It is no failure.
var errUnresolved = errors.New("they are not in procfs: the exporter needs the pid namespace of the host (hostPID: true, docker --pid=host) and its procfs at --path.procfs")

// logHidden logs what cannot be seen, and why. A process may be missing once: it is about to end.
func (s *Sampler) logHidden(now *host, c *complaints, unseen workload.Unseen) {
	var hidden, closed error
	unresolved := 0
	for _, l := range s.shared.Load().loops {
		if p := l.published.Load(); p != nil {
			unresolved += p.unresolved
		}
	}
	if before := s.host.Load().unresolved; before > 0 && unresolved > 0 {
		hidden = errUnresolved
	}
	if unseen.Why != nil {
		// It names no right: a process of a virtual machine has hidden its files from root with all rights.
		closed = fmt.Errorf("%w: gpu_process_device_open leaves out such processes (see docs/operating.md)", unseen.Why)
	}
	now.unresolved = unresolved
	c.about("cannot look up whose some processes on the GPUs are", hidden)
	c.about("cannot see all open device files", closed, "pid", unseen.Unreadable)
	if s.cfg.Allocators != nil {
		c.about("cannot look for probes in all processes", s.cfg.Allocators.Problem())
	}
}

// followJobs publishes the jobs of the mapping files again and again, if there are any.
func (s *Sampler) followJobs(ctx context.Context) {
	c := newComplaints(s.cfg.Logger)
	for ctx.Err() == nil {
		s.readingJobs.start()
		began := time.Now()
		jobs, err := s.cfg.Owners.Jobs()
		s.readingJobs.stop()
		if jobs == nil && err == nil {
			s.jobs.Store(nil) // nobody writes jobs down
			return
		}
		now := *s.jobs.Load()
		if now.failed = c.about("cannot read which jobs run on the GPUs", err); !now.failed {
			now.jobs, now.began = jobs, began
		}
		s.jobs.Store(&now)
		select {
		case <-ctx.Done():
		case <-time.After(jobsInterval):
		}
	}
}

// attribution returns how well the owners of processes and GPUs are known; nil before the first answer. What hangs has failed.
func (s *Sampler) attribution(h *host) []FamilyState {
	failed := h.failed || s.walking.running() > s.cfg.Timeout || s.readingJobs.running() > s.cfg.Timeout
	if jobs := s.jobs.Load(); jobs != nil {
		failed = failed || jobs.failed
	}
	if !h.walked && !failed {
		return nil
	}
	return []FamilyState{{Name: "workload", Success: !failed, Duration: h.took}}
}

// AllotmentState is a container that the kubelet has given a GPU or GPU instance.
type AllotmentState struct {
	Instance                  gpu.Opt[uint32]
	Namespace, Pod, Container string
}

// allotmentsOf returns the allotments of a GPU and its instances, each once.
func allotmentsOf(d *DeviceState, all []workload.Allotment) []AllotmentState {
	var list []AllotmentState
	for i := range all {
		a := &all[i]
		if instance, ok := instanceNamed(d, a.Device); ok {
			list = append(list, AllotmentState{instance, a.Namespace, a.Pod, a.Container})
		}
	}
	slices.SortFunc(list, func(a, b AllotmentState) int {
		return cmp.Or(cmp.Compare(a.Instance.V, b.Instance.V), compareBool(a.Instance.OK, b.Instance.OK),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
	})
	return slices.Compact(list)
}

// instanceNamed reports whether a device is this GPU or an instance of it, and which:
//
//	GPU-UUID, nvidia0      the GPU
//	MIG-UUID, nvidia0/gi7  an instance
func instanceNamed(d *DeviceState, device string) (instance gpu.Opt[uint32], ok bool) {
	if device == d.Info.UUID {
		return instance, device != ""
	}
	for i := range d.Instances {
		for _, m := range d.Instances[i].Devices {
			if m.UUID == device {
				return d.Instances[i].Instance, true
			}
		}
	}
	if !d.Info.Minor.OK {
		return instance, false
	}
	file := "nvidia" + strconv.Itoa(d.Info.Minor.V)
	if id, found := strings.CutPrefix(device, file+"/gi"); found {
		n, err := strconv.ParseUint(id, 10, 32)
		return gpu.Some(uint32(n)).If(err == nil), err == nil
	}
	return instance, device == file
}
