// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package allocator

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// TestHear has this process tell refusals as a probe does, and as one would that wants to keep the reader busy.
func TestHear(t *testing.T) {
	id := idOf(t, os.Getpid())
	c := newClock(t)
	sequence := uint64(0)
	page := memfd(t, "gpu_leak_probe", make([]byte, pageSize))
	tell := func(second, asked int, more string) {
		sequence++
		refusal := fmt.Sprintf(`{"time":%d,"uuid":"GPU-0B","asked":%d%s}`, c.began.Add(time.Duration(second)*time.Second).Unix(), asked, more)
		put(t, page, refusing(testPage(sequence, id.Start, torch("a", 1, 2)), refusal)[:written]) // the rest is not the probe's
	}
	want := func(asked uint64) {
		t.Helper()
		got := c.RefusedOn("GPU-0b", &gpu.Sample{}, &gpu.Process{ID: id})
		if (got == nil) != (asked == 0) || got != nil && got.Asked != asked {
			t.Errorf("%+v, want one of %d bytes", got, asked)
		}
	}
	c.Of(id)
	tell(-61, 6, "") // an earlier exporter may have told it
	c.at(0)
	want(0)
	tell(1, 7, `,"lines":[`+strings.Repeat(`{"line":"a\n","bytes":5},`, 25)+`{}]`)
	c.at(1)
	want(7)
	lines := c.RefusedOn("GPU-0b", &gpu.Sample{}, &gpu.Process{ID: id}).Lines
	equal(t, len(lines), maxSites, "lines")
	equal(t, lines[0], gpu.Line{Line: "a_", Bytes: 5}, "a line")
	equal(t, c.RefusedOn("GPU-0c", &gpu.Sample{}, &gpu.Process{ID: id}), nil, "on another GPU")
	tell(30, 8, "")
	c.at(30)
	want(7) // too early to tell another one
	tell(31, 9, "")
	c.at(31)
	want(9)
	first := c.RefusedOn("GPU-0b", &gpu.Sample{}, &gpu.Process{ID: id})
	tell(31, 9, "")
	c.at(32)
	if c.RefusedOn("GPU-0b", &gpu.Sample{}, &gpu.Process{ID: id}) != first {
		t.Error("it is told again")
	}
	tell(100, 10, "") // it pretends to come
	c.at(33)
	want(9)
}
