// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
)

func TestGrows(t *testing.T) {
	for name, c := range map[string]struct {
		v    detector.Verdict
		want bool
	}{
		"not judged":           {detector.Verdict{Withheld: detector.WithheldMinSpan}, false},
		"no growth":            {detector.Verdict{Judged: true, Confidence: 0.2}, false},
		"a leak":               {detector.Verdict{Judged: true, Leak: true}, true},
		"withheld":             {detector.Verdict{Judged: true, Withheld: detector.WithheldPriorLives}, true},
		"it fills the memory":  {detector.Verdict{SecondsToFull: detector.Of(60)}, true},
		"it leaves the memory": {detector.Verdict{Judged: true, SecondsToOOM: detector.Of(60)}, false},
	} {
		if got := grows(&c.v); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestAddPrograms(t *testing.T) {
	absent := detector.Value{}
	program := func(image string, started time.Duration, rate, peak detector.Value) ProgramState {
		return ProgramState{ProgramName: ProgramName{"serve.py", image}, Started: started, Rate: rate, Peak: peak}
	}
	running := func(list ...ProgramState) *DeviceState {
		d := &DeviceState{Programs: map[ProgramName]ProgramState{}}
		for _, p := range list {
			d.Programs[p.ProgramName] = p
		}
		return d
	}
	version := func(image string, started lives.Seconds, rate, peak lives.Bytes) lives.Version {
		return lives.Version{Program: "serve.py", Image: image, Lives: 1, Started: started, Rate: rate, Peak: peak}
	}
	for _, c := range []struct {
		name    string
		devices []*DeviceState
		earlier []lives.Version
		want    []ProgramState
	}{
		{"none", []*DeviceState{{}}, nil, []ProgramState{}},
		{
			"one that runs and is not judged yet",
			[]*DeviceState{running(program("a", time.Hour, absent, absent))},
			nil,
			[]ProgramState{program("a", time.Hour, absent, absent)},
		},
		{
			"the largest of two GPUs",
			[]*DeviceState{
				running(program("a", time.Hour, detector.Of(0), detector.Of(8))),
				running(program("a", 2*time.Hour, detector.Of(3), detector.Of(7))),
				running(program("a", time.Minute, absent, absent)),
			},
			nil,
			[]ProgramState{program("a", 2*time.Hour, detector.Of(3), detector.Of(8))},
		},
		{
			"earlier lives of one that runs",
			[]*DeviceState{running(program("a", 2*time.Hour, absent, detector.Of(3)))},
			[]lives.Version{version("a", 60, 4, 5)},
			[]ProgramState{program("a", 2*time.Hour, detector.Of(4), detector.Of(5))},
		},
		{
			"what runs, the newest first, then what ended last",
			[]*DeviceState{running(program("a", 2*time.Hour, absent, absent), program("b", 3*time.Hour, absent, absent))},
			[]lives.Version{version("d", 60, 0, 5), version("b", 60, 4, 5), version("c", 120, 4, 5)},
			[]ProgramState{
				program("b", 3*time.Hour, detector.Of(4), detector.Of(5)), program("a", 2*time.Hour, absent, absent),
				program("d", time.Minute, detector.Of(0), detector.Of(5)), program("c", 2*time.Minute, detector.Of(4), detector.Of(5)),
			},
		},
	} {
		s := State{Devices: c.devices}
		s.addPrograms(c.earlier)
		if !reflect.DeepEqual(s.Programs, c.want) || s.OtherPrograms != gpu.Some(0) {
			t.Errorf("%s:\ngot  %+v and %v\nwant %+v", c.name, s.Programs, s.OtherPrograms, c.want)
		}
	}
}

func TestProgramsBound(t *testing.T) {
	for _, c := range []struct{ running, earlier, others int }{
		{0, MaxPrograms, 0}, {1, MaxPrograms, 1}, {MaxPrograms + 3, 4, 7}, {MaxPrograms - 1, 1, 0},
	} {
		d := &DeviceState{Programs: map[ProgramName]ProgramState{}}
		for i := range c.running {
			name := ProgramName{"runs", strconv.Itoa(i)}
			d.Programs[name] = ProgramState{ProgramName: name}
		}
		var earlier []lives.Version
		for i := range c.earlier {
			earlier = append(earlier, lives.Version{Program: "ran", Image: strconv.Itoa(i)})
		}
		s := State{Devices: []*DeviceState{d}}
		s.addPrograms(earlier)
		if len(s.Programs) != min(MaxPrograms, c.running+c.earlier) || s.OtherPrograms != gpu.Some(c.others) {
			t.Errorf("%+v: %d and %v others", c, len(s.Programs), s.OtherPrograms)
		}
		for i, p := range s.Programs {
			if (p.Process == "runs") != (i < c.running) {
				t.Errorf("%+v: number %d is one that %s", c, i, p.Process)
			}
		}
	}
}

// Only what may have series of its own is told, and nothing at all where no lives are remembered.
func TestProgramsOfSample(t *testing.T) {
	const second = time.Second
	id := lives.ID{Exact: 1, Program: "serve.py", Image: "a"}
	named := &gpu.Owner{Process: "serve.py", Lives: id}
	for _, c := range []struct {
		name    string
		owner   *gpu.Owner
		book    *lives.Book
		age     time.Duration
		verdict detector.Verdict
		want    map[ProgramName]ProgramState
	}{
		{"no book", named, nil, time.Hour, detector.Verdict{}, nil},
		{"no name", &gpu.Owner{Process: "serve.py"}, lives.NewBook(), time.Hour, detector.Verdict{}, map[ProgramName]ProgramState{}},
		{"too young", named, lives.NewBook(), second, detector.Verdict{}, map[ProgramName]ProgramState{}},
		{
			"not judged", named, lives.NewBook(), time.Hour,
			detector.Verdict{},
			map[ProgramName]ProgramState{{"serve.py", "a"}: {ProgramName{"serve.py", "a"}, 9 * time.Hour, detector.Value{}, detector.Of(7)}},
		},
		{
			"no leak", named, lives.NewBook(), time.Hour,
			detector.Verdict{Judged: true, Rate: detector.Of(5)},
			map[ProgramName]ProgramState{{"serve.py", "a"}: {ProgramName{"serve.py", "a"}, 9 * time.Hour, detector.Of(0), detector.Of(7)}},
		},
		{
			"a leak", named, lives.NewBook(), time.Hour,
			detector.Verdict{Judged: true, Leak: true, Rate: detector.Of(5)},
			map[ProgramName]ProgramState{{"serve.py", "a"}: {ProgramName{"serve.py", "a"}, 9 * time.Hour, detector.Of(5), detector.Of(7)}},
		},
	} {
		table := newProcessTable(SamplerConfig{ProcessMax: 0, ProcessMinAge: 10 * second, Lives: c.book}, "0", func() *jobsState { return nil })
		sample := gpu.Sample{T: 10*time.Hour - attributionGrace, Processes: []gpu.Process{
			{ID: gpu.ProcessID{PID: 1, Start: 1}, Started: gpu.Some(10*time.Hour - c.age), Used: gpu.Some(uint64(6)), Owner: c.owner},
		}}
		table.note(&sample)
		sample.T = 10 * time.Hour
		table.note(&sample)
		table.judged(&sample, 0, &detector.MemberVerdict[gpu.ProcessID]{Verdict: c.verdict, Peak: detector.Of(7)})
		var state DeviceState
		table.show(&sample, &state)
		if !reflect.DeepEqual(state.Programs, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, state.Programs, c.want)
		}
	}
}

// TestLivesInState follows a program over a deploy: what its first image held is known when that has
// ended, and the second image is held against it.
func TestLivesInState(t *testing.T) {
	const ends, starts = 700, 730 // seconds
	run := func(pid uint32, image string, started time.Duration) gpu.Process {
		p := process(pid, 20<<30)
		p.Started = gpu.Some(scriptStart + started)
		p.Owner = &gpu.Owner{Process: "serve.py", Lives: lives.ID{Exact: lives.Key(pid), Kin: 9, Basis: lives.BasisImage, Program: "serve.py", Image: image}}
		return p
	}
	before, now := run(1, "a", -time.Hour), run(2, "b", starts*time.Second)
	source := &scriptSource{}
	source.set(nil, newGPU(0, func(second int) (gpu.Sample, error) {
		switch {
		case second < ends:
			return flat(21<<30, before)(second)
		case second < starts:
			return flat(1 << 30)(second)
		}
		return flat(21<<30, now)(second)
	}))
	runSampler(t, source, func(c *SamplerConfig) { c.Lives = lives.NewBook() }, func(s *Sampler, _ *lines) {
		after(ends / 2 * time.Second)
		first := s.State()
		after(ends * time.Second)
		second := s.State()
		program := func(image string, started time.Duration) ProgramState {
			return ProgramState{ProgramName: ProgramName{"serve.py", image}, Started: scriptStart + started, Rate: detector.Of(0), Peak: detector.Of(20 << 30)}
		}
		if want := []ProgramState{program("a", -time.Hour)}; !slices.Equal(first.Programs, want) {
			t.Errorf("before: %+v, want %+v", first.Programs, want)
		}
		if want := []ProgramState{program("b", starts*time.Second), program("a", -time.Hour)}; !slices.Equal(second.Programs, want) {
			t.Errorf("after: %+v, want %+v", second.Programs, want)
		}
		for i, c := range []struct {
			state *State
			lives int
		}{{first, 0}, {second, 1}} {
			if e := c.state.Devices[0].Processes[0].Earlier; !e.Named || e.Lives != c.lives || e.Kin != (c.lives > 0) {
				t.Errorf("life %d: %+v", i, e)
			}
		}
	})
}
