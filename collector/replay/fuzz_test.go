// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// readFuzzed reads a recording from memory, holds what comes out of it to what
// holds for every recording, and returns it.
func readFuzzed(t *testing.T, text string, log *Log) (all []reading) {
	f, err := newReader("fuzz", strings.NewReader(text), log, log == nil && len(text)%2 == 0)
	if err != nil {
		checkErrorLine(t, err)
		return nil
	}
	last := map[string]time.Duration{}
	for {
		r, err := f.next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			checkErrorLine(t, err)
			return all
		}
		if r.info.UUID == "" {
			t.Fatalf("a GPU without identity: %+v", r.info)
		}
		if old, ok := last[r.info.UUID]; ok && r.sample.T <= old || r.sample.T <= 0 {
			t.Fatalf("time %v after %v", r.sample.T, old)
		}
		last[r.info.UUID] = r.sample.T
		checkValues(t, reflect.ValueOf(*r))
		checkAmounts(t, &r.sample)
		all = append(all, *r)
	}
}

// checkErrorLine checks that an error is one line that says where it is.
func checkErrorLine(t *testing.T, err error) {
	t.Helper()
	if text := err.Error(); !strings.HasPrefix(text, "fuzz:") || strings.ContainsAny(text, "\n\r") {
		t.Fatalf("error %q", text)
	}
}

// checkValues checks that no float below v is NaN or infinite.
func checkValues(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			t.Fatalf("the number %v", f)
		}
	case reflect.Struct:
		if v.Type() == timeType {
			return
		}
		for _, field := range v.Fields() {
			checkValues(t, field)
		}
	case reflect.Slice:
		for i := range v.Len() {
			checkValues(t, v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			checkValues(t, v.Elem())
		}
	}
}

// checkAmounts checks that every amount of memory is one that exists.
func checkAmounts(t *testing.T, s *gpu.Sample) {
	amounts := []gpu.Opt[uint64]{s.Memory.Total, s.Memory.Used, s.Memory.Free, s.Memory.Reserved}
	for _, in := range s.Instances {
		amounts = append(amounts, in.Memory.Total, in.Memory.Used, in.Memory.Free, in.Memory.Reserved)
	}
	for _, p := range s.Processes {
		amounts = append(amounts, p.Used)
	}
	for _, v := range amounts {
		if v.V > detector.MaxBytes || !v.OK && v.V != 0 {
			t.Fatalf("the amount %+v", v)
		}
	}
}

// FuzzCSV reads anything by any columns, or by the header that it may have.
func FuzzCSV(f *testing.F) {
	for _, c := range logCases() {
		var names []string
		for _, x := range c.log.Columns {
			names = append(names, roleNames[x.role][0])
		}
		f.Add(strings.Join(names, ","), c.text)
	}
	f.Add("timestamp,pid,used[MiB],process", "2026-03-01 10:00:00,1,2,\"a\nb\"")
	f.Add("", "timestamp;\"memory.used [\riB]\";index\n2026/03/01 12:00:00.000;nan;1_0\n")
	f.Fuzz(func(t *testing.T, names, text string) {
		if list, err := ParseColumns(names); err == nil {
			readFuzzed(t, text, &Log{Columns: list, Start: simStart, Interval: time.Second})
		}
		readFuzzed(t, text, nil)
	})
}
