// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"context"
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
		Instances: []InstanceState{
			{Instance: gpu.Instance{ID: 5, Devices: []gpu.MIGDevice{{UUID: "MIG-a"}, {UUID: "MIG-b"}}}},
			{Instance: gpu.Instance{ID: 6, Devices: []gpu.MIGDevice{{UUID: "MIG-c"}}}},
		},
	}
	for device, want := range map[string]string{
		uuid: "whole", "nvidia1": "whole", "MIG-a": "5", "MIG-b": "5", "MIG-c": "6", "nvidia1/gi6": "6",
		// Other GPUs, and what cannot be one.
		"": "none", "GPU-other": "none", "nvidia0": "none", "nvidia11": "none", "nvidia10/gi6": "none", "MIG-d": "none",
		"nvidia1/gi": "none", "nvidia1/gi4294967296": "none",
	} {
		got := "none"
		if list := allotmentsOf(d, []Allotment{{Device: device, Pod: "p"}}); len(list) == 1 {
			if got = InstanceID(list[0].Instance); got == "" {
				got = "whole"
			}
		}
		if got != want {
			t.Errorf("%q: %s, want %s", device, got, want)
		}
	}
	if list := allotmentsOf(&DeviceState{}, []Allotment{{Device: ""}, {Device: "nvidia0"}}); len(list) != 0 {
		t.Errorf("a GPU of which nothing is known has %v", list)
	}
	// Two compute instances of a GPU instance, and two replicas, are one allotment.
	got := allotmentsOf(d, []Allotment{
		{Device: "MIG-b", Namespace: "n", Pod: "b"},
		{Device: uuid, Namespace: "n", Pod: "c"},
		{Device: "MIG-a", Namespace: "n", Pod: "b"},
		{Device: "nvidia1", Namespace: "n", Pod: "c"},
		{Device: uuid, Namespace: "n", Pod: "a"},
	})
	want := []AllotmentState{
		{Namespace: "n", Pod: "a"}, {Namespace: "n", Pod: "c"}, {Instance: gpu.Some(uint32(5)), Namespace: "n", Pod: "b"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func jobsOn(gpu string, ids ...string) workload.Jobs {
	return workload.Jobs{gpu: {IDs: ids}}
}

// system is owners of which a test says what goes wrong.
type system struct {
	owners
	trouble atomic.Pointer[error]
	jobs    atomic.Pointer[workload.Jobs]
}

func (s *system) failure() error {
	if e := s.trouble.Load(); e != nil {
		return *e
	}
	return nil
}

func (s *system) Allotments(context.Context) ([]Allotment, error) {
	if err := s.failure(); err != nil {
		return nil, err
	}
	return []Allotment{{Device: "GPU-0", Namespace: "ml", Pod: "idle-0", Container: "main"}}, nil
}

func (s *system) Jobs() (workload.Jobs, error) {
	if j := s.jobs.Load(); j != nil {
		return *j, s.failure()
	}
	return nil, nil
}

// What the system does not tell is said once when it begins and once when it ends,
// and shown by a metric as long as it lasts.
func TestTroubleIsSaidOnce(t *testing.T) {
	o := &system{owners: owners{asked: map[uint32]int{}}}
	d := newGPU(0, flat(5<<30))
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, func(c *Config) { c.Owners = o }, func(s *Sampler, out *lines) {
		told := func() (success bool, allotted int) {
			st := s.State()
			i := slices.IndexFunc(st.Collectors, func(f FamilyState) bool { return f.Name == "workload" })
			return i >= 0 && st.Collectors[i].Success, len(st.Devices[0].Allotments)
		}
		after(20 * time.Second)
		if ok, n := told(); !ok || n != 1 {
			t.Errorf("success %v, %d allotments", ok, n)
		}
		trouble := errors.New("the socket is root's")
		o.trouble.Store(&trouble)
		after(5 * time.Minute)
		if ok, n := told(); ok || n != 0 {
			t.Errorf("in trouble: success %v, %d allotments", ok, n)
		}
		o.trouble.Store(nil)
		after(time.Minute)
		if ok, n := told(); !ok || n != 1 {
			t.Errorf("afterwards: success %v, %d allotments", ok, n)
		}
		if n := out.count("the socket is root's"); n != 1 {
			t.Errorf("said %d times", n)
		}
		if n := out.count("it works again"); n != 1 {
			t.Errorf("its end was said %d times", n)
		}
	})
}

// hidden is a system whose open files may not be seen.
type hidden struct {
	system
	pid atomic.Uint32
}

// Unseen names another process each time.
func (h *hidden) Unseen() workload.Unseen {
	return workload.Unseen{Unreadable: h.pid.Add(1), Why: fs.ErrPermission}
}

// A right that is missing is said once, with what to do, and is no failure.
func TestWhatIsHiddenIsSaidOnce(t *testing.T) {
	o := &hidden{system: system{owners: owners{asked: map[uint32]int{}}}}
	unresolved := process(5, 1)
	unresolved.ID.Start = 0
	d := newGPU(0, flat(5<<30, unresolved))
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, func(c *Config) { c.Owners = o }, func(s *Sampler, out *lines) {
		after(20 * time.Second)
		if n := out.count("hostPID: true"); n != 0 {
			t.Error("a process that was not found once is said")
		}
		after(5 * time.Minute)
		for _, part := range []string{"cannot look up whose some processes on the GPUs are", "hostPID: true", "permission denied: gpu_process_device_open leaves out such processes", "docs/operating.md"} {
			if n := out.count(part); n != 1 {
				t.Errorf("%q was said %d times", part, n)
			}
		}
		if n := out.count("CAP_"); n != 0 {
			t.Error("a right is blamed that the exporter may have: root with all rights was told so of the first process of a virtual machine")
		}
		st := s.State()
		if i := slices.IndexFunc(st.Collectors, func(f FamilyState) bool { return f.Name == "workload" }); i < 0 || !st.Collectors[i].Success {
			t.Errorf("collectors %+v", st.Collectors)
		}
	})
}

// busy is a system on which some processes keep whoever looks them up waiting for a minute.
type busy struct {
	system
	said bool
}

func (b *busy) Unseen() workload.Unseen {
	if time.Since(bubbleStart) > time.Minute {
		return workload.Unseen{}
	}
	u := workload.Unseen{Overdue: 3}
	if !b.said {
		u.Stuck = []gpu.ProcessID{{PID: 4711, Start: 1}, {PID: 4712, Start: 1}}
	}
	b.said = true
	return u
}

// Processes that are stuck are named once and counted while they are.
func TestStuckProcessesAreSaid(t *testing.T) {
	o := &busy{system: system{owners: owners{asked: map[uint32]int{}}}}
	d := newGPU(0, flat(5<<30, process(1, 1)))
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, func(c *Config) { c.Owners = o }, func(s *Sampler, out *lines) {
		workloadWell := func() bool {
			return slices.ContainsFunc(s.State().Collectors, func(f FamilyState) bool { return f.Name == "workload" && f.Success })
		}
		after(50 * time.Second)
		if n := s.State().Unresolved; n != 3 || workloadWell() {
			t.Errorf("%d are not resolved, workload is well: %t", n, workloadWell())
		}
		after(5 * time.Minute)
		if n := s.State().Unresolved; n != 0 || !workloadWell() {
			t.Errorf("afterwards %d are not resolved, workload is well: %t", n, workloadWell())
		}
		for part, want := range map[string]int{"pid=4711": 1, "pid=4712": 1} {
			if n := out.count(part); n != want {
				t.Errorf("%q was said %d times", part, n)
			}
		}
	})
}

// A process whose control group tells no job gets the one that is written down for
// its GPU, before its first series; of two jobs nobody knows whose it is.
func TestJobsThatAreWrittenDown(t *testing.T) {
	for name, c := range map[string]struct {
		jobs workload.Jobs
		want string
	}{
		"one":             {jobsOn("0", "77"), "77"},
		"two":             {jobsOn("0", "77", "78"), ""},
		"on another GPU":  {jobsOn("1", "77"), ""},
		"none as of now":  {workload.Jobs{}, ""},
		"nobody tells it": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := &system{owners: owners{asked: map[uint32]int{}}}
			if c.jobs != nil {
				o.jobs.Store(&c.jobs)
			}
			d := newGPU(0, flat(5<<30, process(1, 1<<30)))
			runSampler(t, &scriptSource{devices: []gpu.Device{d}}, func(c *Config) { c.Owners = o }, func(s *Sampler, _ *lines) {
				after(20 * time.Second)
				ps := s.State().Devices[0].Processes
				if len(ps) != 1 || ps[0].Owner.SlurmJob != c.want || ps[0].Owner.Pod != "pod" {
					t.Fatalf("processes %+v", ps)
				}
				first := ps[0].Owner
				later := jobsOn("0", "99")
				if c.jobs != nil {
					o.jobs.Store(&later)
				}
				after(time.Minute)
				if p := s.State().Devices[0].Processes[0]; p.Owner != first {
					t.Errorf("its owner became %+v", p.Owner)
				}
			})
		})
	}
}

// slowJobs is a batch system whose directory answers when it likes, and owners that
// know the pod late.
type slowJobs struct {
	system
	until time.Duration // of the bubble: the directory cannot be read
	hangs time.Duration // then it hangs until
	known time.Duration // when the pod is known
}

func (s *slowJobs) Jobs() (workload.Jobs, error) {
	at := time.Since(bubbleStart)
	if at < s.until {
		return nil, errors.New("stale file handle")
	}
	if at < s.hangs {
		time.Sleep(s.hangs - at)
	}
	return s.system.Jobs()
}

func (s *slowJobs) Owner(gpu.ProcessID) (*gpu.Owner, bool) {
	if time.Since(bubbleStart) < s.known {
		return &gpu.Owner{Process: "p"}, false
	}
	return &gpu.Owner{Process: "p", Pod: "pod"}, true
}

// A job is never taken from a reading that failed, or that is older than the
// process; it changes at most once, from unknown to known, however late the pod is.
func TestJobsThatComeLate(t *testing.T) {
	for name, c := range map[string]struct {
		slow       *slowJobs
		early      string        // 20 s after the process came
		change     time.Duration // when another job runs on the GPU, from the start on
		late       string        // after 10 minutes
		sick, well time.Duration // when the collector must have failed, and succeeded again
	}{
		"at once":                       {slow: &slowJobs{}, early: "77/pod", change: time.Minute, late: "77/pod"},
		"the pod comes late":            {slow: &slowJobs{known: 5 * time.Minute}, early: "77/", change: time.Minute, late: "77/pod"},
		"the directory is away":         {slow: &slowJobs{until: 2 * time.Minute}, early: "/pod", change: time.Hour, late: "77/pod", sick: time.Minute, well: 5 * time.Minute},
		"it hangs":                      {slow: &slowJobs{hangs: 2 * time.Minute}, early: "/pod", change: time.Hour, late: "77/pod", sick: time.Minute, well: 5 * time.Minute},
		"another job comes meanwhile":   {slow: &slowJobs{until: 2 * time.Minute}, early: "/pod", change: time.Minute, late: "78/pod"},
		"both late, the job comes last": {slow: &slowJobs{until: 3 * time.Minute, known: time.Minute}, early: "/", change: time.Hour, late: "77/pod"},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.slow
			o.owners = owners{asked: map[uint32]int{}}
			jobs := jobsOn("0", "77")
			o.jobs.Store(&jobs)
			d := newGPU(0, flat(5<<30, process(1, 1<<30)))
			runSampler(t, &scriptSource{devices: []gpu.Device{d}}, func(c *Config) { c.Owners = o }, func(s *Sampler, _ *lines) {
				var seen []string
				for range 600 {
					after(time.Second)
					at := time.Since(bubbleStart)
					if at >= c.change {
						jobs := jobsOn("0", "78")
						o.jobs.Store(&jobs)
					}
					st := s.State()
					if c.sick > 0 && (at == c.sick || at == c.well) {
						i := slices.IndexFunc(st.Collectors, func(f FamilyState) bool { return f.Name == "workload" })
						if ok := i >= 0 && st.Collectors[i].Success; ok != (at == c.well) {
							t.Errorf("after %s: success %v", at, ok)
						}
					}
					if ps := st.Devices[0].Processes; len(ps) == 1 {
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
