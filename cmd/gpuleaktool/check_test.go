// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

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
