// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"strings"
	"testing"
)

func TestTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a\n\tb … 日本 \u00a0\u202f🙂": "a\n\tb … 日本 \u00a0\u202f🙂", `\u001b`: `\u001b`,
		"\x1b[2J\r\x00\x7f": `\u001b[2J\u000d\u0000\u007f`, "\u009b2J": `\u009b2J`, "\u202e\u2066\u200f\u2028\ufeff": `\u202e\u2066\u200f\u2028\ufeff`,
		"\U000e0041": `\udb40\udc41`, "a\xffb\xe6\x97c\ufffd": "a\ufffdb\ufffd\ufffdc\ufffd",
	} {
		for part := 1; part <= 4; part++ { // bytes that are written at a time
			var b strings.Builder
			w := &Terminal{Raw: &b}
			for left := []byte(text); len(left) > 0; left = left[min(part, len(left)):] {
				if n, err := w.Write(left[:min(part, len(left))]); n != min(part, len(left)) || err != nil {
					t.Fatalf("%q: %d, %v", text, n, err)
				}
			}
			if got := b.String(); got != want || got != Escape(text) {
				t.Errorf("%q, %d at a time: %q, want %q", text, part, got, want)
			}
		}
	}
	if n, err := (&Terminal{Raw: full{}}).Write([]byte("a")); n != 0 || !errors.Is(err, errFull) {
		t.Errorf("%d, %v", n, err)
	}
}

var errFull = errors.New("full")

// full takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "日本": "日本", "12345": "12345", "123456": "12345…", "a\x1b[2J": "a\ufffd[2J", "a\nb": "a\ufffdb", "\xff": "\ufffd",
	} {
		if got := Printable(text, 5); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
