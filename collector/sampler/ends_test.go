// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// end is how a container has ended.
type end int

const (
	unknown end = iota // yet
	well
	badly
)

// containerEnds are owners of one container. The answers come one after the other, the last one for ever.
func containerEnds(answers ...end) (o *owners, asked *atomic.Int32) {
	asked = new(atomic.Int32)
	return &owners{
		owner: func(gpu.ProcessID) (*gpu.Owner, bool) {
			return &gpu.Owner{Process: "train.py", ContainerID: "c1", Runs: 1}, true
		},
		ended: func() (code gpu.Opt[int32], known bool) {
			e := answers[min(int(asked.Add(1)), len(answers))-1]
			return gpu.Some(map[end]int32{well: sigterm, badly: 1}[e]).If(e != unknown), e != unknown
		},
	}, asked
}

// leaves is a GPU that a process fills, and leaves after so many seconds: whether what it held was given back is told by how it ended.
func leaves(lasts int) *scriptDevice {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		if second > lasts {
			return flat(1 << 30)(second)
		}
		p := process(1, 78<<30)
		p.Owner = &gpu.Owner{Process: "train.py", ContainerID: "c1", Runs: 1}
		return flat(79<<30, p)(second)
	})
	d.info.Name = "NVIDIA H200"
	return d
}

// inInstance is the same of a GPU instance that is as large.
func inInstance(d *scriptDevice) *scriptDevice {
	whole := d.sample
	d.sample = func(second int) (gpu.Sample, error) {
		s, err := whole(second)
		s.MIGEnabled, s.Instances = gpu.Some(true), []gpu.Instance{{ID: 3, Profile: "7g.80gb", Memory: s.Memory}}
		for i := range s.Processes {
			s.Processes[i].Instance = gpu.Some(uint32(3))
		}
		return s, err
	}
	return d
}

func TestEnds(t *testing.T) {
	const at = 100 * time.Hour
	for _, c := range []struct {
		name      string
		runs      detector.Program
		container string
		answers   []end
		asked     int
	}{
		{"at once", 7, "c1", []end{well}, 1},
		{"later", 7, "c1", []end{unknown, unknown, well}, 3},
		{"badly", 7, "c1", []end{badly}, 1},
		{"never", 7, "c1", []end{unknown}, 19},
		{"in no container", 7, "", []end{well}, 0},
		{"of no name", 0, "c1", []end{well}, 1},
		{"another program", 8, "c1", []end{well}, 19},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				owners, asked := containerEnds(c.answers...)
				e := &ends{heights: endedIn(t, 7, at), owners: owners}
				ctx, cancel := context.WithCancel(t.Context())
				ended := inBackground(ctx, every(askInterval, func() { e.ask(ctx) }))
				e.add(departs(c.runs, c.container, at))
				after(5 * time.Minute)
				equal(t, int(asked.Load()), c.asked, "questions")
				cancel()
				<-ended
				equal(t, len(e.waiting), 0, "that still wait")
			})
		})
	}
}

// departs is a process of that program that ends now.
func departs(runs detector.Program, container string, at time.Duration) *departed {
	return &departed{End: finding.End{At: at}, runs: runs, container: container, noticed: time.Now()}
}

// endedIn returns what is remembered of a program that ended at that time.
func endedIn(t *testing.T, runs detector.Program, at time.Duration) *detector.Heights {
	t.Helper()
	d, err := detector.NewDomain(func(detector.Subject[gpu.ProcessID]) detector.Config { return detector.DefaultConfig() })
	must(t, err)
	h := detector.NewHeights()
	d.Remember(h)
	for off := -5 * time.Minute; off < time.Minute; off += time.Second {
		f := &detector.Frame[gpu.ProcessID]{T: at + off, Used: detector.Of(1 << 30), Capacity: detector.Of(80 << 30), Complete: true}
		if off <= 0 {
			f.Used = detector.Of(79 << 30)
			f.Members = []detector.Member[gpu.ProcessID]{{Key: gpu.ProcessID{PID: 1, Start: 1}, Runs: runs, Used: detector.Of(78 << 30), State: detector.StateAlive}}
		}
		must(t, d.Observe(f))
	}
	return h
}

// A node may lose many processes at once. What is too much stays unknown, and blocks nobody.
func TestEndsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners, asked := containerEnds(badly)
		e := &ends{heights: detector.NewHeights(), owners: owners}
		for i := range 3 * maxEnds {
			d := departs(1, strconv.Itoa(i), 0)
			e.add(d)
			_, final := d.exitCode()
			equal(t, final, i >= maxEnds, "is the exit code of container %d final", i)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := inBackground(ctx, every(askInterval, func() { e.ask(ctx) }))
		after(askInterval)
		equal(t, asked.Load(), maxEnds, "containers were asked for")
		cancel()
		<-ended
	})
	var e *ends
	e = &ends{owners: &owners{ended: func() (code gpu.Opt[int32], known bool) {
		e.add(departs(1, "c2", 0)) // while somebody is asked
		return gpu.Some(int32(1)), true
	}}, waiting: []*departed{departs(1, "c1", 0)}}
	e.ask(t.Context())
	if len(e.waiting) != 1 || e.waiting[0].container != "c2" {
		t.Errorf("%+v wait", e.waiting)
	}

	l, key := offline(t).loop, processKey{id: gpu.ProcessID{PID: 7, Start: 1}}
	l.sampler.ends = &ends{waiting: make([]*departed, maxEnds-1)} // there is room for one
	l.processes.entries[key] = &processEntry{owner: &gpu.Owner{ContainerID: "c"}, seen: 1}
	for range 2 { // of the GPU, and of a limit
		l.ended(&detector.Exit[gpu.ProcessID]{Key: key.id}, &Domain{MemoryState: &MemoryState{}})
	}
	_, final := l.processes.entries[key].departed.exitCode()
	equal(t, final, false, "is the exit code final of what found room in one memory of two")
}

// TestExitCodesComeOneByOne has two containers end well, of which one tells so later: what is known of the other is kept, also once its
// runtime has forgotten it.
func TestExitCodesComeOneByOne(t *testing.T) {
	store := incident.NewStore("", incident.Most, nil)
	asked := 0
	e := &ends{heights: detector.NewHeights(), owners: &owners{ended: func() (code gpu.Opt[int32], known bool) {
		asked++ // for a and b, and once more for both
		return []gpu.Opt[int32]{gpu.Some(int32(0)), {}, {}, gpu.Some(int32(sigterm))}[min(asked, 4)-1], asked != 2
	}}}
	a, b := departs(1, "a", 0), departs(1, "b", 0)
	e.add(a)
	e.add(b)
	e.hold(held{Incident: &incident.Incident{}, deaths: []*departed{a, b}, store: store})
	e.ask(t.Context())
	equal(t, len(e.held), 1, "held before b is known")
	e.ask(t.Context())
	equal(t, len(e.held)+len(store.Now().List), 0, "held, and incidents of ends that were well")

	late := departs(1, "d", 0)
	late.noticed = time.Now().Add(-askedUntil)
	e.add(late)
	_, final := late.exitCode()
	equal(t, final, false, "is it final while an answer may be under way")
	e.ask(t.Context())
	_, final = late.exitCode()
	equal(t, final, true, "is it final then")

	counts := func() uint64 { return store.Now().Counts[incident.Count{By: "nothing"}] }
	for range incident.Most + 1 {
		e.hold(held{Incident: &incident.Incident{Finding: incident.Finding{By: "nothing"}}, deaths: []*departed{departs(1, "c", 0)}, store: store})
	}
	equal(t, counts(), 1, "incidents of one too many to be held")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e.ask(ctx)
	equal(t, counts(), incident.Most+1, "incidents at the end of the exporter")
}

// TestDeadAtALimit has two processes die at a limit, of which the second tells its exit code first: the limit is kept until that of the
// first is known, and counts both then. Meanwhile the first is remembered, though the GPU has forgotten it.
func TestDeadAtALimit(t *testing.T) {
	l, first, second := offline(t).loop, departs(1, "a", 0), departs(1, "b", 0)
	m := l.newMemory(MemoryState{MemoryKey: MemoryKey{Of: "/a"}, Memory: gpu.Memory{Used: nothing}})
	l.memories[m.MemoryKey], m.dead = m, []*departed{first, second}
	id := gpu.ProcessID{PID: 7, Start: 1}
	must(t, m.domain.Observe(&detector.Frame[gpu.ProcessID]{T: 1, Members: []detector.Member[gpu.ProcessID]{{Key: id}}}))
	equal(t, l.knows(processKey{id: id}), true, "is it known")

	second.code.Store(new(gpu.Some(int32(1))))
	equal(t, len(m.crashed()), 0, "ends before the first is known")
	equal(t, m.over(time.Hour), false, "is the limit forgotten")
	first.code.Store(new(gpu.Some(int32(1))))
	equal(t, len(m.crashed()), 2, "ends")
	equal(t, m.over(time.Hour), true, "is the limit forgotten then")
}

// TestEndOfAProcess has a process leave a full memory: only what it held in one that it left well was given back.
func TestEndOfAProcess(t *testing.T) {
	const lasts = 300
	for name, c := range map[string]struct {
		device  *scriptDevice
		answers []end
		taught  bool
	}{
		"well":           {leaves(lasts), []end{unknown, well}, true},
		"badly":          {leaves(lasts), []end{unknown, badly}, false},
		"of an instance": {inInstance(leaves(lasts)), []end{unknown, well}, true},
	} {
		owners, asked := containerEnds(c.answers...)
		runSampler(t, &scriptSource{devices: []gpu.Device{c.device}}, func(c *Config) { c.Owners = owners }, func(s *Sampler, _ *lines) {
			after((lasts + 3) * time.Second)
			before := s.heights.Save()
			after(60 * time.Second)
			n := s.State().Devices[0].ExitsNearCapacity
			if taught := !bytes.Equal(s.heights.Save(), before); taught != c.taught || asked.Load() != 2 || n != 1 {
				t.Errorf("%s: taught %t, asked %d times, %d exits near the capacity", name, taught, asked.Load(), n)
			}
		})
	}
}

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
		equal(t, unreleased(s), map[string]uint64{labels: 6 << 30}, "unreleased")
		if p := d.Judgement.Device.Pattern.String(); p != "unreleased" || d.Judgement.Unreleased != nil {
			t.Errorf("the GPU is %q", p)
		}
		equal(t, d.Unreleased[0].At, scriptStart+600*time.Second, "unreleased since")
	}
	runSampler(t, &scriptSource{devices: []gpu.Device{dying(0)}}, withState(t, file, "boot-a"), func(s *Sampler, _ *lines) {
		after(655500 * time.Millisecond)
		equal(t, len(unreleased(s)), 0, "unreleased at 655 s")
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
		equal(t, len(unreleased(s)), 0, "unreleased once it is free")
	})
}

// Nothing is kept of the processes that end as they should.
func TestEndedProcessesAreForgotten(t *testing.T) {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		return flat(2<<30, process(uint32(second), 1<<30))(second)
	})
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, nil, func(s *Sampler, _ *lines) {
		after(300 * time.Second)
		if n := len(s.shared.Load().loops[0].processes.entries); n > 5 {
			t.Errorf("%d processes are remembered", n)
		}
	})
}
