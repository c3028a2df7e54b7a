// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

var workloadFamily = family{name: "workload", enabled: true, metrics: []metric{
	gauge("gpu_workload_memory_used_bytes",
		"GPU memory in bytes that the processes of a pod or Slurm job hold together. Present once there have been two of them or more, at once or one after the other, or a limit.",
		func(w *sampler.WorkloadState) optional { return gpu.Some(float64(w.Used)) }),
	gauges("gpu_workload_memory_limit_bytes",
		"The most GPU memory in bytes that the pod or Slurm job may hold. source is nvml, dmem or hami.",
		[]string{"source"},
		func(w *sampler.WorkloadState, e *emitter) { e.limits(w.Limits) }),
	gauges("gpu_process_device_open",
		"Always 1: the process has this device file of the driver open, whether it holds GPU memory or not. "+
			"Such processes keep a GPU from being reset and the driver from being unloaded. At most 256 are shown. "+
			"A process that opens a GPU long after its start is shown up to 5 minutes later, or longer where --sample.slow-interval is.",
		[]string{"device", "pid", "process", "namespace", "pod", "container", "slurm_job"},
		func(s *sampler.State, e *emitter) {
			for i := range s.DeviceHolders {
				h := &s.DeviceHolders[i]
				o := ownerOf(&h.Process)
				e.emit(1, h.Device, pidOf(&h.Process), o.Process, o.Namespace, o.Pod, o.Container, o.SlurmJob)
			}
		}),
	gauges("gpu_allocated",
		"Always 1: the kubelet has allotted the GPU, or the GPU instance, to the container, whether it uses it or not. "+
			"A GPU that is shared is allotted to several.",
		[]string{"gpu_instance", "namespace", "pod", "container"},
		func(d *sampler.DeviceState, e *emitter) {
			for i := range d.Allotments {
				a := &d.Allotments[i]
				e.emit(1, sampler.InstanceID(a.Instance), a.Namespace, a.Pod, a.Container)
			}
		}),
	gauge("gpu_processes_unresolved",
		"Processes on the GPUs that could not be looked up in procfs, so that it is not known whose they are: "+
			"it does not show them, or they have kept whoever reads their files waiting for 5 seconds or more.",
		func(s *sampler.State) optional { return gpu.Some(float64(s.Unresolved)) }),
}}
