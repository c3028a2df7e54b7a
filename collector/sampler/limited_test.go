// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-kit/log"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// sharedGPU is a GPU of 80 GiB that two programs use: one in a pod with these limits, and one that holds as much as others.
type sharedGPU struct {
	used   func(minute float64) float64 // GiB of the program with the limits
	others float64                      // GiB
	limits []gpu.Limit                  // with what others are charged
}

// at returns the sample at a time after the begin.
func (s *sharedGPU) at(after time.Duration) *gpu.Sample {
	t := time.Unix(1_772_323_200, 0).Add(after)
	limits := slices.Clone(s.limits)
	used, others := uint64(s.used(after.Minutes())*(1<<30)), uint64(s.others*(1<<30))
	for i := range limits {
		if c := &limits[i].Charged; c.OK {
			c.V += used
		}
	}
	program := func(pid uint32, used uint64, o *gpu.Owner, limits ...gpu.Limit) gpu.Process {
		return gpu.Process{ID: gpu.ProcessID{PID: pid, Start: 1}, Used: gpu.Some(used), Owner: o, Limits: limits}
	}
	return &gpu.Sample{
		T: time.Duration(t.UnixNano()), Time: t, ProcessesKnown: true, ProcessesComplete: true,
		Memory: gpu.Memory{Total: gpu.Some(uint64(80 << 30)), Used: gpu.Some(used + others + 1<<29)},
		Processes: []gpu.Process{
			program(7, used, &gpu.Owner{Process: "serve", Namespace: "ml", Pod: "a", Container: "main"}, limits...),
			program(8, others, &gpu.Owner{Process: "train", Namespace: "ml", Pod: "b"}),
		},
	}
}

func offline(t *testing.T) *Offline {
	t.Helper()
	o, err := NewOffline(gpu.Info{UUID: "GPU-0"}, Config{SlowInterval: time.Minute, ProcessMax: 64, Detector: detector.DefaultConfig()}, detector.NewHeights())
	must(t, err)
	return o
}

// goOn has one go on from what the other writes to its state file.
func goOn(t *testing.T, from, to *Offline) {
	t.Helper()
	text, err := json.Marshal(histories{Devices: []deviceHistory{*from.loop.history()}})
	must(t, err)
	h, err := parseHistories(text)
	must(t, err)
	must(t, to.loop.restore(&h.Devices[0]))
}

// watch judges a sample every 10 s, and returns the last state.
func (s *sharedGPU) watch(o *Offline, from, to time.Duration) (last *DeviceState) {
	for at := from; at < to; at += 10 * time.Second {
		last = o.Judge(s.at(at))
	}
	return last
}

func dmem(gib float64) gpu.Limit {
	return gpu.Limit{Source: gpu.LimitDmem, Of: "/pods/a/main", Bytes: uint64(gib * (1 << 30))}
}

// leaks grows by 6 GiB an hour from an hour on.
func leaks(minute float64) float64 { return 4 + max(0, minute-60)/10 }

// TestLimit has a program leak to its limit while the GPU is half empty, to a limit that is further than the end of the GPU, and
// programs that rest at their limit.
func TestLimit(t *testing.T) {
	for name, c := range map[string]struct {
		sharedGPU
		scope, says string // "" nothing
		minutes     float64
	}{
		"the limit comes first": {sharedGPU{leaks, 10, []gpu.Limit{dmem(16)}}, "workload", "Pod ml/a, container main on GPU 0 (limit 16.0 GiB) runs out of memory in ", 40},
		"what others of its group are charged for": {
			sharedGPU{leaks, 10, []gpu.Limit{{Source: gpu.LimitDmem, Of: "/pods/a/main", Bytes: 20 << 30, Charged: gpu.Some(uint64(4 << 30))}}},
			"workload", "Pod ml/a, container main on GPU 0 (limit 20.0 GiB) runs out of memory in ", 0,
		},
		"the smallest limit holds": {sharedGPU{leaks, 10, []gpu.Limit{dmem(60), dmem(16)}}, "workload", "Pod ml/a, container main on GPU 0 (limit 16.0 GiB) runs out of memory in ", 40},
		"the limit of one process": {sharedGPU{leaks, 10, []gpu.Limit{{Source: "framework", Bytes: 16 << 30}}}, "workload", "Pod ml/a, container main on GPU 0 (limit 16.0 GiB) runs out of memory in ", 40},
		"the GPU comes first":      {sharedGPU{leaks, 65, []gpu.Limit{dmem(40)}}, "gpu", "GPU 0 runs out of memory in ", 0},
		"it rests at its limit":    {sharedGPU{func(float64) float64 { return 15.9 }, 10, []gpu.Limit{dmem(16)}}, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			state := c.watch(offline(t), 0, 140*time.Minute)
			if c.says == "" {
				equal(t, len(state.Findings), 0, "findings")
				return
			}
			if len(state.Findings) != 1 || state.Findings[0].Scope() != c.scope || state.Findings[0].Process != "serve" || !state.Findings[0].OOMDue {
				t.Fatalf("findings %+v, want one with the scope %s", state.Findings, c.scope)
			}
			left := state.Findings[0].OOM.V
			if p := state.Processes[0].Verdict.SecondsToOOM; p.V != left || c.minutes > 0 && (left < (c.minutes-10)*60 || left > (c.minutes+10)*60) {
				t.Errorf("it ends in %g s, and the process in %v", left, p)
			}
			c.workload(t, state)
			var said []finding.Message
			for d := range state.Domains() {
				said = append(said, d.Messages()...)
			}
			if len(said) != 1 || !strings.HasPrefix(said[0].Summary, c.says) || !strings.HasPrefix(said[0].Detail, "serve (pid 7) of pod ml/a, container main grows by 102 MiB/min.") {
				t.Errorf("it says %+v", said)
			}
		})
	}
}

// workload checks that a pod with one process is a workload if its container has a limit, and that what is limited has a name and a curve.
func (s *sharedGPU) workload(t *testing.T, state *DeviceState) {
	t.Helper()
	who := finding.Who{Namespace: "ml", Pod: "a", Container: "main", Process: "serve"}
	if x := state.Limited; len(x) != 1 || x[0].Who != who || x[0].Curve == nil {
		t.Errorf("limited %+v", x)
	}
	w := state.Workloads
	if s.limits[0].Of == "" {
		equal(t, len(w), 0, "workloads")
	} else if p := &state.Processes[0]; len(w) != 1 || w[0].Who != who.AsWhole() || w[0].Used != p.Used.V || len(w[0].Limits) != len(s.limits) || w[0].Verdict.SecondsToOOM != p.Verdict.SecondsToOOM {
		t.Errorf("workloads %+v", w)
	}
}

// TestLimitIsRestored has a restart in the middle of a leak, and nobody tells the limit at first: the verdict stays.
func TestLimitIsRestored(t *testing.T) {
	s, before, after := sharedGPU{leaks, 10, []gpu.Limit{dmem(16)}}, offline(t), offline(t)
	s.watch(before, 0, 120*time.Minute)
	goOn(t, before, after)
	sample := s.at(120*time.Minute - time.Second)
	sample.Processes[0].Limits = nil
	equal(t, len(after.Judge(sample).Limited), 0, "limits")
	if state := s.watch(after, 120*time.Minute, 125*time.Minute); len(state.Findings) != 1 || state.Findings[0].Scope() != "workload" {
		t.Errorf("findings %+v", state.Findings)
	}
}

// TestUnusableLimits has limits that cannot be read, or bound nothing, beside one that does: that is said once of each source, and
// nothing else is lost.
func TestUnusableLimits(t *testing.T) {
	var out lines
	o := offline(t)
	o.loop.processes.cfg.Logger = log.NewLogfmtLogger(&out)
	s := sharedGPU{func(float64) float64 { return 4 }, 10, []gpu.Limit{dmem(0), dmem(16), {Source: gpu.LimitDmem, Of: "another"}, {Source: gpu.LimitMPS, Bytes: 1 << 60}}}
	state := s.watch(o, 0, time.Minute)
	if x := state.Limited; len(x) != 1 || x[0].Memory.Total.V != 16<<30 || len(state.Processes) != 2 || len(state.Processes[0].Limits) != 1 {
		t.Errorf("limited %+v of processes %+v", x, state.Processes)
	}
	out.says(t, 1, "source=dmem of=/pods/a/main")
	out.says(t, 1, "source=mps of=process:7-1")
	out.says(t, 2, "a limit on GPU memory cannot be read, is 0, or is above the memory of the GPU")
}

// limiting are probes that tell a limit of each process.
type limiting struct{ *probes }

func (limiting) Of(gpu.ProcessID) []allocator.Record {
	return []allocator.Record{{Allocator: gpu.Allocator{Framework: "torch", Reserved: gpu.Some(uint64(3 << 30)), Limit: gpu.Some(uint64(16 << 30))}}}
}

func (limiting) SitesOn(string, *gpu.Sample, *gpu.Process) *allocator.Sites { return nil }

// TestLimitOfProbe has a probe tell the limit of a process: it is judged as that.
func TestLimitOfProbe(t *testing.T) {
	o := offline(t)
	o.loop.sampler.cfg.Allocators = limiting{&probes{}}
	s := sharedGPU{func(float64) float64 { return 4 }, 10, nil}
	if x := s.watch(o, 0, time.Minute).Limited; len(x) != 2 || x[0].Of != "process:7-1" || x[0].Memory.Total.V != 17<<30 || x[1].Memory.Total.V != 23<<30 {
		t.Errorf("limited %+v", x)
	}
}

// run judges samples of others every 10 s.
func run(o *Offline, from, to time.Duration, at func(time.Duration) *gpu.Sample) (last *DeviceState) {
	for t := from; t < to; t += 10 * time.Second {
		last = o.Judge(at(t))
	}
	return last
}

// TestCrashLoopAtALimit has a program die at its limit again and again, and wait between its lives. A limit that only goes away kills nothing.
func TestCrashLoopAtALimit(t *testing.T) {
	t.Run("of a container", func(t *testing.T) { crashLoopAt(t, dmem(16)) })
	t.Run("of each process", func(t *testing.T) { crashLoopAt(t, gpu.Limit{Source: gpu.LimitMPS, Bytes: 16 << 30}) })
}

func crashLoopAt(t *testing.T, limit gpu.Limit) {
	t.Helper()
	s := sharedGPU{func(m float64) float64 { return min(15.9, 6+2*math.Mod(m, 10)) }, 10, []gpu.Limit{limit}}
	lives := func(dies bool) func(at time.Duration) *gpu.Sample {
		return func(at time.Duration) *gpu.Sample {
			sample, life := s.at(at), at/(10*time.Minute)
			switch ended := at%(10*time.Minute) > 8*time.Minute; {
			case !dies:
				other := sample.Processes[0] // stays within it
				other.ID.PID, other.Used = 9, gpu.Some(uint64(32<<20))
				if sample.Processes = append(sample.Processes, other); ended {
					sample.Processes[0].Limits = nil
				}
			case ended:
				sample.Processes = sample.Processes[1:]
				sample.Memory.Used.V = sample.Processes[0].Used.V
			default:
				sample.Processes[0].ID = gpu.ProcessID{PID: 100 + uint32(life), Start: 1}
			}
			return sample
		}
	}
	before, o := offline(t), offline(t)
	run(before, 0, 19*time.Minute, lives(true))
	goOn(t, before, o) // between two lives
	state := run(o, 19*time.Minute, 20*time.Minute, lives(true))
	if want := (gpu.Memory{Total: gpu.Some(limit.Bytes), Used: nothing}); len(state.Limited) != 1 || state.Limited[0].Memory != want {
		t.Errorf("between two lives: %+v", state.Limited)
	}
	state = run(o, 20*time.Minute, 40*time.Minute, lives(true))
	if i := slices.IndexFunc(state.Findings, func(f FindingState) bool { return f.CrashLoop }); i < 0 || state.Findings[i].Scope() != "workload" || state.Findings[i].Pod != "a" || len(state.Limited) != 1 {
		t.Errorf("findings %+v on %+v", state.Findings, state.Limited)
	}
	// Many other limits come and go meanwhile.
	state = run(o, 40*time.Minute, 65*time.Minute, func(at time.Duration) *gpu.Sample {
		sample := s.at(at)
		sample.Processes = sample.Processes[1:]
		sample.Processes[0].Owner = &gpu.Owner{Process: at.String()}
		sample.Processes[0].Limits = []gpu.Limit{{Source: gpu.LimitDmem, Of: at.String(), Bytes: 16 << 30}}
		return sample
	})
	if !slices.ContainsFunc(state.Findings, func(f FindingState) bool { return f.CrashLoop && f.IsLimit() && f.Pod == "a" }) {
		t.Errorf("among many other limits: %+v", state.Findings)
	}
	// It never starts again: the finding ends, and the limit is not shown.
	state = run(o, 65*time.Minute, 110*time.Minute, func(at time.Duration) *gpu.Sample {
		sample := s.at(at)
		sample.Processes = sample.Processes[1:]
		return sample
	})
	if len(state.Limited) != 0 || len(state.Findings) != 0 {
		t.Errorf("an hour later: %+v, %+v", state.Limited, state.Findings)
	}
	o = offline(t)
	run(o, 0, 60*time.Minute, lives(false))
	equal(t, len(o.loop.sampler.cfg.Incidents.Now().List), 0, "incidents of a process that lives on without its limit")
}

// TestZombieWithALimit has one finding.
func TestZombieWithALimit(t *testing.T) {
	s := sharedGPU{func(float64) float64 { return 8 }, 10, []gpu.Limit{dmem(16)}}
	state := run(offline(t), 0, 3*time.Hour, func(at time.Duration) *gpu.Sample {
		sample := s.at(at)
		p := &sample.Processes[0]
		p.SM, p.CPU, p.State, p.Orphaned = gpu.Some(0.0), gpu.Some(time.Second), "S", true
		return sample
	})
	if len(state.Findings) != 1 || !state.Findings[0].Zombie.OK || state.Findings[0].Scope() != "gpu" {
		t.Errorf("findings %+v", state.Findings)
	}
}

// TestEarlierEnd has the verdicts of two memories on the same process: the one whose end comes first holds, and a leak stays a leak.
func TestEarlierEnd(t *testing.T) {
	ends := func(left float64, leak bool) detector.Verdict {
		return detector.Verdict{Judged: true, Leak: leak, SecondsToOOM: detector.Of(left)}
	}
	for name, c := range map[string]struct {
		gpu, limit detector.Verdict
		ofLimit    bool
	}{
		"the limit is first":                 {ends(20, true), ends(10, true), true},
		"the GPU is first":                   {ends(10, true), ends(20, true), false},
		"the limit is not judged yet":        {ends(20, false), detector.Verdict{SecondsToOOM: detector.Of(10)}, false},
		"the limit has no end":               {ends(20, false), detector.Verdict{Judged: true}, false},
		"the GPU has no end":                 {detector.Verdict{Judged: true}, ends(10, false), true},
		"a limit that is new has a forecast": {ends(20, true), ends(10, false), false},
		"neither leaks yet":                  {ends(20, false), ends(10, false), true},
	} {
		want := c.gpu
		if c.ofLimit {
			want = c.limit
		}
		equal(t, earlier(c.gpu, c.limit), want, "%s: verdict", name)
	}
}

// TestFirstEnd has the memories of a leak that one page is about.
func TestFirstEnd(t *testing.T) {
	serve := finding.Who{Namespace: "ml", Pod: "a", Process: "serve"}
	train := finding.Who{Namespace: "ml", Pod: "a", Process: "train"}
	pod := finding.Who{Namespace: "ml", Pod: "a", Whole: true}
	log := finding.Who{Namespace: "ml", Pod: "a", Process: "log"} // has no limit
	key, whole := MemoryKey{Of: "/a"}, MemoryKey{}
	within := func(w finding.Who) ProcessState {
		return ProcessState{Process: gpu.Process{Owner: &gpu.Owner{Namespace: w.Namespace, Pod: w.Pod, Process: w.Process}, Limits: []gpu.Limit{{Of: key.Of}}}}
	}
	firstEnd := func(list, last []FindingState) []FindingState {
		state := DeviceState{Findings: list, Processes: []ProcessState{within(serve), within(train)}}
		state.firstEnd(&DeviceState{Findings: last})
		return state.Findings
	}
	of := func(key MemoryKey, w finding.Who, left float64, due bool) FindingState {
		return FindingState{MemoryKey: key, Finding: finding.Finding{Who: w, OOM: detector.Of(left), OOMDue: due}}
	}
	for name, c := range map[string]struct {
		list []FindingState
		last []FindingState
		want []float64 // the time left of those that stay
	}{
		"the limit is first":                  {list: []FindingState{of(whole, serve, 20, true), of(key, serve, 10, true)}, want: []float64{10}},
		"the GPU is first":                    {list: []FindingState{of(whole, serve, 10, true), of(key, serve, 20, true)}, want: []float64{10}},
		"the limit still waits":               {list: []FindingState{of(whole, serve, 20, true), of(key, serve, 10, false)}, last: []FindingState{of(whole, serve, 20, true)}, want: []float64{20}},
		"the GPU still waits":                 {list: []FindingState{of(whole, serve, 10, false), of(key, serve, 20, true)}, last: []FindingState{of(key, serve, 20, true)}, want: []float64{20}},
		"its ticket is a page soon":           {list: []FindingState{of(whole, serve, 20, true), of(key, serve, 10, false)}, last: []FindingState{of(key, serve, 10, true)}, want: []float64{10}},
		"hardly earlier than before":          {list: []FindingState{of(whole, serve, 10, true), of(key, serve, 11, true)}, last: []FindingState{of(key, serve, 11, true)}, want: []float64{11}},
		"much earlier than before":            {list: []FindingState{of(whole, serve, 10, true), of(key, serve, 20, true)}, last: []FindingState{of(key, serve, 20, true)}, want: []float64{10}},
		"the pod as a whole":                  {list: []FindingState{of(whole, pod, 20, true), of(key, serve, 10, true)}, want: []float64{10}},
		"another process of the pod":          {list: []FindingState{of(whole, train, 20, true), of(key, serve, 10, true)}, want: []float64{10}},
		"one of the pod that has no limit":    {list: []FindingState{of(whole, log, 20, true), of(key, serve, 10, true)}, want: []float64{10, 20}},
		"one of the pod with another limit":   {list: []FindingState{of(MemoryKey{Of: "/b"}, log, 20, true), of(key, serve, 10, true)}, want: []float64{10, 20}},
		"a culprit that the limit is not for": {list: []FindingState{of(whole, finding.Who{Process: "x"}, 20, true), of(key, serve, 10, true)}, want: []float64{10, 20}},
		"another GPU instance":                {list: []FindingState{of(MemoryKey{Instance: gpu.Some(uint32(1))}, serve, 20, true), of(key, serve, 10, true)}, want: []float64{10, 20}},
		"two limits":                          {list: []FindingState{of(MemoryKey{Of: "/b"}, serve, 20, true), of(key, serve, 10, true)}, want: []float64{10}},
	} {
		var left []float64
		for _, f := range firstEnd(c.list, c.last) {
			left = append(left, f.OOM.V)
		}
		if !slices.Equal(left, c.want) {
			t.Errorf("%s: %v, want %v", name, left, c.want)
		}
	}
	// A leak that has lasted for long on the GPU is no new one at the limit.
	list := firstEnd([]FindingState{
		{Finding: finding.Finding{Who: serve, Leaking: detector.Of(1), LeakDue: true, NearlyFull: true}},
		{MemoryKey: key, Finding: finding.Finding{Who: serve, OOM: detector.Of(10), OOMDue: true, NearlyFull: true}},
	}, nil)
	if len(list) != 1 || list[0].MemoryKey != key || !list[0].LeakDue || list[0].Leaking.V != 1 {
		t.Errorf("%+v", list)
	}
	full := finding.Finding{Who: serve, NearlyFull: true, CrashLoop: true}
	equal(t, firstEnd([]FindingState{{Finding: full}, {MemoryKey: key, Finding: full}}, nil), []FindingState{{key, full}}, "what is no growth")
	grows := full
	grows.OOM, grows.OOMDue = detector.Of(10), true
	list = firstEnd([]FindingState{{Finding: grows}, {MemoryKey: key, Finding: full}}, nil)
	equal(t, list, []FindingState{of(whole, serve, 10, true), {key, full}}, "what is no growth, beside growth")
}

// TestNextLife has a process with a limit after one has ended: its memory goes on if it has the same labels.
func TestNextLife(t *testing.T) {
	serve, train := &gpu.Owner{Process: "serve"}, &gpu.Owner{Process: "train"}
	first := MemoryKey{Of: aProcess + "7"}
	ended := gpu.ProcessID{PID: 7, Start: 1}
	for name, c := range map[string]struct {
		process gpu.Process
		of      string
		beside  gpu.ProcessID
		limits  int // of others
		same    bool
	}{
		"the same":                  {process: gpu.Process{Owner: serve}, of: aProcess + "8", same: true},
		"where there are too many":  {process: gpu.Process{Owner: serve}, of: aProcess + "8", limits: mostLimited, same: true},
		"another program":           {process: gpu.Process{Owner: train}, of: aProcess + "8"},
		"on another GPU instance":   {process: gpu.Process{Owner: serve, Instance: gpu.Some(uint32(1))}, of: aProcess + "8"},
		"beside the first":          {process: gpu.Process{Owner: serve, Limits: []gpu.Limit{{Of: first.Of}}}, of: aProcess + "8"},
		"while its limit is absent": {process: gpu.Process{Owner: serve}, of: aProcess + "8", beside: ended},
		"in a control group":        {process: gpu.Process{Owner: serve}, of: "/docker/b"},
	} {
		l := offline(t).loop
		before := l.newMemory(MemoryState{MemoryKey: first, Who: finding.Of(serve)})
		must(t, before.domain.Observe(&detector.Frame[gpu.ProcessID]{T: 1, Members: []detector.Member[gpu.ProcessID]{{Key: ended}}}))
		earlier := l.newMemory(MemoryState{MemoryKey: MemoryKey{Of: aProcess + "9"}, Who: before.Who})
		before.finding.Seen = 1
		l.memories[first], l.memories[earlier.MemoryKey] = before, earlier
		for n := range c.limits {
			l.memories[MemoryKey{Of: strconv.Itoa(n)}] = &memory{domain: earlier.domain}
		}
		l.bound(&gpu.Sample{Processes: []gpu.Process{c.process, {ID: c.beside}}}, &c.process, c.of)
		if now := l.memories[MemoryKey{c.process.Instance, c.of}]; now == nil || (now == before) != c.same || (l.memories[first] == nil) != c.same {
			t.Errorf("%s: %d memories", name, len(l.memories))
		}
	}
}

// TestLimitsAreBounded has more and more control groups, and then one: those without a process are forgotten, also where a list is never
// complete.
func TestLimitsAreBounded(t *testing.T) {
	for _, complete := range []bool{true, false} {
		s, o := sharedGPU{func(float64) float64 { return 4 }, 10, nil}, offline(t)
		judge := func(at time.Duration) *DeviceState {
			sample := s.at(at)
			sample.ProcessesComplete = complete
			return o.Judge(sample)
		}
		for i, n := range []int{1, 2, mostLimited - 1, mostLimited, mostLimited + 1, 2 * mostLimited} {
			for len(s.limits) < n {
				s.limits = append(s.limits, gpu.Limit{Source: gpu.LimitDmem, Of: fmt.Sprint("/pods/", len(s.limits)), Bytes: 16 << 30})
			}
			equal(t, len(judge(time.Duration(i)*time.Second).Limited), min(n, mostLimited), "limits")
		}
		s.limits = s.limits[len(s.limits)-1:]
		judge(2 * time.Hour)
		judge(2*time.Hour + time.Second)
		equal(t, len(o.loop.memories), 2, "memories")
	}
}

// TestUnknownMemoryInALimit has a program whose memory the driver does not tell: its limit is there.
func TestUnknownMemoryInALimit(t *testing.T) {
	s := sharedGPU{func(float64) float64 { return 4 }, 10, []gpu.Limit{dmem(16)}}
	sample := s.at(0)
	sample.Processes[0].Used.OK = false
	if x := offline(t).Judge(sample).Limited; len(x) != 1 || x[0].Memory.Used.OK {
		t.Errorf("limited %+v", x)
	}
}

// TestChargeIsOld has a program whose memory comes and goes between two readings of what is charged: others are charged for as much as
// at the last reading, also after a moment without the limit.
func TestChargeIsOld(t *testing.T) {
	limit := gpu.Limit{Source: gpu.LimitDmem, Of: "/a", Bytes: 20 << 30, Charged: gpu.Some(uint64(12 << 30))}
	s, o := sharedGPU{func(m float64) float64 { return 10 - 12*m }, 10, nil}, offline(t)
	if state := run(o, 0, 30*time.Second, func(at time.Duration) *gpu.Sample {
		sample := s.at(at)
		if at != 10*time.Second {
			sample.Processes[0].Limits = []gpu.Limit{limit}
		}
		return sample
	}); state.Limited[0].Memory.Reserved.V != 2<<30 {
		t.Errorf("%+v", state.Limited[0].Memory)
	}
}

// TestLimitOnAnInstance has a limit in a GPU instance: that is no other layout, and the end of its list is no end of its process. Another
// layout ends its history.
func TestLimitOnAnInstance(t *testing.T) {
	s, o, profile := sharedGPU{func(float64) float64 { return 15.9 }, 10, []gpu.Limit{dmem(16)}}, offline(t), "1g"
	at := func(at time.Duration) *gpu.Sample {
		sample := s.at(at)
		sample.Instances = []gpu.Instance{{ID: 1, Profile: profile, Memory: sample.Memory}}
		for i := range sample.Processes {
			sample.Processes[i].Instance = gpu.Some(uint32(1))
		}
		if at == 50*time.Second {
			sample.Processes, sample.ProcessesComplete = nil, false
		}
		return sample
	}
	state := run(o, 0, time.Minute, at)
	if n := state.Judgement.Resets[detector.ReasonRepartition]; n != 0 || len(state.Instances) != 1 || len(state.Limited) != 0 {
		t.Errorf("%d layouts, %+v", n, state.Limited)
	}
	equal(t, len(state.Findings), 0, "findings")
	after := offline(t)
	goOn(t, o, after)
	if n := after.Judge(at(55 * time.Second)).Judgement.Resets[detector.ReasonRepartition]; n != 0 {
		t.Errorf("%d other layouts after a restart", n)
	}
	profile = "2g"
	sample := at(time.Minute)
	if state = o.Judge(sample); len(state.Limited) != 1 || o.loop.memories[state.Limited[0].MemoryKey].history.first != sample.T {
		t.Errorf("limited %+v", state.Limited)
	}
}

// TestGroupInAContainer has a program in a control group of its own within a container: its limit is not that of the container.
func TestGroupInAContainer(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	owner := gpu.Owner{ContainerID: id, Namespace: "ml", Pod: "a", Container: "main", Variables: "CUDA_DEVICE_MEMORY_LIMIT=18g"}
	outer := gpu.Limit{Source: gpu.LimitDmem, Of: "/pods/cri-" + id + ".scope", Bytes: 20 << 30}
	inner := gpu.Limit{Source: gpu.LimitDmem, Of: outer.Of + "/system.slice/x.service", Bytes: 5 << 30}
	s := sharedGPU{func(float64) float64 { return 4 }, 10, []gpu.Limit{inner, outer}}
	sample := s.at(0)
	sample.Processes[0].Owner = &owner
	sample.Processes[1].Owner, sample.Processes[1].Limits = &owner, []gpu.Limit{outer}
	got := map[string]string{}
	for _, x := range offline(t).Judge(sample).Limited {
		got[x.Of] = fmt.Sprint(x.Memory.Used.V>>30, " of ", x.Memory.Total.V>>30)
	}
	equal(t, got, map[string]string{"ml/a/main": "14 of 18", "ml/a/main/system.slice/x.service": "4 of 5"}, "limits")
	for i := range sample.Processes { // outside of Kubernetes
		o := &gpu.Owner{ContainerID: strings.Repeat(strconv.Itoa(i), 64)}
		sample.Processes[i].Owner, sample.Processes[i].Limits = o, []gpu.Limit{{Source: gpu.LimitDmem, Of: "/docker/" + o.ContainerID, Bytes: 20 << 30}}
	}
	equal(t, len(offline(t).Judge(sample).Limited), len(sample.Processes), "limits of containers without a pod")
}

// TestLimitsOfAPod has a pod of two containers: its limits are those on both.
func TestLimitsOfAPod(t *testing.T) {
	on := func(of, source string, gib uint64) gpu.Limit {
		return gpu.Limit{Source: source, Of: of, Bytes: gib << 30}
	}
	pod, main, sidecar := on("/pods/a", gpu.LimitDmem, 32), on("main", gpu.LimitHAMi, 16), on("sidecar", gpu.LimitHAMi, 16)
	for name, c := range map[string]struct {
		main, sidecar []gpu.Limit
		sidecarUses   uint64
		want          []uint64 // GiB
	}{
		"each has its own":       {main: []gpu.Limit{main}, sidecar: []gpu.Limit{sidecar}, sidecarUses: 4},
		"only one has one":       {main: []gpu.Limit{main}, sidecarUses: 1},
		"one of the pod":         {main: []gpu.Limit{pod}, sidecar: []gpu.Limit{pod}, sidecarUses: 1, want: []uint64{32}},
		"of the pod and of each": {main: []gpu.Limit{pod, main}, sidecar: []gpu.Limit{pod, sidecar}, sidecarUses: 4, want: []uint64{32}},
		"the other uses nothing": {main: []gpu.Limit{main}, sidecar: []gpu.Limit{sidecar}, want: []uint64{16}},
	} {
		s, o := sharedGPU{func(float64) float64 { return 4 }, 10, c.main}, offline(t)
		state := run(o, 0, time.Minute, func(at time.Duration) *gpu.Sample {
			sample := s.at(at)
			sample.Processes = append(sample.Processes, gpu.Process{
				ID: gpu.ProcessID{PID: 9, Start: 1}, Used: gpu.Some(c.sidecarUses << 30), Limits: c.sidecar,
				Owner: &gpu.Owner{Process: "log", Namespace: "ml", Pod: "a", Container: "sidecar"},
			})
			sample.Memory.Used.V += c.sidecarUses << 30
			return sample
		})
		var got []uint64
		for _, l := range state.Workloads[0].Limits {
			got = append(got, l.Bytes>>30)
		}
		if len(state.Workloads) != 1 || state.Workloads[0].Used != (4+c.sidecarUses)<<30 || !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v", name, state.Workloads)
		}
		if x := state.Limited[0]; (x.Of == pod.Of) != (x.Who == finding.Who{Namespace: "ml", Pod: "a"}) { // what both containers have in common
			t.Errorf("%s: %+v", name, x.Who)
		}
	}
}

// TestLimitOfANamespace has a pod whose namespace looks like a process: its limit is that of a workload. One on a process is none.
func TestLimitOfANamespace(t *testing.T) {
	for of, want := range map[string]int{"process-mining/a/main": 1, aProcess + "7-1": 0} {
		d := DeviceState{}
		d.addLimit(&MemoryState{MemoryKey: MemoryKey{Of: of}, Who: finding.Who{Namespace: "process-mining", Pod: "a"}, Memory: gpu.Memory{Used: gpu.Some(uint64(1))}}, nil)
		equal(t, len(d.Workloads), want, "workloads with the limit of %s", of)
	}
}

// TestRulesOfALimit has a second container come into a pod: the limit of both asks for its rules again.
func TestRulesOfALimit(t *testing.T) {
	s, o := sharedGPU{func(float64) float64 { return 4 }, 10, []gpu.Limit{dmem(16)}}, offline(t)
	o.loop.sampler.Configure(func(labels map[string]string) detector.Config {
		c := detector.DefaultConfig()
		c.Mute = labels["scope"] == "workload" && labels["container"] == "main"
		return c
	})
	for _, pids := range [][]uint32{{}, {9}} {
		state := run(o, 0, time.Minute, func(at time.Duration) *gpu.Sample {
			sample := s.at(at + time.Duration(len(pids))*time.Minute)
			for _, pid := range pids {
				sidecar := sample.Processes[0]
				sidecar.ID.PID, sidecar.Owner = pid, &gpu.Owner{Process: "log", Namespace: "ml", Pod: "a", Container: "sidecar"}
				sample.Processes = append(sample.Processes, sidecar)
			}
			return sample
		})
		equal(t, state.Limited[0].Judgement.Device.Muted, len(pids) == 0, "is a rule on the container main followed")
	}
}

// TestLimitsBeforeTheFirstAnswer has the pod and the limits of before a restart until the container runtime has answered. They join those
// that the driver tells of the container's group and of one above it. What the source has shared is left as it is.
func TestLimitsBeforeTheFirstAnswer(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	var answer gpu.Owner
	done := false
	table := newProcessTable(Config{Logger: log.NewNopLogger(), Owners: &owners{owner: func(gpu.ProcessID) (*gpu.Owner, bool) { return &answer, done }}}, "GPU-0", "0", func() *jobsState { return nil })
	known := gpu.Owner{ContainerID: id, Namespace: "ml", Pod: "a", Container: "main", Variables: "CUDA_DEVICE_MEMORY_LIMIT=20g"}
	table.entries[processKey{id: gpu.ProcessID{PID: 7, Start: 1}}] = &processEntry{owner: &known}
	s := sharedGPU{func(float64) float64 { return 4 }, 10, nil}
	on := func(source, of string, gib uint64) gpu.Limit {
		return gpu.Limit{Source: source, Of: of, Bytes: gib << 30}
	}
	drivers := []gpu.Limit{on(gpu.LimitNVML, "/kubepods/cri-"+id+".scope", 16), on(gpu.LimitNVML, "/kubepods", 40), on(gpu.LimitNVML, "/", 0)}
	want := []gpu.Limit{on(gpu.LimitNVML, "ml/a/main", 16), drivers[1]}
	located := known
	located.Variables = "CUDA_DEVICE_MEMORY_LIMIT=30g"
	for i, c := range []struct {
		answer gpu.Owner
		done   bool
		hami   uint64 // GiB
	}{{gpu.Owner{}, false, 20}, {gpu.Owner{ContainerID: id}, false, 20}, {located, true, 30}} {
		answer, done = c.answer, c.done
		sample := s.at(time.Duration(i) * time.Second)
		p := &sample.Processes[0]
		p.Owner, p.Limits = nil, drivers
		table.note(sample)
		equal(t, p.Limits, append(want, on(gpu.LimitHAMi, "ml/a/main", c.hami)), "sample %d", i)
		equal(t, drivers[0].Of, "/kubepods/cri-"+id+".scope", "what the source has")
		if p.Owner.Pod != "a" {
			t.Errorf("sample %d: %+v", i, p.Owner)
		}
	}
}

// TestRuntimeForgets has a container runtime that does not know a container any more after a restart, and a process that ends meanwhile:
// they keep their pod and limits. What was in no pod gets none.
func TestRuntimeForgets(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	before := gpu.Owner{Process: "serve", ContainerID: id, Namespace: "ml", Pod: "a", Container: "main", Variables: "CUDA_DEVICE_MEMORY_LIMIT=20g"}
	docker, running := gpu.Owner{Process: "serve", ContainerID: id}, gpu.Owner{Process: "serve", ContainerID: id, Runs: 5}
	for name, c := range map[string]struct{ before, answer, want gpu.Owner }{
		"the container is forgotten": {before, running, before},
		"the process is a zombie":    {before, gpu.Owner{}, before},
		"it has another name":        {before, gpu.Owner{ContainerID: id, Pod: "b"}, gpu.Owner{ContainerID: id, Pod: "b"}},
		"it was in no pod":           {docker, running, running},
		"it was in no container":     {gpu.Owner{Process: "x"}, running, running},
	} {
		owned := &owners{owner: func(gpu.ProcessID) (*gpu.Owner, bool) { return &c.answer, true }}
		table := newProcessTable(Config{Owners: owned}, "GPU-0", "0", func() *jobsState { return nil })
		table.entries[processKey{id: gpu.ProcessID{PID: 7, Start: 1}}] = &processEntry{owner: &c.before}
		s := sharedGPU{func(float64) float64 { return 4 }, 10, nil}
		for n := range 2 {
			sample := s.at(time.Duration(n) * time.Second)
			sample.Processes[0].Owner = nil
			table.note(sample)
			equal(t, *sample.Processes[0].Owner, c.want, "%s: owner at sample %d", name, n)
			equal(t, len(sample.Processes[0].Limits), min(1, len(c.want.Variables)), "%s: limits", name)
		}
	}
}
