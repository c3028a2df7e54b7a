// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// asking is a Resolver that remembers for which labels it was asked.
type asking struct {
	mu    sync.Mutex
	asked map[string]bool
	cfg   func(labels map[string]string, c *detector.Config)
}

func (a *asking) resolve(labels map[string]string) detector.Config {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if labels[name] != "" {
			pairs = append(pairs, name+"="+labels[name])
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked == nil {
		a.asked = map[string]bool{}
	}
	a.asked[strings.Join(pairs, " ")] = true
	c := detector.DefaultConfig()
	if a.cfg != nil {
		a.cfg(labels, &c)
	}
	return c
}

// all returns for which labels it was asked, and forgets it.
func (a *asking) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer clear(a.asked)
	return slices.Sorted(maps.Keys(a.asked))
}

// owned is a process of a pod.
func owned(pid uint32, used uint64, o gpu.Owner) gpu.Process {
	p := process(pid, used)
	p.Owner = &o
	return p
}

// muted has the pod muted judged by nobody.
func muted(labels map[string]string, c *detector.Config) { c.Mute = labels["pod"] == "muted" }

func TestRulesAreAskedByLabels(t *testing.T) {
	whole := newGPU(0, flat(9<<30,
		owned(1, 1<<30, gpu.Owner{Process: "train.py", Namespace: "ml", Pod: "train-0", Container: "main", SlurmJob: "7"}),
		owned(2, 1<<30, gpu.Owner{Process: "train.py", Namespace: "ml", Pod: "train-0", Container: "main", SlurmJob: "8"}),
		owned(3, 1<<30, gpu.Owner{Process: strings.Repeat("x", 200), SlurmJob: "9"}),
		owned(4, 1<<30, gpu.Owner{SlurmJob: "9"}),
	))
	whole.info.Name = "NVIDIA H200"
	sliced := newGPU(1, func(second int) (gpu.Sample, error) {
		p := owned(5, 1<<30, gpu.Owner{Process: "a"})
		p.Instance, p.Limits = gpu.Some(uint32(3)), []gpu.Limit{{Bytes: 2 << 30}}
		s, err := flat(1<<30, p)(second)
		s.MIGEnabled = gpu.Some(true)
		s.Instances = []gpu.Instance{{ID: 3, Profile: "1g.10gb", Memory: memoryOf(1 << 30), Owner: &gpu.Owner{Namespace: "ml", Pod: "a", Container: "main"}}}
		if second > 20 {
			s.Instances[0].Owner = nil
		}
		return s, err
	})
	sliced.info.Place[1] = "node7"
	a := &asking{}
	runSampler(t, &scriptSource{devices: []gpu.Device{whole, sliced}}, func(c *Config) { c.Places = []string{"instance", "node"} }, func(s *Sampler, _ *lines) {
		after(5 * time.Second)
		s.Configure(a.resolve)
		if got := a.all(); len(got) > 0 {
			t.Errorf("asked outside of the loops: %v", got)
		}
		after(time.Second)
		want := []string{
			"gpu=0 name=NVIDIA H200 namespace=ml pod=train-0 scope=workload uuid=GPU-0",
			"container=main gpu=0 name=NVIDIA H200 namespace=ml pid=1 pod=train-0 process=train.py scope=process slurm_job=7 uuid=GPU-0",
			"container=main gpu=0 name=NVIDIA H200 namespace=ml pid=2 pod=train-0 process=train.py scope=process slurm_job=8 uuid=GPU-0",
			"gpu=0 name=NVIDIA H200 pid=3 process=" + strings.Repeat("x", 128) + " scope=process slurm_job=9 uuid=GPU-0",
			"gpu=0 name=NVIDIA H200 pid=4 scope=process slurm_job=9 uuid=GPU-0",
			"gpu=0 name=NVIDIA H200 scope=gpu uuid=GPU-0",
			"gpu=0 name=NVIDIA H200 scope=residual uuid=GPU-0",
			"gpu=0 name=NVIDIA H200 scope=workload slurm_job=9 uuid=GPU-0",
			"gpu=1 gpu_instance=3 node=node7 pid=5 process=a profile=1g.10gb scope=process uuid=GPU-1",
			"container=main gpu=1 gpu_instance=3 namespace=ml node=node7 pod=a profile=1g.10gb scope=mig uuid=GPU-1",
			"container=main gpu=1 gpu_instance=3 namespace=ml node=node7 pod=a profile=1g.10gb scope=residual uuid=GPU-1",
			"gpu=1 gpu_instance=3 node=node7 pid=5 process=a scope=process uuid=GPU-1", // within its limit
			"gpu=1 gpu_instance=3 node=node7 scope=workload uuid=GPU-1",
			"gpu=1 gpu_instance=3 node=node7 scope=residual uuid=GPU-1",
			"gpu=1 node=node7 scope=gpu uuid=GPU-1",
		}
		slices.Sort(want)
		var named []string
		for _, w := range s.State().Devices[0].Workloads {
			named = append(named, w.Namespace+"/"+w.Pod+"/"+w.SlurmJob)
		}
		if slices.Sort(named); !slices.Equal(named, []string{"//9", "ml/train-0/"}) { // as their series
			t.Errorf("workloads %q", named)
		}
		d := s.State().Devices[1]
		equal(t, (&Domain{&d.Instances[0], d}).Sample().Owner, finding.Who{Namespace: "ml", Pod: "a", Container: "main"}, "whose the GPU instance is")
		if got := a.all(); !slices.Equal(got, want) {
			t.Errorf("asked for\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		after(10 * time.Second)
		if got := a.all(); len(got) > 0 {
			t.Errorf("asked again although nothing has changed: %v", got)
		}
		after(10 * time.Second)
		if got := a.all(); !slices.Contains(got, "gpu=1 gpu_instance=3 node=node7 profile=1g.10gb scope=mig uuid=GPU-1") {
			t.Errorf("once the GPU instance is nobody's, asked for %q", got)
		}
	})
}

// TestRulesTakeEffect mutes a process and unmutes it, and changes its windows: what was learnt of it stays.
func TestRulesTakeEffect(t *testing.T) {
	d := newGPU(0, flat(2<<30, owned(1, 1<<30, gpu.Owner{Pod: "muted"}), owned(2, 1<<30, gpu.Owner{Pod: "other"})))
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, nil, func(s *Sampler, _ *lines) {
		check := func(when string, judged bool, windows ...time.Duration) {
			t.Helper()
			p := s.State().Devices[0].Processes
			if p[0].Verdict.Judged != judged || !p[1].Verdict.Judged {
				t.Errorf("%s: judged %v, the other one %v", when, p[0].Verdict.Judged, p[1].Verdict.Judged)
			}
			for i, want := range windows {
				equal(t, p[0].Verdict.Windows[i].Span, want, "%s: length of window %d", when, i)
			}
			if f := p[0].Verdict.Windows[0]; f.N < 580 {
				t.Errorf("%s: the window of before holds %d samples", when, f.N)
			}
		}
		after(1000 * time.Second)
		check("at first", true, 10*time.Minute, time.Hour, 0)
		s.Configure((&asking{cfg: muted}).resolve)
		after(time.Second)
		check("muted", false, 10*time.Minute, time.Hour, 0)
		s.Configure((&asking{cfg: func(_ map[string]string, c *detector.Config) {
			c.Windows = []time.Duration{10 * time.Minute, 2 * time.Hour}
		}}).resolve)
		after(time.Second)
		check("other windows", true, 10*time.Minute, 2*time.Hour, 0)
		s.Configure((&asking{cfg: func(_ map[string]string, c *detector.Config) { c.LeakThreshold = 2 }}).resolve)
		after(time.Second)
		check("rules that cannot hold", true, 10*time.Minute, time.Hour, 0)
	})
}

func TestRulesAreAskedAgainForALateOwner(t *testing.T) {
	d := newGPU(0, flat(1<<30, process(2, 1<<30))) // its pod is known after 20 questions
	a := &asking{cfg: func(labels map[string]string, c *detector.Config) { c.Mute = labels["pod"] != "" }}
	o, _ := latePods(map[uint32]int{2: 20})
	change := func(c *Config) { c.Resolve, c.Owners = a.resolve, o }
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, change, func(s *Sampler, _ *lines) {
		after(15 * time.Second)
		if got := a.all(); !slices.Contains(got, "gpu=0 pid=2 process=p2 scope=process uuid=GPU-0") {
			t.Errorf("asked for %v", got)
		}
		after(600 * time.Second)
		if got := a.all(); !slices.Contains(got, "gpu=0 namespace=ns pid=2 pod=pod process=p2 scope=process uuid=GPU-0") {
			t.Errorf("asked for %v", got)
		}
		if v := s.State().Devices[0].Processes[0].Verdict; v.Judged || v.Windows[0].N < 590 {
			t.Errorf("%+v", v)
		}
	})
}

// TestRulesAfterRestart keeps windows that only a rule gives over a restart.
func TestRulesAfterRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	a := &asking{cfg: func(labels map[string]string, c *detector.Config) {
		if labels["pod"] == "long" {
			c.Windows = []time.Duration{2 * time.Hour}
		}
	}}
	owner := gpu.Owner{Namespace: "ml", Pod: "long"}
	device := func(from int) *scriptDevice {
		d := newGPU(0, flat(2<<30, owned(1, 1<<30, owner), owned(2, 1<<30, owner)))
		d.second = from
		return d
	}
	change := func(c *Config) {
		withState(t, file, "boot")(c)
		c.Resolve = a.resolve
	}
	runSampler(t, &scriptSource{devices: []gpu.Device{device(0)}}, change, func(*Sampler, *lines) { after(1000 * time.Second) })
	runSampler(t, &scriptSource{devices: []gpu.Device{device(1010)}}, change, func(s *Sampler, _ *lines) {
		after(5 * time.Second)
		d := s.State().Devices[0]
		for _, v := range []detector.Verdict{d.Processes[0].Verdict, d.Workloads[0].Verdict} {
			if f := v.Windows[0]; f.Span != 2*time.Hour || f.N < 990 {
				t.Errorf("after the restart the window of %s holds %d samples", f.Span, f.N)
			}
		}
	})
}
