// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"
)

// inner has a bound of its own.
type inner struct {
	N int
	F float64
}

func (x *inner) Check(last time.Duration) bool { return x.N < 1000 && time.Duration(x.N) <= last }

type name string

// list is written as a form that has room for three.
type list []int

type listForm struct {
	All [3]int
	N   int
}

func (f *listForm) Check(time.Duration) bool { return f.N >= 0 && f.N <= 3 }

func (*list) Form() any { return &listForm{} }

func (l *list) Unpack(form any) {
	f := form.(*listForm)
	*f = listForm{N: len(*l)}
	copy(f.All[:], *l)
}

func (l *list) Pack(form any) {
	f := form.(*listForm)
	*l = append(list(nil), f.All[:f.N]...)
}

// What is packed is written as its form, and one that cannot be is refused.
func TestPacked(t *testing.T) {
	lists := []list{{1, 2, 3}, {4}, nil}
	w := Codec{Writing: true}
	w.Code(&lists)
	plain := Codec{Writing: true}
	plain.Code(&[]listForm{{[3]int{1, 2, 3}, 3}, {[3]int{4, 0, 0}, 1}, {}})
	if !bytes.Equal(w.B, plain.B) {
		t.Errorf("written as %x, its forms are %x", w.B, plain.B)
	}
	var got []list
	r := Codec{B: w.B}
	if r.Code(&got); r.Err != nil || !reflect.DeepEqual(got, lists) {
		t.Errorf("%v, %v", got, r.Err)
	}
	w.B[len(w.B)-1] = 4 << 1
	r = Codec{B: w.B}
	if r.Code(&got); r.Err == nil {
		t.Error("four of three are read")
	}
}

// outer has a field of each kind that can be written.
type outer struct {
	B       bool
	I       int
	I8      int8
	I32     int32
	I64     int64
	U8      uint8
	U32     uint32
	U64     uint64
	T       time.Duration
	S       name
	Inner   inner
	Array   [3]inner
	Slice   []uint16
	Many    []inner
	hidden  inner
	Derived func() `state:"-"`
	cached  map[string]int
}

var examples = map[string]outer{
	"zero": {Slice: []uint16{}, Many: []inner{}},
	"some": {
		B: true, I: -5, I8: -128, I32: 1 << 30, I64: math.MinInt64, U8: 255, U32: 77, U64: math.MaxUint64, T: time.Hour,
		S: "näme", Inner: inner{3, -0.5}, Array: [3]inner{{1, 1e300}, {2, math.SmallestNonzeroFloat64}, {-3, 0}},
		Slice: []uint16{0, 65535, 300}, Many: []inner{{7, 7}},
	},
	"long": {S: name(bytes.Repeat([]byte("x"), 70_000)), Slice: make([]uint16, 70_000), Many: make([]inner, 500)},
}

func written(v *outer) []byte {
	w := Codec{Writing: true}
	w.Code(v)
	return w.B
}

func TestRoundTrip(t *testing.T) {
	for name, want := range examples {
		r, got := Codec{B: written(&want), Last: time.Hour}, outer{}
		if r.Code(&got); r.Err != nil || len(r.B) > 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %d bytes left\n%+v\nwant\n%+v", name, r.Err, len(r.B), got, want)
		}
	}
}

// What is not exported, or said to be left out, is neither written nor touched.
func TestLeftOut(t *testing.T) {
	v := examples["some"]
	plain := written(&v)
	v.hidden, v.cached, v.Derived = inner{5, 5}, map[string]int{"a": 1}, func() {}
	if !bytes.Equal(written(&v), plain) {
		t.Error("it is written")
	}
	r := Codec{B: plain, Last: time.Hour}
	if r.Code(&v); r.Err != nil || v.hidden.N != 5 || v.cached["a"] != 1 || v.Derived == nil {
		t.Errorf("it is read: %v, %+v", r.Err, v)
	}
}

// Several values follow each other without anything between them.
func TestPartsAreTheWhole(t *testing.T) {
	v := examples["some"]
	w := Codec{B: []byte{9}, Writing: true}
	w.Code(&v.B, &v.I, &v.I8)
	w.Code(&v.I32)
	if whole := written(&v); !bytes.HasPrefix(whole, w.B[1:]) || w.B[0] != 9 {
		t.Errorf("% x is not the begin of % x", w.B, whole)
	}
}

func TestTruncated(t *testing.T) {
	v := examples["some"]
	whole := written(&v)
	for n := range whole {
		r, got := Codec{B: whole[:n], Last: time.Hour}, outer{}
		if r.Code(&got); !errors.Is(r.Err, Err) {
			t.Errorf("%d of %d bytes are accepted: %+v", n, len(whole), got)
		}
		var more int
		if r.Code(&more); more != 0 || r.B != nil {
			t.Errorf("%d of %d bytes: something is read after the error", n, len(whole))
		}
	}
}

func TestRefused(t *testing.T) {
	const hour = time.Hour
	nan := binary.BigEndian.AppendUint64(nil, math.Float64bits(math.NaN()))
	infinite := binary.BigEndian.AppendUint64(nil, math.Float64bits(math.Inf(-1)))
	at := func(t time.Duration) []byte { return binary.AppendVarint(nil, int64(t)) }
	for _, c := range []struct {
		name string
		v    any
		b    []byte
		ok   bool
	}{
		{"a flag", new(bool), []byte{1}, true},
		{"a flag of 2", new(bool), []byte{2}, false},
		{"127 as int8", new(int8), binary.AppendVarint(nil, 127), true},
		{"128 as int8", new(int8), binary.AppendVarint(nil, 128), false},
		{"256 as uint8", new(uint8), binary.AppendUvarint(nil, 256), false},
		{"a varint without an end", new(int), bytes.Repeat([]byte{0xff}, 11), false},
		{"no number", new(float64), nan, false},
		{"infinite", new(float64), infinite, false},
		{"as late as can be", new(time.Duration), at(hour + ahead), true},
		{"too late", new(time.Duration), at(hour + ahead + 1), false},
		{"at the end of time", new(time.Duration), at(math.MaxInt64), false},
		{"too early", new(time.Duration), at(-ahead - 1), false},
		{"at the begin of time", new(time.Duration), at(math.MinInt64), false},
		{"a string", new(string), []byte("\x03abc"), true},
		{"a longer string", new(string), []byte("\x04abc"), false},
		{"a string without an end", new(string), binary.AppendUvarint(nil, math.MaxUint64), false},
		{"elements", new([]inner), append([]byte{1, 0}, make([]byte, 8)...), true},
		{"more elements than bytes", new([]inner), append([]byte{2, 0}, make([]byte, 16)...), false},
		{"elements without an end", new([]uint16), binary.AppendUvarint(nil, 1<<40), false},
		{"what the struct refuses", new(inner), append(binary.AppendVarint(nil, 1000), make([]byte, 8)...), false},
		{"what one of several refuses", new([2]inner), append(make([]byte, 9), append(binary.AppendVarint(nil, 1000), make([]byte, 8)...)...), false},
	} {
		r := Codec{B: c.b, Last: hour}
		if r.Code(c.v); (r.Err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, r.Err)
		}
	}
	r := Codec{Last: hour}
	if r.Check(&inner{N: 1}); r.Err != nil {
		t.Error(r.Err)
	}
	if r.Check(&inner{N: 1}, &inner{N: 2000}); r.Err == nil {
		t.Error("a part that cannot be is accepted")
	}
}

func TestUnknownKind(t *testing.T) {
	panics := func(f func()) (did bool) {
		defer func() { did = recover() != nil }()
		f()
		return false
	}
	var m map[string]int
	if !panics(func() { (&Codec{Writing: true}).Code(&m) }) || !panics(func() { (&Codec{B: []byte{0}}).Code(&m) }) {
		t.Error("a map is written or read")
	}
}

// FuzzCodec: whatever the bytes are, they are refused or are those of what was read.
func FuzzCodec(f *testing.F) {
	for _, v := range examples {
		f.Add(written(&v))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, got := Codec{B: b, Last: time.Hour}, outer{}
		if r.Code(&got); r.Err != nil {
			return
		}
		again, same := Codec{B: written(&got), Last: time.Hour}, outer{}
		if again.Code(&same); again.Err != nil || !reflect.DeepEqual(got, same) {
			t.Errorf("%v: %+v, then %+v", again.Err, got, same)
		}
	})
}
