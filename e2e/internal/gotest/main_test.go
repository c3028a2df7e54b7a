// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const events = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestTraces"}
{"Action":"output","Package":"p","Test":"TestTraces","Output":"    a_test.go:12: traces: not there\n"}
{"Action":"output","Package":"p","Test":"TestTraces","Output":"--- SKIP: TestTraces (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestTraces"}
{"Action":"run","Package":"p","Test":"TestLazy"}
{"Action":"output","Package":"p","Test":"TestLazy","Output":"    a_test.go:20: not today\n"}
{"Action":"skip","Package":"p","Test":"TestLazy"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    a_test.go:33: got 1, want 2\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.004s\n"}
{"Action":"fail","Package":"p"}
{"Action":"skip","Package":"without/tests"}
`

func TestResult(t *testing.T) {
	var out strings.Builder
	r := newResult(&out)
	if err := r.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	for action, want := range map[string]int{"pass": 1, "fail": 1, "skip": 2} {
		if got := r.counts[action]; got != want {
			t.Errorf("%d tests with action %s, want %d", got, action, want)
		}
	}
	if !strings.Contains(out.String(), "got 1, want 2") || strings.Contains(out.String(), "RUN   TestA") {
		t.Errorf("printed %q, want the output of failed tests alone", out.String())
	}
	all := []string{"SKIP p TestLazy: not today", "SKIP p TestTraces: traces: not there"}
	if got := r.unexpectedSkips(""); !slices.Equal(got, all) {
		t.Errorf("unexpected skips %q, want %q", got, all)
	}
	if got := r.unexpectedSkips("traces:"); !slices.Equal(got, all[:1]) {
		t.Errorf("unexpected skips %q, want %q", got, all[:1])
	}
	if s := r.summary("go test", 0, nil); !strings.Contains(s, "FAIL\tp\t0.004s") || !strings.Contains(s, "1 passed, 1 failed, 2 skipped") {
		t.Errorf("summary %q lacks the package's line or the counts", s)
	}
}

func TestAllowedSkip(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		flag, want string
		wantErr    bool
	}{
		"none":         {},
		"path absent":  {flag: "traces:=" + filepath.Join(dir, "absent"), want: "traces:"},
		"path present": {flag: "traces:=" + dir},
		"malformed":    {flag: "traces:", wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := allowedSkip(tc.flag)
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("allowedSkip(%q) = %q, %v", tc.flag, got, err)
			}
		})
	}
}

// A skip must fail a run of the real go command, and a pass must not.
func TestRun(t *testing.T) {
	for name, tc := range map[string]struct{ body, wantErr string }{
		"pass": {body: ""},
		"skip": {body: `t.Skip("not today")`, wantErr: "1 tests were skipped"},
		"fail": {body: `t.Fatal("broken")`, wantErr: "exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "go.mod"), "module m\n\ngo 1.26\n")
			write(t, filepath.Join(dir, "a_test.go"), "package m\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {"+tc.body+"}\n")
			t.Chdir(dir)
			summary := filepath.Join(dir, "summary")
			err := run(io.Discard, []string{"go", "test", "./..."}, "", summary)
			if (tc.wantErr == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("run: %v, want an error with %q", err, tc.wantErr)
			}
			if text, err := os.ReadFile(summary); err != nil || !strings.Contains(string(text), "passed") {
				t.Errorf("summary %q, %v", text, err)
			}
		})
	}
	if err := run(io.Discard, []string{"make"}, "", ""); err == nil {
		t.Error("run accepted a command that is not go test")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
