// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/detectorconfig"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

const gib = 1 << 30

// BenchmarkBacktest judges samples that are in memory already, a verdict a minute.
func BenchmarkBacktest(b *testing.B) {
	samples := make([]gpu.Sample, 86400)
	for i := range samples {
		samples[i].Memory = gpu.Memory{
			Used:  gpu.Some(uint64(20*gib + i*100_000 + i%30*(64<<20))),
			Total: gpu.Some(uint64(80 * gib)),
		}
	}
	m := &memory{labels: labelsOf("gpu", "0", "uuid", "GPU-0")}
	j := newJudge(detectorconfig.New(detector.DefaultConfig()), time.Minute, false)
	begin := time.Duration(1_772_323_200) * time.Second
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		s := &samples[i%len(samples)]
		s.T = begin + time.Duration(i)*time.Second
		if err := j.add(m, s); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "samples/s")
}

// TestSettings mutes a leak by the rules that the exporter takes, of every scope.
func TestSettings(t *testing.T) {
	for _, c := range []struct {
		file, selector string
		code           int
	}{
		{"leak.csv", `{scope="gpu", uuid="GPU-01"}`, exitOK},
		{"leak.csv", `{scope="gpu", uuid="GPU-00"}`, exitLeak},
		{"apps.csv", `{scope="process", process="serve", gpu="0"}`, exitOK},
		{"leak.om", `{pod="b", namespace="ml"}`, exitOK},
	} {
		path := filepath.Join(t.TempDir(), "rules.yml")
		rules := "groups:\n- name: a\n  rules:\n  - match: ['" + c.selector + "']\n    mute: true\n"
		if err := os.WriteFile(path, []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := tool(t.Context(), "backtest", "--detector.config="+path, "testdata/"+c.file)
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d: %s", c.selector, code, c.code, stderr)
		}
	}
	if code, _, stderr := tool(t.Context(), "backtest", "--detector.min-growth=1TiB", "testdata/leak.csv"); code != exitOK {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
