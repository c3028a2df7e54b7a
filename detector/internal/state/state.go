// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package state checks values that encoding/gob has read from a state file. Gob checks types and lengths, but not the
// bounds of numbers. It writes exported fields only: derived and configured fields have names in lower case. A field that
// is missing in a file is zero: a change of a struct needs a new version of the file.
package state

import (
	"errors"
	"reflect"
	"time"
)

// Err says that the bytes are not what was saved.
var Err = errors.New("not a state of the detector")

// Checker is a struct that checks its fields for Possible: it refuses values that would make later code
// panic, or loop or allocate without end. last is that of Possible.
type Checker interface{ Check(last time.Duration) bool }

// ahead is how far a time may lie after the last one, because code may wait for it. No length is longer.
const ahead = 366 * 24 * time.Hour

// Possible reports whether the value that v points to is possible: no number is NaN or infinite, no time is much later than
// last, and no Checker refuses it.
func Possible(v any, last time.Duration) bool { return possible(reflect.ValueOf(v).Elem(), last) }

func possible(v reflect.Value, last time.Duration) bool {
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		x := v.Float()
		return x-x == 0 // neither NaN nor infinite
	case reflect.Int64:
		t, is := reflect.TypeAssert[time.Duration](v)
		return !is || t >= -ahead && t-ahead <= last
	case reflect.Pointer:
		return v.IsNil() || possible(v.Elem(), last)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if !possible(v.Index(i), last) {
				return false
			}
		}
	case reflect.Struct:
		for field, x := range v.Fields() {
			if field.IsExported() && !possible(x, last) {
				return false
			}
		}
		c, is := reflect.TypeAssert[Checker](v.Addr())
		return !is || c.Check(last)
	}
	return true
}
