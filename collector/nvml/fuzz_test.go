// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"strings"
	"testing"
)

func FuzzParseXID(f *testing.F) {
	f.Add("4,1201,5140900123,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")
	f.Add("NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 43")
	f.Add(";;;,,,")
	f.Fuzz(func(t *testing.T, line string) {
		address, _, ok := parseXID(line)
		if ok && (len(address) != len("00000000:3B:00.0") || address != strings.ToUpper(address)) {
			t.Errorf("%q: address %q", line, address)
		}
		if !ok && address != "" {
			t.Errorf("%q: address %q of no XID", line, address)
		}
	})
}
