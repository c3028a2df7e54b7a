// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

func TestInfoWords(t *testing.T) {
	for v, want := range map[int]string{12040: "12.4", 13000: "13.0", 0: "", -1: ""} {
		testkit.Equal(t, cudaVersion(v), want, "CUDA %d", v)
	}
	var p nvml.PciInfo
	for i, c := range "00000000:3B:00.0" {
		p.BusId[i] = int8(c)
	}
	testkit.Equal(t, busID(p), "00000000:3B:00.0", "bus address")
	for i := range p.BusId {
		p.BusId[i] = 'x'
	}
	testkit.Equal(t, len(busID(p)), len(p.BusId), "bus address without end")
}

func TestProfile(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA A100-SXM4-40GB MIG 1g.5gb":       "1g.5gb",
		"NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb":   "3g.40gb",
		"NVIDIA A100-SXM4-40GB MIG 1g.5gb+me":    "1g.5gb+me",
		"NVIDIA A100-SXM4-40GB":                  "",
		"NVIDIA RTX PRO 6000 MIG 1g.24gb+me.all": "1g.24gb+me.all",
	} {
		testkit.Equal(t, profileOf(name), want, "%q", name)
	}
}

func TestDevicesWithoutLibrary(t *testing.T) {
	for path, reason := range map[string]string{
		"/nonexistent/libnvidia-ml.so.1": "library_not_found",
		"libc.so.6":                      "function_not_found",
	} {
		s, err := New(Config{LibraryPath: path})
		must(t, err)
		for range 2 {
			var d *gpu.DriverError
			if _, err := s.Devices(t.Context()); !errors.As(err, &d) || d.Reason != reason || d.Fatal {
				t.Errorf("%s: %v, want %s", path, err, reason)
			}
		}
		must(t, s.Close())
		if _, err := s.Devices(t.Context()); !errors.Is(err, gpu.ErrClosed) {
			t.Errorf("%s: %v after Close", path, err)
		}
	}
	if _, err := New(Config{Interval: -1}); err == nil {
		t.Error("New takes a negative interval")
	}
}

// The kind of a GPU's memory is asked for again while a call for it fails, and after the driver said that the GPU has
// none, which may be so for a moment only.
func TestKindOfMemoryIsAskedAgain(t *testing.T) {
	const memory, mode = "nvmlDeviceGetMemoryInfo*", "nvmlDeviceGetAddressingMode"
	none := func() *simFault { return &simFault{call: memory, code: nvml.ERROR_NOT_SUPPORTED} }
	fault := func(call string, code nvml.Return) *simFault { return &simFault{call: call, code: code} }
	plain, coherent, unified := [2]bool{}, [2]bool{true, false}, [2]bool{true, true}
	for name, tc := range map[string]struct {
		faults [3]*simFault // at each identification
		want   [3][2]bool   // coherent, unified
		same   [2]bool      // whether the device is the one of before
	}{
		"it has its own":                     {[3]*simFault{}, [3][2]bool{coherent, coherent, coherent}, [2]bool{true, true}},
		"it has none":                        {[3]*simFault{none(), none(), none()}, [3][2]bool{unified, unified, unified}, [2]bool{true, true}},
		"it has none and first fails":        {[3]*simFault{fault(memory, nvml.ERROR_UNKNOWN), none(), none()}, [3][2]bool{coherent, unified, unified}, [2]bool{false, true}},
		"it has none and is slow to start":   {[3]*simFault{fault(memory, nvml.ERROR_TIMEOUT), fault(memory, nvml.ERROR_TIMEOUT), none()}, [3][2]bool{coherent, coherent, unified}, [2]bool{true, false}},
		"it has none and fails later":        {[3]*simFault{none(), fault(memory, nvml.ERROR_UNKNOWN), fault(mode, nvml.ERROR_UNKNOWN)}, [3][2]bool{unified, unified, coherent}, [2]bool{true, false}},
		"it has its own and says none first": {[3]*simFault{none()}, [3][2]bool{unified, coherent, coherent}, [2]bool{false, true}},
		"it has its own and says none later": {[3]*simFault{nil, none()}, [3][2]bool{coherent, coherent, coherent}, [2]bool{true, true}},
		"it has its own and first fails":     {[3]*simFault{fault(memory, nvml.ERROR_UNKNOWN), nil, none()}, [3][2]bool{coherent, coherent, coherent}, [2]bool{true, true}},
		"its coherence is not told at first": {[3]*simFault{fault(mode, nvml.ERROR_UNKNOWN)}, [3][2]bool{plain, coherent, coherent}, [2]bool{false, true}},
		"nothing says that it is coherent":   {[3]*simFault{fault(mode, nvml.ERROR_NOT_SUPPORTED), none()}, [3][2]bool{plain, plain, plain}, [2]bool{true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node, s, l := newFourGPUs(t, t.TempDir())
				node.gpus = node.gpus[:1]
				var there byte
				s.library.symbols.Store(mode, unsafe.Pointer(&there))
				var before gpu.Device
				for i, f := range tc.faults {
					if f != nil {
						node.begin(f)
					}
					devices, err := s.Devices(t.Context())
					if f != nil {
						node.end(f)
					}
					if err != nil || len(devices) != 1 {
						t.Fatalf("identification %d: %v, %v", i, devices, err)
					}
					in := devices[0].Info()
					testkit.Equal(t, [2]bool{in.CoherentMemory, in.UnifiedMemory}, tc.want[i], "identification %d: coherent, unified", i)
					if i > 0 && (devices[0] == before) != tc.same[i-1] {
						t.Errorf("identification %d: the device of before: %t, want %t", i, devices[0] == before, tc.same[i-1])
					}
					before = devices[0]
				}
				testkit.Equal(t, l.broken, "", "rules broken")
				must(t, s.Close())
			})
		})
	}
}

// TestBackThoughAnotherHangs has a GPU that was lost come back while the name of another one hangs: it is there within a second
// or two, and the other one stays.
func TestBackThoughAnotherHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, s, _, _ := newGPUs(t, 3)
		defer s.Close()
		listed := func() (uuids []string) {
			devices, err := s.Devices(t.Context())
			must(t, err)
			for _, d := range devices {
				uuids = append(uuids, d.Info().UUID)
			}
			slices.Sort(uuids)
			return uuids
		}
		lost := &simFault{call: "nvmlDevice*", uuid: simUUID(2), code: nvml.ERROR_GPU_IS_LOST}
		node.begin(lost)
		if got := listed(); len(got) != 2 {
			t.Fatalf("GPUs %q, one of which is lost", got)
		}
		node.end(lost)
		hang := &simFault{call: "nvmlDeviceGetUUID", uuid: simUUID(1), hang: true}
		node.begin(hang)
		defer node.end(hang)
		began := time.Now()
		if got := listed(); len(got) != 3 || time.Since(began) > 2*time.Second {
			t.Errorf("GPUs %q after %s", got, time.Since(began))
		}
	})
}

// TestCountFails has the driver tell no more how many GPUs there are, while these answer: no reading is held up until a wait for
// events is over and the library can be initialised again. Its sleeps are of simulated time.
func TestCountFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, s, l, d := newOneGPU(t)
		defer s.Close()
		node.begin(&simFault{call: "nvmlDeviceGetCount_v2", code: nvml.ERROR_LIB_RM_VERSION_MISMATCH})
		if !s.gate.enter(true) {
			t.Fatal("the gate is closed")
		}
		go func() {
			time.Sleep(eventWait)
			s.gate.leave(true)
		}()
		asked := make(chan error, 1)
		go func() {
			_, err := s.Devices(t.Context())
			asked <- err
		}()
		for range 15 {
			time.Sleep(eventWait / 10)
			began := time.Now()
			if _, err := d.Read(t.Context()); err != nil || time.Since(began) > 0 {
				t.Errorf("a reading took %s: %v", time.Since(began), err)
			}
		}
		if err := <-asked; err == nil || !strings.Contains(err.Error(), gpu.ReasonMismatch) {
			t.Errorf("the error is %v", err)
		}
		testkit.Equal(t, l.total[entry], 2, "Inits")
		testkit.Equal(t, l.broken, "", "rules broken")
	})
}

func TestBus(t *testing.T) {
	f := newTree(t)
	add := func(address, vendor, class string) {
		t.Helper()
		f.write("bus/pci/devices/"+address+"/vendor", vendor+"\n")
		f.write("bus/pci/devices/"+address+"/class", class+"\n")
	}
	remove := func(address string) {
		t.Helper()
		must(t, os.RemoveAll(filepath.Join(f.root, "bus/pci/devices", address)))
	}
	b := bus{root: f.root}
	testkit.Equal(t, b.added(), false, "no bus")
	add("0000:3b:00.0", "0x10de", "0x030200")
	testkit.Equal(t, b.added(), true, "a GPU")
	b.accept()
	testkit.Equal(t, b.added(), false, "a GPU that is known")
	add("0000:3b:00.1", "0x10de", "0x040300") // its sound
	add("0000:00:02.0", "0x8086", "0x030000") // another's display
	add("0000:40:00.0", "0x10de", "0x068000") // an NVSwitch
	testkit.Equal(t, b.added(), false, "others")
	add("0000:5e:00.0", "0x10de", "0x030000")
	testkit.Equal(t, b.added(), true, "a second GPU")
	b.accept()
	remove("0000:3b:00.0")
	testkit.Equal(t, b.added(), false, "one that went")
	add("0000:3b:00.0", "0x10de", "0x030200")
	testkit.Equal(t, b.added(), true, "one that came back")
}
