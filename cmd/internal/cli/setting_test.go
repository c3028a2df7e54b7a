// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func TestValues(t *testing.T) {
	var (
		n int
		f float64
		b float64
		d time.Duration
		s string
	)
	accept := func(s string) error {
		if s != "yes" {
			return errors.New("say yes")
		}
		return nil
	}
	for _, tt := range []struct {
		value         *Value
		set, show     string
		reject, error string
	}{
		{Int("x", &n, 1, 5), "5", "5", "6", "--x=6: 6 is not between 1 and 5"},
		{Int("x", &n, 1, 5), "1", "1", "1.5", "--x=1.5: is not a whole number between 1 and 5"},
		{Float("x", &f, 0, 1), "0.25", "0.25", "NaN", "--x=NaN: NaN is not between 0 and 1"},
		{Bytes("x", &b, 64<<20, 1<<40), "64GiB", "64GiB", "80", "--x=80: 80B is not between 64MiB and 1TiB"},
		{Bytes("x", &b, 1, 1<<20), "64KiB", "64KiB", "2MiB", "--x=2MiB: 2MiB is not between 1B and 1MiB"},
		{Duration("x", &d, time.Second, time.Hour), "0.5h", "30m", "", `--x="": is not a duration, such as 500ms, 90s, 1h30m or 1d`},
		{Checked("x", &s, accept), "yes", "yes", "no\n", `--x="no\n": say yes`},
		{OneOf("x", &s, "a", "b"), "b", "b", "c", "--x=c: choose one of a, b"},
	} {
		if err := tt.value.Set(tt.set); err != nil || tt.value.String() != tt.show {
			t.Errorf("%q: %q, %v", tt.set, tt.value, err)
		}
		if err := tt.value.Set(tt.reject); err == nil || err.Error() != tt.error || tt.value.String() != tt.show {
			t.Errorf("%q: %q, %v, want %s", tt.reject, tt.value, err, tt.error)
		}
		if tt.value.IsCumulative() {
			t.Error("may be repeated")
		}
	}
}

func TestWindows(t *testing.T) {
	var windows []time.Duration
	v := Windows("w", &windows, 2, time.Minute, 24*time.Hour)
	for _, s := range []string{"1h", "10m"} {
		if err := v.Set(s); err != nil {
			t.Error(err)
		}
	}
	for s, want := range map[string]string{
		"60m": "--w=60m: the window 1h is given twice",
		"2h":  "--w=2h: there can be 2 windows at most",
		"2d":  "--w=2d: 2d is not between 1m and 1d",
	} {
		if err := v.Set(s); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", s, err, want)
		}
	}
	if want := []time.Duration{10 * time.Minute, time.Hour}; !slices.Equal(windows, want) || v.String() != "10m,1h" || !v.IsCumulative() {
		t.Errorf("%v, %s", windows, v)
	}
}

func TestHint(t *testing.T) {
	for text, want := range map[string]string{
		"unknown long flag '--foo'": "unknown long flag '--foo'; try a b --help",
		"--w=x: is not a number":    "--w=x: is not a number",
	} {
		err := errors.New(text)
		if got := Hint(err, "a b"); got.Error() != want || !errors.Is(got, err) {
			t.Errorf("%v, want %s", got, want)
		}
	}
}
