// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package source

import (
	"fmt"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/workload"
)

// OwnersConfig chooses the labels of processes, and the sockets to ask.
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
