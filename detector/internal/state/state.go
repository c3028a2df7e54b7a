// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package state writes plain structs as bytes and reads them again. Exported fields are written in
// their order and others are not, so that what is derived or configured is left out by its name; nor
// is one with the tag state:"-". Integers are varints, slices and strings have their length before
// them. The layout is that of the structs: who changes one gives the file that holds it another
// version.
package state

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"time"
)

// Err says that the bytes are not what a Writer wrote.
var Err = errors.New("not a state of the detector")

// Checker is a struct that knows what its fields can be. Read asks it: it refuses what would make
// later code panic, or loop or allocate without end. last is Reader.Last.
type Checker interface{ Check(last time.Duration) bool }

// ahead is how far a time may lie after the last one: what is waited for. No length is longer.
const ahead = 366 * 24 * time.Hour

// plan is how a type is written.
type plan struct {
	kind   reflect.Kind
	least  int     // bytes that it takes
	fields []int   // of a struct
	elems  []*plan // of these fields, or the one of all elements
	time   bool
	checks bool
}

// plans are those of the types seen so far. Each Writer and Reader has its own: none is shared.
type plans map[reflect.Type]*plan

func (p plans) of(t reflect.Type) *plan {
	l := p[t]
	if l != nil {
		return l
	}
	l = &plan{kind: t.Kind(), least: 1, time: t == reflect.TypeFor[time.Duration]()}
	l.checks = l.kind == reflect.Struct && reflect.PointerTo(t).Implements(reflect.TypeFor[Checker]())
	p[t] = l
	switch l.kind {
	case reflect.Float64:
		l.least = 8
	case reflect.Slice, reflect.Array:
		l.elems = []*plan{p.of(t.Elem())}
		if l.kind == reflect.Array {
			l.least = t.Len() * l.elems[0].least
		}
	case reflect.Struct:
		l.least = 0
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && f.Tag.Get("state") != "-" {
				e := p.of(f.Type)
				l.fields, l.elems, l.least = append(l.fields, i), append(l.elems, e), l.least+e.least
			}
		}
	}
	return l
}

// Writer appends to B.
type Writer struct {
	B     []byte
	plans plans
}

// Add appends what each v points to.
func (w *Writer) Add(vs ...any) {
	if w.plans == nil {
		w.plans = plans{}
	}
	for _, v := range vs {
		e := reflect.ValueOf(v).Elem()
		w.value(e, w.plans.of(e.Type()))
	}
}

func (w *Writer) value(v reflect.Value, l *plan) {
	switch l.kind {
	case reflect.Bool:
		is := byte(0)
		if v.Bool() {
			is = 1
		}
		w.B = append(w.B, is)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		w.B = binary.AppendVarint(w.B, v.Int())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		w.B = binary.AppendUvarint(w.B, v.Uint())
	case reflect.Float64:
		w.B = binary.BigEndian.AppendUint64(w.B, math.Float64bits(v.Float()))
	case reflect.String:
		w.B = append(binary.AppendUvarint(w.B, uint64(v.Len())), v.String()...)
	case reflect.Slice, reflect.Array:
		if l.kind == reflect.Slice {
			w.B = binary.AppendUvarint(w.B, uint64(v.Len()))
		}
		for i := range v.Len() {
			w.value(v.Index(i), l.elems[0])
		}
	case reflect.Struct:
		for i, f := range l.fields {
			w.value(v.Field(f), l.elems[i])
		}
	default:
		panic("state: a field of kind " + l.kind.String())
	}
}

// Reader reads what a Writer wrote from B, until Err is not nil.
type Reader struct {
	B   []byte
	Err error
	// Last is the time that no other one is much later than.
	Last time.Duration
	// Old reads the form of before version 14: all integers are signed, and so are flags and lengths.
	Old   bool
	plans plans
}

// Fail notes that what was read cannot be.
func (r *Reader) Fail() { r.B, r.Err = nil, Err }

// Check refuses what cannot be: of what was read by parts.
func (r *Reader) Check(vs ...Checker) {
	for _, v := range vs {
		r.fits(v.Check(r.Last))
	}
}

// Read fills what each v points to.
func (r *Reader) Read(vs ...any) {
	if r.plans == nil {
		r.plans = plans{}
	}
	for _, v := range vs {
		e := reflect.ValueOf(v).Elem()
		r.value(e, r.plans.of(e.Type()))
	}
}

func (r *Reader) value(v reflect.Value, l *plan) {
	switch l.kind {
	case reflect.Bool:
		x := r.uint()
		r.fits(x <= 1)
		v.SetBool(x == 1)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		x := r.int()
		r.fits(!v.OverflowInt(x) && (!l.time || time.Duration(x) >= -ahead && time.Duration(x)-ahead <= r.Last))
		v.SetInt(x)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		x := r.uint()
		r.fits(!v.OverflowUint(x))
		v.SetUint(x)
	case reflect.Float64:
		x := math.Float64frombits(binary.BigEndian.Uint64(r.take(8)))
		r.fits(x-x == 0) // neither NaN nor infinite
		v.SetFloat(x)
	case reflect.String:
		v.SetString(string(r.take(r.len(1))))
	case reflect.Slice:
		n := r.len(l.elems[0].least)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		fallthrough
	case reflect.Array:
		for i := 0; i < v.Len() && r.Err == nil; i++ {
			r.value(v.Index(i), l.elems[0])
		}
	case reflect.Struct:
		for i, f := range l.fields {
			r.value(v.Field(f), l.elems[i])
		}
		if l.checks && r.Err == nil {
			r.fits(v.Addr().Interface().(Checker).Check(r.Last))
		}
	default:
		panic("state: a field of kind " + l.kind.String())
	}
}

// fits notes whether what was read can be.
func (r *Reader) fits(ok bool) {
	if !ok {
		r.Fail()
	}
}

// int and uint read an integer; 0 after an error.
func (r *Reader) int() int64 {
	x, n := binary.Varint(r.B)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.B = r.B[n:]
	return x
}

func (r *Reader) uint() uint64 {
	if r.Old {
		return uint64(r.int())
	}
	x, n := binary.Uvarint(r.B)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.B = r.B[n:]
	return x
}

// len reads the length of what has elements of so many bytes at the least: no more of them than
// there are bytes for are allocated.
func (r *Reader) len(least int) int {
	n := r.uint()
	if n > uint64(len(r.B)/max(least, 1)) {
		r.Fail()
		return 0
	}
	return int(n)
}

// take returns the next n bytes; zeros where there are not so many.
func (r *Reader) take(n int) []byte {
	if n > len(r.B) {
		r.Fail()
		return make([]byte, n)
	}
	b := r.B[:n]
	r.B = r.B[n:]
	return b
}
