// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// incidentsOf returns the incidents, the oldest first.
func incidentsOf(s *Sampler) []*incident.Incident {
	list := s.State().Incidents.List
	slices.Reverse(list)
	return list
}

// scriptTime is the wall clock of a scriptDevice at that second.
func scriptTime(second int) time.Time {
	return time.Unix(0, int64(scriptStart)).Add(time.Duration(second) * time.Second).UTC()
}

// lastOf returns the last value of a course.
func lastOf(course []gpu.Opt[uint64]) gpu.Opt[uint64] { return course[len(course)-1] }

// whole checks what each incident has: lists, and the course of an hour that ends with it.
func whole(t *testing.T, i *incident.Incident) {
	t.Helper()
	begin := i.Time.Add(-incident.Span).Truncate(incident.Step)
	if i.Processes == nil || !i.Start.Equal(begin) || len(i.Course) != incident.MaxCourse {
		t.Errorf("incident of %s begins %s and has %d values, %d processes", i.Time, i.Start, len(i.Course), len(i.Processes))
	}
	for _, p := range i.Processes {
		equal(t, len(p.Course), len(i.Course), "values of a process")
	}
}

// only returns the only incident of a list.
func only(t *testing.T, list []*incident.Incident) *incident.Incident {
	t.Helper()
	if len(list) != 1 {
		t.Fatalf("%d incidents: %+v", len(list), list)
	}
	whole(t, list[0])
	return list[0]
}

// looping is a GPU on which a program grows until the memory is full every 1000 s, and begins again 16 s later. Another one takes
// what it leaves at once, within the same step of the courses.
func looping(second int) (gpu.Sample, error) {
	life, age := second/1000, second%1000
	server, used := process(2, 10<<30), uint64(age)*70<<20
	if age >= 984 {
		server.Used.V = 60 << 30
		return flat(server.Used.V, server)(second)
	}
	p := process(uint32(100+life), used)
	p.Owner = &gpu.Owner{Process: "train.py", Namespace: "ml", Pod: "train-0"}
	p.Started = gpu.Some(scriptStart + time.Duration(life)*1000*time.Second)
	return flat(server.Used.V+used+1<<30, server, p)(second)
}

// TestCrashLoopHasIncidents has an incident soon after each death in a full memory, which knows who filled it and ends there.
func TestCrashLoopHasIncidents(t *testing.T) {
	runSampler(t, &scriptSource{devices: []gpu.Device{newGPU(0, looping)}}, nil, func(s *Sampler, out *lines) {
		after(982 * time.Second)
		equal(t, len(incidentsOf(s)), 0, "incidents before the first death")
		for life := range 4 {
			after(7 * time.Second) // the death is at 984 s, between two samples
			list := incidentsOf(s)
			if len(list) != life+1 {
				t.Fatalf("%d incidents 5 s after death %d", len(list), life+1)
			}
			i, pid := list[life], uint32(100+life)
			whole(t, i)
			equal(t, i.Kind, incident.OutOfMemory, "kind")
			equal(t, i.Time, scriptTime(1000*life+983), "time")
			equal(t, i.Used.V, uint64(11<<30+983*70<<20), "used memory")
			equal(t, lastOf(i.Course).V>>20, i.Used.V>>20, "the end of the course in MiB")
			equal(t, fmt.Sprint(i.Ended, len(i.Processes), i.Others), "1 2 0", "processes that ended, that are told, and others")
			died, other := i.Processes[0], i.Processes[1]
			equal(t, fmt.Sprint(died.PID, died.Ended, died.Pod, died.Used.V>>20), fmt.Sprint(pid, true, "train-0", 983*70), "what died")
			equal(t, fmt.Sprint(other.PID, other.Ended, other.Used.V>>30), "2 false 10", "what lives, as it was before")
			if want := fmt.Sprintf("train.py (pid %d) of pod ml/train-0 ended when GPU 0 was full (78.2 GiB of 79.0 GiB): it held 67.2 GiB, ", pid); !strings.HasPrefix(i.Text, want) {
				t.Errorf("death %d: %s, which does not begin with %s", life+1, i.Text, want)
			}
			out.says(t, 1, "page=/incidents#"+i.ID)
			told := i.Finding.At != nil
			if told != (i.Finding.By != "nothing") || told && i.Finding.At.After(i.Time) || told == strings.Contains(i.Text, "No alert foretold it") {
				t.Errorf("death %d: finding %+v, and it says %s", life+1, i.Finding, i.Text)
			}
			after(993 * time.Second)
		}
		counts := s.State().Incidents.Counts
		equal(t, counts[incident.Count{Kind: incident.OutOfMemory}], 4, "counted")
		foreseen := counts[incident.Count{Kind: incident.OutOfMemory, By: "page"}] + counts[incident.Count{Kind: incident.OutOfMemory, By: "ticket"}]
		equal(t, counts[incident.Count{Kind: incident.OutOfMemory, By: "nothing"}]+foreseen, 4, "counted by alerts")
		if last := incidentsOf(s)[3].Finding; last.By == "nothing" || last.Text == "" {
			t.Errorf("before the fourth death of a crash loop: %+v", last)
		}
	})
}

// TestDeathWhileUnread has an XID error and the death of a process while a GPU cannot be read for a moment: the incidents are of the last
// sample, and have the exit code of the container once that is known. They are soon on the disk.
func TestDeathWhileUnread(t *testing.T) {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		switch {
		case second <= 100:
			return flat(78<<30, process(1, 77<<30))(second)
		case second < 106:
			return gpu.Sample{}, errors.New("not now")
		}
		return flat(1 << 30)(second)
	})
	o, _ := containerEnds(badly)
	dir, source := t.TempDir(), &scriptSource{devices: []gpu.Device{d}}
	setup := func(c *Config) { c.Owners, c.Incidents = o, incident.NewStore(dir, incident.Most, nil) }
	runSampler(t, source, setup, func(s *Sampler, _ *lines) {
		after(102500 * time.Millisecond)
		source.events <- gpu.Event{UUID: "GPU-0", XID: 31, Time: time.Now()}
		after(6500 * time.Millisecond) // the next sample after an answer
		list := incidentsOf(s)
		if len(list) != 2 {
			t.Fatalf("incidents %+v", list)
		}
		whole(t, list[0])
		equal(t, fmt.Sprint(list[0].Kind, list[0].Time, len(list[0].Processes)), fmt.Sprint(incident.XID, scriptTime(100), 1), "kind of the first, its time, processes")
		i := list[1]
		whole(t, i)
		equal(t, fmt.Sprint(i.Time, i.Used.V>>30, len(i.Processes), i.Processes[0].Used.V>>30, i.Processes[0].ExitCode), fmt.Sprint(scriptTime(100), 78, 1, 77, gpu.Some(int32(1))), "time, use, processes, their use, exit code")
		after(20 * time.Second)
		list = incident.NewStore(dir, incident.Most, nil).Now().List
		equal(t, len(list), 2, "incidents on the disk")
		equal(t, list[1].Processes[0].ExitCode, gpu.Some(int32(1)), "exit code on the disk") // of one time, by kind
	})
}

// TestGoodEnd has processes leave a full memory: it is no incident if all ended well. That is known once their containers have ended;
// where that is not told for a minute, and when the exporter ends before, it is an incident.
func TestGoodEnd(t *testing.T) {
	const lasts = 100
	for name, c := range map[string]struct {
		containers []string
		answers    []end
		after      time.Duration
		want       int
	}{
		"well":                        {[]string{"c1", "c1"}, []end{well}, 5 * time.Minute, 0},
		"badly":                       {[]string{"c1", "c1"}, []end{badly}, 6 * time.Second, 1},
		"well, later":                 {[]string{"c1"}, []end{unknown, unknown, well}, 5 * time.Minute, 0},
		"badly, not yet":              {[]string{"c1"}, []end{unknown, unknown, badly}, 6 * time.Second, 0},
		"badly, later":                {[]string{"c1"}, []end{unknown, unknown, badly}, 12 * time.Second, 1},
		"one well, the other unknown": {[]string{"c1", ""}, []end{well}, 6 * time.Second, 1},
		"nine well":                   {[]string{"c1", "c1", "c1", "c1", "c1", "c1", "c1", "c1", "c1"}, []end{well}, 6 * time.Second, 0}, // eight are told of
		"unknown":                     {[]string{"c1"}, []end{unknown}, 70 * time.Second, 1},
		"in no container":             {[]string{""}, []end{well}, 6 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := newGPU(0, func(second int) (gpu.Sample, error) {
				if second > lasts {
					return flat(1 << 30)(second)
				}
				var list []gpu.Process
				for n, container := range c.containers {
					p := process(uint32(n+1), 78<<30/uint64(len(c.containers)))
					p.Owner = &gpu.Owner{Process: "train.py", ContainerID: container, Runs: 1}
					list = append(list, p)
				}
				return flat(79<<30, list...)(second)
			})
			o, _ := containerEnds(c.answers...)
			o.owner = nil
			runSampler(t, &scriptSource{devices: []gpu.Device{d}}, func(c *Config) { c.Owners = o }, func(s *Sampler, _ *lines) {
				after(lasts*time.Second + c.after)
				equal(t, len(incidentsOf(s)), c.want, "incidents")
				equal(t, int(s.State().Incidents.Counts[incident.Count{Kind: incident.OutOfMemory}]), c.want, "counted")
			})
		})
	}
	o, _ := containerEnds(unknown)
	dir := t.TempDir()
	setup := func(c *Config) { c.Owners, c.Incidents = o, incident.NewStore(dir, incident.Most, nil) }
	runSampler(t, &scriptSource{devices: []gpu.Device{leaves(lasts)}}, setup, func(s *Sampler, _ *lines) {
		after((lasts + 5) * time.Second)
		equal(t, len(incidentsOf(s)), 0, "incidents before the end of the exporter")
	})
	equal(t, len(incident.NewStore(dir, incident.Most, nil).Now().List), 1, "incidents on the disk after it")
}

// TestLoopReplacedWhileAnEndIsUnknown has the index of a GPU change before it is known how its process ended: it is told once, and counts
// for a crash loop.
func TestLoopReplacedWhileAnEndIsUnknown(t *testing.T) {
	o, _ := containerEnds(unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown, badly)
	old, renumbered := leaves(100), newGPU(1, flat(1<<30))
	renumbered.info.UUID, renumbered.second = old.info.UUID, 110
	source := &scriptSource{devices: []gpu.Device{old}}
	runSampler(t, source, func(c *Config) { c.Owners = o }, func(s *Sampler, _ *lines) {
		after(102 * time.Second)
		source.set(nil, renumbered)
		after(20 * time.Second)
		equal(t, s.State().Devices[0].Info.Index, 1, "the index")
		equal(t, len(incidentsOf(s)), 0, "incidents while the end is unknown")
		after(10 * time.Second)
		equal(t, len(incidentsOf(s)), 1, "incidents")
		equal(t, len(s.shared.Load().loops[0].whole.finding.Ends), 1, "ends that count for a crash loop")
	})
}

// TestJobsThatEndWell has jobs fill the memory of a GPU, or their limit, one after the other: they are a crash loop unless they end well.
// One that ends well with them is not to blame.
func TestJobsThatEndWell(t *testing.T) {
	for name, c := range map[string]struct {
		container string // of the job
		answer    end
		limit     uint64
		crowded   bool // the GPU is full in every second life, too
		loop      bool
	}{
		"well":                            {"c1", well, 0, false, false},
		"badly":                           {"c1", badly, 0, false, true},
		"unknown, and another one well":   {"", well, 0, false, true},
		"well at a limit":                 {"c1", well, 68 << 30, false, false},
		"badly at a limit":                {"c1", badly, 68 << 30, false, true},
		"badly at a limit of a full node": {"c1", badly, 68 << 30, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := containerEnds(unknown, c.answer)
			o.owner = nil
			d := newGPU(0, func(second int) (gpu.Sample, error) {
				s, err := looping(second)
				job := &s.Processes[len(s.Processes)-1]
				if c.limit > 0 {
					s.Memory.Total = gpu.Some(uint64(160 << 30))
				}
				if c.crowded && second/1000%2 == 1 {
					s.Memory.Used.V += 80 << 30
				}
				if job.ID.PID == 2 { // the job is over
					return s, err
				}
				job.Owner = &gpu.Owner{Process: "train.py", ContainerID: c.container}
				if c.limit > 0 {
					job.Limits = []gpu.Limit{{Source: gpu.LimitDmem, Of: "/c1", Bytes: c.limit}}
				}
				other := process(job.ID.PID-90, 1<<20)
				other.Started, other.Owner = job.Started, &gpu.Owner{Process: "eval.py", ContainerID: "c1"}
				s.Processes = slices.Insert(s.Processes, 0, other)
				return s, err
			})
			runSampler(t, &scriptSource{devices: []gpu.Device{d}}, func(c *Config) { c.Owners = o }, func(s *Sampler, _ *lines) {
				after(3080 * time.Second)
				list := s.State().Devices[0].Findings
				i := slices.IndexFunc(list, func(f FindingState) bool { return f.CrashLoop })
				equal(t, i >= 0, c.loop, "a crash loop")
				if i >= 0 {
					equal(t, list[i].Process, "train.py", "the program")
					equal(t, list[i].IsLimit(), c.limit > 0, "is it of the limit")
				}
			})
		})
	}
}

// TestCrashLoopsAtOnce has a program fill its limit again and again while a larger one fills the GPU, and both end together: the limit has
// the crash loop of its own program, and the GPU that of the larger one.
func TestCrashLoopsAtOnce(t *testing.T) {
	o, shared := offline(t), sharedGPU{func(float64) float64 { return 15.9 }, 63.5, []gpu.Limit{dmem(16)}}
	var got []string
	for n := range 40 {
		s := shared.at(time.Duration(n) * 10 * time.Second)
		for i := range s.Processes {
			s.Processes[i].ID.Start = uint64(1 + n/10)
		}
		if n%10 == 9 {
			s.Processes, s.Memory.Used.V = nil, 1<<30
		}
		for _, f := range o.Judge(s).Findings {
			if n == 39 && f.CrashLoop {
				got = append(got, f.Scope()+" "+f.Process)
			}
		}
	}
	slices.Sort(got)
	equal(t, got, []string{"gpu train", "workload serve"}, "crash loops")
}

// TestSupervisedCrashLoop has a supervisor start a program in its container again and again, each time within the minute for which an end
// may stay unknown.
func TestSupervisedCrashLoop(t *testing.T) {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		life, age := second/55, uint64(second%55)
		p := process(uint32(100+life), (age+1)*77<<30/50)
		p.Owner, p.Started = &gpu.Owner{Process: "serve.py", ContainerID: "c1"}, gpu.Some(scriptStart+time.Duration(life*55)*time.Second)
		if age >= 50 {
			return flat(1 << 30)(second)
		}
		return flat(p.Used.V+1<<30, p)(second)
	})
	o, _ := containerEnds(unknown)
	o.owner = nil
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, func(c *Config) { c.Owners = o }, func(s *Sampler, _ *lines) {
		after(10 * time.Minute)
		if list := s.State().Devices[0].Findings; len(list) != 1 || !list[0].CrashLoop || len(incidentsOf(s)) < 8 {
			t.Errorf("%d incidents, findings %+v", len(incidentsOf(s)), list)
		}
	})
}

// TestSeveralDie has three processes die at once, one of which is too young for series: the largest comes first.
func TestSeveralDie(t *testing.T) {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		all := []gpu.Process{process(1, 10<<30), process(2, 20<<30), process(4, 2<<30), process(5, 3<<30), process(3, 43<<30)}
		all[4].Started = gpu.Some(scriptStart + 95*time.Second)
		switch {
		case second <= 95:
			return flat(35<<30, all[:4]...)(second)
		case second <= 100:
			return flat(78<<30, all...)(second)
		}
		return flat(5<<30, all[2:4]...)(second)
	})
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, nil, func(s *Sampler, _ *lines) {
		after(110 * time.Second)
		i := only(t, incidentsOf(s))
		var got []string
		for _, p := range i.Processes {
			got = append(got, fmt.Sprint(p.PID, " ", p.Ended, " ", p.Used.V>>30))
		}
		equal(t, got, []string{"3 true 43", "2 true 20", "1 true 10", "5 false 3", "4 false 2"}, "processes")
		equal(t, i.Ended, 3, "ended")
	})
}

// probes have one process tell of its refusal.
type probes struct {
	Allocators
	pid     uint32
	refusal atomic.Pointer[allocator.Refusal]
}

func (*probes) Of(gpu.ProcessID) []allocator.Record { return nil }
func (*probes) Run(ctx context.Context)             { <-ctx.Done() }
func (*probes) Problem() error                      { return nil }
func (p *probes) RefusedOn(_ string, _ *gpu.Sample, of *gpu.Process) *allocator.Refusal {
	if of.ID.PID == p.pid {
		return p.refusal.Load()
	}
	return nil
}

// TestRefusalsAreIncidents has a process be refused memory and live, and one that is gone with the next sample, with a bystander.
func TestRefusalsAreIncidents(t *testing.T) {
	for pid, ended := range map[uint32]int{1: 1, 2: 0} {
		p := &probes{pid: pid}
		d := newGPU(0, func(second int) (gpu.Sample, error) {
			if second > 100 && pid == 1 {
				return flat(60 << 30)(second)
			}
			return flat(60<<30, process(2, 10<<30), process(1, 5<<30))(second)
		})
		source := &scriptSource{devices: []gpu.Device{d}}
		runSampler(t, source, func(c *Config) { c.Allocators = p }, func(s *Sampler, _ *lines) {
			after(100*time.Second + 500*time.Millisecond)
			p.refusal.Store(&allocator.Refusal{Asked: 2 << 30, Lines: []gpu.Line{{Line: "serve.py:41 handle", Bytes: 4 << 30}}})
			after(10 * time.Second)
			i := only(t, incidentsOf(s))
			equal(t, fmt.Sprint(i.Kind, i.Ended, i.Asked.V>>30, i.Processes[0].PID, i.Processes[0].Ended, i.Processes[1].Ended), fmt.Sprint(incident.Refused, ended, 2, pid, ended > 0, false), "it")
			equal(t, i.Processes[0].Lines, []gpu.Line{{Line: "serve.py:41 handle", Bytes: 4 << 30}}, "lines")
			source.events <- gpu.Event{UUID: "GPU-0", XID: 31, Time: time.Now()}
			after(10 * time.Second)
			for _, p := range incidentsOf(s)[1].Processes {
				equal(t, p.Lines, nil, "lines of pid %d in a later incident", p.PID)
			}
		})
	}
}

// TestDeathsThatAreNoIncidents has a process end in a half-empty memory, and one that ends where nobody knows how full it is.
func TestDeathsThatAreNoIncidents(t *testing.T) {
	for name, memory := range map[string]gpu.Memory{"half empty": memoryOf(40 << 30), "blind": {Total: gpu.Some(uint64(80 << 30))}} {
		d := newGPU(0, func(second int) (gpu.Sample, error) {
			s, err := flat(0, process(2, 1<<30), process(1, 39<<30))(second)
			s.Memory = memory
			if second > 100 {
				s.Processes = s.Processes[:1]
			}
			return s, err
		})
		runSampler(t, &scriptSource{devices: []gpu.Device{d}}, nil, func(s *Sampler, _ *lines) {
			after(200 * time.Second)
			equal(t, len(incidentsOf(s)), 0, "%s: incidents", name)
		})
	}
}

// TestListThatLacksAProcess has a list miss two processes of a full memory, between two verdicts. One is there again: it has not ended.
func TestListThatLacksAProcess(t *testing.T) {
	shared := sharedGPU{func(float64) float64 { return 63.5 }, 15.9, nil}
	i := only(t, incidentsOffline(t, nil, 2, 60, func(n int) *gpu.Sample {
		s := shared.at(time.Duration(n) * 10 * time.Second)
		if n >= 40 { // of which no verdict is seen
			s.Processes = s.Processes[:min(n-40, 1)]
		}
		return s
	}))
	equal(t, fmt.Sprint(i.Ended, i.Processes[0].PID, i.Processes[0].Ended, i.Processes[1].Ended), "1 8 true false", "ended, the first, its end, that of the other")
}

// TestHardwareIncidents has a lost GPU and XID errors that end programs, on GPUs of any kind: each has the processes of the last sample.
func TestHardwareIncidents(t *testing.T) {
	mig := func(second int) (gpu.Sample, error) {
		a, b := process(1, 3<<30), process(2, 4<<30)
		a.Instance, b.Instance = gpu.Some(uint32(1)), gpu.Some(uint32(2))
		s, err := flat(7<<30, a, b)(second)
		s.MIGEnabled = gpu.Some(true)
		s.Instances = []gpu.Instance{{ID: 1, Profile: "1g.10gb", Memory: memoryOf(3 << 30)}, {ID: 2, Profile: "1g.10gb", Memory: memoryOf(4 << 30)}}
		return s, err
	}
	blind := func(second int) (gpu.Sample, error) {
		s, err := flat(0, process(1, 3<<30), process(2, 4<<30))(second)
		s.Memory = gpu.Memory{}
		return s, err
	}
	plain := flat(7<<30, process(1, 3<<30), process(2, 4<<30))
	for name, sample := range map[string]func(int) (gpu.Sample, error){"a GPU": plain, "a GPU in MIG mode": mig, "a blind GPU": blind} {
		t.Run(name, func(t *testing.T) {
			d := newGPU(0, func(second int) (gpu.Sample, error) {
				if second > 120 {
					return gpu.Sample{}, fmt.Errorf("memory: %w", gpu.ErrLost)
				}
				return sample(second)
			})
			source := &scriptSource{devices: []gpu.Device{d}}
			runSampler(t, source, nil, func(s *Sampler, _ *lines) {
				after(100500 * time.Millisecond)
				for _, code := range []uint64{45, 31} {
					source.events <- gpu.Event{UUID: "GPU-0", XID: code, Time: time.Now()}
				}
				after(5 * time.Second)
				equal(t, len(incidentsOf(s)), 1, "incidents of XID 45 and 31")
				after(60 * time.Second)
				list := incidentsOf(s)
				equal(t, len(list), 2, "incidents of a GPU that stays lost")
				for n, want := range []struct {
					kind   incident.Kind
					xid    uint64
					second int
					begin  string
				}{{incident.XID, 31, 100, "GPU 0 reported XID 31: "}, {incident.Lost, 0, 120, "GPU 0 was lost: "}} {
					i := list[n]
					whole(t, i)
					equal(t, fmt.Sprint(i.Kind, i.XID, i.Time, i.Ended), fmt.Sprint(want.kind, want.xid, scriptTime(want.second), 0), "kind, XID, time, ended")
					equal(t, fmt.Sprint(len(i.Processes), i.Processes[0].PID, i.Processes[0].Used.V>>30), "2 2 4", "processes, the largest")
					if !strings.HasPrefix(i.Text, want.begin) {
						t.Errorf("it says %s", i.Text)
					}
				}
			})
		})
	}
}

// TestGPUThatIsListedNoMore has the list lack a GPU, before or after a sample of it fails: that is one incident. It is none without
// programs: someone may have taken the GPU away.
func TestGPUThatIsListedNoMore(t *testing.T) {
	programs := []gpu.Process{process(1, 3<<30)}
	for name, c := range map[string]struct {
		programs []gpu.Process
		lost     int // the second from which on it cannot be read
		want     int
	}{
		"the list first":    {programs, 1000, 1},
		"a sample first":    {programs, 100, 1},
		"without a program": {nil, 1000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			source := &scriptSource{devices: []gpu.Device{newGPU(0, func(second int) (gpu.Sample, error) {
				if second > c.lost {
					return gpu.Sample{}, gpu.ErrLost
				}
				return flat(3<<30, c.programs...)(second)
			})}}
			runSampler(t, source, nil, func(s *Sampler, _ *lines) {
				after(120 * time.Second)
				source.set(nil)
				after(60 * time.Second)
				equal(t, len(incidentsOf(s)), c.want, "incidents")
				for _, i := range incidentsOf(s) {
					equal(t, fmt.Sprint(i.Kind, " ", len(i.Processes)), "gpu_lost 1", "kind, processes")
				}
				source.set(nil, newGPU(0, flat(1<<30)))
				after(60 * time.Second)
				equal(t, len(incidentsOf(s)), c.want, "incidents once it is back")
			})
		})
	}
}

// TestIncidentAtTheEnd has the exporter stop right after an XID error, while the driver hangs on another GPU: the file is there. The
// GPU is not gone.
func TestIncidentAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	var release chan struct{}
	hung := newGPU(1, func(second int) (gpu.Sample, error) {
		if second > 50 {
			<-release
		}
		return flat(1 << 30)(second)
	})
	source := &scriptSource{devices: []gpu.Device{newGPU(0, flat(1<<30, process(1, 1<<29))), hung}}
	store := func(c *Config) {
		release, c.Incidents = make(chan struct{}), incident.NewStore(dir, incident.Most, c.Logger)
	}
	runHanging(t, source, store, func(*Sampler, *lines) {
		after(100500 * time.Millisecond)
		source.events <- gpu.Event{UUID: "GPU-0", XID: 31, Time: time.Now()}
		synctest.Wait()
	}, func() {
		equal(t, len(incident.NewStore(dir, incident.Most, nil).Now().List), 1, "incidents on the disk")
		close(release)
	})
}

// TestMIGIncident has a program die in its instance: the other instance's programs have no part in it.
func TestMIGIncident(t *testing.T) {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		a, b := process(1, 9<<30), process(2, 60<<30)
		a.Instance, b.Instance = gpu.Some(uint32(1)), gpu.Some(uint32(2))
		small := gpu.Memory{Total: gpu.Some(uint64(10 << 30)), Used: gpu.Some(uint64(10<<30 - 1<<20))}
		s, err := flat(70<<30, a, b)(second)
		s.MIGEnabled = gpu.Some(true)
		if second > 100 {
			s.Processes, small.Used.V = s.Processes[1:], 0
		}
		s.Instances = []gpu.Instance{{ID: 1, Profile: "1g.10gb", Memory: small}, {ID: 2, Profile: "1g.70gb", Memory: memoryOf(60 << 30)}}
		return s, err
	})
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, nil, func(s *Sampler, _ *lines) {
		after(200 * time.Second)
		i := only(t, incidentsOf(s))
		equal(t, fmt.Sprint(i.Kind, " ", i.Memory, i.Time, len(i.Processes), i.Processes[0].PID), fmt.Sprint("oom GPU 0, MIG 1 (1g.10gb)", scriptTime(100), 1, 1), "kind, memory, time, processes")
		equal(t, i.Used.V, uint64(10<<30-1<<20), "used memory of the instance")
	})
}

// incidentsOffline judges samples as backtest does, each or only the last one of so many, and returns the incidents. probes may be nil.
func incidentsOffline(t *testing.T, probes Allocators, every, samples int, at func(n int) *gpu.Sample) []*incident.Incident {
	t.Helper()
	store := incident.NewStore("", incident.Most, nil)
	o, err := NewOffline(gpu.Info{UUID: "GPU-0"}, Config{SlowInterval: time.Minute, ProcessMax: 64, Detector: detector.DefaultConfig(), Allocators: probes, Incidents: store}, detector.NewHeights())
	must(t, err)
	for n := range samples {
		if (n+1)%every == 0 {
			o.Judge(at(n))
		} else {
			o.Learn(at(n))
		}
	}
	list := store.Now().List
	slices.Reverse(list)
	return list
}

// TestIncidentBetweenVerdicts has a program fill its GPU, or its limit on a half-empty one, and end, whether each sample is judged or one
// of several: it ends once, at its last sample. A program outside of its container has no part in the end at the limit.
func TestIncidentBetweenVerdicts(t *testing.T) {
	const death = 200 // the sample without it
	for _, c := range []struct {
		kind   incident.Kind
		others float64 // GiB
		limits []gpu.Limit
		used   string // GiB
		pids   string
		text   string
	}{
		{incident.OutOfMemory, 63.2, nil, "79.6 of 80", "[7 8 9]", "ended when GPU 0 was full (79.6 GiB of 80.0 GiB): it held 15.9 GiB, "},
		{incident.Limit, 30, []gpu.Limit{dmem(16)}, "15.9 of 16", "[7 9]", "ended when pod ml/a, container main on GPU 0 (limit 16.0 GiB) was full (15.9 GiB of 16.0 GiB): it held 15.9 GiB, "},
	} {
		for every := range 4 {
			shared := sharedGPU{func(minute float64) float64 { return 4 + 11.9*min(1, minute*6/(death-1)) }, c.others, c.limits}
			list := incidentsOffline(t, nil, every+1, death+60, func(n int) *gpu.Sample {
				s := shared.at(time.Duration(n) * 10 * time.Second)
				other := s.Processes[0]
				other.ID.PID, other.Used = 9, gpu.Some(uint64(32<<20)) // in the same container
				if s.Processes = append(s.Processes, other); n >= death {
					s.Processes, s.Memory.Used.V = s.Processes[1:], uint64(c.others+0.7)<<30
				}
				return s
			})
			name := fmt.Sprintf("%s, if 1 of %d samples is judged", c.kind, every+1)
			i := only(t, list)
			var pids []uint32
			for _, p := range i.Processes {
				pids = append(pids, p.PID)
			}
			equal(t, fmt.Sprint(i.Kind, " ", i.Ended, i.Time, pids), fmt.Sprint(c.kind, " ", 1, time.Unix(1_772_323_200, 0).Add((death-1)*10*time.Second).UTC(), " "+c.pids), "%s: kind, ended, time, processes", name)
			equal(t, fmt.Sprintf("%.1f of %d", float64(i.Used.V)/(1<<30), i.Capacity.V>>30), c.used, "%s: used memory, capacity", name)
			equal(t, fmt.Sprintf("%t %.1f", i.Processes[0].Ended, float64(i.Processes[0].Used.V)/(1<<30)), "true 15.9", "%s: its end, its memory", name)
			if want := "serve (pid 7) of pod ml/a, container main " + c.text; !strings.HasPrefix(i.Text, want) {
				t.Errorf("%s: it says %s", name, i.Text)
			}
		}
	}
}

// TestIncidentAtTwoLimits has a program die at the limit of its container, which is that of its pod, too: it ends once, with
// another one of the pod that ends in the same moment.
func TestIncidentAtTwoLimits(t *testing.T) {
	pod := gpu.Limit{Source: gpu.LimitDmem, Of: "/pods/a", Bytes: 16 << 30}
	for others, want := range map[int][]string{0: {"16 [7]"}, 1: {"16 [7 9]"}} {
		shared := sharedGPU{func(float64) float64 { return 15.9 }, 10, []gpu.Limit{dmem(16), pod}}
		var got []string
		for _, i := range incidentsOffline(t, nil, 1, 40, func(n int) *gpu.Sample {
			s := shared.at(time.Duration(n) * 10 * time.Second)
			for range others {
				other := s.Processes[0]
				other.ID.PID, other.Used, other.Limits = 9, gpu.Some(uint64(32<<20)), []gpu.Limit{pod}
				s.Processes = append(s.Processes, other)
			}
			if n >= 30 {
				s.Processes = s.Processes[1:2]
				s.Memory.Used = s.Processes[0].Used
			}
			return s
		}) {
			var ended []uint32
			for _, p := range i.Processes {
				if p.Ended {
					ended = append(ended, p.PID)
				}
			}
			got = append(got, fmt.Sprint(i.Capacity.V>>30, " ", ended))
		}
		equal(t, got, want, "incidents with %d others", others)
	}
}

// TestRefusalIncident has a framework refused memory long after a page, and once more: each time the incident names the process, though
// another one holds more, and has its lines and what was said before.
func TestRefusalIncident(t *testing.T) {
	p := &probes{pid: 7}
	shared := sharedGPU{func(minute float64) float64 { return 4 + 0.37*minute }, 40, nil}
	list := incidentsOffline(t, p, 1, 540, func(n int) *gpu.Sample {
		switch n {
		case 500:
			p.refusal.Store(&allocator.Refusal{Asked: 2 << 30, Lines: []gpu.Line{{Line: "a.py:3 step", Bytes: 30 << 30}}})
		case 520:
			p.refusal.Store(&allocator.Refusal{Asked: 3 << 30})
		}
		return shared.at(time.Duration(n) * 10 * time.Second)
	})
	equal(t, len(list), 2, "incidents")
	for n, i := range list {
		whole(t, i)
		equal(t, i.Kind, incident.Refused, "kind")
		if want := fmt.Sprintf("serve (pid 7) of pod ml/a, container main was refused %d.00 GiB on GPU 0 (", n+2); !strings.HasPrefix(i.Text, want) {
			t.Errorf("it says %s", i.Text)
		}
		if i.Finding.By != "page" || !strings.HasPrefix(i.Finding.Text, "GPU 0 runs out of memory in ") {
			t.Errorf("what was said before: %+v", i.Finding)
		}
		equal(t, fmt.Sprint(i.Ended, len(i.Processes), i.Processes[1].PID), "0 2 8", "ended, processes, the other")
	}
	equal(t, list[0].Processes[0].Lines, []gpu.Line{{Line: "a.py:3 step", Bytes: 30 << 30}}, "lines")
	equal(t, len(incidentsOffline(t, p, 1, 1, func(int) *gpu.Sample { return shared.at(0) })), 1, "incidents of a refusal that is there with the first sample")
}

// TestIncidentOfAGap has a program end in a gap of a history that is longer than a course. The detector learns of that before it judges:
// the incident has the course to the gap, but for the value whose place in the ring the sample after it took.
func TestIncidentOfAGap(t *testing.T) {
	shared := sharedGPU{func(float64) float64 { return 39.4 }, 40, nil}
	list := incidentsOffline(t, nil, 2, 100, func(n int) *gpu.Sample {
		at := time.Duration(n) * 10 * time.Second
		if n >= 50 {
			at += 2 * time.Hour
		}
		s := shared.at(at)
		if n >= 50 {
			s.Processes, s.Memory.Used.V = s.Processes[1:], 41<<30
		}
		return s
	})
	i := only(t, list)
	known := slices.DeleteFunc(i.Course, func(v gpu.Opt[uint64]) bool { return !v.OK })
	equal(t, fmt.Sprint(len(known), i.Used.V>>30, i.Processes[0].Used.V>>30), "49 79 39", "known values, used memory, that of the program")
}
