// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
)

// calm is how long a GPU must be readable without a break before it counts as
// well again, and how far apart two lines about one that is not are.
const calm = time.Minute

// faultLog tells the log of a GPU that cannot be read: the first failure at once, and of a GPU that fails on and off no more
// than a line a minute, whatever it does. One goroutine owns it. The zero faultLog has told nothing.
type faultLog struct {
	told     string    // the failure that was told last; "" while the GPU is well
	at       time.Time // when that was
	untold   int       // failures since then
	readable time.Time // since when the GPU can be read; zero while it cannot
}

// failed notes that the GPU cannot be read.
func (f *faultLog) failed(logger log.Logger, err error) {
	f.readable = time.Time{}
	text := err.Error()
	if f.told != "" && (f.told == text || time.Since(f.at) < calm) {
		f.untold++
		return
	}
	f.line(level.Error(logger), "msg", "GPU cannot be read, will try again", "alert", finding.Lost, "err", err)
	f.told, f.at = text, time.Now()
}

// succeeded notes that the GPU could be read.
func (f *faultLog) succeeded(logger log.Logger) {
	switch {
	case f.told == "":
	case f.readable.IsZero():
		f.readable = time.Now()
	case time.Since(f.readable) >= calm:
		f.line(level.Info(logger), "msg", "GPU can be read again", "since", f.readable.UTC().Format(time.RFC3339))
		*f = faultLog{}
	}
}

// line writes a line that makes up for those that were held back.
func (f *faultLog) line(logger log.Logger, keyvals ...any) {
	if f.untold > 0 {
		keyvals = append(keyvals, "failures_not_logged", f.untold)
	}
	_ = logger.Log(keyvals...)
	f.untold = 0
}
