// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// A GPU that fails on and off is told of, and does not fill the log.
func TestFlakyGPUDoesNotFloodTheLog(t *testing.T) {
	for name, c := range map[string]struct {
		failure func(second int) error // nil: it can be read
		most    int                    // lines an hour
		says    []string               // each once
	}{
		"one failure": {
			func(second int) error {
				if second%2 == 0 && second < 3000 {
					return errors.New("x: UNKNOWN")
				}
				return nil
			},
			2,
			[]string{`err="x: UNKNOWN"`, `msg="GPU can be read again" since=2000-01-01T00:49:59Z failures_not_logged=1498`},
		},
		"failures that take turns": {
			func(second int) error { return fmt.Errorf("call %d: UNKNOWN", second%3) },
			60,
			[]string{`err="call 1: UNKNOWN"` + "\n"},
		},
		"another failure later": {
			func(second int) error {
				switch {
				case second < 100:
					return errors.New("first")
				case second < 200:
					return errors.New("second")
				}
				return nil
			},
			3,
			[]string{"err=first\n", "err=second failures_not_logged=98\n", "since=2000-01-01T00:03:20Z failures_not_logged=99\n"},
		},
	} {
		d := newGPU(0, func(second int) (gpu.Sample, error) {
			if err := c.failure(second); err != nil {
				return gpu.Sample{}, err
			}
			return flat(1 << 30)(second)
		})
		runSampler(t, &scriptSource{devices: []gpu.Device{d}}, nil, func(_ *Sampler, out *lines) {
			after(1500 * time.Millisecond)
			if n := out.count("GPU cannot be read"); n > 1 {
				t.Errorf("%s: %d lines at once", name, n)
			}
			after(time.Hour)
			if n := out.count("GPU ca"); n == 0 || n > c.most {
				t.Errorf("%s: %d lines an hour, want %d at most", name, n, c.most)
			}
			for _, says := range c.says {
				if n := out.count(says); n != 1 {
					t.Errorf("%s: said %d times %q:\n%s", name, n, says, out.b.String()[:min(2000, out.b.Len())])
				}
			}
		})
	}
}
