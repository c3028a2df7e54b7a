// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// countPCIDevices counts the NVIDIA display controllers (PCI class 03) that the
// bus shows, whether a driver drives them or not: a GPU that has fallen off the
// bus is in the difference to what the driver lists. Absent where sysfs cannot
// be read.
func countPCIDevices(sysfs string) gpu.Opt[int] {
	const vendorNVIDIA, classDisplay = "0x10de", "0x03"
	dir := filepath.Join(sysfs, "bus/pci/devices")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return gpu.Opt[int]{}
	}
	n := 0
	for _, e := range entries {
		vendor, _ := os.ReadFile(filepath.Join(dir, e.Name(), "vendor"))
		if strings.TrimSpace(string(vendor)) != vendorNVIDIA {
			continue
		}
		class, _ := os.ReadFile(filepath.Join(dir, e.Name(), "class"))
		if strings.HasPrefix(string(class), classDisplay) {
			n++
		}
	}
	return gpu.Some(n)
}
