// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/go-kit/log/level"
	"github.com/prometheus/common/promslog"
)

func TestLoggersLookAlike(t *testing.T) {
	var out bytes.Buffer
	own, bridged := newLoggers(logConfig(t, "info", "logfmt"), &out)
	level.Debug(own).Log("msg", "dropped")
	bridged.Debug("dropped")
	level.Warn(own).Log("msg", "one", "n", 1, "d", time.Second)
	bridged.Warn("one", "n", 1, "d", time.Second)
	line := `level=warn ts=\d{4}-\d\d-\d\dT[0-9:.]+Z caller=loggers_test.go:\d+ msg=one n=1 d=1s\n`
	if want := regexp.MustCompile(`^` + line + line + `$`); !want.MatchString(out.String()) {
		t.Errorf("got\n%s", out.String())
	}
}

func TestLoggersJSON(t *testing.T) {
	var out bytes.Buffer
	own, bridged := newLoggers(logConfig(t, "error", "json"), &out)
	bridged.Warn("dropped")
	level.Error(own).Log("msg", "one", "n", 1)
	bridged.Error("one", "n", 1)
	decoder := json.NewDecoder(&out)
	for range 2 {
		var line map[string]any
		if err := decoder.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if len(line) != 5 || line["level"] != "error" || line["msg"] != "one" || line["n"] != 1.0 || line["ts"] == nil || line["caller"] == nil {
			t.Errorf("got %v", line)
		}
	}
	if decoder.More() {
		t.Error("more than two lines")
	}
}

func logConfig(t *testing.T, level, format string) *promslog.Config {
	t.Helper()
	c := &promslog.Config{Level: promslog.NewLevel(), Format: promslog.NewFormat()}
	if err := c.Level.Set(level); err != nil {
		t.Fatal(err)
	}
	if err := c.Format.Set(format); err != nil {
		t.Fatal(err)
	}
	return c
}
