// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

const gib = 1 << 30

// TestSettings mutes a leak by the rules that the exporter takes, of every scope.
func TestSettings(t *testing.T) {
	for _, c := range []struct {
		file, selector string
		code           int
	}{
		{"leak.csv", `{scope="gpu", uuid="GPU-01"}`, exitOK},
		{"leak.csv", `{scope="gpu", uuid="GPU-00"}`, exitLeak},
		{"apps.csv", `{scope=~"process|gpu", uuid="GPU-00"}`, exitOK},
		{"leak.prom", `{pod="b", namespace="ml"}`, exitOK},
		{"scopes.prom", `{scope="process", process="serve"}`, exitOK},
		{"scopes.prom", `{scope="gpu"}`, exitLeak},
	} {
		path := write(t, "rules.yml", "groups:\n- name: a\n  rules:\n  - match: ['"+c.selector+"']\n    mute: true\n")
		args := []string{"testdata/" + c.file}
		if strings.HasSuffix(c.file, ".prom") {
			args = held(t, c.file)
		}
		code, _, stderr := tool(t.Context(), append([]string{"backtest", "--detector.config=" + path}, args...)...)
		testkit.Equal(t, code, c.code, "%s: exit code, %s", c.selector, stderr)
	}
	code, _, stderr := tool(t.Context(), "backtest", "--detector.min-growth=1TiB", "testdata/leak.csv")
	testkit.Equal(t, code, exitOK, "exit code, %s", stderr)
}

// An alarm counts that begins and ends between two steps, and the lines stay as far apart as
// was asked for.
func TestAlarmBetweenSteps(t *testing.T) {
	var log strings.Builder
	log.WriteString("timestamp,index,memory.used [MiB],memory.total [MiB]\n")
	begin := time.Date(2026, 3, 1, 1, 0, 0, 0, time.UTC)
	for i := range 4 * 360 {
		used := 10_000
		if i >= 360 && i < 720 { // an hour of 120 MiB a minute, and then it is as before
			used += (i - 360) * 20
		}
		fmt.Fprintf(&log, "%s,0,%d,81920\n", begin.Add(time.Duration(i)*10*time.Second).Format("2006/01/02 15:04:05.000"), used)
	}
	path := write(t, "log", log.String())
	_, every, _ := tool(t.Context(), "backtest", path)
	for step, want := range map[string][]string{
		"90m": {"01:30:00", "03:00:00", "04:30:00", "04:59:50"},
		"24h": {"04:59:50"},
	} {
		if code, stdout, stderr := tool(t.Context(), "backtest", "--step="+step, path); code != exitLeak || stdout != every {
			t.Errorf("step %s: exit code %d: %s%s\nwith the step of a minute: %s", step, code, stdout, stderr, every)
		}
		_, stdout, _ := tool(t.Context(), "backtest", "--output=json", "--step="+step, path)
		var got []string
		for _, l := range lines(t, stdout) {
			got = append(got, l.Time.Format(time.TimeOnly))
		}
		testkit.Equal(t, got, want, "step %s: lines at", step)
	}
}

// TestFailedReading has a leak of which one reading fails, at the moment of a verdict, and one
// at the end: that takes no alarm back.
func TestFailedReading(t *testing.T) {
	var text strings.Builder
	text.WriteString("timestamp, index, uuid, memory.used [MiB], memory.total [MiB]\n")
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for s := 0; s <= 3*3600; s += 5 {
		used := fmt.Sprint(10000+max(0, s-3600)*2, " MiB")
		if s == 2*3600 || s == 3*3600 {
			used = "[Unknown Error]"
		}
		fmt.Fprintf(&text, "%s, 0, GPU-0, %s, 81559 MiB\n", begin.Add(time.Duration(s)*time.Second).Format("2006/01/02 15:04:05.000"), used)
	}
	path, rules := write(t, "gpu.csv", text.String()), write(t, "mute.yml", "groups: [{name: a, rules: [{match: ['{}'], mute: true}]}]\n")
	code, stdout, stderr := tool(t.Context(), "backtest", path)
	if code != exitLeak || strings.Contains(stdout, "cleared") {
		t.Errorf("exit code %d, %s%s", code, stderr, stdout)
	}
	if _, stdout, _ = tool(t.Context(), "backtest", "--detector.config="+rules, path); !strings.Contains(stdout, "A rule of --detector.config says that it is not to be judged.") {
		t.Error(stdout)
	}
}
