// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// TestEarlierLives runs a program for two minutes and starts it again, with another port: what it held
// is known then, also after a restart of the exporter, and of other arguments, too. What they were is
// nowhere.
func TestEarlierLives(t *testing.T) {
	t.Parallel()
	const first, second, used, minute = 71_001, 71_002, 20 * gib, "1m"
	const secret = "hunter2-not-to-be-told"
	file := filepath.Join(t.TempDir(), "lives")
	m := newMachine(t, 1)
	args := []string{"--detector.lives-file=" + file, "--detector.window=" + minute}
	prior := func(pid uint32, n float64) func(harness.Metrics) error {
		return func(s harness.Metrics) error {
			return want(s, n, "gpu_process_prior_lives", with(m.id(0), "pid", strconv.Itoa(int(pid))))
		}
	}
	p := m.start(t, args...)
	m.run(t, first, used, "/usr/bin/train", "--batch-size=32", "--port=40123", "--token="+secret)
	eventually(t, p, prior(first, 0))
	began := time.Now()
	harness.Eventually(t, 10*time.Minute, func() error { // a height is one of a whole minute
		s, err := p.TryScrape()
		if err != nil {
			return err
		}
		filled, err := s.Value("gpu_detector_window_fill_ratio", with(m.id(0), "window", minute))
		if err == nil && (filled < 1 || time.Since(began) < 125*time.Second) {
			err = fmt.Errorf("the window is filled by %g", filled)
		}
		return err
	})
	m.run(t, second, used, "/usr/bin/train", "--batch-size=32", "--port=40999", "--token="+secret)
	s := eventually(t, p, prior(second, 1))
	if err := errors.Join(
		gone(s, "gpu_process_expected_memory_bytes", nil), // nothing grows
		want(s, used, "gpu_program_memory_peak_bytes", nil), want(s, 0, "gpu_programs_other", nil),
	); err != nil {
		t.Error(err)
	}
	told := []string{p.Output(), fmt.Sprint(p.Scrape(t))}
	p.Stop(t)
	told = append(told, p.Output())

	p = m.start(t, args...)
	told = append(told, fmt.Sprint(eventually(t, p, prior(second, 1))))
	m.run(t, first, used, "/usr/bin/train", "--batch-size=64")
	told = append(told, fmt.Sprint(eventually(t, p, prior(first, 1)))) // of its kin
	p.Stop(t)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(told, p.Output(), string(b)) {
		if strings.Contains(text, secret) || strings.Contains(text, "40123") {
			t.Errorf("an argument is told:\n%.2000s", text)
		}
	}
}
