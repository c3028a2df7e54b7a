// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// A schedule does not drift, and ends with its context.
func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := schedule{interval: time.Second}
		start := time.Now()
		for i, c := range []struct {
			work   time.Duration // what the reader does before it waits
			at     time.Duration // when wait returns
			missed int
		}{
			{0, 0, 0}, // the first one is due at once
			{0, time.Second, 0},
			{300 * time.Millisecond, 2 * time.Second, 0},
			{1200 * time.Millisecond, 3200 * time.Millisecond, 0}, // late, but the third is the newest
			{0, 4 * time.Second, 0},
			{3500 * time.Millisecond, 7500 * time.Millisecond, 2}, // 5 and 6 are lost, 7 is served
			{2500 * time.Millisecond, 10 * time.Second, 2},        // on the dot of 10: 8 and 9 are lost
		} {
			time.Sleep(c.work)
			missed, err := s.wait(t.Context())
			if at := time.Since(start); err != nil || missed != c.missed || at != c.at {
				t.Errorf("wait %d: missed %d at %v, %v; want %d at %v", i, missed, at, err, c.missed, c.at)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := s.wait(ctx)
		if at := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || at != 10*time.Second+time.Millisecond {
			t.Errorf("wait that is ended: %v at %v", err, at)
		}
		time.Sleep(time.Second) // a sample is due
		if _, err := s.wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait after the end: %v", err)
		}
	})
}

func TestStamp(t *testing.T) {
	var s stamper
	const day = 20_000 * 24 * time.Hour
	for i, c := range []struct{ steady, ahead, t, step time.Duration }{
		{day, 5 * time.Second, day, 0}, // the first sample has nothing to be set against
		{day + 1, 5 * time.Second, day + 1, 0},
		{day + 1, 5 * time.Second, day + 2, 0}, // the clock's resolution
		{day, 5 * time.Second, day + 3, 0},
		{day + time.Second, 7 * time.Second, day + time.Second, 0}, // 2 s is slewing
		{day + 2*time.Second, 3 * time.Second, day + 2*time.Second, -4 * time.Second},
		{day + 3*time.Second, time.Hour, day + 3*time.Second, time.Hour - 3*time.Second},
		{day + 4*time.Second, time.Hour, day + 4*time.Second, 0},
	} {
		if at, step := s.stamp(c.steady, c.ahead); at != c.t || step != c.step {
			t.Errorf("stamp %d: %v, step %v; want %v, %v", i, at, step, c.t, c.step)
		}
	}
}

// The wall clock is set forward by an hour, or was not there for that long in a suspend: the steady clock knows nothing of it.
func TestSteadyClock(t *testing.T) {
	c, now := newClock(), time.Now()
	set := now
	*(*uint64)(unsafe.Pointer(&set)) += 3600 << 30 // a time.Time keeps these seconds beside what the monotonic clock says
	if set.Round(0).Sub(now.Round(0)) != time.Hour || set.Sub(now) != 0 {
		t.Fatalf("%v is not %v by a wall clock that is an hour ahead", set, now)
	}
	if off := c.steady(now) - time.Duration(now.UnixNano()); off.Abs() > time.Minute || c.steady(set) != c.steady(now) || c.ahead(set)-c.ahead(now) != time.Hour {
		t.Errorf("steady %v, and %v with the other one set; ahead %v", c.steady(now), c.steady(set), c.ahead(set))
	}
}

// The highest clocks are asked for once, again after a failure, and anew once the library was initialised anew.
func TestHighestClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, s, l, d := newOneGPU(t)
		defer s.Close()
		var there byte
		for _, name := range []string{"nvmlDeviceGetClockInfo", "nvmlDeviceGetMaxClockInfo"} {
			s.library.symbols.Store(name, unsafe.Pointer(&there))
		}
		read := func() (clocks []gpu.Clock) {
			must(t, d.read(func(r *reading) error { clocks = r.clocks(); return nil }))
			return clocks
		}
		asked := func(want int) {
			t.Helper()
			_, _, n := l.count("nvmlDeviceGetMaxClockInfo")
			testkit.Equal(t, n, want, "questions")
		}
		fault := &simFault{call: "nvmlDeviceGetMaxClockInfo", code: nvml.ERROR_UNKNOWN}
		node.begin(fault)
		if c := read(); c[0].Max.OK || !c[0].Current.OK {
			t.Errorf("while the call fails: %+v", c)
		}
		asked(4)
		node.end(fault)
		for range 3 {
			if c := read(); len(c) != 4 || c[3].Max.V != 1980e6 || c[3].Current.V != 345e6 {
				t.Errorf("%+v", c)
			}
		}
		asked(8)
		node.unload()
		_, _ = s.Devices(t.Context())
		node.load(false)
		if devices, err := s.Devices(t.Context()); err != nil || len(devices) != 1 || devices[0] != gpu.Device(d) {
			t.Fatalf("%d GPUs: %v", len(devices), err)
		}
		read()
		asked(12)
	})
}
