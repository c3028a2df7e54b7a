// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package state writes plain structs as bytes and reads them again. Exported fields are written in
// their order and others are not, so that what is derived or configured is left out by its name.
// Integers are varints, slices and strings have their length before them. The layout is that of the
// structs: who changes one gives the file that holds it another version.
package state

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
)

// Err says that the bytes are not what Append wrote.
var Err = errors.New("not a state of the detector")

// MaxLen bounds the length of a slice and of a string that is read, and so what a bad file can cost.
const MaxLen = 1 << 16

// Append appends what v points to.
func Append(b []byte, v any) []byte { return appendValue(b, reflect.ValueOf(v).Elem()) }

func appendValue(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(b, 1)
		}
		return append(b, 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return binary.AppendVarint(b, v.Int())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return binary.AppendUvarint(b, v.Uint())
	case reflect.Float64:
		return binary.BigEndian.AppendUint64(b, math.Float64bits(v.Float()))
	case reflect.String:
		return append(binary.AppendUvarint(b, uint64(v.Len())), v.String()...)
	case reflect.Slice:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			b = appendValue(b, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				b = appendValue(b, v.Field(i))
			}
		}
	default:
		panic("state: a field of kind " + v.Kind().String())
	}
	return b
}

// Reader reads what Append wrote. After an error it reads nothing.
type Reader struct {
	B   []byte
	Err error
}

// Fail notes that what was read cannot be.
func (r *Reader) Fail() { r.B, r.Err = nil, Err }

// Read fills what v points to. A number that does not fit, one that is not one, and a slice of more
// than MaxLen are errors.
func (r *Reader) Read(v any) { r.value(reflect.ValueOf(v).Elem()) }

func (r *Reader) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.take(1)[0] == 1)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		x, n := binary.Varint(r.B)
		if r.skip(n); !v.OverflowInt(x) {
			v.SetInt(x)
		} else {
			r.Fail()
		}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		x, n := binary.Uvarint(r.B)
		if r.skip(n); !v.OverflowUint(x) {
			v.SetUint(x)
		} else {
			r.Fail()
		}
	case reflect.Float64:
		if v.SetFloat(math.Float64frombits(binary.BigEndian.Uint64(r.take(8)))); math.IsNaN(v.Float()) {
			r.Fail()
		}
	case reflect.String:
		v.SetString(string(r.take(r.len())))
	case reflect.Slice:
		n := r.len()
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			r.value(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				r.value(v.Field(i))
			}
		}
	default:
		panic("state: a field of kind " + v.Kind().String())
	}
}

// len reads the length of a slice or a string, each element of which takes a byte at the least.
func (r *Reader) len() int {
	x, n := binary.Uvarint(r.B)
	if r.skip(n); x > min(MaxLen, uint64(len(r.B))) {
		r.Fail()
		return 0
	}
	return int(x)
}

// take returns the next n bytes; zeros after an error.
func (r *Reader) take(n int) []byte {
	if n > len(r.B) {
		r.Fail()
		return make([]byte, n)
	}
	b := r.B[:n]
	r.B = r.B[n:]
	return b
}

// skip moves on by n bytes; what is not positive is an error of the varint before.
func (r *Reader) skip(n int) {
	if n <= 0 {
		r.Fail()
		return
	}
	r.B = r.B[n:]
}
