// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// gathered returns the series of a metric: their labels as name=value.
func gathered(t *testing.T, s *sampler.State, o Options) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for name, f := range gather(t, newCollector(t, s, o)) {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			all[name] = append(all[name], strings.Join(labels, ","))
		}
	}
	return all
}

// TestFleetLabels has GPUs of two hosts with the same index: where they are and whose they are is on each series, and
// what tells of the host that reads them is on none.
func TestFleetLabels(t *testing.T) {
	gpuAt := func(place, uuid string, who finding.Who) *sampler.DeviceState {
		d := &sampler.DeviceState{Info: gpu.Info{Index: -1, UUID: uuid, Place: [gpu.MaxPlaceLabels]string{place}}, Up: true, MemoryState: sampler.MemoryState{Who: who}}
		d.Memory.Used = gpu.Some(uint64(5))
		return d
	}
	mig := gpuAt("c", "GPU-3", finding.Who{})
	mig.Instances = []sampler.MemoryState{sampler.InstanceOf(&gpu.Instance{ID: 1, Profile: "1g", Owner: &gpu.Owner{Pod: "q"}, Memory: gpu.Memory{Used: gpu.Some(uint64(7))}})}
	mig.Findings = []sampler.FindingState{{MemoryKey: sampler.MemoryKey{Instance: gpu.Some(uint32(1))}, Finding: finding.Finding{Who: finding.Who{Pod: "q"}, Leaking: detector.Of(5), LeakDue: true}}}
	mig.Allotments = []sampler.AllotmentState{{Namespace: "n", Pod: "p"}}
	s := &sampler.State{Devices: []*sampler.DeviceState{gpuAt("a", "GPU-1", finding.Who{Namespace: "n", Pod: "p", Container: "c"}), gpuAt("b", "", finding.Who{}), gpuAt("a", "", finding.Who{}), mig}}
	all := gathered(t, s, Options{Fleet: Fleet{Labels: []string{"instance", "zone"}}, Enabled: map[string]bool{"workload": true}})
	want := []string{
		"container=,gpu=,instance=a,namespace=,pod=,uuid=,zone=",
		"container=,gpu=,instance=b,namespace=,pod=,uuid=,zone=",
		"container=,gpu=,instance=c,namespace=,pod=,uuid=GPU-3,zone=",
		"container=c,gpu=,instance=a,namespace=n,pod=p,uuid=GPU-1,zone=",
	}
	testkit.Equal(t, slices.Sorted(slices.Values(all["gpu_memory_used_bytes"])), want, "labels of the GPUs")
	testkit.Equal(t, all["gpu_mig_memory_used_bytes"], []string{"container=,gpu=,gpu_instance=1,instance=c,namespace=,pod=q,profile=1g,uuid=GPU-3,zone="}, "labels of the GPU instance")
	testkit.Equal(t, all["gpu_leaking_bytes_per_second"], []string{"container=,gpu=,gpu_instance=1,instance=c,namespace=,pod=q,process=,scope=mig,slurm_job=,source=,user=,uuid=GPU-3,zone="}, "labels of the finding")
	for _, name := range []string{"gpu_driver_up", "gpu_pci_devices", "gpu_allocated", "gpu_nvml_calls_total", "gpu_processes", "gpu_samples_missed_total"} {
		if len(all[name]) > 0 {
			t.Errorf("%s is there", name)
		}
	}
}

// TestFleetDetail leaves out what nobody asks of a GPU of a fleet whose memory does not grow.
func TestFleetDetail(t *testing.T) {
	fleet := Fleet{Labels: []string{"instance"}}
	verdict := func(v detector.Verdict) *sampler.State {
		v.Judged, v.Trough = true, detector.Of(1)
		if !v.SecondsToOOM.OK {
			v.SecondsToOOM = detector.Of(math.Inf(1))
		}
		d := &sampler.DeviceState{Info: gpu.Info{UUID: "GPU-1"}, Up: true, Processes: []sampler.ProcessState{{Verdict: v}}, Workloads: []sampler.WorkloadState{{Verdict: v}}}
		d.Judgement.T, d.Judgement.Device = 1, v
		return &sampler.State{Devices: []*sampler.DeviceState{d}}
	}
	for name, tt := range map[string]struct {
		v    detector.Verdict
		many bool
	}{
		"calm":      {detector.Verdict{}, false},
		"leaks":     {detector.Verdict{Leak: true}, true},
		"suspected": {detector.Verdict{Withheld: detector.WithheldMinSpan}, true},
		"fills up":  {detector.Verdict{SecondsToOOM: detector.Of(5)}, true},
	} {
		for _, of := range []struct {
			scope   string
			options Options
			many    bool
		}{
			{"gpu_", Options{ProcessDetail: DetailGrowing, Fleet: fleet}, tt.many},
			{"gpu_", Options{ProcessDetail: DetailGrowing}, true}, // of one host
			{"gpu_workload_", Options{ProcessDetail: DetailGrowing}, true},
		} {
			all, scope := gathered(t, verdict(tt.v), of.options), of.scope
			for _, kept := range []string{"leak_detected", "leak_confidence", "seconds_to_oom"} {
				testkit.Equal(t, len(all[scope+kept]), 1, "%s: series of %s", name, scope+kept)
			}
			testkit.Equal(t, len(all[scope+"memory_trough_bytes"]) > 0, of.many, "%s: whether %s has what only a memory that grows has, %+v", name, scope, of.options)
			testkit.Equal(t, len(gathered(t, verdict(tt.v), Options{})[scope+"memory_trough_bytes"]), 1, "%s: series of %s by default", name, scope)
		}
	}
}
