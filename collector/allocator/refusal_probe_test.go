// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package allocator

import (
	"reflect"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// TestRefusal has a program that is refused memory: the probe tells it, and waits.
func TestRefusal(t *testing.T) {
	c := newClock(t) // first: what it has read stays read until the program has ended
	id := idFrom(t, python(t, "refused"))
	find(t, c, id)
	on := func(uuid string) *Refusal {
		return c.RefusedOn(uuid, &gpu.Sample{}, &gpu.Process{ID: id})
	}
	for n := 2; on("GPU-0b2f") == nil; n++ {
		if time.Since(c.began) > hang {
			t.Fatal("it tells no refusal")
		}
		c.at(2)
		time.Sleep(10 * time.Millisecond) // it is another process
	}
	got := *on("GPU-0b2f")
	if age := time.Since(time.Unix(got.Time, 0)); age < 0 || age > hang {
		t.Errorf("it is %s old", age)
	}
	got.Time = 0
	want := Refusal{UUID: "0b2f", Asked: 2 << 30, Lines: []gpu.Line{{Bytes: 2 << 30, Line: "app/serve.py:41 handle"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if r := on("GPU-other"); r != nil {
		t.Errorf("another GPU has %+v", r)
	}
}
