// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"go.uber.org/goleak"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must = testkit.Must

// simNode is a node of simulated GPUs, whose driver misbehaves as the faults say that are there now. It
// outlives the exporters on it.
type simNode struct {
	mu     sync.Mutex
	gpus   []*simGPU // in the driver's order
	faults map[*simFault]bool
	loaded int // how often the driver was loaded; 0 while it is not
	loads  int
}

// simGPU is one GPU; used tells its memory in bytes, limits that of control groups by their folder.
type simGPU struct {
	uuid   string
	used   func() uint64
	limits map[string]uint64
}

// simFault is what calls do that match: hang until it is over, take longer, answer a code, or answer a
// memory that cannot be.
type simFault struct {
	call, uuid string // patterns; an empty uuid is all GPUs, and calls about none
	hang       bool
	late       time.Duration
	code       nvml.Return
	lie        int  // which memory that cannot be; 0: none
	atOnce     bool // a wait for events does not wait
	over       chan struct{}
}

// begin and end put a fault to work and take it back.
func (n *simNode) begin(f *simFault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f.over = make(chan struct{})
	n.faults[f] = true
}

func (n *simNode) end(f *simFault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.faults, f)
	close(f.over)
}

// unload takes the driver away; load brings it back, with two GPUs in other places if it is to.
func (n *simNode) unload() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loaded = 0
}

func (n *simNode) load(swap bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loads++
	n.loaded = n.loads
	if swap {
		n.gpus[1], n.gpus[2] = n.gpus[2], n.gpus[1]
	}
}

// matching returns the faults of a call, in no order.
func (n *simNode) matching(call, uuid string) (list []*simFault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for f := range n.faults {
		if ok, _ := path.Match(f.call, call); ok && (f.uuid == "" || f.uuid == uuid) {
			list = append(list, f)
		}
	}
	return list
}

// offered are the functions of the simulated library. Of others nothing is implemented, and a call ends the test.
var offered = []string{
	entry, "nvmlShutdown", "nvmlSystemGetDriverVersion", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByUUID",
	"nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMigMode",
	"nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetSupportedEventTypes", "nvmlEventSetCreate",
	"nvmlDeviceRegisterEvents", eventCall, "nvmlEventSetFree",
}

// simLibrary is the driver's library as one process has it loaded. It notes what a process must not do.
type simLibrary struct {
	nvml.Interface
	node        *simNode
	mu          sync.Mutex
	initialised int // the loading of the driver that it is initialised for; 0: it is not
	generation  int
	inside      map[string]int
	total       map[string]int // calls so far
	moment      time.Time      // of the last call
	calls       int            // at that moment
	broken      string         // the first rule that the process has broken
}

func (l *simLibrary) breaks(format string, args ...any) {
	if l.broken == "" {
		l.broken = fmt.Sprintf(format, args...)
	}
}

// newSimSource returns a source whose library is a simulated one.
func newSimSource(n *simNode, cfg Config) (*Source, *simLibrary, error) {
	s, err := New(cfg)
	if err != nil {
		return nil, nil, err
	}
	l := &simLibrary{node: n, inside: map[string]int{}, total: map[string]int{}}
	s.library = &library{Interface: l}
	var there byte
	for _, name := range offered {
		s.library.symbols.Store(name, unsafe.Pointer(&there))
	}
	for _, name := range []string{
		"nvmlSystemGetCudaDriverVersion", "nvmlDeviceGetSerial", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetVbiosVersion", "nvmlDeviceGetPciInfo_v3",
		"nvmlDeviceGetArchitecture", "nvmlDeviceGetAddressingMode", "nvmlDeviceGetNumaNodeId", "nvmlDeviceGetC2cModeInfoV",
	} {
		s.library.symbols.Store(name, unsafe.Pointer(nil))
	}
	return s, l, nil
}

// newFourGPUs returns a source of the four simulated GPUs of a world, none of which it has found yet.
func newFourGPUs(t *testing.T, kernelLog string) (*simNode, *Source, *simLibrary) {
	t.Helper()
	node := newWorld(t.TempDir()).node
	s, l, err := newSimSource(node, Config{KernelLog: kernelLog})
	must(t, err)
	return node, s, l
}

// newGPUs returns a source of so many simulated GPUs, which it has found.
func newGPUs(t *testing.T, n int) (*simNode, *Source, *simLibrary, []gpu.Device) {
	t.Helper()
	node := &simNode{faults: map[*simFault]bool{}}
	for i := range n {
		node.gpus = append(node.gpus, &simGPU{uuid: simUUID(i), used: func() uint64 { return 1 << 30 }})
	}
	node.load(false)
	s, l, err := newSimSource(node, Config{Timeout: 10 * time.Second})
	must(t, err)
	devices, err := s.Devices(t.Context())
	if err != nil || len(devices) != n {
		t.Fatalf("%d GPUs: %v", len(devices), err)
	}
	return node, s, l, devices
}

// newOneGPU returns a source of one simulated GPU, which it has found.
func newOneGPU(t *testing.T) (*simNode, *Source, *simLibrary, *device) {
	t.Helper()
	node, s, l, devices := newGPUs(t, 1)
	return node, s, l, devices[0].(*device)
}

// mostCalls is how many calls a process may make in one moment of simulated time. Four GPUs with all their
// groups need fewer.
const mostCalls = 1000

// ended reports whether the process has broken a rule. From then on each call takes a moment: one that calls
// without end would keep the clock from going on.
func (l *simLibrary) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken != ""
}

// enter notes that a call is inside, and returns what ends that.
func (l *simLibrary) enter(call string, handle int) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); !now.Equal(l.moment) {
		l.moment, l.calls = now, 0
	}
	if l.calls++; l.calls > mostCalls {
		l.breaks("%s is called without end", call)
	}
	if handle != 0 && handle != l.generation {
		l.breaks("%s with a handle of another initialisation", call)
	}
	if call == entry || call == "nvmlShutdown" {
		for other, n := range l.inside {
			if n > 0 {
				l.breaks("%s while %s is inside", call, other)
			}
		}
	}
	l.inside[call]++
	l.total[call]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.inside[call]--
	}
}

// answer is what a call returns, once it does. handle is the initialisation that the handle is of, 0 for none.
func (l *simLibrary) answer(call, uuid string, handle int) nvml.Return {
	defer l.enter(call, handle)()
	if l.ended() {
		time.Sleep(time.Millisecond)
	}
	ret := nvml.SUCCESS
	for _, f := range l.node.matching(call, uuid) {
		if f.hang {
			<-f.over
		}
		select {
		case <-f.over:
		case <-time.After(f.late):
		}
		if f.code != nvml.SUCCESS {
			ret = f.code
		}
	}
	l.node.mu.Lock()
	loaded := l.node.loaded
	l.node.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case ret != nvml.SUCCESS || call == "nvmlShutdown":
	case call == entry && loaded == 0:
		ret = nvml.ERROR_DRIVER_NOT_LOADED
	case call == entry:
		l.initialised = loaded
		l.generation++
	case l.initialised == 0 || l.initialised != loaded:
		ret = nvml.ERROR_UNINITIALIZED
	}
	return ret
}

func (l *simLibrary) Init() nvml.Return { return l.answer(entry, "", 0) }

func (l *simLibrary) Shutdown() nvml.Return {
	ret := l.answer("nvmlShutdown", "", 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.initialised = 0
	return ret
}

func (l *simLibrary) SystemGetDriverVersion() (string, nvml.Return) {
	return "580.65.06", l.answer("nvmlSystemGetDriverVersion", "", 0)
}

func (l *simLibrary) DeviceGetCount() (int, nvml.Return) {
	ret := l.answer("nvmlDeviceGetCount_v2", "", 0)
	l.node.mu.Lock()
	defer l.node.mu.Unlock()
	return len(l.node.gpus), ret
}

// handle returns that of the first GPU that is meant.
func (l *simLibrary) handle(call string, meant func(i int, g *simGPU) bool) (nvml.Device, nvml.Return) {
	l.node.mu.Lock()
	var found *simGPU
	for i, g := range l.node.gpus {
		if found == nil && meant(i, g) {
			found = g
		}
	}
	l.node.mu.Unlock()
	if found == nil {
		return nil, nvml.ERROR_NOT_FOUND
	}
	ret := l.answer(call, found.uuid, 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	return &simHandle{library: l, gpu: found, generation: l.generation}, ret
}

func (l *simLibrary) DeviceGetHandleByIndex(index int) (nvml.Device, nvml.Return) {
	return l.handle("nvmlDeviceGetHandleByIndex_v2", func(i int, _ *simGPU) bool { return i == index })
}

func (l *simLibrary) DeviceGetHandleByUUID(uuid string) (nvml.Device, nvml.Return) {
	return l.handle("nvmlDeviceGetHandleByUUID", func(_ int, g *simGPU) bool { return g.uuid == uuid })
}

func (l *simLibrary) EventSetCreate() (nvml.EventSet, nvml.Return) {
	return &simEvents{library: l}, l.answer("nvmlEventSetCreate", "", 0)
}

// simEvents is an event set in which nothing ever happens.
type simEvents struct {
	nvml.EventSet
	library *simLibrary
	uuid    string
}

func (e *simEvents) Free() nvml.Return { return e.library.answer("nvmlEventSetFree", e.uuid, 0) }

func (e *simEvents) Wait(ms uint32) (nvml.EventData, nvml.Return) {
	if ret := e.library.answer(eventCall, e.uuid, 0); ret != nvml.SUCCESS {
		return nvml.EventData{}, ret
	}
	for _, f := range e.library.node.matching(eventCall, e.uuid) {
		if f.atOnce {
			return nvml.EventData{}, f.code
		}
	}
	e.library.stay(1)
	time.Sleep(time.Duration(ms) * time.Millisecond)
	e.library.stay(-1)
	return nvml.EventData{}, nvml.ERROR_TIMEOUT
}

// count returns what is broken, how many calls of a name are inside, and how many there were.
func (l *simLibrary) count(name string) (broken string, inside, total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken, l.inside[name], l.total[name]
}

// stay notes that a wait for events begins or ends.
func (l *simLibrary) stay(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inside[eventCall] += n
}

// simHandle is a process's handle of a GPU.
type simHandle struct {
	nvml.Device
	library    *simLibrary
	gpu        *simGPU
	generation int
}

func (h *simHandle) answer(call string) nvml.Return {
	return h.library.answer(call, h.gpu.uuid, h.generation)
}

func (h *simHandle) GetUUID() (string, nvml.Return) { return h.gpu.uuid, h.answer("nvmlDeviceGetUUID") }

func (h *simHandle) GetName() (string, nvml.Return) {
	return "NVIDIA H100", h.answer("nvmlDeviceGetName")
}

// GetAddressingMode says that the memory is the host's, too. The library lacks it, but where a test adds it.
func (h *simHandle) GetAddressingMode() (nvml.DeviceAddressingMode, nvml.Return) {
	return nvml.DeviceAddressingMode{Value: uint32(nvml.DEVICE_ADDRESSING_MODE_ATS)}, h.answer("nvmlDeviceGetAddressingMode")
}

const (
	simTotal    = 80 << 30
	simReserved = 1 << 30
)

func (h *simHandle) GetMemoryInfo_v2() (nvml.Memory_v2, nvml.Return) { //nolint:revive,staticcheck // go-nvml's name
	const call = "nvmlDeviceGetMemoryInfo_v2"
	used := h.gpu.used()
	m := nvml.Memory_v2{Total: simTotal, Reserved: simReserved, Used: used, Free: simTotal - simReserved - used}
	for _, f := range h.library.node.matching(call, h.gpu.uuid) {
		switch f.lie {
		case 1:
			m.Total = 0
		case 2:
			m.Reserved = m.Total + 1
		case 3:
			m.Free = m.Total + 1
		case 4:
			m.Total, m.Reserved, m.Used, m.Free = math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64
		}
	}
	return m, h.answer(call)
}

func (h *simHandle) GetMemoryInfo() (nvml.Memory, nvml.Return) {
	used := h.gpu.used() + simReserved
	return nvml.Memory{Total: simTotal, Used: used, Free: simTotal - used}, h.answer("nvmlDeviceGetMemoryInfo")
}

func (h *simHandle) GetMemoryLimits_v1(folder string) (nvml.MemoryLimits_v1, nvml.Return) { //nolint:revive,staticcheck // go-nvml's name
	ret := h.answer("nvmlDeviceGetMemoryLimits_v1")
	if most, ok := h.gpu.limits[folder]; ok {
		return nvml.MemoryLimits_v1{HardLimit: most, CurrentUsed: 1 << 20}, ret
	}
	return nvml.MemoryLimits_v1{}, cmp.Or(ret, nvml.ERROR_NOT_FOUND)
}

func (h *simHandle) GetMigMode() (current, pending int, ret nvml.Return) {
	return 0, 0, h.answer("nvmlDeviceGetMigMode")
}

func (h *simHandle) GetUtilizationRates() (nvml.Utilization, nvml.Return) {
	return nvml.Utilization{Gpu: 80, Memory: 40}, h.answer("nvmlDeviceGetUtilizationRates")
}

func (h *simHandle) GetClockInfo(nvml.ClockType) (uint32, nvml.Return) {
	return 345, h.answer("nvmlDeviceGetClockInfo")
}

func (h *simHandle) GetMaxClockInfo(nvml.ClockType) (uint32, nvml.Return) {
	return 1980, h.answer("nvmlDeviceGetMaxClockInfo")
}

func (h *simHandle) GetPowerUsage() (uint32, nvml.Return) {
	return 350_000, h.answer("nvmlDeviceGetPowerUsage")
}

func (h *simHandle) GetSupportedEventTypes() (uint64, nvml.Return) {
	return nvml.EventTypeXidCriticalError, h.answer("nvmlDeviceGetSupportedEventTypes")
}

func (h *simHandle) RegisterEvents(_ uint64, set nvml.EventSet) nvml.Return {
	set.(*simEvents).uuid = h.gpu.uuid
	return h.answer("nvmlDeviceRegisterEvents")
}
