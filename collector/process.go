// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import "github.com/gpuleak/gpu_leak_exporter/collector/sampler"

var processFamily = family{name: "process", enabled: true, metrics: []metric{
	gauge("gpu_process_memory_used_bytes",
		"GPU memory that the process holds, in bytes. Absent where the driver does not tell.",
		func(p *sampler.ProcessState) optional { return number(p.Used) }),
	gauges("gpu_process_memory_limit_bytes",
		"The most GPU memory in bytes that the process may hold, alone or with its control group. source is nvml, dmem, hami, mps or framework.",
		[]string{"source"},
		func(p *sampler.ProcessState, e *emitter) { e.limits(p.Limits) }),
	gauge("gpu_process_sm_utilization_ratio",
		"Share (0 to 1) of the streaming multiprocessors that the process kept busy over 5 seconds, which the driver may average, so that short work shows as little. It is up to 5 seconds old. Absent is not idle.",
		func(p *sampler.ProcessState) optional { return number(p.SM) }),
	gauge("gpu_process_memory_controller_utilization_ratio",
		"Share (0 to 1) of the time in which the process read or wrote GPU memory, over 5 seconds. It is up to 5 seconds old.",
		func(p *sampler.ProcessState) optional { return number(p.MemoryController) }),
	gauge("gpu_process_encoder_utilization_ratio",
		"Share (0 to 1) of the video encoder that the process kept busy, over 5 seconds. It is up to 5 seconds old.",
		func(p *sampler.ProcessState) optional { return number(p.Encoder) }),
	gauge("gpu_process_decoder_utilization_ratio",
		"Share (0 to 1) of the video decoder that the process kept busy, over 5 seconds. It is up to 5 seconds old.",
		func(p *sampler.ProcessState) optional { return number(p.Decoder) }),
	gauge("gpu_process_start_time_seconds",
		"Start of the process in seconds since the Unix epoch. A process with another start is another process, whatever its pid.",
		func(p *sampler.ProcessState) optional { return seconds(p.Started) }),
	gauge("gpu_process_idle_seconds",
		"Seconds for which the process has held memory without computing, known up to 5 seconds late. Absent where its utilization is not known.",
		func(p *sampler.ProcessState) optional { return seconds(p.Idle) }),
	gauges("gpu_process_info",
		"Always 1; the labels say more about the process. type is compute, graphics, compute+graphics or mps.",
		[]string{"user", "container_id", "type", commandLabel},
		func(p *sampler.ProcessState, e *emitter) {
			o := ownerOf(&p.Process)
			e.emit(1, o.User, o.ContainerID, p.Type.String(), o.Command)
		}),
	gauge("gpu_processes",
		"Processes on the GPU, with series of their own or without.",
		func(d *sampler.DeviceState) optional { return ifListed(d, float64(d.ProcessCount)) }),
	gauge("gpu_processes_other",
		"Processes on the GPU that have no series of their own, because they are too young or beyond --collector.process.max.",
		func(d *sampler.DeviceState) optional { return ifListed(d, float64(d.OtherProcesses)) }),
	gauge("gpu_processes_other_memory_used_bytes",
		"GPU memory in bytes that the processes without series of their own hold together.",
		func(d *sampler.DeviceState) optional { return ifListed(d, float64(d.OtherUsed)) }),
	counter("gpu_process_exits_near_capacity_total",
		"Processes that ended within a minute after less than 5 % of the GPU's memory was free: they may have died of out-of-memory.",
		func(d *sampler.DeviceState) optional { return ifListed(d, float64(d.ExitsNearCapacity)) }),
}}

// commandLabel is a last label, which is left out without Options.ProcessCommand.
const commandLabel = "command"

// ifListed returns v, or absent where the driver has no list of processes.
func ifListed(d *sampler.DeviceState, v float64) optional {
	return optional{V: v, OK: d.ProcessesKnown}
}
