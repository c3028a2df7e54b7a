// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

var (
	sampleLine = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+) (\S+)$`)
	labelPair  = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// matrixOf returns the series of a text that has a sample with its time in each line, as promtool tsdb dump-openmetrics writes it.
// Other lines are none.
func matrixOf(text string) (matrix model.Matrix) {
	known := map[string]*model.SampleStream{}
	for line := range strings.Lines(text) {
		m := sampleLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		v, err := strconv.ParseFloat(m[3], 64)
		at, wrong := strconv.ParseFloat(m[4], 64)
		if err != nil || wrong != nil {
			continue
		}
		x := known[m[1]+m[2]]
		if x == nil {
			x = &model.SampleStream{Metric: model.Metric{model.MetricNameLabel: model.LabelValue(m[1])}}
			for _, pair := range labelPair.FindAllStringSubmatch(m[2], -1) {
				x.Metric[model.LabelName(pair[1])] = model.LabelValue(pair[2])
			}
			known[m[1]+m[2]] = x
			matrix = append(matrix, x)
		}
		x.Values = append(x.Values, model.SamplePair{Timestamp: model.Time(math.Round(1000 * at)), Value: model.SampleValue(v)})
	}
	return matrix
}

// historyOf returns the history that a Prometheus would tell which holds the samples of a text.
func historyOf(text string, unit float64) (History, error) {
	m := matrix{series: map[string]*series{}}
	if err := m.add(matrixOf(text)); err != nil {
		return nil, err
	}
	used := usedNames(m.order)
	if err := toBytes(m.order, unit, used, "query", ""); err != nil {
		return nil, err
	}
	return newAnswer(m.order, used, nil)
}

func TestScalarErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a_bytes 5 1700000000\na_bytes 5 1700000000.000\n", "a_bytes{}: 2023-11-14T22:13:20Z is not after the point before it"},
		{"load 1 1700000000\n", "load does not tell its unit"},
		{"DCGM_FI_DEV_FB_USED 1 1700000000\ngpu_memory_used_bytes 1 1700000000\n", "some of its metrics are in bytes and some in MiB"},
		{"gpu_memory_used_bytes{gpu=\"0\"} 1 1700000000\ngpu_memory_total_bytes{x=\"1\"} 1 1700000000\ngpu_memory_total_bytes{x=\"1\"} 1 1700001000\ngpu_memory_total_bytes{x=\"2\"} 2 1700000000\n", "could be the capacity of"},
		{"DCGM_FI_DEV_FB_USED 1e12 1700000000\n", "more than any GPU has: check --unit"},
		{"x_bytes -5 1700000000\n", "this is no used memory"},
	} {
		if _, err := joined(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80q: %v, want %s", c.text, err, c.want)
		}
	}
}

// FuzzScalars checks that whatever is read is in order and can be memory.
func FuzzScalars(f *testing.F) {
	for _, text := range []string{
		"# TYPE a_bytes gauge\na_bytes{x=\"1\"} 5 1700000000.5\na_bytes{x=\"1\"} 6 1700000060\n# EOF\n",
		"a_bytes 5e3 1700000000250", "{\"a_bytes\",\"b.c\"=\"\\\"\"} NaN 1.7e9", "DCGM_FI_DEV_FB_USED{} -1 1700000000",
		"gpu_memory_used_bytes 1 1700000000\ngpu_memory_total_bytes 2 1700000000\n",
		"gpu_memory_used_bytes 9 1700000000\ngpu_memory_unattributed_bytes 8 1700000000\ngpu_process_memory_used_bytes{pid=\"7\"} 1 1700000000\n" +
			"gpu_process_start_time_seconds{pid=\"7\"} 1e300 1700000000\ngpu_process_sm_utilization_ratio{pid=\"7\"} 0 1700000000\ngpu_process_idle_seconds{pid=\"7\"} 1e300 1700000000\n",
		"gpu_memory_used_bytes 9 1700000000\ngpu_mig_memory_used_bytes{gpu_instance=\"1\",profile=\"1g\"} 1 1700000000\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := historyOf(text, 1)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("the error has more than a line: %q", err)
			}
			return
		}
		last := map[*Memory]time.Duration{}
		err = h.Each(t.Context(), func(m *Memory, s *gpu.Sample) error {
			if before, ok := last[m]; ok && s.T <= before {
				t.Errorf("%s after %s", s.T, last[m])
			}
			if s.Memory.Used.V > 1<<48 {
				t.Errorf("used %v", s.Memory.Used)
			}
			last[m] = s.T
			return nil
		})
		_ = err // of an amount that is none
	})
}

// TestWithBounds asks for all that is needed with one metric, and leaves every other query alone.
func TestWithBounds(t *testing.T) {
	const dcgm = "DCGM_FI_DEV_FB_USED|DCGM_FI_DEV_FB_TOTAL|DCGM_FI_DEV_FB_RESERVED|DCGM_FI_DEV_FB_FREE"
	for query, want := range map[string]string{
		"DCGM_FI_DEV_FB_USED":                      `{__name__=~"` + dcgm + `"}`,
		" DCGM_FI_DEV_FB_USED {} ":                 `{__name__=~"` + dcgm + `", }`,
		`DCGM_FI_DEV_FB_USED{a="}{",b=~'x|y',}`:    `{__name__=~"` + dcgm + `", a="}{",b=~'x|y',}`,
		`gpu_mig_memory_used_bytes{a="b"}`:         `{__name__=~"gpu_mig_memory_used_bytes|gpu_mig_memory_total_bytes|gpu_mig_memory_reserved_bytes", a="b"}`,
		`gpu_process_memory_used_bytes{pod="x"}`:   "",
		"max by (gpu) (DCGM_FI_DEV_FB_USED)":       "",
		"DCGM_FI_DEV_FB_USED offset 1d":            "",
		"DCGM_FI_DEV_FB_USED{a=\"b\"} / 2":         "",
		"x_bytes":                                  "",
		`{__name__=~"DCGM_FI_DEV_FB_(USED|FREE)"}`: "",
		`DCGM_FI_DEV_FB_USED{a="b"} or x{a="b"}`:   "",
		`DCGM_FI_DEV_FB_USED{a="b" or c="d"}`:      "",
		`DCGM_FI_DEV_FB_USED{a="b or c"}`:          `{__name__=~"` + dcgm + `", a="b or c"}`,
	} {
		if got, _ := withBounds(query); got != want && (want != "" || got != query) {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	own, _ := withBounds(`gpu_memory_used_bytes{instance="a"}`)
	for name := range parts {
		if !strings.Contains(own, name) {
			t.Errorf("%s does not ask for %s", own, name)
		}
	}
}

func TestParseMoment(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for text, want := range map[string]time.Time{
		"": now, "now": now, "-6h": now.Add(-6 * time.Hour), "-1d": now.Add(-24 * time.Hour), "1700000001": now.Add(time.Second),
		"2023-11-14T22:13:20Z": now, "2023-11-14T23:13:20+01:00": now,
	} {
		if got, err := parseMoment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"6h", "-", "2023-11-14", "--6h", "99999999999999"} {
		if got, err := parseMoment(text, now); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
}
