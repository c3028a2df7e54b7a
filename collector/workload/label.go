// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Label values are bounded in bytes, so that no process can make a scrape large.
const (
	maxLabel   = 128
	maxCommand = 256
	// maxName is the longest name of an object in Kubernetes. It must be whole to be joined with other series.
	maxName = 253
)

// label returns s as a label value: valid UTF-8 of at most limit bytes that prints on one line. U+FFFD replaces characters
// that do not print, and the marks for the direction of text, which could make one name look like another.
func label(s string, limit int) string {
	s = s[:min(len(s), 4*limit)] // no rune is longer than 4 bytes
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
