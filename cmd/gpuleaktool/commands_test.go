// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// TestCommandsAreNamed has the first sentence of the help and the table of rooms name each command.
func TestCommandsAreNamed(t *testing.T) {
	_, row, _ := strings.Cut(testkit.Read(t, "../../docs/architecture.md"), "| `cmd/gpuleaktool` |")
	row, _, _ = strings.Cut(row, "\n")
	code, help, stderr := tool(t.Context(), "--help")
	if code != exitOK {
		t.Fatal(stderr)
	}
	about, list, _ := strings.Cut(help, "Commands:\n")
	words := map[string]string{"backtest": "judges", "sites": "lines that leak"} // others are verbs
	found := regexp.MustCompile(`(?m)^([a-z]+)(?: [a-z]+)? [-<[]`).FindAllStringSubmatch(list, -1)
	for _, m := range found {
		name := m[1]
		if name == "help" {
			continue
		}
		if !strings.Contains(row, name) {
			t.Errorf("docs/architecture.md has no %s:%s", name, row)
		}
		if word := cmp.Or(words[name], name); !strings.Contains(strings.ToLower(strings.Join(strings.Fields(about), " ")), word) {
			t.Errorf("the help does not say %s:\n%s", word, about)
		}
	}
	if len(found) < 6 {
		t.Errorf("only %d commands in\n%s", len(found), list)
	}
}
