// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// handle is the library's name of a GPU. It is valid in its generation only.
type handle struct {
	nvml.Device
	generation uint64
}

// device is one GPU. It implements gpu.Device.
type device struct {
	source  *Source
	info    gpu.Info // constant
	current atomic.Pointer[handle]
	// settled is true once it is certain that the GPU has memory of its own. That it has none is never certain: the driver
	// says so by not offering a call, which may be so for a moment only.
	settled atomic.Bool

	// The rest belongs to the goroutine that reads.
	mig       migMode
	schedule  schedule
	stamper   stamper
	processes processTable
	profiles  map[uint32]string // of GPU instances at the last sample, by ID
	highest   highestClocks
	// memory2 and migMemory2 tell whether the GPU and its MIG devices ever answered the second version of the call for their
	// memory.
	memory2, migMemory2 bool
}

var _ gpu.Device = (*device)(nil)

func newDevice(s *Source, info gpu.Info) *device {
	return &device{
		source:   s,
		info:     info,
		schedule: schedule{interval: s.cfg.Interval},
	}
}

// Info implements gpu.Device.
func (d *device) Info() gpu.Info { return d.info }

// Wait implements gpu.Device. The first sample is due at once.
func (d *device) Wait(ctx context.Context) (missed int, err error) { return d.schedule.wait(ctx) }

// Read implements gpu.Device. Without the memory, the MIG mode or the list of GPU instances there is no sample. A list of
// processes that cannot be read makes the sample incomplete, and what describes a MIG device is absent if it cannot be read.
func (d *device) Read(ctx context.Context) (gpu.Sample, error) {
	if err := ctx.Err(); err != nil {
		return gpu.Sample{}, err
	}
	var s gpu.Sample
	err := d.read(func(r *reading) error {
		s = gpu.Sample{Memory: r.deviceMemory()}
		s.Time = time.Now()
		s.T, s.Step = d.stamper.stamp(d.source.clock.steady(s.Time), d.source.clock.ahead(s.Time))
		s.MIGEnabled = r.migEnabled(s.T)
		if s.MIGEnabled.V {
			s.Instances = r.instances()
		}
		if err := r.failure(); err != nil {
			return err
		}
		r.processes(&s)
		return r.fatal()
	})
	if err != nil {
		return gpu.Sample{}, err
	}
	return s, nil
}

// ReadGroup implements gpu.Device. Its error joins those of the calls that failed; the answers of the others are filled in.
func (d *device) ReadGroup(ctx context.Context, g gpu.Group, s *gpu.Status) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := d.read(func(r *reading) error {
		switch g {
		case gpu.GroupMemory:
			s.BAR1 = r.bar1()
		case gpu.GroupUtilization:
			s.Utilization = r.utilization()
		case gpu.GroupThermal:
			s.Thermal = r.thermal()
		case gpu.GroupPower:
			s.Power = r.power()
		case gpu.GroupClocks:
			s.Clocks = r.clocks()
		case gpu.GroupECC:
			s.ECC = r.ecc()
		case gpu.GroupPCIe:
			s.PCIe = r.pcie()
		case gpu.GroupNVLink:
			s.NVLinks = r.nvlinks()
		default:
			return fmt.Errorf("unknown group: choose one of %v", gpu.Groups)
		}
		return r.failure()
	})
	if err != nil {
		return fmt.Errorf("%s: %w", g, err)
	}
	return nil
}

// read runs f with a handle that is valid now, and once more if the library was initialised again meanwhile.
func (d *device) read(f func(*reading) error) error {
	var err error
	for range 2 {
		var h handle
		if h, err = d.handle(); err == nil {
			err = f(&reading{device: d, handle: h})
		}
		if !errors.Is(err, errStale) {
			return err
		}
	}
	return err
}

// handle returns a handle of the current generation. A GPU that the driver does not know any more is lost.
func (d *device) handle() (handle, error) {
	s := d.source
	generation := s.generation.Load()
	if h := d.current.Load(); h != nil && h.generation == generation {
		return *h, nil
	}
	found, err := ask(s.caller(d.info.UUID, generation), "nvmlDeviceGetHandleByUUID", func() (nvml.Device, nvml.Return) {
		return s.library.DeviceGetHandleByUUID(d.info.UUID)
	})
	if errors.Is(err, errAbsent) {
		err = fmt.Errorf("nvmlDeviceGetHandleByUUID: %w", gpu.ErrLost)
	}
	if err != nil {
		return handle{}, err
	}
	h := handle{found, generation}
	d.current.Store(&h)
	return h, nil
}

// reading is a series of calls about one GPU. It notes those that fail, and makes no more once the GPU or the driver is gone.
type reading struct {
	device *device
	handle handle
	errs   []error
	ended  bool
}

// call is a caller, with the GPU's handle or that of one of its MIG devices.
func (r *reading) call(name string, f func() nvml.Return, also ...nvml.Return) error {
	if r.ended {
		return r.fatal()
	}
	err := r.device.source.call(r.device.info.UUID, r.handle.generation, name, f, also...)
	if err != nil && !errors.Is(err, errAbsent) {
		r.errs = append(r.errs, err)
		r.ended = terminal(err)
	}
	return err
}

// aside makes calls whose failure concerns nothing else: their values are absent, as if they were not offered. A failure that
// ends the reading counts.
func (r *reading) aside(f func()) {
	before := len(r.errs)
	f()
	if !r.ended {
		r.errs = r.errs[:before]
	}
}

// failure returns the failure that ended the reading, else the first one and how many more there were; nil without any.
func (r *reading) failure() error {
	switch n := len(r.errs); {
	case n == 0:
		return nil
	case n == 1 || r.ended:
		return r.errs[n-1]
	default:
		return fmt.Errorf("%w, and %d more", r.errs[0], n-1)
	}
}

// fatal returns the failure that ended the reading; nil without one.
func (r *reading) fatal() error {
	if !r.ended {
		return nil
	}
	return r.errs[len(r.errs)-1]
}

// get asks for one value, which is absent if the call did not succeed.
func get[T any](r *reading, name string, f func() (T, nvml.Return), also ...nvml.Return) gpu.Opt[T] {
	v, err := ask(r.call, name, f, also...)
	return gpu.Some(v).If(err == nil)
}
