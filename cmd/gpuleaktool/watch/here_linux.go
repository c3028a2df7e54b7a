// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"sync"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/source"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// lookPatience is how long the first look waits for the GPUs.
const lookPatience = 5 * time.Second

// lookHere samples and judges the GPUs of this machine, as the exporter does, until end is called.
// Nothing is judged in the first minutes.
func lookHere(ctx context.Context, c source.Config) (now look, end func(), err error) {
	src, err := source.Open(c)
	if err != nil {
		return nil, nil, err
	}
	cfg := sampler.Config{
		SlowInterval: 15 * time.Second, Timeout: c.Timeout, ProcessMax: 64, Detector: detector.DefaultConfig(),
		ProcFS: c.ProcFS, SysFS: c.SysFS,
	}
	owners, err := source.Owners(c, source.OwnersConfig{})
	if err != nil {
		return nil, nil, err
	}
	cfg.Owners = owners
	sampler, err := sampler.New(src, cfg)
	if err != nil {
		return nil, nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { sampler.Run(ctx) })
	waited := false
	now = func(ctx context.Context) (*verdicts.Data, error) {
		if !waited {
			awaitGPUs(ctx, sampler)
		}
		waited = true
		data := fromstate.Of(sampler.State())
		if pci := data.Driver.PCIDevices; len(data.Devices) == 0 && pci != nil && *pci == 0 { // a user without an address may have meant another machine
			data.Text = "This node has no NVIDIA GPU: give the address of an exporter, such as http://node7:9844."
		}
		return &data, nil
	}
	return now, func() { stop(); running.Wait(); _ = src.Close() }, nil
}

// awaitGPUs returns when every GPU was read once, or not soon.
func awaitGPUs(ctx context.Context, s *sampler.Sampler) {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	for {
		state := s.State()
		// Without a driver the bus tells whether there is a GPU that would need one.
		if state.DriverReason != sampler.ReasonStarting && state.Awaited == 0 && (state.DriverReason == "" || state.PCIDevices.OK) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}
