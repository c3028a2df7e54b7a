// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package sim has scripted GPUs, for those who have none.
package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// Options say when and how fast a scenario runs.
type Options struct {
	// Interval is the simulated time between two samples; 0 is 1 s.
	Interval time.Duration
	// Speed is how many simulated seconds pass in a real one; 0 is 1, infinity never sleeps. It changes no sample.
	Speed float64
	// Start is the simulated wall clock at the start of the scenario; zero is now. The same start gives the same samples and
	// the same process identities.
	Start time.Time
}

// Scenarios names the scenarios that New knows, in the order of the documentation.
func Scenarios() []string {
	names := make([]string, len(scenarios))
	for i, s := range scenarios {
		names[i] = s.name
	}
	return names
}

// New returns a source of the GPUs of a scenario. Its samples are a pure function of the scenario, its start and the simulated
// time: at any speed each Wait of a device moves its clock on by exactly one interval, and none is ever missed. The error
// names the scenarios.
//
// ProcessID.Start of a scripted process is in ticks since 1970, as if the host had been booted then, so that two runs that
// start at different times share no process.
func New(scenario string, opt Options) (gpu.Source, error) {
	i := slices.IndexFunc(scenarios, func(s simScenario) bool { return s.name == scenario })
	if i < 0 {
		return nil, fmt.Errorf("unknown scenario %q: choose one of %s", scenario, strings.Join(Scenarios(), ", "))
	}
	opt.Interval = cmp.Or(opt.Interval, time.Second)
	if opt.Start.IsZero() {
		opt.Start = time.Now()
	}
	opt.Start = opt.Start.Round(0) // a simulated clock has no monotonic reading
	p, err := gpu.NewPace(opt.Speed)
	if err != nil {
		return nil, err
	}
	return newSource(scenarios[i].script(), opt, p), nil
}

// sim is a Source that follows a script.
type sim struct {
	script  *script
	start   time.Time
	pace    *gpu.Pace
	calls   gpu.Calls
	devices []gpu.Device
}

func newSource(s *script, opt Options, p *gpu.Pace) *sim {
	src := &sim{script: s, start: opt.Start, pace: p}
	for _, g := range s.gpus {
		src.devices = append(src.devices, &simDevice{src: src, gpu: g, interval: opt.Interval})
	}
	p.Start(0)
	return src
}

// Devices implements Source.
func (s *sim) Devices(ctx context.Context) ([]gpu.Device, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.pace.Closed() {
		return nil, gpu.ErrClosed
	}
	return slices.Clone(s.devices), nil
}

// Watch implements Source: it watches all GPUs at once, and reports the XID errors of the script.
func (s *sim) Watch(ctx context.Context, report func(gpu.Event)) error {
	for _, g := range s.script.gpus {
		report(gpu.Event{Kind: gpu.Watched, UUID: g.info.UUID, PCIBusID: g.info.PCIBusID})
	}
	for _, e := range s.script.events {
		if s.pace.Wait(ctx, e.at) != nil {
			return nil // the end that was asked for
		}
		info := s.script.gpus[e.gpu].info
		report(gpu.Event{Time: s.start.Add(e.at), UUID: info.UUID, PCIBusID: info.PCIBusID, XID: e.xid})
	}
	select {
	case <-ctx.Done():
	case <-s.pace.Done():
	}
	return nil
}

// Calls implements Source. The calls are named sim_read and sim_ with the name of the group.
func (s *sim) Calls() *gpu.Calls { return &s.calls }

// Close implements Source. It releases the calls and waits that are under way.
func (s *sim) Close() error {
	s.pace.Close()
	return nil
}

// simDevice is a Device that follows a script.
type simDevice struct {
	src      *sim
	gpu      *simGPU
	interval time.Duration
	at       time.Duration // simulated time since the start
}

// Info implements Device.
func (d *simDevice) Info() gpu.Info { return d.gpu.info }

// Wait implements Device. It misses no sample: the clock of a late reader is late.
func (d *simDevice) Wait(ctx context.Context) (int, error) {
	if err := d.src.pace.Wait(ctx, d.at+d.interval); err != nil {
		return 0, err
	}
	d.at += d.interval
	return 0, nil
}

// Read implements Device. Before the first Wait it reads the start of the scenario.
func (d *simDevice) Read(ctx context.Context) (gpu.Sample, error) {
	if err := d.call(ctx, "sim_read"); err != nil {
		return gpu.Sample{}, err
	}
	return d.gpu.sample(d.src.start, d.at), nil
}

// ReadGroup implements Device.
func (d *simDevice) ReadGroup(ctx context.Context, g gpu.Group, s *gpu.Status) error {
	if err := d.call(ctx, "sim_"+string(g)); err != nil {
		return err
	}
	d.gpu.status(d.at, g, s)
	return nil
}

// call behaves as each call into a driver of this GPU: it may hang, find the GPU lost, or fail.
func (d *simDevice) call(ctx context.Context, name string) error {
	f := d.gpu.faults
	end := d.src.calls.Begin(d.gpu.info.UUID, name)
	switch {
	case f.hangAfter > 0 && d.at >= f.hangAfter:
		<-d.src.pace.Done() // whatever ctx says, as a driver
		end("")
		return gpu.ErrClosed
	case f.lostAfter > 0 && d.at >= f.lostAfter:
		end("ERROR_GPU_IS_LOST")
		return fmt.Errorf("simulated: %w", gpu.ErrLost)
	case name == "sim_"+string(f.failGroup), name == "sim_read" && f.failsAt(d.at, d.interval):
		end("ERROR_UNKNOWN")
		return errors.New("simulated: unknown error")
	}
	end("")
	if d.src.pace.Closed() {
		return gpu.ErrClosed
	}
	return ctx.Err()
}
