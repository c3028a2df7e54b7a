// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package lives

import "testing"

// TestRunsThatEndTogether ends two runs of two ranks each in one second, as when a node is drained, in the
// order in which the loops of four GPUs happen to note them: these are two lives.
func TestRunsThatEndTogether(t *testing.T) {
	const day, gib = Seconds(24 * 3600), 1 << 30
	b, id := NewBook(), ID{Exact: 1, Program: "train.py"}
	for _, lasted := range []Seconds{4 * 3600, 2 * 3600, 4*3600 + 1, 2*3600 + 1} {
		b.Add(id, &Life{Ended: 101 * day, Lasted: lasted, Height: 10 * gib, Peak: 10 * gib}, someday)
	}
	if p := b.Prior(id, (102 * day).Duration()); p.Lives != 2 || p.Sure {
		t.Errorf("%d lives, sure: %t", p.Lives, p.Sure)
	}
}
