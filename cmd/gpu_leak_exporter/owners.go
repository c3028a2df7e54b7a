// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/source"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/collector/workload"
)

// lazyOwners is a Resolver that does not look through the open files of all
// processes and does not ask the kubelet, for when nobody wants to know.
type lazyOwners struct{ *workload.Resolver }

// Holders returns none.
func (lazyOwners) Holders(context.Context) ([]sampler.DeviceHolder, error) { return nil, nil }

// Allotments returns none.
func (lazyOwners) Allotments(context.Context) ([]sampler.Allotment, error) { return nil, nil }

// newOwners returns what tells whose the processes are, and who holds the device
// files if that is shown.
func newOwners(cfg *config, logger log.Logger) (sampler.Owners, error) {
	resolver, err := source.Owners(cfg.source, cfg.workload)
	if err != nil {
		return nil, err
	}
	for _, what := range resolver.Lacking() {
		level.Info(logger).Log("msg", what)
	}
	if !cfg.families["workload"] {
		return lazyOwners{resolver}, nil
	}
	return resolver, nil
}
