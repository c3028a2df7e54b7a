// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package state checks values that encoding/gob has read from a state file: gob checks types and lengths, but not numbers.
// What is refused would make later code panic, loop or allocate without end, or give NaN. Gob writes exported fields only:
// derived and configured fields have names in lower case. A field that
// is missing in a file is zero: a change of a struct needs a new version of the file.
package state

import (
	"errors"
	"math"
	"reflect"
	"time"
)

// Err says that the bytes are not what was saved.
var Err = errors.New("not a state of the detector")

// Checker is a struct with a rule of its own, such as for an index. last is that of Possible.
type Checker interface{ Check(last time.Duration) bool }

const (
	// ahead is how far a time may lie after the last one, because code may wait for it. No length is longer.
	ahead = 366 * 24 * time.Hour
	// mostBytes bounds amounts of memory and long counts; most bounds other numbers, squares of amounts among them.
	mostBytes, most = 1 << 48, 1e60
)

// Possible reports whether the value that v points to is possible: each int is a count, each other number is within its bounds,
// no time is negative or much later than last, and no Checker refuses it.
func Possible(v any, last time.Duration) bool { return possible(reflect.ValueOf(v).Elem(), last) }

func possible(v reflect.Value, last time.Duration) bool {
	switch v.Kind() {
	case reflect.Float64:
		return math.Abs(v.Float()) <= most // NaN is not
	case reflect.Int:
		return v.Int() >= 0 && v.Int() <= math.MaxInt32
	case reflect.Int64:
		if t, is := reflect.TypeAssert[time.Duration](v); is {
			return t >= 0 && t-ahead <= last
		}
		return v.Int() >= -mostBytes && v.Int() <= mostBytes
	case reflect.Pointer:
		return v.IsNil() || possible(v.Elem(), last)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if !possible(v.Index(i), last) {
				return false
			}
		}
	case reflect.Struct:
		for i := range v.NumField() { //nolint:modernize // Fields takes memory for each struct
			if x := v.Field(i); x.CanInterface() && !possible(x, last) { // it is exported
				return false
			}
		}
		c, is := reflect.TypeAssert[Checker](v.Addr())
		return !is || c.Check(last)
	}
	return true
}
