// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"regexp"
	"testing"
	"time"

	"github.com/go-kit/log/level"
	"github.com/prometheus/common/promslog"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// TestLoggersLookAlike writes a line with each of the loggers: both have the same keys, in the same order.
func TestLoggersLookAlike(t *testing.T) {
	for format, line := range map[string]string{
		"logfmt": `level=error ts=\d{4}-\d\d-\d\dT[0-9:.]+Z caller=loggers_test.go:\d+ msg=one n=1 d=1s\n`,
		"json":   `{"caller":"loggers_test.go:\d+","d":"1s","level":"error","msg":"one","n":1,"ts":"[^"]+Z"}\n`,
	} {
		var out bytes.Buffer
		own, bridged := newLoggers(logConfig(t, "error", format), &out)
		level.Warn(own).Log("msg", "dropped")
		bridged.Warn("dropped")
		level.Error(own).Log("msg", "one", "n", 1, "d", time.Second)
		bridged.Error("one", "n", 1, "d", time.Second)
		if want := regexp.MustCompile(`^` + line + line + `$`); !want.MatchString(out.String()) {
			t.Errorf("got\n%s", out.String())
		}
	}
}

func logConfig(t *testing.T, level, format string) *promslog.Config {
	t.Helper()
	c := &promslog.Config{Level: promslog.NewLevel(), Format: promslog.NewFormat()}
	testkit.Must(t, c.Level.Set(level))
	testkit.Must(t, c.Format.Set(format))
	return c
}
