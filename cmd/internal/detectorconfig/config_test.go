// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detectorconfig

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// base is what the flags say in these tests, whatever the defaults become.
func base() detector.Config {
	c := detector.DefaultConfig()
	c.LeakThreshold = 0.8
	return c
}

func options() Options { return Options{Base: base(), MinWindow: time.Minute} }

func load(t *testing.T, path string) *Config {
	t.Helper()
	c, err := Load(path, options())
	testkit.Must(t, err)
	return c
}

func TestNoRules(t *testing.T) {
	for _, c := range []*Config{New(base()), load(t, "testdata/good/empty.yml")} {
		testkit.Equal(t, c.For(map[string]string{"scope": "process", "pod": "a"}), base(), "rules")
		if len(c.Groups()) != 0 || c.Rules() != 0 {
			t.Errorf("%d groups, %d rules", len(c.Groups()), c.Rules())
		}
	}
}

func TestFor(t *testing.T) {
	c := load(t, "testdata/good/rules.yml")
	if want := []Group{{"inference", 2}, {"desktops", 1}, {"nothing", 0}, {"last", 2}}; !reflect.DeepEqual(c.Groups(), want) || c.Rules() != 5 {
		t.Errorf("groups %v, want %v; %d rules", c.Groups(), want, c.Rules())
	}
	for _, tt := range []struct {
		labels map[string]string
		want   func(*detector.Config)
	}{
		{map[string]string{"scope": "gpu", "gpu": "0", "name": "NVIDIA GeForce RTX 4090"}, nil},
		{map[string]string{"scope": "process", "namespace": "serving", "process": "vllm", "pod": "a"}, func(c *detector.Config) { c.Mute = true }},
		{map[string]string{"scope": "process", "namespace": "serving", "process": "xvllm", "pod": "a"}, nil}, // anchored
		{map[string]string{"scope": "process", "pod": "loader-1"}, func(c *detector.Config) {
			c.MinGrowth, c.LeakThreshold = 256<<20, 0.9
			c.Windows = []time.Duration{10 * time.Minute, time.Hour, 6 * time.Hour}
		}},
		{map[string]string{"scope": "workload", "pod": "loader-1"}, nil},
		{map[string]string{"scope": "residual", "name": "NVIDIA GeForce RTX 4090"}, func(c *detector.Config) {
			c.MinSpan, c.MinHeld = 90*time.Minute, 256<<20
		}},
		// The last one wins, setting by setting: it is unmuted, and keeps what else
		// the earlier rules gave.
		{map[string]string{"scope": "process", "pod": "big-0", "name": "GeForce"}, func(c *detector.Config) {
			c.MinSpan, c.MinHeld = 90*time.Minute, 256<<20
			c.LeakThreshold = 0.95
		}},
		{map[string]string{"scope": "process", "pod": "loader-1", "slurm_job": "17"}, func(c *detector.Config) {
			c.MinGrowth = 256 << 20
			c.Windows = []time.Duration{10 * time.Minute, time.Hour, 6 * time.Hour}
			c.LeakThreshold = 0.95
		}},
	} {
		want := base()
		want.SpikeRatio = 0 // the rule for all
		if tt.want != nil {
			tt.want(&want)
		}
		got := c.For(tt.labels)
		testkit.Equal(t, got, want, "rules of %v", tt.labels)
		if err := got.Validate(); err != nil {
			t.Errorf("%v: %v", tt.labels, err)
		}
	}
}

// TestBad holds the messages of each bad file to what stands beside it.
func TestBad(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c, err := Load(file, options())
			if err == nil {
				t.Fatal(c)
			}
			testkit.Golden(t, strings.TrimSuffix(file, ".yml")+".golden", err.Error()+"\n")
		})
	}
}

// TestBounds gives a file more than it may have.
func TestBounds(t *testing.T) {
	const rule = "  - {match: ['{}'], mute: true}\n"
	const head = "groups:\n- name: a\n  rules:\n"
	for name, tt := range map[string]struct{ text, want string }{
		"rules":     {head + strings.Repeat(rule, maxRules+1), "f:1004: there are more than 1000 rules"},
		"aliases":   {head + "  - &r {match: ['{}'], mute: true}\n" + strings.Repeat("  - *r\n", maxRules), "f:4: there are more than 1000 rules"},
		"selectors": {head + "  - {mute: true, match: [" + strings.Repeat("'{}',", maxSelectors+1) + "]}\n", "f:4: match has more than 100 entries: write several rules"},
		"itself":    {"groups: &g [*g]\n", "f:1: a group must be a mapping with name, rules"},
	} {
		_, err := Parse("f", []byte(tt.text), options())
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	if c, err := Parse("f", []byte(head+strings.Repeat(rule, maxRules)), options()); err != nil || c.Rules() != maxRules {
		t.Errorf("%v, %v", c, err)
	}
	_, err := Parse("f", []byte(strings.Repeat("a: 1\n", 2*maxErrors)), options())
	testkit.Equal(t, strings.Count(err.Error(), "\n"), maxErrors-1, "lines after the first of %v", err)
}

// FuzzParse wants an answer to every text, and every answer to be usable.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.yml")
	testkit.Must(f, err)
	for _, file := range files {
		f.Add([]byte(testkit.Read(f, file)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse("f", text, options())
		if (c == nil) == (err == nil) {
			t.Fatal(c, err)
		}
		if c == nil {
			return
		}
		for _, labels := range []map[string]string{
			nil,
			{"scope": "gpu", "gpu": "0", "uuid": "GPU-0", "name": "NVIDIA GeForce RTX 4090"},
			{"scope": "process", "namespace": "serving", "process": "vllm", "pod": "loader-1"},
		} {
			if err := c.For(labels).Validate(); err != nil {
				t.Errorf("%v: %v", labels, err)
			}
		}
	})
}

// TestDocs holds the table in the detector's documentation to the thresholds.
func TestDocs(t *testing.T) {
	const file, begin, end = "../../../detector/README.md", "<!-- thresholds -->\n", "<!-- /thresholds -->\n"
	head, rest, begun := strings.Cut(testkit.Read(t, file), begin)
	_, foot, ended := strings.Cut(rest, end)
	if !begun || !ended {
		t.Fatalf("%s has no place for the table", file)
	}
	var want strings.Builder
	want.WriteString("| key | default | | why this default |\n|---|---|---|---|\n")
	for _, th := range thresholds {
		fmt.Fprintf(&want, "| `%s` | `%s` | %s | %s |\n", th.Key(), th.Default(), th.Help, th.Reason)
	}
	testkit.Golden(t, file, head+begin+want.String()+end+foot)
}

// TestExample wants the rules of the example to do what their comments say.
func TestExample(t *testing.T) {
	c := load(t, "../../../examples/detector.yml")
	for _, tt := range []struct {
		labels map[string]string
		mute   bool
	}{
		{map[string]string{"scope": "process", "namespace": "serving", "process": "vllm"}, true},
		{map[string]string{"scope": "gpu", "name": "NVIDIA GeForce RTX 4090"}, false},
		{map[string]string{"scope": "residual", "name": "NVIDIA GeForce RTX 4090"}, true},
		{map[string]string{"scope": "process", "name": "NVIDIA H200", "namespace": "batch", "pod": "nightly-trainer-1"}, false},
	} {
		testkit.Equal(t, c.For(tt.labels).Mute, tt.mute, "%v: muted", tt.labels)
	}
	job := c.For(map[string]string{"scope": "workload", "namespace": "batch", "pod": "a"})
	nightly := c.For(map[string]string{"scope": "workload", "namespace": "batch", "pod": "nightly-trainer-1"})
	if !(job.SettleTime > nightly.SettleTime && job.UnreleasedAfter == nightly.UnreleasedAfter) {
		t.Errorf("%+v\n%+v", job, nightly)
	}
}
