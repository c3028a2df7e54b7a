// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// TestBadInput gives the exporter what it cannot start with: it says in one line
// what is wrong, names it, and ends with an exit code that is not 0. TestWrongCalls has all flags.
func TestBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		write(t, path, text)
		return path
	}
	const head = "timestamp, uuid, memory.total [MiB], memory.used [MiB]\n2026/03/01 10:00:00.000, GPU-a, 1000 MiB, 10 MiB\n"
	malformed := file("malformed.csv", head+"2026/03/01 10:00:01.000, GPU-a, 1000 MiB, many MiB\n")
	empty := file("empty.csv", "")
	noRows := file("norows.csv", "timestamp, uuid, memory.total [MiB], memory.used [MiB]\n")
	noRecording := file("other.txt", "hello\n")
	noYAML := file("no.yml", "tls_server_config: [\n")
	noCertificate := file("cert.yml", "tls_server_config:\n  cert_file: /nonexistent/cert.pem\n  key_file: /nonexistent/key.pem\n")
	unknownKey := file("key.yml", "tls_server_confg: {}\n")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cases := map[string]struct {
		args string
		want []string // in the line
	}{
		"interval too short": {"--sample.interval=1ms", []string{"--sample.interval", "100ms"}},
		"no such flag":       {"--detector.magic=1", []string{"detector.magic", "--help"}},
		"folder":             {"--source=replay:" + dir, []string{dir, "no regular file"}},
		"malformed line":     {"--source=replay:" + malformed, []string{malformed + ":3: ", "many"}},
		"empty":              {"--source=replay:" + empty, []string{empty, "empty"}},
		"no rows":            {"--source=replay:" + noRows, []string{noRows, "no samples"}},
		"no recording":       {"--source=replay:" + noRecording, []string{noRecording + ":1: "}},
		"port in use":        {"--source=sim:node --web.listen-address=" + taken.Addr().String(), []string{taken.Addr().String(), "in use", "choose another with --web.listen-address"}},
		"TLS file no YAML":   {"--web.config.file=" + noYAML, []string{"--web.config.file", noYAML}},
		"TLS file with typo": {"--web.config.file=" + unknownKey, []string{"--web.config.file", "tls_server_confg"}},
		"no certificate":     {"--web.config.file=" + noCertificate, []string{"--web.config.file", "/nonexistent/cert.pem"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := harness.LaunchExporter(t, harness.Options{Args: strings.Fields(tc.args)})
			if code := p.Wait(t, patience); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			out := p.Output()
			if strings.Count(out, "\n") != 1 || !strings.HasSuffix(out, "\n") || !strings.HasPrefix(out, "gpu_leak_exporter: error: ") {
				t.Errorf("want one line that begins with the program's name, got:\n%s", out)
			}
			for _, w := range tc.want {
				if !strings.Contains(out, w) {
					t.Errorf("the line has no %q: %s", w, out)
				}
			}
			noStack(t, out)
		})
	}
}

// TestHelp asks for what is no error.
func TestHelp(t *testing.T) {
	t.Parallel()
	for flag, word := range map[string]string{"--help": "--nvml.library-path", "-h": "--nvml.library-path", "--version": "gpu_leak_exporter, version"} {
		p := harness.LaunchExporter(t, harness.Options{Args: []string{flag}})
		if code := p.Wait(t, patience); code != 0 || !strings.Contains(p.Output(), word) {
			t.Errorf("%s: exit code %d, output:\n%s", flag, code, p.Output())
		}
	}
}

// TestVersion asks both programs, as go build makes them, what they are: no line of it is empty.
func TestVersion(t *testing.T) {
	t.Parallel()
	for _, program := range []string{harness.Exporter(t), harness.Tool(t)} {
		out, err := exec.Command(program, "--version").Output()
		if err != nil || !strings.HasPrefix(string(out), filepath.Base(program)+", version ") {
			t.Errorf("%s: %v\n%s", program, err, out)
		}
		for line := range strings.Lines(string(out)) {
			if _, value, found := strings.Cut(line, ":"); !found || strings.TrimSpace(value) == "" || strings.Contains(line, ": ,") {
				t.Errorf("%s: an empty line or branch: %q", program, line)
			}
		}
	}
}
