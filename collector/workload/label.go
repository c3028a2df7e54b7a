// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Label values are bounded in bytes, so that a process cannot make the exposition
// as long as it likes.
const (
	maxLabel   = 128
	maxCommand = 256
	// maxName is the longest name of an object in Kubernetes, which must be whole to
	// be joined with the series of others.
	maxName = 253
)

// label returns s as the value of a label: valid UTF-8 of at most limit bytes that
// prints on one line. What does not print is U+FFFD; so are the marks that turn the
// direction of text, by which one name could be made to look like another.
func label(s string, limit int) string {
	s = s[:min(len(s), 4*limit)] // the rest cannot be shown: no rune is longer than 4 bytes
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return utf8.RuneError
	}, s)
	s = strings.TrimSpace(s)
	if len(s) > limit {
		end := limit
		for !utf8.RuneStart(s[end]) {
			end--
		}
		s = strings.TrimSpace(s[:end])
	}
	return s
}

// command returns the arguments as one label value.
func command(args []string) string { return label(strings.Join(args, " "), maxCommand) }
