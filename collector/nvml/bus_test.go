// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"os"
	"path/filepath"
	"testing"
)

func TestBus(t *testing.T) {
	f := newTree(t)
	add := func(address, vendor, class string) {
		t.Helper()
		f.write("bus/pci/devices/"+address+"/vendor", vendor+"\n")
		f.write("bus/pci/devices/"+address+"/class", class+"\n")
	}
	remove := func(address string) {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(f.root, "bus/pci/devices", address)); err != nil {
			t.Fatal(err)
		}
	}
	b := bus{root: f.root}
	expect := func(what string, want bool) {
		t.Helper()
		if got := b.added(); got != want {
			t.Errorf("%s: added %t, want %t", what, got, want)
		}
	}
	expect("no bus", false)
	add("0000:3b:00.0", "0x10de", "0x030200")
	expect("a GPU", true)
	b.accept()
	expect("a GPU that is known", false)
	add("0000:3b:00.1", "0x10de", "0x040300") // its sound
	add("0000:00:02.0", "0x8086", "0x030000") // another's display
	add("0000:40:00.0", "0x10de", "0x068000") // an NVSwitch
	expect("others", false)
	add("0000:5e:00.0", "0x10de", "0x030000")
	expect("a second GPU", true)
	b.accept()
	remove("0000:3b:00.0")
	expect("one that went", false)
	add("0000:3b:00.0", "0x10de", "0x030200")
	expect("one that came back", true)
}
