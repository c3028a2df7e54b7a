// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// mustPace returns a pace of that speed.
func mustPace(t *testing.T, speed float64) *pace {
	t.Helper()
	p, err := newPace(speed)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPaceSpeed(t *testing.T) {
	for _, tc := range []struct {
		name  string
		speed float64
		want  time.Duration // real time for an hour of the source
	}{
		{"default is real time", 0, time.Hour},
		{"real time", 1, time.Hour},
		{"fast", 60, time.Minute},
		{"slow", 0.5, 2 * time.Hour},
		{"very fast", 1e6, 3600 * time.Microsecond},
		{"no sleep", math.Inf(1), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const origin = 1_772_323_200 * time.Second
				p := mustPace(t, tc.speed)
				p.start(origin)
				begin := time.Now()
				if err := p.wait(t.Context(), origin+time.Hour); err != nil {
					t.Fatal(err)
				}
				if got := time.Since(begin); got != tc.want {
					t.Errorf("slept %v, want %v", got, tc.want)
				}
			})
		})
	}
}

func TestPaceRejectsSpeed(t *testing.T) {
	for _, speed := range []float64{-1, math.NaN(), math.Inf(-1)} {
		if _, err := newPace(speed); err == nil {
			t.Errorf("speed %v: no error", speed)
		}
	}
}

func TestPaceCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := mustPace(t, 1)
		p.start(0)
		time.Sleep(10 * time.Second)
		p.start(5 * time.Hour) // too late to count
		begin := time.Now()
		for _, at := range []time.Duration{time.Second, 2 * time.Second, 9 * time.Second} {
			if err := p.wait(t.Context(), at); err != nil {
				t.Fatal(err)
			}
		}
		if got := time.Since(begin); got != 0 {
			t.Errorf("slept %v for what was overdue", got)
		}
	})
}

func TestPaceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := mustPace(t, 1e-12) // a second takes 30,000 years: no overflow
		p.start(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := p.wait(ctx, time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait: %v, want the context's error", err)
		}
		if err := p.wait(ctx, -time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("overdue wait: %v, want the context's error", err)
		}
		got := make(chan error)
		go func() { got <- p.wait(t.Context(), time.Second) }()
		synctest.Wait()
		p.close()
		p.close() // again
		if err := <-got; !errors.Is(err, errClosed) {
			t.Errorf("wait: %v, want %v", err, errClosed)
		}
		if err := p.wait(t.Context(), -time.Second); !errors.Is(err, errClosed) {
			t.Errorf("overdue wait: %v, want %v", err, errClosed)
		}
	})
}
