// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLivesKey(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	for _, tt := range []struct {
		name, text, want, says string
	}{
		{"a secret", "\n 0123456789abcdef\r\n", "0123456789abcdef", ""},
		{"the longest", strings.Repeat("x", maxLivesKey), strings.Repeat("x", maxLivesKey), ""},
		{"too short", "0123456789abcde\n", "", path + " holds a secret of 15 bytes, must be 16 or more: openssl rand -base64 32 makes one"},
		{"empty", "", "", path + " holds a secret of 0 bytes, must be 16 or more: openssl rand -base64 32 makes one"},
		{"too long", strings.Repeat("x", maxLivesKey+1), "", path + " has more than 4096 bytes"},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := LivesKey(path)
		if string(got) != tt.want || (err == nil) != (tt.says == "") || err != nil && err.Error() != tt.says {
			t.Errorf("%s: %q, %v; want %q, %s", tt.name, got, err, tt.want, tt.says)
		}
		if again := CheckLivesKey(path); (again == nil) != (err == nil) {
			t.Errorf("%s: %v", tt.name, again)
		}
	}
	for file, says := range map[string]string{dir: "is no regular file", path + "2": "no such file"} {
		if _, err := LivesKey(file); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if err := CheckLivesKey(""); err != nil {
		t.Error(err)
	}
}

func TestNewLivesKey(t *testing.T) {
	a, b := NewLivesKey(), NewLivesKey()
	if len(a) < minLivesKey || bytes.Equal(a, b) {
		t.Errorf("%x, %x", a, b)
	}
}
