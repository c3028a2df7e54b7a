// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli is what the programs' command lines share: values of flags, the version, the man page, and text that a
// terminal shows and does not act on.
package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Value is the value of one flag.
type Value struct {
	name       string // with which an error begins, such as --x= or, in a file, x:
	set        func(string) error
	show       func() string
	cumulative bool
}

// Set takes a value over, or says in one line why it cannot.
func (v *Value) Set(s string) error {
	if err := v.set(s); err != nil {
		if s == "" || strings.HasSuffix(s, ":") || strings.ContainsFunc(s, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }) {
			s = strconv.Quote(s)
		}
		return fmt.Errorf("%s%s: %w", v.name, s, err)
	}
	return nil
}

// Hint adds to an error of kingpin that the help of a program, or of its command, says more. Those of values begin with
// their flag, and say by themselves what to do.
func Hint(err error, program string) error {
	if strings.HasPrefix(err.Error(), "--") {
		return err
	}
	return fmt.Errorf("%w; try %s --help", err, program)
}

// Named has the errors begin with another name, such as the key of a file.
func (v *Value) Named(name string) *Value {
	v.name = name
	return v
}

// String returns the value.
func (v *Value) String() string { return v.show() }

// IsCumulative says whether the flag may be given more than once.
func (v *Value) IsCumulative() bool { return v.cumulative }

// parsed returns a Value that p holds, read by parse and bounded by lo and hi.
func parsed[T int | float64 | time.Duration](flag string, p *T, lo, hi T, parse func(string) (T, error), format func(T) string) *Value {
	return &Value{
		name: "--" + flag + "=",
		set: func(s string) error {
			x, err := parse(s)
			if err != nil {
				return err
			}
			if !(x >= lo && x <= hi) {
				// A value without a unit, such as 80, shows what it is taken for: 80B.
				return fmt.Errorf("%s is not between %s and %s", format(x), format(lo), format(hi))
			}
			*p = x
			return nil
		},
		show: func() string { return format(*p) },
	}
}

// Duration is a time of lo to hi.
func Duration(flag string, p *time.Duration, lo, hi time.Duration) *Value {
	return parsed(flag, p, lo, hi, ParseDuration, FormatDuration)
}

// Bytes is an amount of memory of lo to hi bytes.
func Bytes(flag string, p *float64, lo, hi float64) *Value {
	return parsed(flag, p, lo, hi, ParseBytes, FormatBytes)
}

// Int is a whole number of lo to hi.
func Int(flag string, p *int, lo, hi int) *Value {
	return parsed(flag, p, lo, hi, func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return 0, fmt.Errorf("is not a whole number between %d and %d", lo, hi)
		}
		return n, nil
	}, strconv.Itoa)
}

// Float is a number of lo to hi.
func Float(flag string, p *float64, lo, hi float64) *Value {
	parse := func(s string) (float64, error) {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			err = errors.New("is not a number")
		}
		return x, err
	}
	return parsed(flag, p, lo, hi, parse, func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) })
}

// Windows are 1 to limit different times of lo to hi, one a flag. They end up in
// increasing order.
func Windows(flag string, p *[]time.Duration, limit int, lo, hi time.Duration) *Value {
	var one time.Duration
	each := Duration(flag, &one, lo, hi)
	each.cumulative = true
	check := each.set
	each.set = func(s string) error {
		if err := check(s); err != nil {
			return err
		}
		i, found := slices.BinarySearch(*p, one)
		switch {
		case found:
			return fmt.Errorf("the window %s is given twice", FormatDuration(one))
		case len(*p) == limit:
			return fmt.Errorf("there can be %d windows at most", limit)
		}
		*p = slices.Insert(*p, i, one)
		return nil
	}
	each.show = func() string {
		names := make([]string, len(*p))
		for i, w := range *p {
			names[i] = FormatDuration(w)
		}
		return strings.Join(names, ",")
	}
	return each
}

// Checked is a text that check accepts.
func Checked(flag string, p *string, check func(string) error) *Value {
	return &Value{
		name: "--" + flag + "=",
		set: func(s string) error {
			if err := check(s); err != nil {
				return err
			}
			*p = s
			return nil
		},
		show: func() string { return *p },
	}
}

// OneOf is one of the choices.
func OneOf(flag string, p *string, choices ...string) *Value {
	return Checked(flag, p, func(s string) error {
		if !slices.Contains(choices, s) {
			return fmt.Errorf("choose one of %s", strings.Join(choices, ", "))
		}
		return nil
	})
}
