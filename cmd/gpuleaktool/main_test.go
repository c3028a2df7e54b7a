// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/command"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
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

func TestCheckConfig(t *testing.T) {
	good := write(t, "good.yml", "groups:\n- name: a\n  rules:\n  - match: ['{scope=\"gpu\", pod=\"a\", instance=\"n\"}']\n    leak_threshold: 0.7\n- name: b\n")
	bad := write(t, "bad.yml", "groups:\n- name: a\n  rules:\n  - mute: true\n  - match: ['{job=\"a\"}']\n    mute: true\n")
	short := write(t, "short.yml", "groups:\n- name: a\n  rules:\n  - match: ['{}']\n    windows: [1m]\n")
	pipe(t, good)
	const example = "../../examples/detector.yml"
	checked := func(path string) string {
		return "Checking " + path + "\n  a: 1 rule\n  b: 0 rules\n  SUCCESS: 2 groups, 1 rule\n"
	}
	badErrors := "  FAILED:\n    " + bad + ":4: the rule has no match: for all series write match: ['{}']\n    " + bad +
		":5: match: {job=\"a\"}: matches no series: none has a label job, only scope, gpu, uuid, name, namespace, pod, container, instance, node, Hostname, gpu_instance, profile, pid, process, slurm_job; a fleet those of its --source.config, too\n"
	for _, tt := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{good, exitOK, checked(good), ""},
		{good + " " + bad, exitWrong, checked(good) + "Checking " + bad + "\n", badErrors + "gpuleaktool: error: 1 file of 2 cannot be used\n"},
		{
			"/none.yml /none.yml", exitWrong, strings.Repeat("Checking /none.yml\n", 2),
			strings.Repeat("  FAILED:\n    open /none.yml: no such file or directory\n", 2) + "gpuleaktool: error: 2 files of 2 cannot be used\n",
		},
		{
			"--sample.interval=30s " + short, exitWrong, "Checking " + short + "\n",
			"  FAILED:\n    " + short + ":5: windows: 1m: 1m is not between 5m and 1d\ngpuleaktool: error: 1 file of 1 cannot be used\n",
		},
		{short, exitOK, "Checking " + short + "\n  a: 1 rule\n  SUCCESS: 1 group, 1 rule\n", ""},
		{"", exitWrong, "", "gpuleaktool: error: required argument 'file' not provided; try gpuleaktool check config --help\n"},
	} {
		code, stdout, stderr := tool(t.Context(), append([]string{"check", "config"}, strings.Fields(tt.args)...)...)
		if code != tt.code || stdout != tt.stdout || stderr != tt.stderr {
			t.Errorf("%s: exit code %d\nstdout\n%s\nwant\n%s\nstderr\n%s\nwant\n%s", tt.args, code, stdout, tt.stdout, stderr, tt.stderr)
		}
	}
	if code, stdout, stderr := tool(t.Context(), "check", "config", example); code != exitOK || !strings.Contains(stdout, "SUCCESS: 3 groups") {
		t.Errorf("the example: exit code %d\n%s%s", code, stdout, stderr)
	}
}
