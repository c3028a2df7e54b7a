// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"slices"

	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

// bus watches the PCI bus for NVIDIA GPUs that were added: the library lists those that were there at its Init. A bus that
// cannot be seen has none.
type bus struct {
	root string   // of sysfs
	seen []string // addresses that the library knows about, while they stay
}

// added reports whether there is a GPU that was not there at accept. One that went and came back counts as added.
func (b *bus) added() bool {
	now, _ := hostfs.GPUs(b.root)
	b.seen = slices.DeleteFunc(b.seen, func(address string) bool { return !slices.Contains(now, address) })
	return slices.ContainsFunc(now, func(address string) bool { return !slices.Contains(b.seen, address) })
}

// accept notes that the library knows of the GPUs that are there now.
func (b *bus) accept() { b.seen, _ = hostfs.GPUs(b.root) }
