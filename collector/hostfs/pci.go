// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"os"
	"path/filepath"
	"strings"
)

// GPUs returns the addresses of NVIDIA's display controllers (PCI base class 03) on the bus, with or without a driver. sysfs
// is where it is mounted.
func GPUs(sysfs string) (addresses []string, err error) {
	dir := filepath.Join(sysfs, "bus/pci/devices")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		attribute := func(name string) string {
			v, _ := os.ReadFile(filepath.Join(dir, e.Name(), name))
			return strings.TrimSpace(string(v))
		}
		if attribute("vendor") == "0x10de" && strings.HasPrefix(attribute("class"), "0x03") {
			addresses = append(addresses, e.Name())
		}
	}
	return addresses, nil
}
