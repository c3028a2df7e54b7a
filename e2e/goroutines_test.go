// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// concurrent finds a go statement, a test beside others, and what goroutines need.
var concurrent = regexp.MustCompile(`(?m)^\s*go |\.Parallel\(\)|"sync[/"]`)

// TestDetectorStartsNoGoroutine: the detector and its tests start no goroutine and share nothing with one, so `make test` runs them
// without the race detector.
func TestDetectorStartsNoGoroutine(t *testing.T) {
	for _, dir := range []string{"detector", "detector/internal/series"} {
		files, err := filepath.Glob(filepath.Join(harness.Root(), dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, files, err)
		}
		for _, path := range files {
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if found := concurrent.Find(source); found != nil {
				t.Errorf("run %s with -race in the Makefile, or do without %q", path, found)
			}
		}
	}
}
