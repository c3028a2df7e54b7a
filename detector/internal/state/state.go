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

// Err says that the bytes are not what a Codec wrote.
var Err = errors.New("not a state of the detector")

// Checker is a struct that knows what its fields can be. A reading Codec asks it: it refuses what would
// make later code panic, or loop or allocate without end. last is Codec.Last.
type Checker interface{ Check(last time.Duration) bool }

// Packed is a type that is written as another one, its form: a plain struct with room for all that there can be.
// What is kept takes only the room that it needs.
type Packed interface {
	// Form returns a pointer to an empty form.
	Form() any
	// Unpack fills the whole form.
	Unpack(form any)
	// Pack takes what the form holds, which its Check has found possible.
	Pack(form any)
}

// ahead is how far a time may lie after the last one: what is waited for. No length is longer.
const ahead = 366 * 24 * time.Hour

// plan is how a type is written.
type plan struct {
	kind   reflect.Kind // Int and Uint of any width are these
	least  int          // bytes that it takes
	fields []int        // of a struct
	elems  []*plan      // of these fields, or the one of all elements
	time   bool
	checks bool
	form   any // of a Packed; used again for each
}

// plans are those of the types seen so far. Each Codec has its own: none is shared.
type plans map[reflect.Type]*plan

func (p plans) of(t reflect.Type) *plan {
	l := p[t]
	if l != nil {
		return l
	}
	l = &plan{kind: t.Kind(), least: 1, time: t == reflect.TypeFor[time.Duration]()}
	l.checks = l.kind == reflect.Struct && reflect.PointerTo(t).Implements(reflect.TypeFor[Checker]())
	p[t] = l
	if x, ok := reflect.TypeAssert[Packed](reflect.New(t)); ok {
		l.form = x.Form()
		l.elems = []*plan{p.of(reflect.TypeOf(l.form).Elem())}
		l.least = l.elems[0].least
		return l
	}
	switch l.kind {
	case reflect.Bool, reflect.String:
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		l.kind = reflect.Int
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		l.kind = reflect.Uint
	case reflect.Float32, reflect.Float64:
		l.kind, l.least = reflect.Float64, 8
	case reflect.Slice, reflect.Array:
		l.elems = []*plan{p.of(t.Elem())}
		if l.kind == reflect.Array {
			l.least = t.Len() * l.elems[0].least
		}
	case reflect.Struct:
		l.least = 0
		p.fields(l, t)
	default:
		panic("state: a field of kind " + l.kind.String())
	}
	return l
}

// fields adds the fields of a struct to its plan.
func (p plans) fields(l *plan, t reflect.Type) {
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && f.Tag.Get("state") != "-" {
			e := p.of(f.Type)
			l.fields, l.elems, l.least = append(l.fields, i), append(l.elems, e), l.least+e.least
		}
	}
}

// Codec writes values to B or, where it is not Writing, reads them from B until Err is not nil: one
// list of values serves both.
type Codec struct {
	B       []byte
	Writing bool
	Err     error
	// Last is the time that no other one that is read is much later than.
	Last  time.Duration
	plans plans
}

// Fail notes that what was read cannot be.
func (c *Codec) Fail() { c.B, c.Err = nil, Err }

// fits notes whether what was read can be.
func (c *Codec) fits(ok bool) {
	if !ok {
		c.Fail()
	}
}

// Check refuses what cannot be: of what was read by parts.
func (c *Codec) Check(vs ...Checker) {
	for _, v := range vs {
		c.fits(v.Check(c.Last))
	}
}

// Code writes what each v points to, or reads it.
func (c *Codec) Code(vs ...any) {
	if c.plans == nil {
		c.plans = plans{}
	}
	for _, v := range vs {
		e := reflect.ValueOf(v).Elem()
		c.value(e, c.plans.of(e.Type()))
	}
}

func (c *Codec) value(v reflect.Value, l *plan) {
	switch {
	case l.form != nil:
		c.packed(v.Addr().Interface().(Packed), l)
	case l.kind == reflect.Struct:
		for i, f := range l.fields {
			c.value(v.Field(f), l.elems[i])
		}
		if l.checks && !c.Writing && c.Err == nil {
			c.Check(v.Addr().Interface().(Checker))
		}
	case len(l.elems) > 0:
		if l.kind == reflect.Slice && c.Writing {
			c.B = binary.AppendUvarint(c.B, uint64(v.Len()))
		} else if l.kind == reflect.Slice {
			n := c.len(l.elems[0].least)
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := 0; i < v.Len() && c.Err == nil; i++ {
			c.value(v.Index(i), l.elems[0])
		}
	case c.Writing:
		c.write(v, l)
	default:
		c.read(v, l)
	}
}

// packed codes a type by its form.
func (c *Codec) packed(x Packed, l *plan) {
	if c.Writing {
		x.Unpack(l.form)
	}
	c.value(reflect.ValueOf(l.form).Elem(), l.elems[0])
	if !c.Writing && c.Err == nil {
		x.Pack(l.form)
	}
}

func (c *Codec) write(v reflect.Value, l *plan) {
	switch l.kind {
	case reflect.Bool:
		is := byte(0)
		if v.Bool() {
			is = 1
		}
		c.B = append(c.B, is)
	case reflect.Int:
		c.B = binary.AppendVarint(c.B, v.Int())
	case reflect.Uint:
		c.B = binary.AppendUvarint(c.B, v.Uint())
	case reflect.Float64:
		c.B = binary.BigEndian.AppendUint64(c.B, math.Float64bits(v.Float()))
	case reflect.String:
		c.B = append(binary.AppendUvarint(c.B, uint64(v.Len())), v.String()...)
	}
}

func (c *Codec) read(v reflect.Value, l *plan) {
	switch l.kind {
	case reflect.Bool:
		x := c.uint()
		c.fits(x <= 1)
		v.SetBool(x == 1)
	case reflect.Int:
		x := c.int()
		c.fits(!v.OverflowInt(x) && (!l.time || time.Duration(x) >= -ahead && time.Duration(x)-ahead <= c.Last))
		v.SetInt(x)
	case reflect.Uint:
		x := c.uint()
		c.fits(!v.OverflowUint(x))
		v.SetUint(x)
	case reflect.Float64:
		x := math.Float64frombits(binary.BigEndian.Uint64(c.take(8)))
		c.fits(x-x == 0 && !v.OverflowFloat(x)) // neither NaN nor infinite
		v.SetFloat(x)
	case reflect.String:
		v.SetString(string(c.take(c.len(1))))
	}
}

// int and uint read an integer; 0 after an error.
func (c *Codec) int() int64 {
	x, n := binary.Varint(c.B)
	if n <= 0 {
		c.Fail()
		return 0
	}
	c.B = c.B[n:]
	return x
}

func (c *Codec) uint() uint64 {
	x, n := binary.Uvarint(c.B)
	if n <= 0 {
		c.Fail()
		return 0
	}
	c.B = c.B[n:]
	return x
}

// len reads the length of what has elements of so many bytes at the least: no more of them than
// there are bytes for are allocated.
func (c *Codec) len(least int) int {
	n := c.uint()
	if n > uint64(len(c.B)/max(least, 1)) {
		c.Fail()
		return 0
	}
	return int(n)
}

// take returns the next n bytes; zeros where there are not so many.
func (c *Codec) take(n int) []byte {
	if n > len(c.B) {
		c.Fail()
		return make([]byte, n)
	}
	b := c.B[:n]
	c.B = c.B[n:]
	return b
}
