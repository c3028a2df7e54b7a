// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// withState makes a sampler keep its histories in that file.
func withState(t *testing.T, file, boot string) func(*SamplerConfig) {
	t.Helper()
	proc := t.TempDir()
	if err := os.MkdirAll(filepath.Join(proc, "sys/kernel/random"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(proc, "sys/kernel/random/boot_id"), []byte(boot+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(c *SamplerConfig) { c.StateFile, c.StateInterval, c.ProcFS = file, 30*time.Second, proc }
}

// leakAt is a device whose process leaks a MiB a second, from so many seconds of
// its life on.
func leakAt(from int) *scriptDevice {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		p, unresolved := process(1, 1<<30+uint64(second)<<20), process(2, 1<<30)
		unresolved.ID.Start = 0
		return flat(p.Used.V+unresolved.Used.V, p, unresolved)(second)
	})
	d.second = from
	return d
}

func TestRestartGoesOnFromTheStateFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	runSampler(t, &scriptSource{devices: []gpu.Device{leakAt(0)}}, withState(t, file, "boot-a"), func(s *Sampler, _ *lines) {
		after(1200500 * time.Millisecond)
		if !s.State().Devices[0].Processes[0].Verdict.Leak {
			t.Fatal("no leak to remember")
		}
		if f := s.State().StateFile; f == nil || !f.Success || time.Since(f.Time) > 15*time.Second {
			t.Errorf("state file: %+v", f)
		}
	})
	for _, c := range []struct {
		boot    string
		known   bool // the process's history is there
		message string
	}{
		{"boot-a", true, "going on from the state file"},
		{"boot-b", false, "another boot"},
	} {
		kept, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		second := filepath.Join(t.TempDir(), "state")
		if err := os.WriteFile(second, kept, 0o600); err != nil {
			t.Fatal(err)
		}
		runSampler(t, &scriptSource{devices: []gpu.Device{leakAt(1260)}}, withState(t, second, c.boot), func(s *Sampler, out *lines) {
			after(5 * time.Second)
			d := s.State().Devices[0]
			if v := d.Processes[0].Verdict; v.Leak != c.known || (v.Windows[0].N > 500) != c.known {
				t.Errorf("%s: after the restart: %+v", c.boot, v)
			}
			if v := d.Processes[1].Verdict; v.Judged || v.Windows[0].N > 5 {
				t.Errorf("%s: a process without start ticks inherits: %+v", c.boot, v)
			}
			if out.count(c.message) != 1 {
				t.Errorf("%s: the log does not say %q once", c.boot, c.message)
			}
		})
	}
}

func TestStateFileThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "absent")
	runSampler(t, &scriptSource{devices: []gpu.Device{leakAt(0)}}, withState(t, filepath.Join(dir, "state"), "a"), func(s *Sampler, out *lines) {
		after(5 * time.Minute)
		if f := s.State().StateFile; f == nil || f.Success || !f.Time.IsZero() {
			t.Errorf("state file: %+v", f)
		}
		if n := out.count("would lose the histories"); n != 1 {
			t.Errorf("said %d times that it cannot be written", n)
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		after(time.Minute)
		if f := s.State().StateFile; !f.Success {
			t.Errorf("once the directory is there: %+v", f)
		}
	})
}

func TestWithoutDriverTheStateFileIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	h := histories{BootID: "a", Devices: []deviceHistory{{UUID: "GPU-0", Domain: []byte{1}}}}
	if err := h.write(file); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	source := &scriptSource{err: &gpu.DriverError{Reason: "driver_not_loaded"}}
	runSampler(t, source, withState(t, file, "a"), func(*Sampler, *lines) { after(5 * time.Minute) })
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, before) {
		t.Errorf("an exporter that saw no GPU replaced the histories: %v", err)
	}
}

func TestStateFileThatIsNotOurs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	h := histories{BootID: "a", Devices: []deviceHistory{{UUID: "GPU-0", Domain: []byte{1, 2, 3}}}}
	if err := h.write(file); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"another program's":  {[]byte("hello\n"), "not a state file"},
		"empty":              {nil, "not a state file"},
		"of a later version": {[]byte("gpu_leak_exporter state v2 crc32c=00000000\n{}"), "not a state file of this version"},
		"cut":                {good[:len(good)-5], "damaged"},
		"one bit wrong":      {append(good[:len(good)-9:len(good)-9], append([]byte{good[len(good)-9] ^ 1}, good[len(good)-8:]...)...), "damaged"},
	} {
		if err := os.WriteFile(file, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := SamplerConfig{SlowInterval: 1, Timeout: 1, Detector: detector.DefaultConfig()}
		withState(t, file, "a")(&cfg)
		_, err := NewSampler(&scriptSource{}, cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A domain that cannot be restored costs its GPU's history and nothing else.
func TestStateFileWithAStrangeDomain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	h := histories{BootID: "a", Devices: []deviceHistory{{UUID: "GPU-0", Domain: []byte{1, 2, 3}}}}
	if err := h.write(file); err != nil {
		t.Fatal(err)
	}
	runSampler(t, &scriptSource{devices: []gpu.Device{leakAt(0)}}, withState(t, file, "a"), func(s *Sampler, out *lines) {
		after(20 * time.Second)
		if d := s.State().Devices[0]; !d.Up || d.Judgement.Device.Windows[0].N < 15 || out.count("judging starts anew") != 1 {
			t.Errorf("GPU %+v", d)
		}
	})
}

func FuzzStateFile(f *testing.F) {
	file := filepath.Join(f.TempDir(), "state")
	h := histories{BootID: "a", Devices: []deviceHistory{{UUID: "GPU-0", Domain: []byte{1}, Instances: []instanceHistory{{ID: 1}}}}}
	if err := h.write(file); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(stateFormat))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHistories("FILE", b)
		if (h == nil) == (err == nil) {
			t.Errorf("%v and %v", h, err)
		}
	})
}
