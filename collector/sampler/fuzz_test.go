// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"path/filepath"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

func FuzzStateFile(f *testing.F) {
	file := filepath.Join(f.TempDir(), "state")
	h := histories{BootID: "a", Devices: []deviceHistory{{UUID: "GPU-0", Memories: []memoryHistory{{Domain: []byte{1}}, {Instance: gpu.Some(uint32(1))}}}}}
	must(f, h.write(file))
	good, err := stateFile.Read(file)
	must(f, err)
	f.Add(good)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHistories(b)
		if (h == nil) == (err == nil) {
			t.Errorf("%v and %v", h, err)
		}
	})
}
