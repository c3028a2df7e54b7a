// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// asExpfmt returns what a registry and expfmt make of a Collector and the families of others.
func asExpfmt(t testing.TB, format expfmt.Format, c ...prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c...)
	families, err := registry.Gather()
	must(t, err)
	var b bytes.Buffer
	encoder := expfmt.NewEncoder(&b, format)
	for _, f := range families {
		must(t, encoder.Encode(f))
	}
	if closer, ok := encoder.(expfmt.Closer); ok {
		must(t, closer.Close())
	}
	return b.String()
}

func written(t testing.TB, format expfmt.Format, c *Collector, others ...prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(others...)
	families, err := registry.Gather()
	must(t, err)
	var b bytes.Buffer
	must(t, c.WriteText(&b, format, families))
	return b.String()
}

// textFormatsOf are the formats that a scrape may ask for and that WriteText writes.
func textFormatsOf() (formats []expfmt.Format) {
	for _, f := range expfmt.DefaultOpenMetricsAcceptedFormats() {
		for _, scheme := range []string{"", "; escaping=allow-utf-8", "; escaping=underscores", "; escaping=dots", "; escaping=values"} {
			if format := f + expfmt.Format(scheme); Writes(format) {
				formats = append(formats, format)
			}
		}
	}
	return formats
}

// sameText fails if a and b differ, and shows the first line that does.
func sameText(t testing.TB, got, want string) {
	t.Helper()
	g, w := strings.SplitAfter(got, "\n"), strings.SplitAfter(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("line %d is\n%swant\n%s", i, g[i], w[i])
		}
	}
	if len(g) != len(w) {
		t.Fatalf("%d lines, want %d", len(g), len(w))
	}
}

// fleetOf returns n GPUs of a fleet in an order that is not that of their labels: with an index, a UUID and an owner and
// without, in MIG mode, down, and quiet or not.
func fleetOf(n int) *sampler.State {
	s := &sampler.State{}
	for i := range n {
		d := &sampler.DeviceState{Info: gpu.Info{Index: i%3 - 1, Place: [gpu.MaxPlaceLabels]string{fmt.Sprintf("node \"%d\"\n", n-i/3), "z"}}, Up: i != 5}
		if i%2 == 0 {
			d.Info.UUID, d.Who = fmt.Sprintf("GPU-%d", n-i), finding.Who{Namespace: "n", Pod: `p\`, Container: "c"}
		}
		d.Memory.Used, d.Judgement.T = gpu.Some(uint64(i)), 1
		d.Judgement.Device = detector.Verdict{Judged: true, Leak: i%3 == 0, Trough: detector.Of(float64(i)), SecondsToOOM: detector.Of(1)}
		if i == 4 {
			d.Instances = []sampler.MemoryState{{MemoryKey: sampler.MemoryKey{Instance: gpu.Some(uint32(2))}, Profile: "1g", Who: finding.Who{Pod: "q"}, Memory: d.Memory, Judgement: d.Judgement}}
		}
		s.Devices = append(s.Devices, d)
	}
	return s
}

// TestWriteText holds the text against expfmt's, byte for byte.
func TestWriteText(t *testing.T) {
	others := []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "a_first", Help: "Before all of ours."}, func() float64 { return 1 }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "gpu_m_total", Help: `Among ours, a "quote" and a \ .`}, func() float64 { return 1e21 }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "gpu.dotted", Help: "Not a legacy name."}, func() float64 { return 0.25 }),
		prometheus.NewHistogram(prometheus.HistogramOpts{Name: "z_seconds", Help: "Behind them."}),
	}
	if len(textFormatsOf()) == 0 {
		t.Fatal("no formats")
	}
	for _, format := range textFormatsOf() {
		t.Run(string(format), func(t *testing.T) {
			o := allFamilies(true)
			o.ProcessCommand = true
			growing, fleet := o, o
			growing.ProcessDetail = DetailGrowing
			fleet.ProcessDetail, fleet.Fleet = DetailGrowing, Fleet{Labels: []string{"instance", "zone"}}
			for name, tt := range map[string]struct {
				state   *sampler.State
				options Options
			}{
				"fixture":   {fixture(), o},
				"crowd":     {crowd(8, 8), o},
				"growing":   {crowd(8, 8), growing},
				"fleet":     {fleetOf(9), fleet},
				"no driver": {&sampler.State{DriverReason: "library_not_found"}, o},
				"nothing":   {nil, o},
			} {
				t.Run(name, func(t *testing.T) {
					c := newCollector(t, tt.state, tt.options)
					sameText(t, written(t, format, c, others...), asExpfmt(t, format, append(others, c)...))
				})
			}
		})
	}
}

// Protobuf is left to the registry.
func TestWritesTextOnly(t *testing.T) {
	for _, kind := range []expfmt.FormatType{expfmt.TypeProtoDelim, expfmt.TypeProtoText, expfmt.TypeProtoCompact} {
		format := expfmt.NewFormat(kind)
		if Writes(format) {
			t.Errorf("%s is a text format", format)
		}
		if err := newCollector(t, fixture(), Options{}).WriteText(&bytes.Buffer{}, format, nil); err == nil {
			t.Errorf("%s is written", format)
		}
	}
	if Writes("application/openmetrics-text; version=2.0.0; charset=utf-8") {
		t.Error("OpenMetrics 2.0 is another format")
	}
}

// FuzzWriteText lets processes choose their names, and numbers be any.
func FuzzWriteText(f *testing.F) {
	f.Add("train.py", "a\\b", "quo\"te", "line\nbreak", 1.0, uint8(0))
	f.Add("\xff\x00", "é", "", "\\n", math.Inf(-1), uint8(1))
	f.Add("!", "a b", "a", "a\"", math.Copysign(0, -1), uint8(3))
	f.Fuzz(func(t *testing.T, process, pod, namespace, reason string, v float64, which uint8) {
		s := fixture()
		for _, d := range s.Devices {
			for i := range d.Processes {
				p := &d.Processes[i]
				owner := *ownerOf(&p.Process)
				owner.Process, owner.Pod, owner.Namespace, owner.SlurmJob = process, pod, namespace, strings.Repeat(reason, i)
				p.Owner, p.SM = &owner, gpu.Some(v)
			}
			d.Status.Power.Watts = gpu.Some(v)
		}
		format := textFormatsOf()[int(which)%len(textFormatsOf())]
		c := newCollector(t, s, allFamilies(true))
		sameText(t, written(t, format, c), asExpfmt(t, format, c))
	})
}

// Two GPUs of one index and UUID are a driver's mistake. One of them is shown, and the scrape says so, whatever its format.
func TestSameLabels(t *testing.T) {
	s := &sampler.State{Devices: []*sampler.DeviceState{fullGPU(), bareGPU(), fullGPU()}}
	c := newCollector(t, s, allFamilies(true))
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err == nil || !strings.Contains(err.Error(), "GPU-full") {
		t.Errorf("the registry says %v", err)
	}
	for _, f := range families {
		if f.GetName() == "gpu_up" && len(f.GetMetric()) != 2 {
			t.Errorf("%d GPUs, want 2", len(f.GetMetric()))
		}
	}
	var b bytes.Buffer
	err = c.WriteText(&b, expfmt.NewFormat(expfmt.TypeTextPlain), nil)
	if err == nil || !strings.Contains(err.Error(), "GPU-full") {
		t.Errorf("WriteText says %v", err)
	}
	testkit.Equal(t, strings.Count(b.String(), "\ngpu_up{"), 2, "GPUs")
}
