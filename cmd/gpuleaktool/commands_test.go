// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
)

// TestMissing has laptops told in one line what they cannot do, and where it can be done.
func TestMissing(t *testing.T) {
	for _, c := range []struct {
		system, args string
		missing      bool
	}{
		{"linux", "record --output=x", false},
		{"darwin", "record --output=x", true},
		{"windows", "sites --pid=1", true},
		{"windows", "backtest gpu.csv", false},
		{"darwin", "lives list x", false},
		{"darwin", "", false},
	} {
		err := missing(c.system, strings.Fields(c.args))
		if (err != nil) != c.missing {
			t.Errorf("%s on %s: %v", c.args, c.system, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "this build for "+c.system+" has backtest") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s on %s: %v", c.args, c.system, err)
		}
	}
}

// TestHelpNamesFormats has the help say what --format takes.
func TestHelpNamesFormats(t *testing.T) {
	var help bytes.Buffer
	if code := run(t.Context(), []string{"backtest", "--help"}, &help, io.Discard); code != exitOK {
		t.Fatal(code)
	}
	_, text, _ := strings.Cut(help.String(), "--format=auto")
	text, _, _ = strings.Cut(text, "--")
	for _, choice := range formatChoices() {
		if !slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \n,.", r) }), choice) {
			t.Errorf("no %s in %s", choice, text)
		}
	}
}
