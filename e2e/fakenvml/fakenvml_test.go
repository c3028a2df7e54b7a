// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fakenvml

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// library is built once for all tests of this process. The dynamic linker binds go-nvml's calls to the first library
// that it loads, so that tests of another one run in a process of their own.
var library string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "fakenvml-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if library = os.Getenv(childLibrary); library == "" {
			if library, err = Build(dir); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		return m.Run()
	}())
}

// A rig is a script and a library that reads it.
type rig struct {
	t             *testing.T
	node          *Node
	script, calls string
	nvml          nvml.Interface
}

// newRig writes the node, without Init.
func newRig(t *testing.T, n *Node) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{t: t, node: n, script: filepath.Join(dir, "node"), calls: filepath.Join(dir, "calls")}
	t.Setenv(EnvState, r.script)
	t.Setenv(EnvCalls, r.calls)
	r.write()
	r.nvml = nvml.New(nvml.WithLibraryPath(library))
	return r
}

// start is newRig with Init, and Shutdown and a look at the call log at the end.
func start(t *testing.T, n *Node) *rig {
	t.Helper()
	r := newRig(t, n)
	ok(t, "Init", r.nvml.Init())
	t.Cleanup(func() {
		ok(t, "Shutdown", r.nvml.Shutdown())
		if c := r.log(); c.Violations != 0 || c.ScriptErrors != 0 || c.Inside != 0 || c.References != 0 {
			t.Errorf("call log at the end: %+v", c)
		}
	})
	return r
}

func (r *rig) write() {
	r.t.Helper()
	if err := r.node.Write(r.script); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) log() Calls {
	r.t.Helper()
	c, err := ReadCalls(r.calls)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *rig) device(i int) nvml.Device {
	r.t.Helper()
	d, ret := r.nvml.DeviceGetHandleByIndex(i)
	ok(r.t, fmt.Sprintf("handle of GPU %d", i), ret)
	return d
}

func ok(t *testing.T, what string, ret nvml.Return) {
	t.Helper()
	if ret != nvml.SUCCESS {
		t.Fatalf("%s: %v", what, ret)
	}
}

func is(t *testing.T, what string, got, want nvml.Return) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v (%d), want %v (%d)", what, got, got, want, want)
	}
}

// same compares numbers of whatever integer types, and everything else as it is.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(number(got)) != fmt.Sprint(number(want)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func number(v any) any {
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return r.Int()
	case r.CanUint():
		return r.Uint()
	case r.Kind() == reflect.Bool:
		return bit(r.Bool())
	}
	return v
}

// got checks a call's answer against the model: got(t, "what")(device.GetX())(want).
func got[T any](t *testing.T, what string) func(T, nvml.Return) func(any) {
	return func(v T, ret nvml.Return) func(any) {
		return func(want any) {
			t.Helper()
			if ret != nvml.SUCCESS {
				t.Errorf("%s: %v", what, ret)
				return
			}
			same(t, what, v, want)
		}
	}
}

func pair[A, B any](a A, b B, ret nvml.Return) ([2]any, nvml.Return) {
	return [2]any{number(a), number(b)}, ret
}

// eventually polls until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(10 * time.Second); !cond(); <-poll.C {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestSystem(t *testing.T) {
	n := NewNode(1)
	n.GPUs[0].Processes = []Process{{PID: 4242, Name: "/usr/bin/python3 train.py --lr 0.1"}, {PID: 17, Name: strings.Repeat("x", 400)}}
	r := start(t, n)
	got[string](t, "driver")(r.nvml.SystemGetDriverVersion())(n.Driver)
	got[string](t, "NVML")(r.nvml.SystemGetNVMLVersion())(n.NVML)
	got[int](t, "CUDA")(r.nvml.SystemGetCudaDriverVersion())(n.CUDA)
	got[int](t, "CUDA v2")(r.nvml.SystemGetCudaDriverVersion_v2())(n.CUDA)
	got[string](t, "process name")(r.nvml.SystemGetProcessName(4242))("/usr/bin/python3 train.py --lr 0.1")
	got[string](t, "long process name")(r.nvml.SystemGetProcessName(17))(strings.Repeat("x", 255))
	_, ret := r.nvml.SystemGetProcessName(4243)
	is(t, "name of no process", ret, nvml.ERROR_NOT_FOUND)
	if s := r.nvml.ErrorString(nvml.ERROR_GPU_IS_LOST); s != "GPU is lost" {
		t.Errorf("error string: %q", s)
	}
	_, ret = r.nvml.UnitGetCount()
	is(t, "a call that is not implemented", ret, nvml.ERROR_NOT_SUPPORTED)
}

// TestDevice reads back every value of GPUs that differ in all of them.
func TestDevice(t *testing.T) {
	n := NewNode(4)
	n.Clock = n.Epoch.Add(100 * time.Second)
	n.GPUs[3].Modes = Modes{Addressing: 2, NUMANode: 5}
	n.GPUs[3].RetiredPages = []RetiredPage{{0, 0x1000, 11}, {1, 0x2000, 12}, {1, 0x3000, 13}}
	n.GPUs[3].Unsupported = nil
	r := start(t, n)
	got[int](t, "count")(r.nvml.DeviceGetCount())(4)
	for i := range n.GPUs {
		t.Run(n.GPUs[i].UUID, func(t *testing.T) {
			g, d := &n.GPUs[i], r.device(i)
			checkIdentity(t, r, d, g, i)
			checkMemory(t, n, d, i)
			checkUtilization(t, d, g)
			checkThermal(t, d, g)
			checkPower(t, n, d, g)
			checkECC(t, d, g)
			checkLinks(t, d, g)
			checkFields(t, n, d, g)
			checkModes(t, d, g)
		})
	}
}

func checkIdentity(t *testing.T, r *rig, d nvml.Device, g *GPU, i int) {
	got[string](t, "UUID")(d.GetUUID())(g.UUID)
	got[string](t, "name")(d.GetName())(g.Name)
	got[string](t, "serial")(d.GetSerial())(g.Serial)
	got[string](t, "VBIOS")(d.GetVbiosVersion())(g.VBIOS)
	got[int](t, "index")(d.GetIndex())(i)
	got[int](t, "minor")(d.GetMinorNumber())(g.Minor)
	got[nvml.DeviceArchitecture](t, "architecture")(d.GetArchitecture())(g.Architecture)
	pci, ret := d.GetPciInfo()
	ok(t, "PCI", ret)
	busID := make([]byte, 0, len(pci.BusId))
	for _, c := range pci.BusId {
		busID = append(busID, byte(c))
	}
	same(t, "bus id", text(busID), g.BusID)
	same(t, "PCI device", pci.PciDeviceId, g.PCIDeviceID)
	same(t, "PCI subsystem", pci.PciSubSystemId, g.PCISubsystemID)
	other, ret := r.nvml.DeviceGetHandleByUUID(g.UUID)
	ok(t, "handle by UUID", ret)
	if other != d {
		t.Error("handle by UUID is another GPU's")
	}
}

func checkMemory(t *testing.T, n *Node, d nvml.Device, i int) {
	g := &n.GPUs[i]
	used := n.Used(i, n.Elapsed(time.Time{}))
	v1, ret := d.GetMemoryInfo()
	ok(t, "memory", ret)
	same(t, "memory", v1, nvml.Memory{Total: g.Memory.Total, Used: used + g.Memory.Reserved, Free: g.Memory.Total - g.Memory.Reserved - used})
	v2, ret := d.GetMemoryInfo_v2()
	ok(t, "memory v2", ret)
	same(t, "memory v2", v2, nvml.Memory_v2{
		Version: v2.Version, Total: g.Memory.Total, Reserved: g.Memory.Reserved, Used: used,
		Free: g.Memory.Total - g.Memory.Reserved - used,
	})
	bar1 := g.BAR1Used.At(0)
	got[nvml.BAR1Memory](t, "BAR1")(d.GetBAR1MemoryInfo())(nvml.BAR1Memory{Bar1Total: g.BAR1Total, Bar1Used: bar1, Bar1Free: g.BAR1Total - bar1})
}

func checkUtilization(t *testing.T, d nvml.Device, g *GPU) {
	u, period := g.Utilization, g.UtilizationPeriod.Microseconds()
	got[nvml.Utilization](t, "utilization")(d.GetUtilizationRates())(nvml.Utilization{Gpu: u.SM, Memory: u.Memory})
	got[[2]any](t, "encoder")(pair(d.GetEncoderUtilization()))([2]any{u.Encoder, period})
	got[[2]any](t, "decoder")(pair(d.GetDecoderUtilization()))([2]any{u.Decoder, period})
	got[[2]any](t, "JPEG")(pair(d.GetJpgUtilization()))([2]any{u.JPEG, period})
	got[[2]any](t, "OFA")(pair(d.GetOfaUtilization()))([2]any{u.OFA, period})
}

func checkThermal(t *testing.T, d nvml.Device, g *GPU) {
	got[uint32](t, "temperature")(d.GetTemperature(nvml.TEMPERATURE_GPU))(g.Temperature)
	v, ret := d.GetTemperatureV().V1()
	ok(t, "temperature V", ret)
	same(t, "temperature V", v.Temperature, g.Temperature)
	for kind := range nvml.TEMPERATURE_THRESHOLD_COUNT {
		if want, has := g.Thresholds[Threshold(kind)]; has {
			got[uint32](t, fmt.Sprint("threshold ", kind))(d.GetTemperatureThreshold(kind))(want)
		} else {
			_, ret := d.GetTemperatureThreshold(kind)
			is(t, fmt.Sprint("threshold ", kind), ret, nvml.ERROR_NOT_SUPPORTED)
		}
	}
	margin, ret := d.GetMarginTemperature()
	if g.Margin == nil {
		is(t, "margin", ret, nvml.ERROR_NOT_SUPPORTED)
	} else {
		got[int32](t, "margin")(margin.MarginTemperature, ret)(*g.Margin)
	}
	got[int](t, "fans")(d.GetNumFans())(len(g.Fans))
	for i, percent := range g.Fans {
		got[uint32](t, "fan")(d.GetFanSpeed_v2(i))(percent)
	}
	speed, ret := d.GetFanSpeed()
	if len(g.Fans) == 0 {
		is(t, "fan", ret, nvml.ERROR_NOT_SUPPORTED)
	} else {
		got[uint32](t, "fan v1")(speed, ret)(g.Fans[0])
	}
	got[uint64](t, "reasons")(d.GetCurrentClocksEventReasons())(g.ClockReasons)
	got[uint64](t, "throttle reasons")(d.GetCurrentClocksThrottleReasons())(g.ClockReasons)
	got[uint64](t, "supported reasons")(d.GetSupportedClocksEventReasons())(g.SupportedReasons)
}

func checkPower(t *testing.T, n *Node, d nvml.Device, g *GPU) {
	l := g.PowerLimits
	got[uint32](t, "power")(d.GetPowerUsage())(g.Power.Base)
	got[uint32](t, "limit")(d.GetPowerManagementLimit())(l.Limit)
	got[uint32](t, "default limit")(d.GetPowerManagementDefaultLimit())(l.Default)
	got[uint32](t, "enforced limit")(d.GetEnforcedPowerLimit())(l.Enforced)
	got[[2]any](t, "limits")(pair(d.GetPowerManagementLimitConstraints()))([2]any{l.Min, l.Max})
	got[uint64](t, "energy")(d.GetTotalEnergyConsumption())(g.Energy.At(n.Elapsed(time.Time{})))
	got[nvml.Pstates](t, "state")(d.GetPerformanceState())(g.PState)
	for kind, want := range []uint32{g.Clocks.Graphics, g.Clocks.SM, g.Clocks.Memory, g.Clocks.Video} {
		got[uint32](t, "clock")(d.GetClockInfo(nvml.ClockType(kind)))(want)
	}
	for kind, want := range []uint32{g.MaxClocks.Graphics, g.MaxClocks.SM, g.MaxClocks.Memory, g.MaxClocks.Video} {
		got[uint32](t, "max clock")(d.GetMaxClockInfo(nvml.ClockType(kind)))(want)
	}
}

func checkECC(t *testing.T, d nvml.Device, g *GPU) {
	current, pending, ret := d.GetEccMode()
	ok(t, "ECC mode", ret)
	same(t, "ECC mode", current, g.ECC.Enabled)
	same(t, "pending ECC mode", pending, g.ECC.Pending)
	for kind := range 2 {
		for counter := range 2 {
			var total uint64
			for location := range uint32(nvml.MEMORY_LOCATION_COUNT) {
				v, ret := d.GetMemoryErrorCounter(nvml.MemoryErrorType(kind), nvml.EccCounterType(counter), nvml.MemoryLocation(location))
				want, has := g.ECC.Errors[ECCKey{kind == 1, counter == 1, location}]
				total += want
				if has {
					got[uint64](t, fmt.Sprint("ECC ", kind, counter, location))(v, ret)(want)
				} else {
					is(t, fmt.Sprint("ECC ", kind, counter, location), ret, nvml.ERROR_NOT_SUPPORTED)
				}
			}
			got[uint64](t, "ECC total")(d.GetTotalEccErrors(nvml.MemoryErrorType(kind), nvml.EccCounterType(counter)))(total)
		}
	}
	corrected, uncorrected, isPending, failed, ret := d.GetRemappedRows()
	ok(t, "remapped rows", ret)
	same(t, "remapped rows", []any{corrected, uncorrected, isPending, failed},
		[]any{g.RemappedRows.Corrected, g.RemappedRows.Uncorrected, g.RemappedRows.Pending, g.RemappedRows.Failed})
	checkRetired(t, d, g)
}

func checkRetired(t *testing.T, d nvml.Device, g *GPU) {
	pages, ret := d.GetRetiredPages(nvml.PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR)
	if g.Unsupported != nil {
		is(t, "retired pages", ret, nvml.ERROR_NOT_SUPPORTED)
		return
	}
	got[[]uint64](t, "retired pages")(pages, ret)([]uint64{0x2000, 0x3000})
	pages, stamps, ret := d.GetRetiredPages_v2(nvml.PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS)
	got[[]uint64](t, "retired pages v2")(pages, ret)([]uint64{0x1000})
	same(t, "retirement", stamps, []uint64{11})
	got[nvml.EnableState](t, "pending")(d.GetRetiredPagesPendingStatus())(g.RetiredPending)
}

func checkLinks(t *testing.T, d nvml.Device, g *GPU) {
	p := g.PCIe
	got[int](t, "generation")(d.GetCurrPcieLinkGeneration())(p.Generation)
	got[int](t, "max generation")(d.GetMaxPcieLinkGeneration())(p.MaxGeneration)
	got[int](t, "width")(d.GetCurrPcieLinkWidth())(p.Width)
	got[int](t, "max width")(d.GetMaxPcieLinkWidth())(p.MaxWidth)
	got[int](t, "replays")(d.GetPcieReplayCounter())(p.Replays)
	for i := range 18 {
		l, has := g.NVLinks[uint32(i)]
		state, ret := d.GetNvLinkState(i)
		if !has {
			is(t, "NVLink", ret, nvml.ERROR_NOT_SUPPORTED)
			continue
		}
		got[nvml.EnableState](t, "NVLink")(state, ret)(l.Active)
		got[uint64](t, "NVLink recovery")(d.GetNvLinkErrorCounter(i, nvml.NVLINK_ERROR_DL_RECOVERY))(l.Recovery)
		got[uint64](t, "NVLink CRC")(d.GetNvLinkErrorCounter(i, nvml.NVLINK_ERROR_DL_CRC_FLIT))(l.CRCFlit)
	}
}

func checkFields(t *testing.T, n *Node, d nvml.Device, g *GPU) {
	values := []nvml.FieldValue{
		{FieldId: nvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION},
		{FieldId: nvml.FI_DEV_POWER_INSTANT},
		{FieldId: nvml.FI_DEV_REMAPPED_UNC},
		{FieldId: nvml.FI_DEV_ECC_DBE_AGG_TOTAL},
		{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION},
		{FieldId: nvml.FI_DEV_PCIE_REPLAY_COUNTER},
		{FieldId: nvml.FI_DEV_NVLINK_COUNT_RCV_ERRORS},
		{FieldId: 9999},
	}
	derived := len(values)
	for _, k := range []FieldKey{{FieldMemoryTemperature, 0}, {FieldTLimitShutdown, 0}, {FieldPCIeRXBytes, 0}, {FieldNVLinkDataRX, 5}} {
		values = append(values, nvml.FieldValue{FieldId: k.ID, ScopeId: k.Scope})
	}
	ok(t, "field values", d.GetFieldValues(values))
	total := g.ECC.Errors[ECCKey{true, true, LocationDRAM}] + g.ECC.Errors[ECCKey{true, true, LocationSRAM}]
	for i, want := range []uint64{
		g.Energy.At(n.Elapsed(time.Time{})), g.Power.Base, uint64(g.RemappedRows.Uncorrected), total,
		uint64(g.RecoveryAction), uint64(g.PCIe.Replays),
	} {
		got[uint64](t, fmt.Sprint("field ", values[i].FieldId))(fieldValue(values[i]), nvml.Return(values[i].NvmlReturn))(want)
	}
	is(t, "field that nobody set", nvml.Return(values[6].NvmlReturn), nvml.ERROR_NOT_SUPPORTED)
	is(t, "field that does not exist", nvml.Return(values[7].NvmlReturn), nvml.ERROR_INVALID_ARGUMENT)
	for _, v := range values[derived:] {
		if f, has := g.Fields[FieldKey{v.FieldId, v.ScopeId}]; has {
			got[uint64](t, fmt.Sprint("field ", v.FieldId))(fieldValue(v), nvml.Return(v.NvmlReturn))(f.Value.Base)
		} else {
			is(t, fmt.Sprint("field ", v.FieldId), nvml.Return(v.NvmlReturn), nvml.ERROR_NOT_SUPPORTED)
		}
	}
}

// fieldValue reads the union by its type, little-endian as go-nvml's supported machines are.
func fieldValue(v nvml.FieldValue) uint64 {
	var n uint64
	for i, b := range v.Value {
		n |= uint64(b) << (8 * i)
	}
	switch nvml.ValueType(v.ValueType) {
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		return uint64(uint32(n))
	case nvml.VALUE_TYPE_SIGNED_INT:
		return uint64(int64(int32(n)))
	}
	return n
}

func checkModes(t *testing.T, d nvml.Device, g *GPU) {
	m := g.Modes
	mode, ret := d.GetAddressingMode()
	got[uint32](t, "addressing")(mode.Value, ret)(m.Addressing)
	node, ret := d.GetNumaNodeId()
	if m.NUMANode < 0 {
		is(t, "NUMA node", ret, nvml.ERROR_NOT_SUPPORTED)
	} else {
		got[int](t, "NUMA node")(node, ret)(m.NUMANode)
	}
}
