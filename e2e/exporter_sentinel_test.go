// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// noNumbers are the numbers of a GPU that are no amounts: the driver never says that they are not available, or bits of
// a mask, or the fake's own.
var noNumbers = []string{"Brand", "Cores", "Seq", "PID", "ClockReasons", "SupportedReasons", "Instance", "Number", "ID", "Index", "Start", "Size", "Profile", "Profiles", "Cause"}

// numbers calls use for each number of 32 or 64 bits below v, with its place. It is in the same order each time.
func numbers(v reflect.Value, place string, use func(place string, v reflect.Value)) {
	switch v.Kind() {
	case reflect.Uint32, reflect.Int32, reflect.Uint64:
		use(place, v)
	case reflect.Pointer:
		if !v.IsNil() {
			numbers(v.Elem(), place, use)
		}
	case reflect.Slice:
		for i := range v.Len() {
			numbers(v.Index(i), fmt.Sprintf("%s[%d]", place, i), use)
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		for _, k := range keys {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(k))
			numbers(value, fmt.Sprintf("%s[%v]", place, k), use)
			v.SetMapIndex(k, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !slices.Contains(noNumbers, f.Name) {
				numbers(v.Field(i), place+"."+f.Name, use)
			}
		}
	}
}

// notAvailable sets a number to all ones.
func notAvailable(v reflect.Value) {
	switch v.Kind() {
	case reflect.Uint32:
		v.SetUint(math.MaxUint32)
	case reflect.Int32:
		v.SetInt(-1)
	default:
		v.SetUint(math.MaxUint64)
	}
}

// amplyDescribed is the GPU of that index with everything that a driver tells of one.
func amplyDescribed(index int, mig bool, processes ...fakenvml.Process) fakenvml.GPU {
	node := fakenvml.NewNode(index + 1)
	g := node.GPUs[0]
	g.UUID, g.BusID = node.GPUs[index].UUID, node.GPUs[index].BusID
	if mig {
		g.Partition("1g.10gb")
	}
	g.Fans, g.RetiredPages, g.Processes = []uint32{50}, []fakenvml.RetiredPage{{Address: 1}}, slices.Clone(processes)
	return g
}

// TestNotAvailable has the driver say that one number is not available, for each number that it tells of a GPU, and all
// of them: neither all ones nor what is left of it after a subtraction or a conversion is exported as an amount.
func TestNotAvailable(t *testing.T) {
	t.Parallel()
	m := newMachine(t, fakenvml.MaxGPUs) // so that few changes of the script have all numbers
	process := fakenvml.Process{PID: m.child(t), Memory: fakenvml.Constant(gib), Utilization: &fakenvml.Utilization{SM: 5}}
	type place struct {
		name string // "" is all
		mig  bool
	}
	places := []place{{}, {mig: true}}
	for _, mig := range []bool{false, true} {
		g := amplyDescribed(0, mig, process)
		numbers(reflect.ValueOf(&g).Elem(), "", func(name string, _ reflect.Value) {
			// One link stands for all, and what is not the memory of an instance is as without MIG.
			otherLink := strings.Contains(name, "NVLinks[") && !strings.Contains(name, "NVLinks[0]") || strings.Contains(name, "Fields[") && !strings.Contains(name, " 0}]")
			if ofMIG := strings.Contains(name, "MIG.Instances"); ofMIG == mig && !otherLink {
				places = append(places, place{name, mig})
			}
		})
	}
	if len(places) < 80 {
		t.Fatalf("only %d numbers: %v", len(places), places)
	}
	t.Logf("%d numbers", len(places))
	p := m.start(t, "--collector.nvlink", "--sample.interval=100ms", "--sample.slow-interval=100ms")
	for some := range slices.Chunk(places, len(m.GPUs)) {
		for i, at := range some {
			g := amplyDescribed(i, at.mig, process)
			numbers(reflect.ValueOf(&g).Elem(), "", func(name string, v reflect.Value) {
				if at.name == "" || at.name == name {
					notAvailable(v)
				}
			})
			m.GPUs[i] = g
		}
		m.apply(t)
		before := m.read(t).Functions
		s := eventually(t, p, func(harness.Metrics) error {
			now := m.read(t).Functions
			for _, name := range []string{"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetRemappedRows"} { // of each sample, and the slow reading
				if now[name].Calls < before[name].Calls+uint64(3*len(m.GPUs)) {
					return errors.New("the GPUs were not read again")
				}
			}
			return nil
		})
		for _, series := range s {
			if ones := amountOfOnes(series); ones {
				t.Errorf("%s%v is %g; on the GPUs in their order is not available: %+v", series.Name, series.Labels, series.Value, some)
			}
		}
	}
}

// amountOfOnes reports whether a series of the GPUs is all ones, or what is left of them.
func amountOfOnes(s harness.Sample) bool {
	if !strings.HasPrefix(s.Name, "gpu_") || math.IsInf(s.Value, 0) {
		return false
	}
	for _, unit := range []float64{1, 1e-3, 1e-2, 1e6} { // bytes and counts, mW, percent, MHz
		if v := s.Value / unit; math.Abs(v-math.MaxUint32) < 1 || math.Abs(v-math.MaxUint64) < 1e15 {
			return true
		}
	}
	return s.Value < 0 && (strings.HasSuffix(s.Name, "_bytes") || strings.HasSuffix(s.Name, "_total")) || s.Value >= 1<<54
}
