// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package source

import (
	"syscall"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/nvml"
)

func openNVML(c Config) (gpu.Source, error) {
	limitFiles()
	return nvml.New(nvml.Config{
		LibraryPath: c.LibraryPath, Interval: c.Interval, SlowInterval: c.SlowInterval, ProcFS: c.ProcFS, SysFS: c.SysFS, Timeout: c.Timeout,
	})
}

// maxFiles is many more than the exporter opens: listeners, scrapes, procfs.
const maxFiles = 4096

// limitFiles lowers the soft limit of open files, which Go raises to the hard one
// at the start of a program. The RPC code with which the driver's library talks
// to nvidia-persistenced is suspected of allocating by that limit: gigabytes,
// where a container runtime sets it to a billion.
func limitFiles() {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur <= maxFiles {
		return
	}
	limit.Cur = maxFiles
	// Lowering a soft limit is everybody's right. If it fails even so, the
	// exporter works as well as without.
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}
