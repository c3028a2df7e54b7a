// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// TestIncidents lives a report of each sort again: each has its row, in the table of its sort.
func TestIncidents(t *testing.T) {
	for kind, want := range map[string][]string{
		"ollama-reload-loop":    {"1 GPUs with a leak, 0 healthy ones", ": leaks\n", "| 1 of 1 | "},
		"imagenet-defunct":      {"0 GPUs with a leak, 1 healthy ones", ": memory that was held for nobody\n", "| 1 of 1 |"},
		"jax-notebook-prealloc": {"0 GPUs with a leak, 1 healthy ones", ": what was taken for a leak and was none\n", "| 0 of 1 |"},
	} {
		var out strings.Builder
		if err := benchIncidents(&out, options{seeds: seedRange{1, 1}, kind: kind, markdown: true}); err != nil {
			t.Fatal(err)
		}
		for _, want := range append(want, "["+kind+"](https://") {
			if strings.Count(out.String(), want) != 1 {
				t.Errorf("%s: not once %q:\n%s", kind, want, out.String())
			}
		}
	}
}
