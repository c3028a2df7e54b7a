// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"os"
	"path/filepath"
	"strings"
)

// bus watches the PCI bus for NVIDIA GPUs that were added: the library lists
// those that were there when it was initialised.
type bus struct {
	root string          // of sysfs
	seen map[string]bool // addresses that the library knows about, while they stay
}

// added reports whether there is a GPU now that was not there at accept. One that
// went in between and came back counts as added.
func (b *bus) added() bool {
	now := b.functions()
	for address := range b.seen {
		if !now[address] {
			delete(b.seen, address)
		}
	}
	for address := range now {
		if !b.seen[address] {
			return true
		}
	}
	return false
}

// accept notes that the library knows of the GPUs that are there now.
func (b *bus) accept() { b.seen = b.functions() }

// functions returns the addresses of NVIDIA's display controllers (PCI base class
// 03), none where the bus cannot be seen.
func (b *bus) functions() map[string]bool {
	functions := make(map[string]bool)
	dir := filepath.Join(b.root, "bus/pci/devices")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return functions
	}
	for _, e := range entries {
		attribute := func(name string) string {
			v, err := os.ReadFile(filepath.Join(dir, e.Name(), name))
			if err != nil {
				return ""
			}
			return strings.TrimSpace(string(v))
		}
		if attribute("vendor") == "0x10de" && strings.HasPrefix(attribute("class"), "0x03") {
			functions[e.Name()] = true
		}
	}
	return functions
}
