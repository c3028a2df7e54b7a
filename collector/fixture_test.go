// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"math"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// fixtureEpoch is the time of the fixture; fixtureAt is a moment n seconds later.
var fixtureEpoch = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func fixtureAt(n float64) time.Time { return fixtureEpoch.Add(time.Duration(n * float64(time.Second))) }

// fixtureSince is a moment on the clock of detector.Frame.T.
func fixtureSince(n float64) time.Duration { return time.Duration(fixtureAt(n).UnixNano()) }

// fixture is a State in which no two numbers of one GPU are the same, so that a getter that reads the wrong field shows:
//
//	GPU 0 offers everything, and leaks
//	GPU 1 is down; what it measured before must not show
//	GPU 2 offers nothing
//	GPU 3 is in MIG mode
//	GPU 4 runs processes with hostile names
func fixture() *sampler.State {
	return &sampler.State{
		Time:         fixtureAt(100),
		DriverReason: "",
		Devices:      []*sampler.DeviceState{fullGPU(), downGPU(), bareGPU(), migGPU(), hostileGPU()},
		PCIDevices:   gpu.Some(6),
		Collectors: []sampler.FamilyState{
			{Name: "ecc", Success: true, Duration: 3 * time.Millisecond},
			{Name: "memory", Success: false, Duration: 1500 * time.Millisecond},
		},
		Calls: gpu.CallsSnapshot{
			Calls: []gpu.CallStat{
				{Call: "nvmlDeviceGetMemoryInfo_v2", Count: 600, Seconds: 1.25},
				{Call: "nvmlInit_v2", Count: 29, Seconds: 0.5},
			},
			Errors: []gpu.CallErrors{
				{Call: "nvmlInit_v2", Error: "driver_not_loaded", Count: 17},
				{UUID: "GPU-down", Call: "nvmlDeviceGetMemoryInfo_v2", Error: "gpu_is_lost", Count: 7},
				{UUID: "GPU-forgotten", Call: "nvmlDeviceGetMemoryInfo_v2", Error: "unknown", Count: 8},
			},
			InFlight: []gpu.InFlight{
				{Call: "nvmlEventSetWait_v2", Since: fixtureAt(101)}, // after sampler.State.Time
				{UUID: "GPU-down", Call: "nvmlDeviceGetMemoryInfo_v2", Since: fixtureAt(10)},
				{UUID: "GPU-down", Call: "nvmlDeviceGetMemoryInfo_v2", Since: fixtureAt(60)},
			},
		},
		Unresolved: 9,
		Reload:     &sampler.FileState{Success: true, Time: time.Unix(1_771_234_890, 0)},
		StateFile:  &sampler.FileState{Success: true, Time: time.Unix(1_771_234_567, 0)},
		Incidents: incident.Snapshot{Written: gpu.Some(true), Counts: map[incident.Count]uint64{
			{Kind: incident.OutOfMemory}: 9001, {Kind: incident.OutOfMemory, By: "page"}: 9002, {Kind: incident.OutOfMemory, By: "nothing"}: 9003,
			{Kind: incident.Lost}: 9004,
		}},
		DeviceHolders: []sampler.DeviceHolder{
			{Device: "/dev/nvidia0", Process: gpu.Process{ID: gpu.ProcessID{PID: 1001}, Owner: trainer()}},
			{Device: "/dev/nvidia0", Process: gpu.Process{ID: gpu.ProcessID{PID: 1001}, Owner: trainer()}},
			{Device: "/dev/nvidiactl", Process: gpu.Process{ID: gpu.ProcessID{PID: 77}}},
		},
	}
}

func trainer() *gpu.Owner {
	return &gpu.Owner{
		Process: "train.py", User: "alice", Command: "python3 train.py --lr=3e-4", ContainerID: "c0ffee",
		Namespace: "ml", Pod: "train-0", Container: "main", SlurmJob: "4711",
		Runs: 11,
	}
}

func fullGPU() *sampler.DeviceState {
	d := &sampler.DeviceState{
		Info: gpu.Info{
			Index: 0, UUID: "GPU-full", Name: "NVIDIA H200", PCIBusID: "00000000:3B:00.0", Serial: "165", VBIOSVersion: "96.00",
			Architecture: "hopper", DriverVersion: "580.65.06", CUDAVersion: "13.0", CoherentMemory: true, Minor: gpu.Some(7),
		},
		Up: true, SampleTime: fixtureAt(99.5), Missed: 11,
		XIDs: []sampler.XIDState{{Code: 48}, {Code: 79, Count: 12, Last: fixtureAt(42)}},
		MemoryState: sampler.MemoryState{
			Memory:    gpu.Memory{Total: gpu.Some(uint64(80e9)), Used: gpu.Some(uint64(50e9)), Free: gpu.Some(uint64(29e9)), Reserved: gpu.Some(uint64(1e9))},
			Judgement: judgement(100, true),
		},
		UsedPeak: gpu.Some(uint64(51e9)), Unattributed: gpu.Some(uint64(2e9)), MIGEnabled: gpu.Some(false),
		Status: fullStatus(),
		Processes: []sampler.ProcessState{
			{
				Process: gpu.Process{
					ID: gpu.ProcessID{PID: 1001, Start: 500}, Type: gpu.Compute | gpu.Graphics, Started: gpu.Some(fixtureSince(-900)), Used: gpu.Some(uint64(30e9)),
					Limits: []gpu.Limit{{Source: gpu.LimitDmem, Of: "/pods", Bytes: 70e9}, {Source: gpu.LimitDmem, Of: "/pods/train-0", Bytes: 60e9, Charged: gpu.Some(uint64(30.5e9))}},
					SM:     gpu.Some(0.81), MemoryController: gpu.Some(0.82), Encoder: gpu.Some(0.83), Decoder: gpu.Some(0.84),
					CPU: gpu.Some(85 * time.Second), State: "R", Orphaned: true, Owner: trainer(),
					Allocator: &gpu.Allocator{
						Framework: "torch", Version: "2.9.0+cu130", Backend: "native", Allocated: gpu.Some(uint64(21e9)), Reserved: gpu.Some(uint64(28.5e9)),
						Active: gpu.Some(uint64(22e9)), InactiveSplit: gpu.Some(uint64(3.5e9)), Retries: gpu.Some(uint64(1701)), OOMs: gpu.Some(uint64(1702)),
					},
				},
				Idle: gpu.Some(86 * time.Second), Verdict: verdict(200, true), Share: detector.Of(0.87), Grows: detector.InsidePool,
				Sites: &allocator.Sites{State: allocator.SitesDone, Reason: "none", Asked: fixtureAt(7), Over: 5 * time.Minute, Pause: time.Millisecond, Unsure: 2, List: []allocator.Site{
					{UUID: "full", Growth: 2003, Live: 4, Blocks: 3, Line: "app/train.py:88 step", Frames: []string{"x:1 f"}},
					{Growth: 2002, Line: "app/data.py:7 load"},
					{Growth: 2001, Line: "app/train.py:88 step"},
					{Growth: 1900},
					{Growth: 1800, Line: `odd "name".py:1 <lambda>`},
					{Growth: 1700, Line: "e:1 f"},
					{Growth: 1600, Line: "one too many:1 f"},
				}},
			}, {
				Process: gpu.Process{ID: gpu.ProcessID{PID: 1002}, Type: gpu.MPS, Used: gpu.Some(uint64(18e9)), Owner: &gpu.Owner{Process: "tritonserver"}, Allocator: &gpu.Allocator{Framework: "mypool", Allocated: gpu.Some(uint64(17e9)), Reserved: gpu.Some(uint64(19e9))}},
				Verdict: verdict(300, false),
			},
		},
		ProcessesKnown: true, ProcessCount: 20, OtherProcesses: 18, OtherUsed: 3e9, ExitsNearCapacity: 19,
		Workloads: []sampler.WorkloadState{
			{Who: finding.Who{Namespace: "ml", Pod: "train-0", SlurmJob: "4711", Whole: true}, Used: 31e9, Verdict: verdict(400, true), Limits: []gpu.Limit{{Source: gpu.LimitDmem, Of: "/pods/train-0", Bytes: 61e9, Charged: gpu.Some(uint64(30.5e9))}}},
			{Who: finding.Who{SlurmJob: "4712", Whole: true}, Used: 32e9, Verdict: detector.Verdict{}},
		},
		Unreleased: []sampler.EndState{
			{ID: gpu.ProcessID{PID: 1001, Start: 400}, Owner: trainer(), Used: 6e9, At: fixtureSince(-90)},
			{ID: gpu.ProcessID{PID: 1003, Start: 600}, Owner: &gpu.Owner{}, Used: 6.5e9, At: fixtureSince(-80)},
		},
		Limited: []sampler.MemoryState{limited()},
		Findings: []sampler.FindingState{
			{MemoryKey: sampler.MemoryKey{Of: limitKey.Of}, Finding: finding.Finding{Who: finding.Of(trainer()), OOM: detector.Of(1357), Evidence: detector.EvidenceLeak, OOMDue: true}},
			{Finding: finding.Finding{Who: finding.Of(trainer()), OOM: detector.Of(4321), Evidence: detector.EvidenceFilling, OOMDue: true, Zombie: detector.Of(7e9), CrashLoop: true}},
			{Finding: finding.Finding{Who: finding.Who{Namespace: "ml", Pod: "train-0", Whole: true}, Leaking: detector.Of(1234), LeakDue: true}},
			{Finding: finding.Finding{Unreleased: detector.Of(7.5e9), NearlyFull: true}},
		},
		Allotments: []sampler.AllotmentState{
			{Namespace: "ml", Pod: "train-0", Container: "main"},
			{Instance: gpu.Some(uint32(7)), Namespace: "ml", Pod: "idle-0", Container: "main"},
		},
	}
	d.Judgement.Resets = [detector.NumReasons]uint64{13, 14, 15}
	return d
}

var limitKey = sampler.MemoryKey{Instance: gpu.Some(uint32(9)), Of: "/pods/train-0"}

// limited is a pod with a limit.
func limited() sampler.MemoryState {
	return sampler.MemoryState{
		MemoryKey: limitKey, Who: finding.Of(trainer()), Limits: []gpu.Limit{{Source: gpu.LimitDmem, Of: "/pods/train-0", Bytes: 60e9, Charged: gpu.Some(uint64(30.5e9))}},
		Memory: gpu.Memory{Total: gpu.Some(uint64(60e9)), Used: gpu.Some(uint64(30e9)), Reserved: gpu.Some(uint64(0.5e9))}, Judgement: judgement(1100, true),
	}
}

func fullStatus() gpu.Status {
	return gpu.Status{
		BAR1:        gpu.BAR1{Total: gpu.Some(uint64(128e9)), Used: gpu.Some(uint64(4e6))},
		Utilization: gpu.Utilization{GPU: gpu.Some(0.91), MemoryController: gpu.Some(0.92), Encoder: gpu.Some(0.93), Decoder: gpu.Some(0.94), JPEG: gpu.Some(0.95), OFA: gpu.Some(0.96)},
		Thermal: gpu.Thermal{
			Temperatures:     []gpu.Named[float64]{{Name: "gpu", V: 61}, {Name: "memory", V: 62}},
			Thresholds:       []gpu.Named[float64]{{Name: "shutdown", V: 95}, {Name: "slowdown", V: 90}},
			Margin:           gpu.Some(26.0),
			MarginThresholds: []gpu.Named[float64]{{Name: "shutdown", V: -8}, {Name: "slowdown", V: -2}},
			Fans:             []gpu.Opt[float64]{gpu.Some(0.31), {}, gpu.Some(1.02)},
			ClockEvents: []gpu.ClockEvent{
				{Reason: "gpu_idle", Active: gpu.Some(false), Seconds: gpu.Some(1234.5)},
				{Reason: "sw_power_cap", Active: gpu.Some(true), Seconds: gpu.Some(67.25)},
				{Reason: "hw_slowdown", Active: gpu.Some(true)},
				{Reason: "sync_boost", Seconds: gpu.Some(0.0)},
			},
		},
		Power: gpu.Power{
			Watts: gpu.Some(612.5), Limits: []gpu.Named[float64]{{Name: "enforced", V: 650}, {Name: "default", V: 700}},
			Joules: gpu.Some(9876543.21), PerformanceState: gpu.Some(10),
		},
		Clocks: []gpu.Clock{
			{Name: "graphics", Current: gpu.Some(1.755e9), Max: gpu.Some(1.98e9)},
			{Name: "memory", Current: gpu.Some(3.201e9)},
			{Name: "video", Max: gpu.Some(1.545e9)},
		},
		ECC: gpu.ECC{
			Enabled: gpu.Some(true),
			Errors: []gpu.ECCErrors{
				{Type: "corrected", Counter: "volatile", Location: "total", Count: 21},
				{Type: "uncorrected", Counter: "aggregate", Location: "dram", Count: 22},
			},
			RemappedRows: []gpu.Named[uint64]{{Name: "corrected", V: 23}, {Name: "uncorrected", V: 24}},
			RemapPending: gpu.Some(true), RemapFailed: gpu.Some(false),
			RetiredPages: []gpu.Named[uint64]{{Name: "single_bit", V: 25}, {Name: "double_bit", V: 27}}, RetiredPagesPending: gpu.Some(true),
			RecoveryAction: gpu.Some(2),
		},
		PCIe: gpu.PCIe{
			GenerationCurrent: gpu.Some(3), GenerationMax: gpu.Some(5), WidthCurrent: gpu.Some(8), WidthMax: gpu.Some(16),
			Replays: gpu.Some(uint64(28)), ReceivedBytes: gpu.Some(uint64(7.1e12)), TransmittedBytes: gpu.Some(uint64(7.2e12)),
		},
		NVLinks: []gpu.NVLink{
			{
				Link: 0, Up: gpu.Some(true), Errors: []gpu.Named[uint64]{{Name: "replay", V: 33}, {Name: "recovery", V: 34}},
				ReceivedBytes: gpu.Some(uint64(8.1e12)), TransmittedBytes: gpu.Some(uint64(8.2e12)),
			},
			{Link: 3, Up: gpu.Some(false)},
			{Link: 4},
		},
	}
}

// verdict is one in which every number follows from n and none is another's.
func verdict(n float64, leak bool) detector.Verdict {
	v := detector.Verdict{
		Windows: [detector.MaxWindows]detector.Fit{
			{Span: 10 * time.Minute, Slope: detector.Of(n + 0.25), R2: detector.Of(0.001 * n), Spikes: detector.Of(n + 1), Fill: 1 / n, N: 600},
			{Span: time.Hour, Slope: detector.Of(-n - 0.5), Fill: 0.5 / n, N: 90},
		},
		SpikesTotal: uint64(n) + 2, Trough: detector.Of(n + 3),
		Judged: true, Muted: true, Confidence: 0.0012 * n, Pattern: detector.PatternSawtooth,
		SecondsToOOM: detector.Of(math.Inf(1)), Lower: detector.Of(math.Inf(1)), Upper: detector.Of(math.Inf(1)),
		Withheld: detector.WithheldProgramBegin, WithheldFor: time.Duration(n+13) * time.Second, Lasted: time.Duration(n+14) * time.Second,
	}
	if leak {
		v.Leak, v.Pattern = true, detector.PatternLeakStaircase
		v.Rate, v.Leaked, v.Since = detector.Of(n+4), detector.Of(n+5), fixtureSince(-n)
		v.SecondsToOOM, v.Lower, v.Upper = detector.Of(n+7), detector.Of(n+6), detector.Of(n+8)
	}
	return v
}

func judgement(n float64, leak bool) detector.Judgement[gpu.ProcessID] {
	return detector.Judgement[gpu.ProcessID]{
		T: fixtureSince(0), Device: verdict(n, leak), Attributed: leak, Headroom: detector.Of(n + 9), Evidence: detector.EvidenceFilling, Rate: detector.Of(n + 10), Page: true, Residual: verdict(n+50, false),
	}
}

func downGPU() *sampler.DeviceState {
	d := fullGPU()
	d.Info = gpu.Info{Index: 1, UUID: "GPU-down", Name: "NVIDIA L4"}
	d.Up, d.SampleTime, d.Missed = false, fixtureAt(-30), 130
	d.XIDs = []sampler.XIDState{{Code: 79, Count: 1, Last: fixtureAt(-29)}}
	d.Instances = migGPU().Instances
	return d
}

func bareGPU() *sampler.DeviceState {
	return &sampler.DeviceState{Info: gpu.Info{Index: 2, UUID: "GPU-bare"}, Up: true}
}

func migGPU() *sampler.DeviceState {
	memory := func(n uint64) gpu.Memory {
		return gpu.Memory{Total: gpu.Some(n + 4), Used: gpu.Some(n + 1), Free: gpu.Some(n + 2), Reserved: gpu.Some(n + 3)}
	}
	process := func(instance uint32, n float64) sampler.ProcessState {
		return sampler.ProcessState{
			Process: gpu.Process{
				ID: gpu.ProcessID{PID: 3001, Start: 9}, Instance: gpu.Some(instance), Type: gpu.Compute,
				Used: gpu.Some(uint64(n)), Owner: &gpu.Owner{Process: "worker", Namespace: "ml", Pod: "mig-0", Container: "c"},
			},
			Verdict: verdict(n, false),
		}
	}
	return &sampler.DeviceState{
		Info: gpu.Info{Index: 3, UUID: "GPU-mig"}, Up: true, SampleTime: fixtureAt(99), MIGEnabled: gpu.Some(true),
		MemoryState: sampler.MemoryState{
			Memory:    gpu.Memory{Total: gpu.Some(uint64(8000)), Used: gpu.Some(uint64(5000)), Free: gpu.Some(uint64(3000))},
			Judgement: detector.Judgement[gpu.ProcessID]{Resets: [detector.NumReasons]uint64{0, 1, 0}},
		},
		// With GPU 0 these tell each of the flags from the others.
		Status: gpu.Status{ECC: gpu.ECC{Enabled: gpu.Some(true), RemapPending: gpu.Some(false), RemapFailed: gpu.Some(true)}},
		Instances: []sampler.MemoryState{
			{
				MemoryKey: sampler.MemoryKey{Instance: gpu.Some(uint32(1))}, Profile: "3g.40gb", Memory: memory(4000), Judgement: judgement(500, true),
				Devices: []gpu.MIGDevice{{ComputeInstance: 0, UUID: "MIG-a"}, {ComputeInstance: 1, UUID: "MIG-b"}},
			},
			sampler.InstanceOf(&gpu.Instance{ID: 2, Profile: "1g.10gb", Memory: memory(1000)}),
		},
		Processes: []sampler.ProcessState{process(1, 600), process(2, 700)}, ProcessesKnown: true, ProcessCount: 2,
		Workloads: []sampler.WorkloadState{
			{Instance: gpu.Some(uint32(1)), Who: finding.Who{Namespace: "ml", Pod: "mig-0", Whole: true}, Used: 1300, Verdict: verdict(800, false)},
		},
		Findings: []sampler.FindingState{{MemoryKey: sampler.MemoryKey{Instance: gpu.Some(uint32(1))}, Finding: finding.Finding{Who: finding.Who{Process: "worker"}, OOM: detector.Of(8), Evidence: detector.EvidenceLeak, OOMDue: true}}},
		Unreleased: []sampler.EndState{
			{Instance: gpu.Some(uint32(1)), ID: gpu.ProcessID{PID: 3002, Start: 8}, Owner: &gpu.Owner{Process: "worker", Namespace: "ml", Pod: "mig-0"}, Used: 900},
		},
	}
}

// hostileGPU has what a user can put into the name of a process, and one that no source should send.
func hostileGPU() *sampler.DeviceState {
	process := func(pid uint32, name string) sampler.ProcessState {
		return sampler.ProcessState{Process: gpu.Process{ID: gpu.ProcessID{PID: pid}, Owner: &gpu.Owner{Process: name, Command: name}}}
	}
	long := strings.Repeat("0123456789", 1000)
	d := &sampler.DeviceState{
		Info: gpu.Info{Index: 4, UUID: "GPU-hostile", CoherentMemory: true, UnifiedMemory: true}, Up: true,
		Processes: []sampler.ProcessState{
			process(1, "\xff\xfe invalid \xc3"), process(2, "new\nline, \"quotes\" and \\ back"), process(3, long),
			process(4, strings.Repeat("é", 100)+"x"), process(5, "a{b=\"c\"} 1\x01\x7f"),
			{Process: gpu.Process{ID: gpu.ProcessID{PID: 6}}},
		},
		ProcessesKnown: true, ProcessCount: 6,
	}
	d.Processes[5].Verdict.Judged = true
	d.Processes[5].Verdict.Confidence = math.NaN()
	return d
}
