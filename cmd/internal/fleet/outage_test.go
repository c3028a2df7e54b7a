// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

var errUnavailable = &v1.Error{Type: v1.ErrServer, Msg: "server error: 503"}

// oneGPU is a Prometheus that knows one.
func oneGPU() *fakePrometheus {
	return &fakePrometheus{every: 15, series: map[string]func(int64) (float64, bool){dcgm(used, "a", "GPU-1", ""): constant(5)}}
}

// TestEmptyAfterAnOutage has a Prometheus that is there again and knows of no GPU.
func TestEmptyAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := oneGPU()
		w := newWatch(t, f, func(c *Config) { c.MaxAge = time.Hour })
		w.follow(t, 5*time.Minute)
		f.change(func(f *fakePrometheus) { f.err = errUnavailable })
		w.follow(t, 20*time.Minute)
		f.change(func(f *fakePrometheus) { f.err, f.value = nil, model.Matrix{} })
		w.follow(t, 5*time.Hour)
		if _, err := w.source.Devices(w.ctx); err == nil || len(w.read["GPU-1"].errs) != 1 {
			t.Errorf("%v; GPU-1 was told %v", err, w.read["GPU-1"].errs)
		}
	})
}

// TestEmptyFromTheStart has a Prometheus that is not there, and then knows of no GPU. Each is counted and
// logged once; the GPUs have one reason.
func TestEmptyFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := oneGPU()
		f.err = errUnavailable
		w := newWatch(t, f, nil)
		down := func(reason string) {
			t.Helper()
			w.follow(t, time.Minute)
			_, err := w.source.Devices(w.ctx)
			if driver, ok := errors.AsType[*gpu.DriverError](err); !ok || driver.Reason != ReasonDown || w.metric(t, "problems_total", reason) < 4 {
				t.Errorf("%v, and %g times %s", err, w.metric(t, "problems_total", reason), reason)
			}
		}
		down(reasonQuery)
		f.change(func(f *fakePrometheus) { f.err, f.value = nil, model.Matrix{} })
		down(reasonNoResult)
		testkit.Equal(t, strings.Count(w.log.String(), "cannot be asked"), 2, "lines of the log")
	})
}

// TestLargeParts has a Prometheus that has no answer about more than 13 minutes: such a part is asked for in smaller ones.
func TestLargeParts(t *testing.T) {
	for name, large := range map[string]func(ctx context.Context, back *time.Time) error{
		"time out":    func(ctx context.Context, _ *time.Time) error { <-ctx.Done(); return ctx.Err() },
		"are refused": func(context.Context, *time.Time) error { return promapi.ErrAnswerTooLarge },
		"are the end of it": func(_ context.Context, back *time.Time) error {
			*back = time.Now().Add(2 * time.Minute)
			return errors.New("connection reset by peer")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				var back time.Time
				p := oneGPU()
				p.before = func(ctx context.Context, span time.Duration, _ time.Time) error {
					if time.Now().Before(back) {
						return errors.New("connection refused")
					}
					if span > 13*time.Minute {
						asked++
						return large(ctx, &back)
					}
					return nil
				}
				w := newWatch(t, p, func(c *Config) { c.History = 6 * time.Hour })
				w.follow(t, time.Hour)
				r := w.read["GPU-1"]
				if r == nil || asked > 3 {
					t.Fatalf("asked %d times; read: %t", asked, r != nil)
				}
				r.inOrder(t, 15)
				if n, want := len(r.samples), 7*60*4; n < want-40 || n > want {
					t.Errorf("%d samples, want about %d", n, want)
				}
			})
		})
	}
}

// TestPartsAfterAnOutage has a Prometheus that is away for hours: that makes no part of the time since then smaller.
func TestPartsAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parts := 0
		f := oneGPU()
		w := newWatch(t, f, func(c *Config) { c.MaxAge = time.Hour })
		w.follow(t, 5*time.Minute)
		f.change(func(f *fakePrometheus) { f.err = errUnavailable })
		w.follow(t, 3*time.Hour)
		f.change(func(f *fakePrometheus) {
			f.err, f.before = nil, func(_ context.Context, span time.Duration, end time.Time) error {
				if span > 0 && !end.IsZero() {
					parts++
				}
				return nil
			}
		})
		w.follow(t, time.Minute)
		if parts < 10 || parts > 15 {
			t.Errorf("3 h are read in %d parts, want 12 or so", parts)
		}
		w.read["GPU-1"].inOrder(t, 15)
	})
}

// TestPodsFollowEachOther has a GPU that two pods and nobody have in turn, whose series is another one each time: in one answer about
// the past, which tells no owner of its own, and from then on.
func TestPodsFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := func(which int64) func(int64) (float64, bool) {
			return func(t int64) (float64, bool) { return float64(5 + which), t/1800%3 == which }
		}
		f := &fakePrometheus{every: 15, series: map[string]func(int64) (float64, bool){
			dcgm(used, "a", "GPU-1", `,exported_pod="0",pod="dcgm-exporter-x"`): turn(0), dcgm(used, "a", "GPU-1", `,exported_pod="1",pod="dcgm-exporter-x"`): turn(1),
			dcgm(used, "a", "GPU-1", `,pod="dcgm-exporter-x"`): turn(2),
		}}
		began := time.Now()
		w := newWatch(t, f, func(c *Config) { c.History = 6 * time.Hour })
		w.follow(t, 95*time.Minute)
		r := w.read["GPU-1"]
		r.inOrder(t, 15)
		for _, s := range r.samples {
			which := int64(s.T/time.Second) / 1800 % 3
			owned := s.Time.Before(began) || which < 2 && s.Owner != nil && s.Owner.Pod == strconv.FormatInt(which, 10) || which == 2 && s.Owner == nil
			if want := uint64(5+which) << 20; s.Memory.Used.V != want || !owned {
				t.Fatalf("%d of %+v at %s, want %d", s.Memory.Used.V, s.Owner, s.T, want)
			}
		}
		if n := len(r.samples); n < 6*60*4 || w.metric(t, "problems_total", reasonDuplicate) != 0 {
			t.Errorf("%d samples, %g duplicates", n, w.metric(t, "problems_total", reasonDuplicate))
		}
	})
}

// TestLateInAnOutage has a GPU whose samples are there later than those of another: none is lost either.
func TestLateInAnOutage(t *testing.T) {
	late := func(matrix model.Matrix) (out model.Matrix) {
		for _, s := range matrix {
			if s.Metric["UUID"] == "GPU-2" {
				c := *s
				c.Values = slices.DeleteFunc(slices.Clone(s.Values), func(p model.SamplePair) bool { return time.Since(p.Timestamp.Time()) < 4*time.Minute })
				s = &c
			}
			out = append(out, s)
		}
		return out
	}
	for name, tt := range map[string]struct {
		history    time.Duration
		from, long time.Duration // of the outage, from the start
	}{
		"that never came":  {0, 10 * time.Minute, 0},
		"of two minutes":   {0, 10 * time.Minute, 2 * time.Minute},
		"of ten minutes":   {0, 10 * time.Minute, 10 * time.Minute},
		"of an hour":       {0, 10 * time.Minute, time.Hour},
		"behind a history": {time.Hour, 4 * time.Second, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				p := oneGPU()
				p.after = late
				p.before = func(_ context.Context, _ time.Duration, end time.Time) error {
					time.Sleep(time.Second) // of the simulated time of synctest: a request takes that long
					if passed := time.Since(began); end.IsZero() && passed > tt.from && passed < tt.from+tt.long {
						return errUnavailable
					}
					return nil
				}
				p.series[dcgm(used, "b", "GPU-2", "")] = constant(5)
				w := newWatch(t, p, func(c *Config) { c.History = tt.history })
				w.follow(t, tt.from+tt.long+10*time.Minute)
				for _, uuid := range []string{"GPU-1", "GPU-2"} {
					r := w.read[uuid]
					r.inOrder(t, 15)
					if len(r.samples) < 30 || (tt.long == 0 && len(r.errs) != 0) {
						t.Errorf("%s: %d samples, %v", uuid, len(r.samples), r.errs)
					}
				}
			})
		})
	}
}
