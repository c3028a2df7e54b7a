// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// maxDmem bounds what is read of a file of the controller dmem, which has a line for each region.
const maxDmem = 64 << 10

// Dmem is the limit of a control group on the memory of a GPU.
type Dmem struct {
	Group        string // its path
	Max, Current uint64 // bytes: the limit, and what counts against it
}

func (d *Dmem) left() uint64 { return d.Max - min(d.Current, d.Max) }

// ReadDmem returns the limit on the memory of a GPU that leaves least to a control group: its own, or that of a group above it. ok
// is false without a limit. root is where control groups are mounted, and bus the address of the GPU as NVML prints it. The files
// are those of Documentation/admin-guide/cgroup-v2.rst of the kernel, "DMEM".
func ReadDmem(root, group, bus string) (least Dmem, ok bool, err error) {
	for ; len(group) > 1; group = path.Dir(group) {
		limit, limited, err := readRegion(filepath.Join(root, group, "dmem.max"), bus)
		if err != nil || !limited {
			if err != nil {
				return Dmem{}, false, err
			}
			continue
		}
		current, known, err := readRegion(filepath.Join(root, group, "dmem.current"), bus)
		if err != nil {
			return Dmem{}, false, err
		}
		if d := (Dmem{group, limit, current}); known && (!ok || d.left() < least.left()) {
			least, ok = d, true
		}
	}
	return least, ok, nil
}

// readRegion returns the bytes of the GPU's memory in a file with lines such as "drm/0000:03:00.0/vram0 12550144". ok is false
// without such a line, without the file, and if they are "max".
func readRegion(file, bus string) (bytes uint64, ok bool, err error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil // an old kernel, the root, or a group that is gone
	}
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxDmem))
	if err != nil {
		return 0, false, err
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
	return 0, false, nil
}

// isMemoryOf reports whether a region such as drm/0000:03:00.0/vram0 is the memory of the GPU at an address. Other regions of a
// GPU, such as stolen, are memory of the host.
func isMemoryOf(region, bus string) bool {
	parts := strings.Split(region, "/")
	return len(parts) == 3 && strings.HasPrefix(parts[2], "vram") && bus != "" && shortBus(parts[1]) == shortBus(bus)
}

// shortBus writes a PCI address without the leading zeros of its domain. NVML writes eight digits in capitals, the kernel four.
func shortBus(address string) string { return strings.TrimLeft(strings.ToLower(address), "0") }
