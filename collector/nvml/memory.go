// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

const (
	// notAvailable64 is NVML_VALUE_NOT_AVAILABLE of a 64-bit number. Some drivers shift it as if it were a size: to whole MiB
	// in bytes, and to the count of MiB.
	notAvailable64    = math.MaxUint64
	notAvailableBytes = math.MaxUint64 >> 20 << 20
	notAvailableMiB   = math.MaxUint64 >> 20
	notAvailable32    = math.MaxUint32
)

// size returns a size that the driver reported; absent where it does not know it.
func size(v uint64) gpu.Opt[uint64] {
	return gpu.Some(v).If(v < notAvailableBytes && v != notAvailableMiB)
}

// bounded is size, but absent for more than any GPU has. A driver may have calculated with all ones.
func bounded(v uint64) gpu.Opt[uint64] {
	return size(v).If(v <= maxMemory)
}

// maxCount is more errors, and more millijoules, than a GPU has in its life. Bytes may be more.
const maxCount = 1 << 53

// count returns a number of errors or millijoules. All ones and sums of them are above the bound.
func count(v gpu.Opt[uint64]) gpu.Opt[uint64] {
	return v.If(v.V < maxCount)
}

// number32 returns a 32-bit number times factor, divided by divisor. One of them is 1, so that the result is rounded once.
func number32(v gpu.Opt[uint32], factor, divisor float64) gpu.Opt[float64] {
	return gpu.Some(float64(v.V) * factor / divisor).If(v.OK && v.V != notAvailable32)
}

// count32 returns a count of 32 bits that go-nvml returns as int.
func count32(v int) gpu.Opt[uint64] {
	return gpu.Some(uint64(uint32(v))).If(uint32(v) != notAvailable32)
}

// percent returns a share in percent as a ratio, absent above 1.
func percent(v gpu.Opt[uint32]) gpu.Opt[float64] {
	return gpu.Some(float64(v.V) / 100).If(v.OK && v.V <= 100)
}

// maxMemory is more than any GPU has: 1 PiB.
const maxMemory = 1 << 50

// memory returns the memory of a GPU or MIG device. The compute instances of a GPU instance share one memory, and each reports
// all of it. The first version of the call counts reserved memory as used, so it is asked only if the second was never
// answered.
func (r *reading) memory(d nvml.Device, second *bool) gpu.Memory {
	v2, err := ask(r.call, "nvmlDeviceGetMemoryInfo_v2", d.GetMemoryInfo_v2)
	if err == nil {
		*second = true
		return r.plausible("nvmlDeviceGetMemoryInfo_v2", memoryOf(v2))
	}
	if !*second && errors.Is(err, errAbsent) {
		if v1 := get(r, "nvmlDeviceGetMemoryInfo", d.GetMemoryInfo); v1.OK {
			return r.plausible("nvmlDeviceGetMemoryInfo", memoryOfV1(v1.V))
		}
	}
	return gpu.Memory{}
}

// tegra is how the driver of NVIDIA's systems on a chip ends the names of their GPUs: "Orin (nvgpu)".
const tegra = "(nvgpu)"

// unified reports whether the GPU has no memory of its own. The driver then offers neither version of the call. As it may do
// so for other GPUs, too, the coherence or the driver must confirm it.
func (r *reading) unified(i gpu.Info) bool {
	if !i.CoherentMemory && !strings.HasSuffix(i.Name, tegra) {
		return false
	}
	_, err := ask(r.call, "nvmlDeviceGetMemoryInfo_v2", r.handle.GetMemoryInfo_v2)
	if errors.Is(err, errAbsent) {
		_, err = ask(r.call, "nvmlDeviceGetMemoryInfo", r.handle.GetMemoryInfo)
	}
	return errors.Is(err, errAbsent)
}

// deviceMemory returns the memory that the GPU takes from: its own, or the host's.
func (r *reading) deviceMemory() gpu.Memory {
	if !r.device.info.UnifiedMemory {
		return r.memory(r.handle.Device, &r.device.memory2)
	}
	m, err := r.device.source.procs.memory()
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("memory of the host, which is the GPU's: %w", err))
	}
	return m
}

// plausible returns m, and nothing where its parts contradict each other, because any of them may be the wrong one. That
// counts as an error of the call.
func (r *reading) plausible(call string, m gpu.Memory) gpu.Memory {
	reason := implausible(m)
	if reason != "" {
		r.device.source.calls.Refused(r.device.info.UUID, call, reason)
		return gpu.Memory{}
	}
	return m
}

// implausible names what is wrong with a memory; "" if nothing is. An absent part is not wrong.
func implausible(m gpu.Memory) string {
	switch {
	case m.Total.OK && m.Total.V == 0:
		return "IMPLAUSIBLE_TOTAL_ZERO"
	case m.Total.OK && m.Total.V > maxMemory:
		return "IMPLAUSIBLE_TOTAL"
	case m.Free.V > maxMemory, m.Total.OK && m.Free.V > m.Total.V: // absent is 0
		return "IMPLAUSIBLE_FREE"
	case m.Reserved.V > maxMemory, m.Total.OK && m.Reserved.V > m.Total.V-m.Free.V:
		return "IMPLAUSIBLE_RESERVED"
	}
	return ""
}

// memoryOf calculates the used memory, so that the parts add up: by nvml.h it may or may not include the reserved part.
func memoryOf(v nvml.Memory_v2) gpu.Memory {
	m := gpu.Memory{Total: size(v.Total), Free: size(v.Free), Reserved: size(v.Reserved)}
	m.Used = gpu.Some(m.Total.V - m.Free.V - m.Reserved.V).If(m.Total.OK && m.Free.OK && m.Reserved.OK)
	return m
}

// memoryOfV1 cannot tell the reserved part, which counts as used.
func memoryOfV1(v nvml.Memory) gpu.Memory {
	m := gpu.Memory{Total: size(v.Total), Free: size(v.Free)}
	m.Used = gpu.Some(m.Total.V - m.Free.V).If(m.Total.OK && m.Free.OK)
	return m
}

// bar1 returns the window through which the host sees the memory.
func (r *reading) bar1() gpu.BAR1 {
	v := get(r, "nvmlDeviceGetBAR1MemoryInfo", r.handle.GetBAR1MemoryInfo)
	return gpu.BAR1{Total: bounded(v.V.Bar1Total).If(v.OK), Used: bounded(v.V.Bar1Used).If(v.OK)}
}
