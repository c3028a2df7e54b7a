// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// identification asks the driver for the GPU at a position of its list. It has a goroutine of its own, because a GPU may never
// answer.
type identification struct {
	generation uint64
	done       chan struct{} // closed once the fields below are set
	info       gpu.Info      // without the position
	settled    bool          // as in device
	handle     handle
	err        error
	// last is the GPU at that position before, in the same generation. While the driver does not answer, the GPU is still
	// there.
	last gpu.Opt[gpu.Info]
}

// knownGrace is how long identifyAll waits for a position with a known device. Without an answer the device stays, and other
// GPUs must not wait for one that hangs.
const knownGrace = time.Second

// identifyAll returns the devices at the first n positions, ordered by index. It waits for slow ones until the timeout or ctx
// ends.
func (s *Source) identifyAll(ctx context.Context, n int, generation uint64) ([]*device, error) {
	began := time.Now()
	for _, id := range s.ask(n, generation) {
		patience := s.cfg.Timeout
		if id.last.OK {
			patience = min(knownGrace, patience)
		}
		select {
		case <-id.done:
		case <-time.After(patience - time.Since(began)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	var devices []*device
	for i := range n {
		id := s.indices[i]
		told := id.finished() && id.err == nil // from here on, or else its handle and its name may be of two moments
		answer := id.answer()
		info := answer.V
		switch {
		case !answer.OK:
			continue
		case slices.ContainsFunc(devices, func(o *device) bool { return o.info.UUID == info.UUID }):
			// Nothing tells it from the other one, in no series.
			s.calls.Refused(info.UUID, "nvmlDeviceGetUUID", "DUPLICATE")
			continue
		}
		info.Index = i
		d := s.as(info)
		if told {
			d.current.Store(&id.handle)
			d.settled.Store(id.settled)
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// ask starts an identification for each position that has none under way, and returns those.
func (s *Source) ask(n int, generation uint64) []*identification {
	var fresh []*identification
	for i := range n {
		old := s.indices[i]
		if old != nil && old.generation == generation && !old.finished() {
			continue
		}
		id := &identification{generation: generation, done: make(chan struct{})}
		if old != nil && old.generation == generation {
			id.last = old.answer()
		}
		s.indices[i] = id
		fresh = append(fresh, id)
		go func() {
			defer close(id.done)
			id.err = s.identify(id, i)
		}()
	}
	return fresh
}

func (id *identification) finished() bool {
	select {
	case <-id.done:
		return true
	default:
		return false
	}
}

// answer returns the GPU at the position; absent if there is none. A GPU that cannot tell its name is still there, unless it
// is lost.
func (id *identification) answer() gpu.Opt[gpu.Info] {
	switch {
	case !id.finished():
		return id.last
	case id.err == nil:
		return gpu.Some(id.info)
	case errors.Is(id.err, errAbsent) || terminal(id.err):
		return gpu.Opt[gpu.Info]{}
	}
	return id.last
}

// identify finds out which GPU is at a position of the driver's list. Until that is known, its calls are noted under the UUID
// of the last one there. It asks for the kind of memory until that is settled.
func (s *Source) identify(id *identification, index int) error {
	call := s.caller(id.last.V.UUID, id.generation)
	found, err := ask(call, "nvmlDeviceGetHandleByIndex_v2", func() (nvml.Device, nvml.Return) { return s.library.DeviceGetHandleByIndex(index) })
	if err != nil {
		return err
	}
	uuid, err := ask(call, "nvmlDeviceGetUUID", found.GetUUID)
	if err != nil {
		return err
	}
	id.info, id.handle = gpu.Info{UUID: uuid}, handle{found, id.generation}
	old := s.known.get(uuid)
	if old != nil {
		id.info, id.settled = old.info, old.settled.Load()
	}
	if id.settled {
		return nil
	}
	r := &reading{device: newDevice(s, id.info), handle: id.handle}
	if old == nil {
		id.info = r.info(id.info)
	}
	info := id.info
	told := r.kindOfMemory(&info)
	if told || old == nil {
		id.info, id.settled = info, told && !info.UnifiedMemory
	}
	return r.fatal()
}

// info reads what identifies the GPU.
func (r *reading) info(i gpu.Info) gpu.Info {
	library := r.device.source.library
	i.DriverVersion = get(r, "nvmlSystemGetDriverVersion", library.SystemGetDriverVersion).V
	i.CUDAVersion = cudaVersion(get(r, "nvmlSystemGetCudaDriverVersion", library.SystemGetCudaDriverVersion).V)
	i.Name = get(r, "nvmlDeviceGetName", r.handle.GetName).V
	i.Serial = get(r, "nvmlDeviceGetSerial", r.handle.GetSerial).V
	i.Minor = get(r, "nvmlDeviceGetMinorNumber", r.handle.GetMinorNumber)
	i.VBIOSVersion = get(r, "nvmlDeviceGetVbiosVersion", r.handle.GetVbiosVersion).V
	i.PCIBusID = busID(get(r, "nvmlDeviceGetPciInfo_v3", r.handle.GetPciInfo).V)
	i.Architecture = architectures[get(r, "nvmlDeviceGetArchitecture", r.handle.GetArchitecture).V]
	return i
}

// kindOfMemory finds out whether the GPU has memory of its own. It reports whether each call was answered: a call may fail
// while the driver is being loaded, which is no "no". Memory that was found coherent stays coherent.
func (r *reading) kindOfMemory(i *gpu.Info) (told bool) {
	before := len(r.errs)
	i.CoherentMemory = i.CoherentMemory || r.coherent()
	i.UnifiedMemory = r.unified(*i)
	i.CoherentMemory = i.CoherentMemory || i.UnifiedMemory
	return len(r.errs) == before
}

func busID(p nvml.PciInfo) string {
	var b strings.Builder
	for _, c := range p.BusId {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

// architectures are the names of NVML_DEVICE_ARCH_… in lower case.
var architectures = map[nvml.DeviceArchitecture]string{
	2: "kepler", 3: "maxwell", 4: "pascal", 5: "volta", 6: "turing", 7: "ampere", 8: "ada", 9: "hopper",
	10: "blackwell", 13: "rubin",
}

// coherent reports whether the GPU's memory is a NUMA node of the host. Then the kernel manages it, and freed pages stay
// allocated. The driver tells it directly (address translation services; a NUMA node); an older one tells only the
// chip-to-chip link that such a GPU hangs on.
func (r *reading) coherent() bool {
	mode := get(r, "nvmlDeviceGetAddressingMode", r.handle.GetAddressingMode, nvml.ERROR_INVALID_ARGUMENT)
	if mode.OK && mode.V.Value == uint32(nvml.DEVICE_ADDRESSING_MODE_ATS) {
		return true
	}
	node := get(r, "nvmlDeviceGetNumaNodeId", r.handle.GetNumaNodeId, nvml.ERROR_INVALID_ARGUMENT)
	if node.OK && node.V >= 0 && uint32(node.V) != math.MaxUint32 {
		return true
	}
	if mode.OK || node.OK {
		return false
	}
	c2c := get(r, "nvmlDeviceGetC2cModeInfoV", func() (nvml.C2cModeInfo_v1, nvml.Return) {
		return r.handle.GetC2cModeInfoV().V1()
	}, nvml.ERROR_INVALID_ARGUMENT)
	return c2c.OK && c2c.V.IsC2cEnabled == 1
}
