// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/source"
	"github.com/gpuleak/gpu_leak_exporter/collector"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// TestWrongCalls holds each mistake to one line that says what to do.
func TestWrongCalls(t *testing.T) {
	const scenarios = "node, healthy, faulty, crashloop"
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testkit.Write(t, path, text)
		return path
	}
	unknownKey := write("unknown.yml", "tls_server_confg:\n  cert_file: a\n")
	noCertificate := write("tls.yml", "tls_server_config:\n  cert_file: none.pem\n  key_file: none.key\n")
	recording := write("broken.csv", "hello\n")
	rules := write("rules.yml", "groups:\n- name: a\n  rules:\n  - match: ['{pod=\"a\"}']\n    leak_threshold: 0.6\n  - windows: [1m]\n")
	noUnit := write("unit.yml", "query: x\n")
	ofProcess := write("process.yml", "query: gpu_process_memory_used_bytes\n")
	ownLabel := write("label.yml", "labels: [instance, uuid]\n")
	twoUsers := write("users.yml", "basic_auth: {username: you, password: y}\n")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer taken.Close()
	address := taken.Addr().String()

	for _, tt := range []struct{ args, want string }{
		{"--foo", "unknown long flag '--foo'; try gpu_leak_exporter --help"},
		{"extra", "unexpected extra; try gpu_leak_exporter --help"},
		{"--no-collector.foo", "unknown long flag '--no-collector.foo'; try gpu_leak_exporter --help"},
		{"--collector.nvlink=false", `--collector.nvlink takes no value ("false"): write --collector.nvlink or --no-collector.nvlink`},
		{"--collector.process.max=1025", "--collector.process.max=1025: 1025 is not between 0 and 1024"},
		{"--collector.process.min-age=-1s", "--collector.process.min-age=-1s: -1s is not between 0s and 1h"},
		{"--web.max-requests=-1", "--web.max-requests=-1: -1 is not between 0 and 2147483647"},
		{"--collector.allocator.sites --no-collector.allocator", "--collector.allocator.sites needs --collector.allocator: it asks the probes that this one reads"},
		{"--web.telemetry-path=metrics", "--web.telemetry-path=metrics: must be a path such as /metrics: a slash, then letters, digits and . _ ~ - /"},
		{"--web.telemetry-path=/a{b}", "--web.telemetry-path=/a{b}: must be a path such as /metrics: a slash, then letters, digits and . _ ~ - /"},
		{"--web.telemetry-path=/predict", "--web.telemetry-path=/predict: is taken: choose another one than /-/healthy, /-/ready, /predict, /runbook, /api/v1/verdicts, /api/v1/sites, /incidents, /api/v1/incidents, /-/reload"},
		{"--web.config.file=/none.yml", "--web.config.file=/none.yml: open /none.yml: no such file or directory"},
		{"--web.config.file=" + unknownKey, "--web.config.file=" + unknownKey + ": yaml: unmarshal errors: line 1: field tls_server_confg not found in type web.Config"},
		{"--web.config.file=" + noCertificate, "--web.config.file=" + noCertificate + ": failed to read cert_file (" + dir + "/none.pem): open " + dir + "/none.pem: no such file or directory"},
		{"--source=sim:crashloop --web.listen-address=" + address, "--web.listen-address=" + address + ": listen tcp " + address + ": bind: address already in use; another program has this port: choose another with --web.listen-address"},
		{"--source=sim:crashloop --web.listen-address=9844", "--web.listen-address=9844: listen tcp: address 9844: missing port in address"},
		{"--source=sim:crashloop --web.listen-address=127.0.0.1:0 --web.listen-address=x", "--web.listen-address=x: listen tcp: address x: missing port in address"},
		{"--log.level=loud", "--log.level=loud: unrecognized log level loud"},
		{"--log.format=xml", "--log.format=xml: unrecognized log format xml"},
		{"--source=amd", "--source=amd: choose nvml, sim:SCENARIO, replay:FILE or prometheus:URL"},
		{"--source=sim", "--source=sim: name a scenario: sim:" + strings.ReplaceAll(scenarios, ", ", ", sim:")},
		{"--source=sim:x", `--source=sim:x: unknown scenario "x": choose one of ` + scenarios},
		{"--source=replay:", `--source="replay:": name a recording: replay:FILE`},
		{"--source=replay:/none", "--source=replay:/none: recording: stat /none: no such file or directory"},
		{"--source=replay:" + recording, "--source=replay:" + recording + ": " + recording + ":1: no header line of nvidia-smi, and no recording of gpu_leak_exporter: leave noheader out of --format=csv,… when recording"},
		{"--source=prometheus:localhost:9090", "--source=prometheus:localhost:9090: the address must be one such as http://localhost:9090, without ? and #"},
		{"--source.config=x", "--source.config needs --source=prometheus:URL"},
		{"--shard=0/2", "--shard needs --source=prometheus:URL"},
		{"--source=prometheus:http://a --shard=2/2", "--shard=2/2: must be INDEX/NUMBER, such as 0/3, 1/3 and 2/3 for three exporters"},
		{"--source=prometheus:http://a --source.config=" + noUnit, "--source=prometheus:http://a: x does not tell its unit: give unit: B or unit: MiB in --source.config"},
		{"--source=prometheus:http://a --source.config=" + ofProcess, "--source=prometheus:http://a: gpu_process_memory_used_bytes is a part of a memory: ask for that of a GPU, such as DCGM_FI_DEV_FB_USED"},
		{"--source=prometheus:http://a --source.config=" + ownLabel, "--source.config=" + ownLabel + ": labels: uuid is a label that the series have already: choose another one"},
		{"--source=prometheus:http://a --source.config=/none", "--source.config=/none: open /none: no such file or directory"},
		{"--source=prometheus:http://a --sample.interval=500ms", "--sample.interval=500ms: must be 1s or more with --source=prometheus:URL"},
		{"--source=prometheus:http://a --source.speed=2", "--source.speed needs --source=sim:SCENARIO or --source=replay:FILE: others have no speed"},
		{"--source=prometheus:http://me:x@a --source.config=" + twoUsers, "--source=prometheus:http://a: --source.config=" + twoUsers + " tells who asks, and the address does, too: take the user out of the address"},
		{"--source=prometheus:http://a --detector.state-file=" + dir + "/a", "--detector.state-file has no use with --source=prometheus:URL: leave it out. After a restart the history is read again"},
		{"--collector.process.detail=some", "--collector.process.detail=some: choose one of all, growing"},
		{"--source.speed=2", "--source.speed needs --source=sim:SCENARIO or --source=replay:FILE: others have no speed"},
		{"--source=sim:crashloop --source.speed=0", "--source.speed=0: 0 is not between 0.001 and +Inf"},
		{"--sample.interval=50ms", "--sample.interval=50ms: 50ms is not between 100ms and 1m"},
		{"--sample.interval", "expected argument for flag '--sample.interval'; try gpu_leak_exporter --help"},
		{"--sample.interval=1s --sample.interval=2s", "flag 'sample.interval' cannot be repeated; try gpu_leak_exporter --help"},
		{"--sample.slow-interval=500ms", "--sample.slow-interval=500ms must not be below --sample.interval=1s"},
		{"--nvml.timeout=0s", "--nvml.timeout=0s: 0s is not between 1s and 10m"},
		{"--path.procfs=/none --web.listen-address=127.0.0.1:0", "--path.procfs=/none: ProcFS: could not read \"/none\": stat /none: no such file or directory"},
		{"--detector.state-file=/none/state", "--detector.state-file=/none/state: make this directory first, and give it to the user of the exporter: stat /none: no such file or directory"},
		{"--detector.state-file=" + dir, "--detector.state-file=" + dir + ": is not a file"},
		{"--incident.dir=/none", "--incident.dir=/none: make this directory first, and give it to the user of the exporter: stat /none: no such file or directory"},
		{"--incident.dir=" + rules, "--incident.dir=" + rules + ": " + rules + " is no directory"},
		{"--detector.state-interval=0s", "--detector.state-interval=0s: 0s is not between 1s and 1h"},
		{"--detector.window=30s", "--detector.window=30s: 30s is not between 1m and 1d"},
		{
			"--sample.interval=10s --detector.window=1m",
			"--detector.window=1m holds fewer than 10 samples at --sample.interval=10s: choose 1m40s or more, or sample more often",
		},
		{"--detector.leak-threshold=80", "--detector.leak-threshold=80: 80 is not between 0.01 and 1"},
		{"--detector.min-growth=0", "--detector.min-growth=0: 0B is not between 64KiB and 256TiB"},
		{"--detector.config=/none.yml", "--detector.config: open /none.yml: no such file or directory"},
		{
			"--detector.leak-threshold=0.5 --detector.config=" + rules,
			"--detector.config: " + rules + ":6: the rule has no match: for all series write match: ['{}']",
		},
		{
			"--sample.interval=10s --detector.window=2m --detector.config=" + rules,
			"--detector.config: " + rules + ":6: windows: 1m: 1m is not between 1m40s and 1d",
		},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			// A call that is right after all ends with the context.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			code := run(ctx, strings.Fields(tt.args), &stdout, &stderr)
			if want := program + ": error: " + tt.want + "\n"; code != exitFailure || stderr.String() != want || stdout.Len() > 0 {
				t.Errorf("exit code %d\nstderr %q\n  want %q\nstdout %q", code, stderr.String(), want, stdout.String())
			}
		})
	}
}

func TestControlCharacters(t *testing.T) {
	var stderr bytes.Buffer
	code := run(t.Context(), []string{"--source=sim:\x1b[2J\nx"}, io.Discard, &stderr)
	if code != exitFailure || strings.ContainsRune(stderr.String(), 0x1b) || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
	// Logfmt escapes some of them.
	path := filepath.Join(t.TempDir(), "a\x1b\u009b2J\u202eb")
	testkit.Write(t, path, "none")
	r := startProgram(t, "--source=sim:healthy", "--detector.state-file="+path)
	r.end()
	if log := r.stderr.String(); strings.ContainsAny(log, "\x1b\u009b\u202e") || !strings.Contains(log, `\u001b\u009b2J\u202eb`) {
		t.Errorf("the log is %q", log)
	}
}

func TestHelpAndVersion(t *testing.T) {
	for flag, want := range map[string]string{
		"--help":    fmt.Sprintf("--detector.leak-threshold=%g", detector.DefaultConfig().LeakThreshold),
		"-h":        "--web.listen-address=:9844",
		"--version": program + ", version ",
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{flag}, &stdout, &stderr)
		if code != exitOK || !strings.Contains(stdout.String(), want) || stderr.Len() > 0 {
			t.Errorf("%s: exit code %d, stderr %q, no %q in stdout:\n%s", flag, code, stderr.String(), want, stdout.String())
		}
	}
}

func TestDefaults(t *testing.T) {
	c := flagsOf(t)
	testkit.Equal(t, c.detector, detector.DefaultConfig(), "detector")
	want := source.Config{Kind: source.NVML, Speed: 1, Interval: time.Second, SlowInterval: 15 * time.Second, Timeout: 10 * time.Second, ProcFS: "/proc", SysFS: "/sys"}
	testkit.Equal(t, c.source, want, "source")
	if c.source.SlowInterval != 15*time.Second || c.processMax != 64 || c.processMinAge != 10*time.Second || c.workload.Command ||
		c.stateFile != "" || c.incidentDir != "" || c.stateInterval != 30*time.Second {
		t.Errorf("%+v", c)
	}
	if c.telemetryPath != "/metrics" || c.maxRequests != 4 || !c.exporterMetrics || !reflect.DeepEqual(*c.listen.WebListenAddresses, []string{":9844"}) {
		t.Errorf("%+v", c)
	}
	for _, f := range collector.Families() {
		testkit.Equal(t, c.families[f.Name], f.Default, "collector %s", f.Name)
	}
}

func TestSettings(t *testing.T) {
	c := flagsOf(t, strings.Fields(`--source=sim:node --source.speed=inf --sample.interval=0.5s --detector.window=1d --detector.window=5m
		--detector.min-growth=1.5GB --web.disable-exporter-metrics --collector.process.command`)...)
	if c.source.Spec() != "sim:node" || !math.IsInf(c.source.Speed, 1) || c.source.Interval != 500*time.Millisecond {
		t.Errorf("source %+v", c.source)
	}
	if d := c.detector; !reflect.DeepEqual(d.Windows, []time.Duration{5 * time.Minute, 24 * time.Hour}) || d.MinGrowth != 1.5e9 {
		t.Errorf("detector %+v", d)
	}
	if c.exporterMetrics || !c.workload.Command {
		t.Errorf("%+v", c)
	}
}

// TestRulesOfFleet matches the labels that its file gives the series.
func TestRulesOfFleet(t *testing.T) {
	dir := t.TempDir()
	places, rules := filepath.Join(dir, "fleet.yml"), filepath.Join(dir, "rules.yml")
	testkit.Write(t, places, "labels: [rack]\n")
	testkit.Write(t, rules, strings.ReplaceAll(muting, "{", `{scope="gpu", rack="7", `))
	c := flagsOf(t, "--source=prometheus:http://a", "--source.config="+places, "--detector.config="+rules)
	for rack, want := range map[string]bool{"7": true, "8": false} {
		testkit.Equal(t, c.rules.For(map[string]string{"scope": "gpu", "rack": rack, "pod": "a"}).Mute, want, "rack %s is muted", rack)
	}
}

func TestFamilies(t *testing.T) {
	for _, tt := range []struct {
		args   string
		on     []string
		off    []string
		groups []gpu.Group
	}{
		{"", []string{"memory", "process", "detector"}, []string{"nvlink"}, gpu.Groups[:7]},
		{"--collector.nvlink --no-collector.ecc", []string{"nvlink"}, []string{"ecc"}, []gpu.Group{"memory", "utilization", "thermal", "power", "clocks", "pcie", "nvlink"}},
		{"--collector.disable-defaults", nil, []string{"memory", "process", "detector"}, []gpu.Group{}},
		{"--source=prometheus:http://a", []string{"memory", "detector"}, []string{"process", "power"}, nil},
		{"--collector.disable-defaults --collector.thermal", []string{"thermal"}, []string{"memory"}, []gpu.Group{"thermal"}},
	} {
		c := flagsOf(t, strings.Fields(tt.args)...)
		for _, name := range tt.on {
			if !c.families[name] {
				t.Errorf("%q: %s is off", tt.args, name)
			}
		}
		for _, name := range tt.off {
			if c.families[name] {
				t.Errorf("%q: %s is on", tt.args, name)
			}
		}
		testkit.Equal(t, c.groups(), tt.groups, "%q: groups", tt.args)
	}
}
