// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Escape returns a text with what a terminal would not show but act on, and what would hide or turn around what stands
// beside it, as JSON escapes it, such as \u001b: JSON stays the same JSON. Newlines and tabs stay. What is not UTF-8 is
// replaced.
func Escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsGraphic(r) || r == '\n' || r == '\t' {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// Terminal is where a program writes what may hold text from elsewhere, and which may be a terminal: it gets all as
// Escape has it. Its methods may be called from any goroutine.
type Terminal struct {
	Raw io.Writer // gets what the program itself has a terminal do

	mu   sync.Mutex
	part []byte // the beginning of a character that was not written whole yet
}

// Write implements io.Writer. Its errors are those of Raw.
func (t *Terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, whole := slices.Concat(t.part, b), 0
	for whole < len(text) && utf8.FullRune(text[whole:]) {
		_, n := utf8.DecodeRune(text[whole:])
		whole += n
	}
	t.part = append([]byte(nil), text[whole:]...)
	if _, err := io.WriteString(t.Raw, Escape(string(text[:whole]))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Printable returns a text from outside as a terminal may be given it: what that would act
// on is replaced, and of more than most characters the first are kept.
func Printable(text string, most int) string {
	runes := []rune(text)
	for i, r := range runes {
		if i == most {
			return string(runes[:i]) + "…"
		}
		if !unicode.IsPrint(r) {
			runes[i] = unicode.ReplacementChar
		}
	}
	return string(runes)
}
