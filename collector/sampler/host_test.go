// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"errors"
	"io/fs"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/workload"
)

func TestAllotmentsOf(t *testing.T) {
	const uuid = "GPU-11111111-2222-3333-4444-555555555555"
	d := &DeviceState{
		Info: gpu.Info{UUID: uuid, Minor: gpu.Some(1)},
		Instances: []MemoryState{
			InstanceOf(&gpu.Instance{ID: 5, Devices: []gpu.MIGDevice{{UUID: "MIG-a"}, {UUID: "MIG-b"}}}),
			InstanceOf(&gpu.Instance{ID: 6, Devices: []gpu.MIGDevice{{UUID: "MIG-c"}}}),
		},
	}
	for device, want := range map[string]string{
		uuid: "whole", "nvidia1": "whole", "MIG-a": "5", "MIG-b": "5", "MIG-c": "6", "nvidia1/gi6": "6",
		// Other GPUs, and what cannot be one.
		"": "none", "GPU-other": "none", "nvidia0": "none", "nvidia11": "none", "nvidia10/gi6": "none", "MIG-d": "none",
		"nvidia1/gi": "none", "nvidia1/gi4294967296": "none",
	} {
		got := "none"
		if list := allotmentsOf(d, []workload.Allotment{{Device: device, Pod: "p"}}); len(list) == 1 {
			if got = InstanceID(list[0].Instance); got == "" {
				got = "whole"
			}
		}
		equal(t, got, want, "%q", device)
	}
	equal(t, len(allotmentsOf(&DeviceState{}, []workload.Allotment{{Device: ""}, {Device: "nvidia0"}})), 0, "allotments of a GPU of which nothing is known")
	// Two compute instances of a GPU instance, and two replicas, are one allotment.
	got := allotmentsOf(d, []workload.Allotment{
		{Device: "MIG-b", Namespace: "n", Pod: "b"},
		{Device: uuid, Namespace: "n", Pod: "c"},
		{Device: "MIG-a", Namespace: "n", Pod: "b"},
		{Device: "nvidia1", Namespace: "n", Pod: "c"},
		{Device: uuid, Namespace: "n", Pod: "a"},
	})
	want := []AllotmentState{
		{Namespace: "n", Pod: "a"}, {Namespace: "n", Pod: "c"}, {Instance: gpu.Some(uint32(5)), Namespace: "n", Pod: "b"},
	}
	equal(t, got, want, "allotments")
}

func jobsOn(gpu string, ids ...string) workload.Jobs {
	return workload.Jobs{gpu: {IDs: ids}}
}

// workloadWell reports whether the collector workload has succeeded.
func workloadWell(s *Sampler) bool {
	return slices.ContainsFunc(s.State().Collectors, func(f FamilyState) bool { return f.Name == "workload" && f.Success })
}

// What the system does not tell is said once when it begins and once when it ends,
// and shown by a metric as long as it lasts.
func TestTroubleIsSaidOnce(t *testing.T) {
	var trouble atomic.Bool
	o := &owners{allotments: func() ([]workload.Allotment, error) {
		if trouble.Load() {
			return nil, errors.New("the socket is root's")
		}
		return []workload.Allotment{{Device: "GPU-0", Namespace: "ml", Pod: "idle-0", Container: "main"}}, nil
	}}
	runSampler(t, &scriptSource{devices: []gpu.Device{newGPU(0, flat(5<<30))}}, func(c *Config) { c.Owners = o }, func(s *Sampler, out *lines) {
		for _, bad := range []bool{false, true, false} {
			trouble.Store(bad)
			after(5 * time.Minute)
			if n := len(s.State().Devices[0].Allotments); workloadWell(s) == bad || (n == 0) != bad {
				t.Errorf("in trouble: %t; success %t, %d allotments", bad, workloadWell(s), n)
			}
		}
		for _, part := range []string{"the socket is root's", "it works again"} {
			out.says(t, 1, part)
		}
	})
}

// A right that is missing is said once, with what to do, and is no failure: though another process is named each time.
func TestWhatIsHiddenIsSaidOnce(t *testing.T) {
	var pid atomic.Uint32
	o := &owners{unseen: func() (workload.Unseen, error) {
		return workload.Unseen{Unreadable: pid.Add(1), Why: fs.ErrPermission}, nil
	}}
	unresolved := process(5, 1)
	unresolved.ID.Start = 0
	d := newGPU(0, flat(5<<30, unresolved))
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, func(c *Config) { c.Owners = o }, func(s *Sampler, out *lines) {
		after(20 * time.Second)
		out.says(t, 0, "hostPID: true")
		after(5 * time.Minute)
		for part, want := range map[string]int{
			"cannot look up whose some processes on the GPUs are": 1, "hostPID: true": 1, "permission denied: gpu_process_device_open leaves out such processes": 1, "docs/operating.md": 1,
			"CAP_": 0, // it may have that right: root with all rights was told so of the first process of a virtual machine
		} {
			out.says(t, want, part)
		}
		if !workloadWell(s) {
			t.Errorf("collectors %+v", s.State().Collectors)
		}
	})
}

// TestUnreadableLimit has a limit that nobody can read for a while, which a metric says. One above the GPU is no failure.
func TestUnreadableLimit(t *testing.T) {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		p := process(1, 1)
		p.Limits = []gpu.Limit{{Source: gpu.LimitMPS, Bytes: 1 << 60}}
		if second < 60 {
			p.Limits = append(p.Limits, gpu.Limit{Source: gpu.LimitDmem, Of: "/a"})
		}
		return flat(5<<30, p)(second)
	})
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, func(c *Config) { c.Owners = &owners{} }, func(s *Sampler, out *lines) {
		after(30 * time.Second)
		equal(t, workloadWell(s), false, "while a limit cannot be read: success")
		after(time.Minute)
		equal(t, workloadWell(s), true, "when all limits can be read again: success")
		out.says(t, 1, "source=dmem")
	})
}

// Processes that keep whoever looks them up waiting are named once, and counted while they do.
func TestStuckProcessesAreSaid(t *testing.T) {
	var asked atomic.Int32
	o := &owners{unseen: func() (u workload.Unseen, _ error) {
		n := asked.Add(1)
		if n == 1 {
			u.Stuck = []gpu.ProcessID{{PID: 4711, Start: 1}, {PID: 4712, Start: 1}}
		}
		if n < 5 {
			u.Overdue = 3
		}
		return u, nil
	}}
	d := newGPU(0, flat(5<<30, process(1, 1)))
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, func(c *Config) { c.Owners = o }, func(s *Sampler, out *lines) {
		after(50 * time.Second)
		if n := s.State().Unresolved; n != 3 || workloadWell(s) {
			t.Errorf("%d are not resolved, workload is well: %t", n, workloadWell(s))
		}
		after(5 * time.Minute)
		if n := s.State().Unresolved; n != 0 || !workloadWell(s) {
			t.Errorf("afterwards %d are not resolved, workload is well: %t", n, workloadWell(s))
		}
		for _, part := range []string{"pid=4711", "pid=4712"} {
			out.says(t, 1, part)
		}
	})
}

// A process whose control group tells no job gets the one that is written down for its GPU. It is never taken from a reading that failed, or that is older than the
// process; it changes at most once, from unknown to known, however late the pod is.
func TestJobsThatComeLate(t *testing.T) {
	for name, c := range map[string]struct {
		until, hangs time.Duration // until then the directory cannot be read, and then it hangs until
		known        time.Duration // when the pod is known
		early        string        // 20 s after the process came
		change       time.Duration // when another job runs on the GPU, from the start on
		late         string        // after 10 minutes
		sick, well   time.Duration // when the collector must have failed, and succeeded again
	}{
		"at once":                       {early: "77/pod", change: time.Minute, late: "77/pod"},
		"the pod comes late":            {known: 5 * time.Minute, early: "77/", change: time.Minute, late: "77/pod"},
		"the directory is away":         {until: 2 * time.Minute, early: "/pod", change: time.Hour, late: "77/pod", sick: time.Minute, well: 5 * time.Minute},
		"it hangs":                      {hangs: 2 * time.Minute, early: "/pod", change: time.Hour, late: "77/pod", sick: time.Minute, well: 5 * time.Minute},
		"another job comes meanwhile":   {until: 2 * time.Minute, early: "/pod", change: time.Minute, late: "78/pod"},
		"both late, the job comes last": {until: 3 * time.Minute, known: time.Minute, early: "/", change: time.Hour, late: "77/pod"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &owners{}
			o.jobs = func() (workload.Jobs, error) {
				at := time.Since(bubbleStart)
				if at < c.until {
					return nil, errors.New("stale file handle")
				}
				time.Sleep(c.hangs - at)
				if time.Since(bubbleStart) >= c.change {
					return jobsOn("0", "78"), nil
				}
				return jobsOn("0", "77"), nil
			}
			o.owner = func(gpu.ProcessID) (*gpu.Owner, bool) {
				if time.Since(bubbleStart) < c.known {
					return &gpu.Owner{Process: "p"}, false
				}
				return &gpu.Owner{Process: "p", Pod: "pod"}, true
			}
			d := newGPU(0, flat(5<<30, process(1, 1<<30)))
			runSampler(t, &scriptSource{devices: []gpu.Device{d}}, func(c *Config) { c.Owners = o }, func(s *Sampler, _ *lines) {
				var seen []string
				for range 600 {
					after(time.Second)
					if at := time.Since(bubbleStart); c.sick > 0 && (at == c.sick || at == c.well) && workloadWell(s) != (at == c.well) {
						t.Errorf("after %s: success %t", at, workloadWell(s))
					}
					if ps := s.State().Devices[0].Processes; len(ps) == 1 {
						seen = append(seen, ps[0].Owner.SlurmJob+"/"+ps[0].Owner.Pod)
					}
				}
				if seen = slices.Compact(seen); seen[0] != c.early || seen[len(seen)-1] != c.late || len(seen) > 2 {
					t.Errorf("the owner was %q, want first %q and last %q", seen, c.early, c.late)
				}
			})
		})
	}
}
