// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

// Windows has no such flags, and no batch system whose files are read there.
const (
	openDirectory = 0
	openFlags     = 0
)
