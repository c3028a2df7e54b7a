// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"errors"
	"testing"
	"time"
	"unsafe"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// TestHistory keeps every extreme of the last hours in a bounded number of bins, however long it is
// sampled and however seldom.
func TestHistory(t *testing.T) {
	healthy, leak := &detector.Verdict{Judged: true}, &detector.Verdict{Judged: true, Leak: true}
	for _, every := range []time.Duration{100 * time.Millisecond, time.Second, time.Minute, 3 * time.Hour} {
		var h history
		at := func(i int) time.Duration { return scriptStart + time.Duration(i)*every }
		const samples = 100_000
		for i := range samples {
			used := uint64(10 << 30)
			if i == samples-5 {
				used = 70 << 30 // a spike of one sample
			}
			h.add(at(i), gpu.Some(used), healthy)
			if len(h.bins) > historyBins {
				t.Fatalf("%s: %d bins", every, len(h.bins))
			}
		}
		c := h.curve(nil, time.Hour)
		var highest float32
		for i, r := range c.Ranges {
			highest = max(highest, r.High)
			if r.Low > r.High || (i > 0 && r.T <= c.Ranges[i-1].T) {
				t.Errorf("%s: %v", every, c.Ranges)
			}
		}
		last := at(samples-1) + time.Hour
		if n := len(c.Ranges); c.Ranges[n-1].T > last || last-c.Ranges[n-1].T >= c.Width || last-c.Ranges[0].T > historySpan {
			t.Errorf("%s: from %s to %s before the last sample", every, last-c.Ranges[0].T, last-c.Ranges[n-1].T)
		}
		if every <= time.Minute && highest != 70<<30 {
			t.Errorf("%s: the spike is lost", every)
		}
		if every == time.Minute && last-c.Ranges[0].T < 8*time.Hour {
			t.Errorf("only %s are kept", last-c.Ranges[0].T)
		}
	}
	var h history
	for i, v := range []*detector.Verdict{healthy, leak, {}, leak} {
		h.add(scriptStart+time.Duration(i), gpu.Some[uint64](1), v)
	}
	equal(t, h.curve(nil, 0).Called, scriptStart+1, "called at")
	h.add(scriptStart+10, gpu.Some[uint64](1), healthy)
	h.add(scriptStart+9, gpu.Some[uint64](1), leak) // the clock went back: since when it leaks is not known
	if c := h.curve(nil, 0); c.Called != 0 || len(c.Ranges) != 1 {
		t.Errorf("after the clock went back: %+v", c)
	}
	if size := unsafe.Sizeof(h) + historyBins*unsafe.Sizeof(emptyBin); size > 4<<10 {
		t.Errorf("a history has %d bytes", size)
	}
}

// TestCurves draws the GPU, what leaks on it and the largest of the others, and notes who ended.
func TestCurves(t *testing.T) {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		list := []gpu.Process{process(1, leaked(second))}
		for pid := uint32(2); pid < 10; pid++ {
			list = append(list, process(pid, uint64(pid)<<28))
		}
		if second > 1700 {
			list = list[:8] // pid 9 ends with 2.25 GiB
		}
		var sum uint64
		for i := range list {
			sum += list[i].Used.V
		}
		s, _ := flat(sum, list...)(second)
		if second == 1790 {
			s.Step = time.Hour
		}
		return s, nil
	})
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, nil, func(s *Sampler, _ *lines) {
		after(1780 * time.Second)
		dev := s.State().Devices[0]
		drawn := map[uint32]*Curve{}
		for i := range dev.Processes {
			if p := &dev.Processes[i]; p.Curve != nil {
				drawn[p.ID.PID] = p.Curve
			}
		}
		if len(drawn) != 4 || drawn[1] == nil || drawn[6] == nil || drawn[7] == nil || drawn[8] == nil {
			t.Fatalf("curves of %v, want pid 1, which leaks, and 6, 7 and 8, the largest", drawn)
		}
		for who, c := range map[string]*Curve{"GPU": dev.Curve, "leak": drawn[1]} {
			now := time.Duration(dev.SampleTime.UnixNano())
			if c.Called == 0 || now-c.Called > 20*time.Minute || len(c.Troughs) < 3 || len(c.Troughs) > 100 || len(c.Ranges) < 60 {
				t.Errorf("%s: called %s ago, %d troughs, %d ranges", who, now-c.Called, len(c.Troughs), len(c.Ranges))
			}
			if last := c.Ranges[len(c.Ranges)-1]; now-last.T > 15*time.Second+c.Width {
				t.Errorf("%s: the last range is %s old", who, now-last.T)
			}
		}
		if c := drawn[8]; c.Called != 0 || c.Ranges[0].Low != 2<<30 || c.Ranges[0].High != 2<<30 {
			t.Errorf("the largest: %+v", c)
		}
		after(20 * time.Second)
		moved := s.State().Devices[0]
		if a, b := dev.Curve.Ranges[0].T+time.Hour, moved.Curve.Ranges[0].T; a != b {
			t.Errorf("the clock was set by an hour: the curve begins %s off", b-a)
		}
	})
}

// TestCurvesOfInstances draws the GPU and its instance from what was read at the start on, of which nobody sees a verdict, over a
// sample that fails and a memory that cannot be read, until the layout is another one.
func TestCurvesOfInstances(t *testing.T) {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		p := process(1, 1<<30)
		p.Instance = gpu.Some(uint32(1))
		s, _ := flat(uint64(second+1)<<20, p)(second)
		s.Instances = []gpu.Instance{{ID: 1, Profile: "1g.10gb", Memory: memoryOf(uint64(second+2) << 20)}}
		s.More = second < 60
		switch {
		case second == 80:
			return s, errors.New("the driver does not answer")
		case second == 90:
			s.Instances[0].Memory = gpu.Memory{}
		case second > 100:
			s.Instances[0].Profile = "2g.20gb"
		}
		return s, nil
	})
	var l *loop
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, nil, func(s *Sampler, _ *lines) {
		after(100 * time.Second)
		dev := s.State().Devices[0]
		for low, c := range map[float32]*Curve{2 << 20: dev.Curve, 3 << 20: dev.Instances[0].Curve} {
			if c == nil || c.Ranges[0].Low != low || len(c.Ranges) < 85 {
				t.Errorf("the curve that begins at %g bytes: %+v", low, c)
			}
		}
		after(30 * time.Second)
		dev, l = s.State().Devices[0], s.shared.Load().loops[0]
		if c := dev.Instances[0].Curve; c == nil || dev.Curve == nil || dev.Processes[0].Curve == nil || len(c.Ranges) > 30 {
			t.Errorf("a GPU instance of another profile goes on: %+v, %+v", dev.Curve, c)
		}
	})
	if n := len(l.memories); n != 2 { // it has ended
		t.Errorf("curves of %d memories are kept, want those of the GPU and of its instance", n)
	}
}

// begin is a time on a source's clock, at the begin of a step.
const begin = 1_770_000_000 * time.Second

// TestHour has the highest use in each step, gaps, and clocks that go back.
func TestHour(t *testing.T) {
	type sample struct {
		second int
		used   gpu.Opt[uint64]
	}
	used, none := gpu.Some[uint64], gpu.Opt[uint64]{}
	for name, c := range map[string]struct {
		samples []sample
		since   time.Duration // after begin
		want    []gpu.Opt[uint64]
		high    gpu.Opt[uint64]
	}{
		"the highest in each step": {[]sample{{0, used(1)}, {9, used(3)}, {9, used(2)}, {10, used(0)}}, 0, []gpu.Opt[uint64]{used(3), used(0)}, used(3)},
		"a peak long ago":          {[]sample{{0, used(9)}, {10, used(8)}, {60, used(1)}, {70, used(2)}}, 0, []gpu.Opt[uint64]{used(9), used(8), none, none, none, none, used(1), used(2)}, used(2)},
		"a gap":                    {[]sample{{5, used(1)}, {35, used(2)}}, 0, []gpu.Opt[uint64]{used(1), none, none, used(2)}, used(2)},
		"use that is not known":    {[]sample{{0, used(1)}, {10, none}, {20, none}}, 0, []gpu.Opt[uint64]{used(1), none, none}, used(1)},
		"the clock goes back":      {[]sample{{500, used(1)}, {3, used(2)}, {12, used(4)}}, 0, []gpu.Opt[uint64]{used(2), used(4)}, used(4)},
		"it goes back in its step": {[]sample{{9, used(1)}, {3, used(2)}}, 0, []gpu.Opt[uint64]{used(2)}, used(2)},
		"nothing is known":         {nil, 0, []gpu.Opt[uint64]{none, none, none}, none},
		"a gap longer than it":     {[]sample{{0, used(1)}, {9000, used(2)}}, 5400 * time.Second, append(make([]gpu.Opt[uint64], 360), used(2)), used(2)},
	} {
		var h history
		for _, s := range c.samples {
			h.add(begin+time.Duration(s.second)*time.Second, s.used, &detector.Verdict{})
		}
		to := begin + c.since + time.Duration(len(c.want)-1)*incident.Step
		course, high := h.hour.course(begin+c.since, to)
		equal(t, course, c.want, "%s", name)
		equal(t, high, c.high, "%s: the last minute", name)
	}
}

// TestHourIsBounded has an hour of whatever many samples, and a course outside of it.
func TestHourIsBounded(t *testing.T) {
	var h history
	const seconds = 3 * 3600
	for i := range seconds {
		h.add(begin+time.Duration(i)*time.Second, gpu.Some(uint64(i)), &detector.Verdict{})
	}
	last := begin + (seconds-1)*time.Second
	course, known := h.hour.course((last - incident.Span).Truncate(incident.Step), last)
	equal(t, len(course), incident.MaxCourse, "values")
	equal(t, course[len(course)-1], gpu.Some(uint64(seconds-1)), "the last value")
	equal(t, known, course[len(course)-1], "the last value that is known")
	equal(t, course[0], gpu.Some(uint64(seconds-incident.Span.Seconds()-1)), "the first value")
	before, known := h.hour.course(begin-20*time.Second, begin)
	equal(t, before, make([]gpu.Opt[uint64], 3), "before it")
	equal(t, known, gpu.Opt[uint64]{}, "the last value before it")
}
