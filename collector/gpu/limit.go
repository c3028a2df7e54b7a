// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

// The values of Limit.Source.
const (
	LimitNVML      = "nvml"      // the driver, of a control group (CUDA 13.4)
	LimitDmem      = "dmem"      // the controller of control groups (Linux 6.14)
	LimitHAMi      = "hami"      // HAMi-core, a library in the container
	LimitMPS       = "mps"       // of each process that uses CUDA by MPS
	LimitFramework = "framework" // what the allocator in the process may reserve, as its probe tells, and what the process holds beside it
)

// Limit is the most GPU memory that a process may hold, or that all processes with the same Of may hold together.
type Limit struct {
	Source string `json:"source"` // the value of the label
	// Of is the container or control group that it bounds; "" is the process alone, which the sampler names. A container has it for all of
	// its runs.
	Of string `json:"of,omitzero"`
	// Bytes are 0 if they cannot be read.
	Bytes uint64 `json:"bytes"`
	// Charged are the bytes that count against it; absent if only the processes tell.
	Charged Opt[uint64] `json:"charged,omitzero"`
}
