// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fakenvml

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func TestFaults(t *testing.T) {
	n := NewNode(2)
	n.Faults = []Fault{
		Fail("nvmlDeviceGetPowerUsage", UnknownError).On(n.GPUs[1].UUID).After(1).Times(2),
		Fail("nvmlDeviceGetTemperature*", "777").Times(1),
		Fail("nvmlDeviceGetHandleByIndex*", GPUIsLost).On(n.GPUs[1].UUID).After(1).Times(1),
		Late("nvmlDeviceGetUUID", 30*time.Millisecond),
		Race("nvmlDeviceGetComputeRunningProcesses*").Times(1),
	}
	n.GPUs[0].Unsupported = []string{"nvmlDeviceGetFieldValues"}
	r := start(t, n)
	a, b := r.device(0), r.device(1)
	_, ret := r.nvml.DeviceGetHandleByIndex(1)
	is(t, "handle", ret, nvml.ERROR_GPU_IS_LOST)
	power := func(d nvml.Device) nvml.Return { _, ret := d.GetPowerUsage(); return ret }
	same(t, "the other GPU", []nvml.Return{power(a), power(a), power(a)}, []nvml.Return{0, 0, 0})
	same(t, "skip and times", []nvml.Return{power(b), power(b)}, []nvml.Return{0, nvml.ERROR_UNKNOWN})
	r.write() // the same fault goes on counting
	same(t, "skip and times after a write", []nvml.Return{power(b), power(b)}, []nvml.Return{nvml.ERROR_UNKNOWN, 0})
	_, ret = a.GetTemperatureThreshold(nvml.TEMPERATURE_THRESHOLD_SHUTDOWN)
	same(t, "a code of no name", int(ret), 777)
	_, ret = a.GetTemperature(nvml.TEMPERATURE_GPU)
	is(t, "after it", ret, nvml.SUCCESS)
	began := time.Now()
	got[string](t, "late")(a.GetUUID())(n.GPUs[0].UUID)
	if took := time.Since(began); took < 30*time.Millisecond {
		t.Errorf("late call took %v", took)
	}
	_, ret = a.GetComputeRunningProcesses() // which asks once more
	ok(t, "a list that has grown", ret)
	is(t, "unsupported", a.GetFieldValues(make([]nvml.FieldValue, 1)), nvml.ERROR_NOT_SUPPORTED)
	is(t, "supported elsewhere", b.GetFieldValues(make([]nvml.FieldValue, 1)), nvml.SUCCESS)
	c := r.log()
	same(t, "counted", timeless(t, c.Functions["nvmlDeviceGetPowerUsage"]), Function{Calls: 7, Failures: 2})
	same(t, "Init", timeless(t, c.Functions["nvmlInit_v2"]), Function{Calls: 1})
	same(t, "references", c.References, 1)
}

func TestEnumerateAtInit(t *testing.T) {
	n := NewNode(2)
	n.EnumerateAtInit = true
	r := start(t, n)
	last := n.GPUs[1]
	n.GPUs = append(NewNode(4).GPUs[2:3], n.GPUs...)
	r.write()
	got[int](t, "count")(r.nvml.DeviceGetCount())(2)
	got[string](t, "second")(r.device(1).GetUUID())(last.UUID)
	ok(t, "Shutdown", r.nvml.Shutdown())
	ok(t, "Init", r.nvml.Init())
	got[int](t, "count after Init")(r.nvml.DeviceGetCount())(3)
}

func TestInitErrors(t *testing.T) {
	n := NewNode(1)
	n.Faults = []Fault{Fail(AnyInit, LibraryMismatch).Times(1), Fail(AnyInit, DriverNotLoaded).Times(1)}
	r := newRig(t, n)
	is(t, "first Init", r.nvml.Init(), nvml.ERROR_LIB_RM_VERSION_MISMATCH)
	_, ret := r.nvml.DeviceGetCount()
	is(t, "without Init", ret, nvml.ERROR_UNINITIALIZED)
	is(t, "second Init", r.nvml.Init(), nvml.ERROR_DRIVER_NOT_LOADED)
	is(t, "third Init", r.nvml.Init(), nvml.SUCCESS)
	is(t, "fourth Init", r.nvml.Init(), nvml.SUCCESS)
	same(t, "references", r.log().References, 2)
	ok(t, "Shutdown", r.nvml.Shutdown())
	got[int](t, "count")(r.nvml.DeviceGetCount())(1)
	ok(t, "Shutdown", r.nvml.Shutdown())
	is(t, "one Shutdown more", r.nvml.Shutdown(), nvml.ERROR_UNINITIALIZED)
	same(t, "calls without Init", r.log().Uninitialized, 1)

	t.Setenv(EnvState, filepath.Join(t.TempDir(), "none"))
	is(t, "no script", r.nvml.Init(), nvml.ERROR_DRIVER_NOT_LOADED)
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("fakenvml 1\ngpu GPU-1\nnonsense 7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvState, broken)
	is(t, "broken script", r.nvml.Init(), nvml.ERROR_UNKNOWN)
	if e := r.log().ScriptError; e != "line 3: unknown statement: nonsense 7" {
		t.Errorf("script error %q", e)
	}
}

func TestShutdownWhileInsideIsRecorded(t *testing.T) {
	n := NewNode(1)
	n.Faults = []Fault{Hang("nvmlDeviceGetName")}
	r := newRig(t, n)
	ok(t, "Init", r.nvml.Init())
	d := r.device(0)
	done := make(chan nvml.Return, 1)
	go func() {
		_, ret := d.GetName()
		done <- ret
	}()
	eventually(t, "a call hangs", func() bool { return r.log().Inside == 1 })
	ok(t, "Shutdown", r.nvml.Shutdown())
	c := r.log()
	same(t, "violations", c.Violations, 1)
	same(t, "violation", c.Violation, "nvmlShutdown while a thread is inside nvmlDeviceGetName")
	n.Faults = nil
	r.write()
	is(t, "released", <-done, nvml.SUCCESS)
}

// TestThreadsOfAnEndedProcess has a call log in which a thread is inside: it is no more, once its process has ended.
func TestThreadsOfAnEndedProcess(t *testing.T) {
	ended := exec.CommandContext(t.Context(), "true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	for pid, violations := range map[int]uint64{ended.Process.Pid: 0, os.Getppid(): 1} {
		r := newRig(t, NewNode(1))
		var log bytes.Buffer
		if err := binary.Write(&log, binary.NativeEndian, callLog{Inside: 1, PID: int32(pid)}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(r.calls, log.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		ok(t, "Init", r.nvml.Init())
		same(t, "violations", r.log().Violations, violations)
		ok(t, "Shutdown", r.nvml.Shutdown())
	}
}

// childLibrary and childTest tell a process that this test binary starts which library to load and what to do with it.
const (
	childLibrary = "FAKENVML_TEST_LIBRARY"
	childTest    = "FAKENVML_TEST_CHILD"
)

// inChild runs the test again in a process of its own over a library with the options, and says whether this is that one.
func inChild(t *testing.T, opts ...Option) bool {
	t.Helper()
	if os.Getenv(childTest) == t.Name() {
		return true
	}
	path, err := Build(t.TempDir(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), childLibrary+"="+path, childTest+"="+t.Name())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// TestFirstVersions leaves out all later versions of what has several: the oldest structures are filled in.
func TestFirstVersions(t *testing.T) {
	if !inChild(t, Missing("nvmlInit_v2", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetPciInfo_v2",
		"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3",
		"nvmlEventSetWait_v2", "nvmlDeviceGetAttributes_v2")) {
		return
	}
	n := NewNode(1)
	n.GPUs[0].Processes = []Process{{PID: 5, Memory: Constant(GiB)}, {PID: 6, Memory: Constant(2 * GiB)}}
	r := start(t, n)
	p, ret := r.device(0).GetComputeRunningProcesses()
	ok(t, "processes", ret)
	same(t, "processes", fmt.Sprint(p), fmt.Sprintf("[{5 %d %d %[2]d} {6 %d %[2]d %[2]d}]", GiB, uint32(math.MaxUint32), 2*GiB))
	pci, ret := r.device(0).GetPciInfo()
	ok(t, "PCI", ret)
	same(t, "bus", pci.Bus, 0x1B)
	set, ret := r.nvml.EventSetCreate()
	ok(t, "set", ret)
	ok(t, "register", r.device(0).RegisterEvents(nvml.EventTypeXidCriticalError, set))
	n.RaiseXID(0, 94)
	r.write()
	e, ret := set.Wait(1000)
	ok(t, "wait", ret)
	same(t, "XID", e.EventData, 94)
	ok(t, "free", set.Free())
}

// TestExports compares the library with the header, and a library with missing symbols.
func TestExports(t *testing.T) {
	dir, err := goNVMLHeader()
	if err != nil {
		t.Fatal(err)
	}
	header, err := os.ReadFile(filepath.Join(dir, "nvml.h"))
	if err != nil {
		t.Fatal(err)
	}
	functions, err := parseHeader(string(header))
	if err != nil {
		t.Fatal(err)
	}
	symbols := exported(t, library)
	for _, f := range functions {
		if !slices.Contains(symbols, f.name) {
			t.Errorf("%s is not exported", f.name)
		}
	}
	if len(symbols) != len(functions) {
		t.Errorf("%d symbols for %d functions", len(symbols), len(functions))
	}
	if _, err := Build(t.TempDir(), Missing("nvmlNoSuchFunction")); err == nil || !strings.Contains(err.Error(), "nvmlNoSuchFunction") {
		t.Errorf("leaving out what is not there: %v", err)
	}
}

func exported(t *testing.T, path string) []string {
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range all {
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			names = append(names, s.Name)
		}
	}
	return names
}

// TestABI runs a C client, which passes what go-nvml never does.
func TestABI(t *testing.T) {
	n := NewNode(2)
	n.GPUs[0].Processes = []Process{{PID: 5, Memory: Constant(1024)}, {PID: 6, Memory: Constant(2048)}}
	n.GPUs[0].Samples = []Sample{{PID: 5, Stamp: time.UnixMicro(1000), Utilization: Utilization{11, 12, 13, 14, 15, 16}}}
	script := filepath.Join(t.TempDir(), "node")
	if err := n.Write(script); err != nil {
		t.Fatal(err)
	}
	header, err := goNVMLHeader()
	if err != nil {
		t.Fatal(err)
	}
	client := filepath.Join(t.TempDir(), "abi")
	if out, err := exec.Command("cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-DNVML_NO_UNVERSIONED_FUNC_DEFS",
		"-I", header, "-o", client, filepath.Join("testdata", "abi.c"), "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("compile the client: %v\n%s", err, out)
	}
	cmd := exec.Command(client, library)
	cmd.Env = append(os.Environ(), Env(script, "")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestManyThreads reads from many threads while the script is replaced: each answer is of one script, whole.
func TestManyThreads(t *testing.T) {
	n := NewNode(4)
	for i := range n.GPUs {
		n.GPUs[i].Processes = []Process{{PID: 1}, {PID: 2}, {PID: 3}}
	}
	n.GPUs[3].Partition("1g.10gb")
	n.GPUs[3].Processes[0].Instance, n.GPUs[3].Processes[1].List, n.GPUs[3].Processes[2].Utilization = &Instance{GPU: 1}, MPS, &Utilization{}
	n.RaiseXID(3, 94)
	r := start(t, n)
	stop := make(chan struct{})
	errs := make(chan string, 16)
	var running sync.WaitGroup
	for i := range 16 {
		d := r.device(i % 3) // the last one has a list of two
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				p, ret := d.GetComputeRunningProcesses()
				if ret != nvml.SUCCESS || len(p) != 3 || p[0].UsedGpuMemory != p[2].UsedGpuMemory {
					errs <- fmt.Sprint("mixed answer: ", p, ret)
					return
				}
			}
		})
	}
	for round := range uint64(300) {
		for i := range n.GPUs {
			for j := range n.GPUs[i].Processes {
				n.GPUs[i].Processes[j].Memory = Constant(round)
			}
		}
		r.write()
		p, ret := r.device(0).GetComputeRunningProcesses()
		ok(t, "processes", ret)
		same(t, "the last script", p[0].UsedGpuMemory, round)
		memory, ret := r.device(3).GetMemoryInfo_v2()
		ok(t, "memory", ret)
		same(t, "memory", memory.Used, n.Used(3, 0))
		instance, ret := r.device(3).GetMigDeviceHandleByIndex(0)
		ok(t, "MIG device", ret)
		memory, ret = instance.GetMemoryInfo_v2()
		ok(t, "memory of an instance", ret)
		same(t, "memory of an instance", memory.Used, n.InstanceUsed(3, 1, 0))
	}
	close(stop)
	running.Wait()
	select {
	case e := <-errs:
		t.Error(e)
	default:
	}
	if c := r.log(); c.ScriptLoads != 301 {
		t.Errorf("%d scripts were loaded", c.ScriptLoads)
	}
}

// timeless returns what was counted of a function, and fails if its calls took no time: how much is never the same.
func timeless(t *testing.T, f Function) Function {
	t.Helper()
	if f.CPU <= 0 {
		t.Errorf("%d calls took %v", f.Calls, f.CPU)
	}
	f.CPU = 0
	return f
}
