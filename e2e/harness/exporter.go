// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Options say how to run the exporter.
type Options struct {
	// Args are the flags, such as --source=sim:node. The address is added.
	Args []string
	// Env is added to the environment, in the form NAME=value.
	Env []string
	// Program is run with Args in place of the exporter that was built for the tests, if there is one.
	Program []string
	// Address is where it listens; "" is a free port.
	Address string
	// Unprivileged runs it as a user without any rights, where the tests have those of root.
	Unprivileged bool
}

// nobody is the user and the group that have no rights.
const nobody = 65534

// StartExporter runs the exporter on a free port of 127.0.0.1 until the end of
// the test, and returns once it is ready.
func StartExporter(t testing.TB, o Options) *Process {
	t.Helper()
	p := LaunchExporter(t, o)
	p.waitReady(t)
	return p
}

// LaunchExporter runs the exporter as StartExporter does and returns at once,
// for a test in which it cannot start. One that prints a stack fails the test.
func LaunchExporter(t testing.TB, o Options) *Process {
	t.Helper()
	program := o.Program
	if program == nil {
		program = []string{Exporter(t)}
	}
	cmd := exec.Command(program[0], slices.Concat(program[1:], []string{"--web.listen-address=" + cmp.Or(o.Address, "127.0.0.1:0")}, o.Args)...)
	if o.Unprivileged && os.Getuid() == 0 {
		if err := os.Chmod(filepath.Dir(cmd.Path), 0o711); err != nil { // a temporary directory
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	cmd.Env = append(os.Environ(), o.Env...)
	p := Start(t, "gpu_leak_exporter", cmd)
	t.Cleanup(func() {
		p.Stop(t)
		for _, word := range []string{"goroutine ", "panic:", "SIGSEGV", "DATA RACE"} {
			if strings.Contains(p.Output(), word) {
				t.Errorf("the output of the exporter has %q", word)
			}
		}
	})
	return p
}

// Replay runs the exporter over a recording of so many GPUs, with a limit of memory as in a pod, until the end of the
// test. It returns once all of them have come to their end.
func Replay(t testing.TB, path, speed string, gpus int) *Process {
	t.Helper()
	p := StartExporter(t, Options{Env: []string{"GOMEMLIMIT=1GiB"}, Args: []string{"--source=replay:" + path, "--source.speed=" + speed}})
	Eventually(t, startDeadline, func() error {
		// It is logged after the last row has been judged and published.
		if n := strings.Count(p.Output(), "the recording has ended"); n != gpus {
			return fmt.Errorf("%d of %d GPUs have come to the end", n, gpus)
		}
		return nil
	})
	return p
}

// Scrape reads /metrics.
func (p *Process) Scrape(t testing.TB) Metrics {
	t.Helper()
	m, err := p.TryScrape()
	Must(t, err)
	return m
}

// TryScrape reads /metrics, for use inside Eventually.
func (p *Process) TryScrape() (Metrics, error) {
	body, err := Get(p.URL + "/metrics")
	if err != nil {
		return nil, err
	}
	return ParseMetrics(body)
}

// Metrics is what one scrape showed, in no order.
type Metrics []Sample

// Sample is one series and its value.
type Sample struct {
	Name   string
	Labels map[string]string
	Value  float64
}

// Has reports whether the sample carries these labels, and maybe more.
func (s Sample) Has(labels map[string]string) bool {
	for k, v := range labels {
		if got, ok := s.Labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// ParseMetrics parses the text format. The parts of a summary and a histogram
// get the names and labels that Prometheus gives them.
func ParseMetrics(text []byte) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	found, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, slices.Collect(maps.Values(families))...)
	all := metricsOf(found)
	for _, s := range all {
		delete(s.Labels, model.MetricNameLabel)
	}
	return all, err
}

// metricsOf returns the samples of a vector. The name of a series is its label __name__, too.
func metricsOf(v model.Vector) Metrics {
	all := make(Metrics, 0, len(v))
	for _, s := range v {
		labels := make(map[string]string, len(s.Metric))
		for name, value := range s.Metric {
			labels[string(name)] = string(value)
		}
		all = append(all, Sample{labels[model.MetricNameLabel], labels, float64(s.Value)})
	}
	return all
}

// All returns the samples of that name that carry these labels, and maybe more.
func (m Metrics) All(name string, labels map[string]string) Metrics {
	return slices.DeleteFunc(slices.Clone(m), func(s Sample) bool { return s.Name != name || !s.Has(labels) })
}

// Value returns the value of the one sample that All finds. It is an error if
// there is none or if there are several.
func (m Metrics) Value(name string, labels map[string]string) (float64, error) {
	found := m.All(name, labels)
	if len(found) != 1 {
		return math.NaN(), fmt.Errorf("%d series %s with labels %v, want 1", len(found), name, labels)
	}
	return found[0].Value, nil
}
