// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/command"
)

// The exit codes.
const (
	exitOK    = command.OK
	exitLeak  = command.Leak
	exitWrong = command.Wrong
	unjudged  = command.Unjudged
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWrongCalls(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", "choose a command; try gpuleaktool --help"},
		{"rewind", `expected command but got "rewind"; try gpuleaktool --help`},
		{"bactest", `expected command but got "bactest": did you mean backtest?`},
		{"check config --foo x", "unknown long flag '--foo'; try gpuleaktool check config --help"},
	} {
		code, _, stderr := tool(t.Context(), strings.Fields(tt.args)...)
		if want := command.Program + ": error: " + tt.want + "\n"; code != exitWrong || stderr != want {
			t.Errorf("%q: exit code %d, stderr %q, want %q", tt.args, code, stderr, want)
		}
	}
}

func TestHelp(t *testing.T) {
	for flag, want := range map[string]string{"--help": "record", "--version": command.Program + ", version "} {
		if code, stdout, stderr := tool(t.Context(), flag); code != exitOK || !strings.Contains(stdout, want) || stderr != "" {
			t.Errorf("%s: exit code %d, %s%s", flag, code, stdout, stderr)
		}
	}
}
