// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
)

// The JSON of a recording follows the Go types, so that a field that is added to
// them is recorded and cannot be forgotten here. encoding/json alone would need
// each field of Sample and Status to carry a tag, and would write absent values
// as objects.

var (
	timeType        = reflect.TypeFor[time.Time]()
	processTypeType = reflect.TypeFor[ProcessType]()
	basisType       = reflect.TypeFor[lives.Basis]()
	keyType         = reflect.TypeFor[lives.Key]()
	optPath         = reflect.TypeFor[Opt[int]]().PkgPath()
)

// recordedField is a field of a struct by its name in a recording.
type recordedField struct {
	name  string
	index int
}

var recordedTypes sync.Map // reflect.Type → []recordedField

// recordedFields returns the fields of a struct type.
func recordedFields(t reflect.Type) []recordedField {
	if known, ok := recordedTypes.Load(t); ok {
		return known.([]recordedField)
	}
	var fields []recordedField
	for i := range t.NumField() {
		fields = append(fields, recordedField{snakeCase(t.Field(i).Name), i})
	}
	recordedTypes.Store(t, fields)
	return fields
}

// snakeCase returns the name of a Go field in a recording.
func snakeCase(name string) string {
	switch name { // whose capitals are not at the start of words
	case "PCIe", "NVLinks":
		return strings.ToLower(name)
	case "V":
		return "value"
	}
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) &&
			(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// isOpt reports whether t is an Opt of something.
func isOpt(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.PkgPath() == optPath && strings.HasPrefix(t.Name(), "Opt[")
}

// isLetter reports whether t is the letter of a state. Other types of a byte are numbers.
func isLetter(t reflect.Type) bool {
	return t.Kind() == reflect.Uint8 && t != processTypeType && t != basisType
}

// leftOut reports whether a field of that value is not written.
func leftOut(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Uint64:
		return v.Type() == keyType && v.IsZero() // the zero Key is that of nothing known
	case reflect.String, reflect.Bool, reflect.Slice, reflect.Array, reflect.Pointer, reflect.Uint8:
		return v.IsZero() // a place in a fleet is the only array: such a GPU is not recorded
	case reflect.Struct:
		switch {
		case v.Type() == timeType:
			return v.IsZero()
		case isOpt(v.Type()):
			return !v.Field(1).Bool()
		}
		for _, field := range v.Fields() {
			if !leftOut(field) {
				return false
			}
		}
		return true
	}
	return false
}

// appendJSON appends v. A number that JSON does not have is an error.
func appendJSON(b []byte, v reflect.Value) ([]byte, error) {
	switch v.Kind() {
	case reflect.String:
		text, err := json.Marshal(v.String())
		return append(b, text...), err
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case reflect.Int, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case reflect.Uint8:
		if !isLetter(v.Type()) {
			return strconv.AppendUint(b, v.Uint(), 10), nil
		}
		text, err := json.Marshal(string(rune(v.Uint()))) // the letter of a state
		return append(b, text...), err
	case reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(b, v.Uint(), 10), nil
	case reflect.Float64:
		text, err := json.Marshal(v.Float())
		return append(b, text...), err
	case reflect.Pointer:
		return appendJSON(b, v.Elem())
	case reflect.Slice:
		return appendList(b, v)
	case reflect.Struct:
		return appendStruct(b, v)
	}
	return b, fmt.Errorf("a %v cannot be recorded", v.Type())
}

func appendList(b []byte, v reflect.Value) ([]byte, error) {
	var err error
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendJSON(b, v.Index(i)); err != nil {
			return b, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return append(b, ']'), nil
}

func appendStruct(b []byte, v reflect.Value) ([]byte, error) {
	switch {
	case v.Type() == timeType:
		text, err := v.Interface().(time.Time).UTC().MarshalJSON()
		return append(b, text...), err
	case isOpt(v.Type()):
		if !v.Field(1).Bool() {
			return append(b, "null"...), nil // an element of a list
		}
		return appendJSON(b, v.Field(0))
	}
	var err error
	b = append(b, '{')
	empty := true
	for _, f := range recordedFields(v.Type()) {
		field := v.Field(f.index)
		if leftOut(field) {
			continue
		}
		if !empty {
			b = append(b, ',')
		}
		empty = false
		b = append(append(append(b, '"'), f.name...), '"', ':')
		if b, err = appendJSON(b, field); err != nil {
			return b, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return append(b, '}'), nil
}

// setJSON sets v to what was read: x is what encoding/json makes of a value
// where it keeps numbers as they are written.
func setJSON(v reflect.Value, x any) error {
	switch v.Kind() {
	case reflect.Struct:
		return setStruct(v, x)
	case reflect.Slice:
		return setList(v, x)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return setJSON(v.Elem(), x)
	}
	ok := false
	switch x := x.(type) {
	case string:
		ok = setText(v, x)
	case bool:
		if ok = v.Kind() == reflect.Bool; ok {
			v.SetBool(x)
		}
	case json.Number:
		ok = setNumber(v, x.String())
	}
	if !ok {
		return fmt.Errorf("cannot read %s as %s", printed(x), jsonKind(v))
	}
	return nil
}

// printed returns x for an error: on one line, whatever a file holds.
func printed(x any) string {
	text, err := json.Marshal(x)
	if err != nil {
		return "this"
	}
	return string(text)
}

func setText(v reflect.Value, text string) bool {
	switch {
	case v.Kind() == reflect.String:
		v.SetString(text)
	case isLetter(v.Type()) && utf8.RuneCountInString(text) == 1:
		r, _ := utf8.DecodeRuneInString(text)
		if r > math.MaxUint8 {
			return false
		}
		v.SetUint(uint64(r))
	default:
		return false
	}
	return true
}

func setNumber(v reflect.Value, text string) bool {
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		v.SetInt(n)
		return err == nil
	case reflect.Uint8:
		n, err := strconv.ParseUint(text, 10, 8)
		v.SetUint(n)
		return err == nil && !isLetter(v.Type()) && n <= maxSum(v.Type())
	case reflect.Uint32, reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, v.Type().Bits())
		v.SetUint(n)
		return err == nil
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		v.SetFloat(f)
		return err == nil
	}
	return false
}

// maxSum returns the sum of all that a type of flags may hold.
func maxSum(t reflect.Type) uint64 {
	if t == processTypeType {
		return uint64(Compute | Graphics | MPS)
	}
	return 2*uint64(lives.BasisGPU) - 1
}

// jsonKind names what is expected of a value.
func jsonKind(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.Uint8:
		if isLetter(v.Type()) {
			return "a letter"
		}
	}
	return "a whole number in its range"
}

func setList(v reflect.Value, x any) error {
	list, ok := x.([]any)
	if !ok {
		return errors.New("is no list")
	}
	v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
	for i, element := range list {
		if element == nil && isOpt(v.Type().Elem()) {
			continue
		}
		if err := setJSON(v.Index(i), element); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return nil
}

func setStruct(v reflect.Value, x any) error {
	switch {
	case v.Type() == timeType:
		text, _ := x.(string)
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return fmt.Errorf("cannot read %s as a time", printed(x))
		}
		v.Set(reflect.ValueOf(t.UTC()))
		return nil
	case isOpt(v.Type()):
		v.Field(1).SetBool(true)
		return setJSON(v.Field(0), x)
	}
	object, ok := x.(map[string]any)
	if !ok {
		return errors.New("is no object")
	}
	known := 0
	for _, f := range recordedFields(v.Type()) {
		value, ok := object[f.name]
		if !ok {
			continue
		}
		known++
		if err := setJSON(v.Field(f.index), value); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if known < len(object) {
		return unknownField(v.Type(), object)
	}
	return nil
}

// unknownField returns the error of an object that has a field too many.
func unknownField(t reflect.Type, object map[string]any) error {
	for _, f := range recordedFields(t) {
		delete(object, f.name)
	}
	name := slices.Min(slices.Collect(maps.Keys(object)))
	return fmt.Errorf("unknown field %q: replay it with the release that wrote it", name)
}
