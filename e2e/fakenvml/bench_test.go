// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fakenvml

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// BenchmarkCalls measures what the fake costs with 16 GPUs of 1,000 processes each: a plain call, and a write that is
// parsed by the next one.
func BenchmarkCalls(b *testing.B) {
	n := NewNode(MaxGPUs)
	for i := range n.GPUs {
		for pid := range uint32(1000) {
			n.GPUs[i].Processes = append(n.GPUs[i].Processes, Process{PID: pid + 1, Memory: Ramp{Base: GiB, Rate: 1}, Utilization: &Utilization{SM: 1}})
		}
	}
	script := filepath.Join(b.TempDir(), "node")
	b.Setenv(EnvState, script)
	b.Setenv(EnvCalls, "")
	if err := n.Write(script); err != nil {
		b.Fatal(err)
	}
	lib := nvml.New(nvml.WithLibraryPath(library))
	if ret := lib.Init(); ret != nvml.SUCCESS {
		b.Fatal(ret)
	}
	defer func() { _ = lib.Shutdown() }()
	d, _ := lib.DeviceGetHandleByIndex(15)
	b.Run("call", func(b *testing.B) {
		for b.Loop() {
			_, _ = d.GetPowerUsage()
		}
	})
	b.Run("write", func(b *testing.B) {
		text, err := n.Script()
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if err := n.Write(script); err != nil {
				b.Fatal(err)
			}
			_, _ = d.GetPowerUsage()
		}
	})
	os.Remove(script)
}
