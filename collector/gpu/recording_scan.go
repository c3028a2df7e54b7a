// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

// scanner reads a line of a recording straight into a Go value: what setJSON does
// with what encoding/json has read, in less than half of the time. It takes what Writer
// writes and gives up on anything else, which is then read the other way, be it
// an error or not.
type scanner struct {
	text string
	at   int
}

// scanLine reads a whole line; ok is false if it has given up.
func scanLine(text string, line *recordingLine) (ok bool) {
	s := &scanner{text: text}
	return s.value(reflect.ValueOf(line).Elem()) && s.at == len(text)
}

// take passes over c if it is next.
func (s *scanner) take(c byte) bool {
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

// value reads what is next into v.
func (s *scanner) value(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Struct:
		return s.structure(v)
	case reflect.Slice:
		return s.list(v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return s.value(v.Elem())
	case reflect.Bool:
		word := s.word()
		v.SetBool(word == "true")
		return word == "true" || word == "false"
	}
	if s.at < len(s.text) && s.text[s.at] == '"' {
		text, ok := s.quoted()
		return ok && setText(v, text)
	}
	word := s.word()
	return isJSONNumber(word) && setNumber(v, word)
}

// structure reads an object, or what stands for a time or an Opt.
func (s *scanner) structure(v reflect.Value) bool {
	switch {
	case v.Type() == timeType:
		text, ok := s.quoted()
		t, err := time.Parse(time.RFC3339Nano, text)
		v.Set(reflect.ValueOf(t.UTC()))
		return ok && err == nil
	case isOpt(v.Type()):
		v.Field(1).SetBool(true)
		return s.value(v.Field(0))
	}
	if !s.take('{') {
		return false
	}
	fields := recordedFields(v.Type())
	next := 0
	for first := true; !s.take('}'); first = false {
		if !first && !s.take(',') {
			return false
		}
		name, ok := s.quoted()
		if !ok || !s.take(':') {
			return false
		}
		// Writer keeps the order of the fields: another one, or a name that comes
		// twice, is left to the other way.
		for next < len(fields) && fields[next].name != name {
			next++
		}
		if next == len(fields) || !s.value(v.Field(fields[next].index)) {
			return false
		}
		next++
	}
	return true
}

// list reads a list. null in it is an Opt that is absent.
func (s *scanner) list(v reflect.Value) bool {
	if !s.take('[') {
		return false
	}
	optional := isOpt(v.Type().Elem())
	list := reflect.MakeSlice(v.Type(), 0, 4)
	for !s.take(']') {
		if list.Len() > 0 && !s.take(',') {
			return false
		}
		i := list.Len()
		list = reflect.Append(list, reflect.Zero(v.Type().Elem()))
		if optional && strings.HasPrefix(s.text[s.at:], "null") {
			s.at += len("null")
			continue
		}
		if !s.value(list.Index(i)) {
			return false
		}
	}
	v.Set(list)
	return true
}

// quoted reads a text without escapes.
func (s *scanner) quoted() (string, bool) {
	if !s.take('"') {
		return "", false
	}
	begin, ascii := s.at, true
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			text := s.text[begin:s.at]
			s.at++
			return text, ascii || utf8.ValidString(text)
		case c == '\\' || c < ' ':
			return "", false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", false
}

// word reads up to the next punctuation.
func (s *scanner) word() string {
	begin := s.at
	for s.at < len(s.text) && s.text[s.at] != ',' && s.text[s.at] != '}' && s.text[s.at] != ']' {
		s.at++
	}
	return s.text[begin:s.at]
}

// isJSONNumber reports whether a word is a number of JSON without an exponent.
// strconv reads more than that.
func isJSONNumber(word string) bool {
	whole, fraction, point := strings.Cut(strings.TrimPrefix(word, "-"), ".")
	if whole == "" || len(whole) > 1 && whole[0] == '0' || point && fraction == "" {
		return false
	}
	return strings.Trim(whole, "0123456789") == "" && strings.Trim(fraction, "0123456789") == ""
}
