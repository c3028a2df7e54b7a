// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Offline judges the samples of one GPU as a Sampler does. It has no driver, no clock and no goroutine. One goroutine at a time
// may use it.
type Offline struct{ loop *loop }

// NewOffline returns the judge of a GPU. GPUs with the same heights learn from each other what programs give back. Of cfg it
// needs what is not about reading. The error is that of New.
func NewOffline(info gpu.Info, cfg Config, heights *detector.Heights) (*Offline, error) {
	s, err := New(nil, cfg)
	if err != nil {
		return nil, err
	}
	s.heights = heights
	return &Offline{newLoop(s, nil, info)}, nil
}

// Learn takes a sample of which nobody will see the verdict. It returns the memories of the GPU, until the next call.
func (o *Offline) Learn(sample *gpu.Sample) *DeviceState { return o.loop.learn(sample) }

// Judge takes a sample and returns the state of the GPU after it.
func (o *Offline) Judge(sample *gpu.Sample) *DeviceState {
	o.loop.publish(sample)
	return o.loop.published.Load()
}
