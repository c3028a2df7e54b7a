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
// what is wrong, names it, and ends with an exit code that is not 0.
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
		"interval too short":  {"--sample.interval=1ms", []string{"--sample.interval", "100ms"}},
		"interval too long":   {"--sample.interval=2h", []string{"--sample.interval", "1m"}},
		"interval no time":    {"--sample.interval=often", []string{"--sample.interval", "often"}},
		"slow below fast":     {"--sample.slow-interval=1s --sample.interval=2s", []string{"--sample.slow-interval", "--sample.interval"}},
		"timeout too short":   {"--nvml.timeout=1ms", []string{"--nvml.timeout", "1s"}},
		"processes below 0":   {"--collector.process.max=-1", []string{"--collector.process.max", "0"}},
		"too many processes":  {"--collector.process.max=5000", []string{"--collector.process.max", "1024"}},
		"age below 0":         {"--collector.process.min-age=-1s", []string{"--collector.process.min-age"}},
		"window too short":    {"--detector.window=1s", []string{"--detector.window", "1m"}},
		"window too long":     {"--detector.window=2d", []string{"--detector.window", "1d"}},
		"window twice":        {"--detector.window=5m --detector.window=5m", []string{"--detector.window", "5m"}},
		"too many windows":    {"--detector.window=1m --detector.window=2m --detector.window=3m --detector.window=4m --detector.window=5m", []string{"--detector.window", "4"}},
		"too few samples":     {"--detector.window=1m --sample.interval=30s --sample.slow-interval=30s", []string{"--detector.window", "--sample.interval"}},
		"threshold above 1":   {"--detector.leak-threshold=2", []string{"--detector.leak-threshold", "1"}},
		"threshold no number": {"--detector.leak-threshold=NaN", []string{"--detector.leak-threshold"}},
		"clear above leak":    {"--detector.clear-threshold=0.9", []string{"--detector.clear-threshold", "--detector.leak-threshold"}},
		"requests below 0":    {"--web.max-requests=-1", []string{"--web.max-requests"}},
		"path without slash":  {"--web.telemetry-path=metrics", []string{"--web.telemetry-path"}},
		"path is taken":       {"--web.telemetry-path=/-/healthy", []string{"--web.telemetry-path"}},
		"level":               {"--log.level=loud", []string{"--log.level", "log level loud"}},
		"format":              {"--log.format=xml", []string{"--log.format", "log format xml"}},
		"source":              {"--source=cuda", []string{"--source", "nvml", "sim:", "replay:"}},
		"scenario":            {"--source=sim:nothing", []string{"--source", "nothing", "node"}},
		"no scenario":         {"--source=sim:", []string{"--source", "node"}},
		"speed of a driver":   {"--source.speed=2", []string{"--source.speed", "sim"}},
		"speed below 0":       {"--source=sim:node --source.speed=-1", []string{"--source.speed"}},
		"no such flag":        {"--detector.magic=1", []string{"detector.magic", "--help"}},
		"no such collector":   {"--collector.fans", []string{"collector.fans", "--help"}},
		"boolean with value":  {"--collector.memory=false", []string{"--collector.memory", "--no-collector.memory"}},
		"argument":            {"start", []string{"start", "--help"}},
		"no such recording":   {"--source=replay:/nonexistent/x.csv", []string{"/nonexistent/x.csv"}},
		"folder":              {"--source=replay:" + dir, []string{dir, "no regular file"}},
		"malformed line":      {"--source=replay:" + malformed, []string{malformed + ":3: ", "many"}},
		"empty":               {"--source=replay:" + empty, []string{empty, "empty"}},
		"no rows":             {"--source=replay:" + noRows, []string{noRows, "no samples"}},
		"no recording":        {"--source=replay:" + noRecording, []string{noRecording + ":1: "}},
		"port in use":         {"--source=sim:node --web.listen-address=" + taken.Addr().String(), []string{taken.Addr().String(), "in use", "choose another with --web.listen-address"}},
		"no address":          {"--source=sim:node --web.listen-address=nowhere", []string{"--web.listen-address", "nowhere"}},
		"no TLS file":         {"--web.config.file=/nonexistent/web.yml", []string{"--web.config.file", "/nonexistent/web.yml"}},
		"TLS file no YAML":    {"--web.config.file=" + noYAML, []string{"--web.config.file", noYAML}},
		"TLS file with typo":  {"--web.config.file=" + unknownKey, []string{"--web.config.file", "tls_server_confg"}},
		"no certificate":      {"--web.config.file=" + noCertificate, []string{"--web.config.file", "/nonexistent/cert.pem"}},
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
