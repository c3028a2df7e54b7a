// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// output returns what a program prints, which has to end well.
func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).Output()
	if err != nil {
		t.Fatalf("%s %s: %v", filepath.Base(program), strings.Join(args, " "), err)
	}
	return string(out)
}

// TestManPages holds the head of both pages to man(7): one line with the version, and a name that whatis finds.
func TestManPages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ program, path, summary string }{
		{"gpu_leak_exporter", harness.Exporter(t), `\w.*`},
		{"gpuleaktool", harness.Tool(t), `watches .*finds .*`},
	} {
		head := regexp.MustCompile(`^\n*\.TH ` + c.program + ` 1 "" "` + c.program + ` \S+" "User Commands"\n\.SH "NAME"\n` + c.program + ` \\- ` + c.summary + `\n\.SH "SYNOPSIS"\n`)
		if page := output(t, c.path, "--help-man"); !head.MatchString(page) {
			t.Errorf("%s: the page begins with\n%s", c.program, page[:min(len(page), 300)])
		}
	}
}

// TestCompletion has a shell complete what the documents say it does.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, typed, want string }{
		{harness.Exporter(t), "--detector.st", "--detector.state-file"},
		{harness.Tool(t), "back", "backtest"},
	} {
		script := filepath.Join(t.TempDir(), "completion")
		if err := os.WriteFile(script, []byte(output(t, c.path, "--completion-script-bash")), 0o600); err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(c.path)
		cmd := exec.Command("bash", "-c", `. "$1"; COMP_WORDS=("$2" "$3") COMP_CWORD=1; _`+name+`_bash_autocomplete; printf '%s\n' "${COMPREPLY[@]}"`,
			"bash", script, c.path, c.typed)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains("\n"+string(out), "\n"+c.want+"\n") {
			t.Errorf("%s %s is completed to %v %q, want %s", name, c.typed, err, out, c.want)
		}
	}
}

// TestToolWithoutC has the tool of a build without a C compiler judge a log, and say in one line what it cannot do.
func TestToolWithoutC(t *testing.T) {
	t.Parallel()
	tool := filepath.Join(t.TempDir(), "gpuleaktool")
	build := exec.Command("go", "build", "-o", tool, "./cmd/gpuleaktool")
	build.Dir = harness.Root()
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(args ...string) (int, string) {
		cmd := exec.Command(tool, args...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(bytes.TrimSpace(out))
	}
	if code, out := run("backtest", filepath.Join(harness.Root(), "cmd/gpuleaktool/testdata/leak.csv")); code != 1 || !strings.Contains(out, "GPU 1") {
		t.Errorf("backtest: %d\n%s", code, out)
	}
	const want = "gpuleaktool: error: --source=nvml: this build cannot read a driver: take the one for Linux from a package or tarball, or sim:SCENARIO or replay:FILE"
	if code, out := run("record", "--output="+filepath.Join(t.TempDir(), "x")); code != 2 || out != want {
		t.Errorf("record: %d\n%s", code, out)
	}
}
