// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// dying is a GPU from so many seconds of its life on. Its process of 8 GiB ends at
// 600 s, and 6 GiB of that stay until 1500 s.
func dying(from int) *scriptDevice {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		dies, other := process(1, 8<<30), process(2, 20<<30)
		dies.Owner = &gpu.Owner{Process: "train.py", Command: "train.py --key=hunter2", Namespace: "ml", Pod: "train-0", Container: "main"}
		other.Owner = &gpu.Owner{Process: "serve.py"}
		switch {
		case second < 600:
			return flat(29<<30, dies, other)(second)
		case second < 1500:
			return flat(27<<30, other)(second)
		}
		return flat(21<<30, other)(second)
	})
	d.second = from
	return d
}

// unreleased returns what a GPU shows as unreleased, by what is known of its process.
func unreleased(s *Sampler) map[string]uint64 {
	all := map[string]uint64{}
	for _, d := range s.State().Devices {
		for _, u := range d.Unreleased {
			o := u.Owner
			all[strings.Join([]string{d.Info.UUID, InstanceID(u.Instance), strconv.FormatUint(uint64(u.ID.PID), 10), o.Process, o.Namespace, o.Pod, o.Container}, " ")] = u.Used
		}
	}
	return all
}

// What stays after the end of a process carries its labels, and outlives a restart of the exporter.
func TestUnreleasedMemory(t *testing.T) {
	const labels = "GPU-0  1 train.py ml train-0 main"
	file := filepath.Join(t.TempDir(), "state")
	stays := func(t *testing.T, s *Sampler) {
		t.Helper()
		d := s.State().Devices[0]
		if got := unreleased(s); len(got) != 1 || got[labels] != 6<<30 {
			t.Errorf("unreleased %v", got)
		}
		if p := d.Judgement.Device.Pattern.String(); p != "unreleased" || d.Judgement.Unreleased != nil {
			t.Errorf("the GPU is %q", p)
		}
		if u := d.Unreleased[0]; u.Since != scriptStart+600*time.Second {
			t.Errorf("%+v", u)
		}
	}
	runSampler(t, &scriptSource{devices: []gpu.Device{dying(0)}}, withState(t, file, "boot-a"), func(s *Sampler, _ *lines) {
		after(655500 * time.Millisecond)
		if got := unreleased(s); len(got) != 0 {
			t.Errorf("unreleased at 655 s: %v", got)
		}
		after(60 * time.Second)
		stays(t, s)
	})
	if b, err := os.ReadFile(file); err != nil || !bytes.Contains(b, []byte("train.py")) || bytes.Contains(b, []byte("hunter2")) {
		t.Fatalf("state file %s %v", b, err)
	}
	runSampler(t, &scriptSource{devices: []gpu.Device{dying(740)}}, withState(t, file, "boot-a"), func(s *Sampler, _ *lines) {
		after(500 * time.Second)
		stays(t, s)
		after(300 * time.Second)
		if got := unreleased(s); len(got) != 0 {
			t.Errorf("unreleased once it is free: %v", got)
		}
	})
}

// Nothing is kept of the processes that end as they should.
func TestEndedProcessesAreForgotten(t *testing.T) {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		return flat(2<<30, process(uint32(second), 1<<30))(second)
	})
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, nil, func(s *Sampler, _ *lines) {
		after(300 * time.Second)
		if n := len(s.shared.Load().loops[0].processes.ended); n > 4 {
			t.Errorf("%d processes are remembered", n)
		}
	})
}
