// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestLivesSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("the secret of a fleet\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stored := []byte("what the node had before")
	for _, tt := range []struct {
		name, file   string
		stored, want []byte // nil: another one each time
	}{
		{"of the fleet", path, stored, []byte("the secret of a fleet")},
		{"of the node", "", stored, stored},
		{"a new one", "", nil, nil},
	} {
		c := &config{livesKeyFile: tt.file}
		a, err := c.livesSecret(tt.stored)
		b, again := c.livesSecret(tt.stored)
		if err != nil || again != nil {
			t.Fatal(tt.name, err, again)
		}
		if bytes.Equal(a, b) != (tt.want != nil) || tt.want != nil && !bytes.Equal(a, tt.want) {
			t.Errorf("%s: %q, then %q", tt.name, a, b)
		}
		if same := newNamer(a).Check() == newNamer(b).Check(); same != bytes.Equal(a, b) {
			t.Errorf("%s: %t that they give the same names", tt.name, same)
		}
	}
	if _, err := (&config{livesKeyFile: path + "2"}).livesSecret(stored); err == nil {
		t.Error("the file is gone, and no error")
	}
}
