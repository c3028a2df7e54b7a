// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ReadDmem returns the limit of the control group in a folder on the memory of a GPU, and what counts against it, in bytes. ok is false
// without a limit. bus is the address of the GPU as NVML prints it. The files are those of Documentation/admin-guide/cgroup-v2.rst of
// the kernel, "DMEM".
func ReadDmem(folder, bus string) (most, charged uint64, ok bool, err error) {
	if most, ok, err = readRegion(filepath.Join(folder, "dmem.max"), bus); ok {
		charged, ok, err = readRegion(filepath.Join(folder, "dmem.current"), bus)
	}
	return most, charged, ok, err
}

// readRegion returns the bytes of the GPU's memory in a file with lines such as "drm/0000:03:00.0/vram0 12550144". ok is false
// without such a line, without the file, and if they are "max".
func readRegion(file, bus string) (bytes uint64, ok bool, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil // an old kernel, the root, or a group that is gone
	}
	for line := range strings.Lines(string(text)) {
		region, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !isMemoryOf(region, bus) || value == "max" {
			continue
		}
		bytes, err = strconv.ParseUint(value, 10, 64)
		if err != nil {
			return 0, false, fmt.Errorf("%s: cannot read %q as a number of bytes", file, value)
		}
		return bytes, true, nil
	}
	return 0, false, err
}

// isMemoryOf reports whether a region such as drm/0000:03:00.0/vram0 is the memory of the GPU at an address. Other regions of a
// GPU, such as stolen, are memory of the host.
func isMemoryOf(region, bus string) bool {
	parts := strings.Split(region, "/")
	return len(parts) == 3 && strings.HasPrefix(parts[2], "vram") && bus != "" && shortBus(parts[1]) == shortBus(bus)
}

// shortBus writes a PCI address without the leading zeros of its domain. NVML writes eight digits in capitals, the kernel four.
func shortBus(address string) string { return strings.TrimLeft(strings.ToLower(address), "0") }
