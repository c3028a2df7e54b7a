// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// steady is a moment on the clock of detector.Frame.T.
func steady(t time.Time) time.Duration { return time.Duration(t.UnixNano()) }

func fit(slope, r2, spikes, fill float64) detector.Fit {
	return detector.Fit{Span: 10 * time.Minute, Slope: detector.Of(slope), R2: detector.Of(r2), Spikes: detector.Of(spikes), Fill: fill, N: 600}
}

// leaking is the verdict on what leaks 1 MiB/s and is out of memory in that time.
func leaking(left time.Duration) detector.Verdict {
	return detector.Verdict{
		Windows:     [detector.MaxWindows]detector.Fit{fit(1<<20, 0.99, 0, 1), {Span: time.Hour, Fill: 0.4}},
		SpikesTotal: 2, Trough: detector.Of(5 << 30), Judged: true, Confidence: 0.9712, Leak: true, Pattern: detector.PatternLeakLinear,
		Rate: detector.Of(1 << 20), Leaked: detector.Of(1.5 * (1 << 30)), Since: steady(epoch.Add(-25 * time.Minute)),
		SecondsToOOM: detector.Of(left.Seconds()), Lower: detector.Of(0.9 * left.Seconds()), Upper: detector.Of(math.Inf(1)),
	}
}

// with is a verdict whose trough is that amount of bytes.
func with(v detector.Verdict, trough float64) detector.Verdict {
	v.Trough = detector.Of(trough)
	return v
}

// healthy is the verdict on what was judged and does not leak.
func healthy(confidence float64) detector.Verdict {
	never := detector.Of(math.Inf(1))
	return detector.Verdict{
		Windows: [detector.MaxWindows]detector.Fit{fit(0, 0, 1, 1), {Span: time.Hour, Fill: 0.4}}, Trough: detector.Of(1 << 30),
		Judged: true, Confidence: confidence, Pattern: detector.PatternStable, SecondsToOOM: never, Lower: never, Upper: never,
	}
}

// growing is the verdict on what grows, and may be the start of a program.
func growing() detector.Verdict {
	v := healthy(0.42)
	v.Withheld, v.Lasted, v.WithheldFor = detector.WithheldProgramBegin, 35*time.Minute, 25*time.Minute
	v.SecondsToOOM, v.Lower, v.Upper = detector.Of(2400), detector.Of(2400), detector.Of(2400)
	return v
}

// filling is a GPU that is full in so many seconds if one of its processes goes on.
func filling(seconds float64) *sampler.DeviceState {
	v := healthy(0.3)
	v.Windows[0].Slope = detector.Of(1 << 20)
	v.Withheld, v.SecondsToOOM, v.Lower, v.Upper = detector.WithheldProgramBegin, detector.Of(seconds), detector.Of(0.8*seconds), detector.Of(1.5*seconds)
	d := &sampler.DeviceState{Info: gpu.Info{Name: "T4"}, Up: true, SampleTime: epoch, MemoryState: sampler.MemoryState{Judgement: detector.Judgement[gpu.ProcessID]{T: steady(epoch), Device: v, Evidence: detector.EvidenceFilling, Page: seconds < 900}}}
	other := healthy(0)
	other.Windows[0].Slope = detector.Of(1 << 30) // it takes no part
	d.Processes = []sampler.ProcessState{
		{Process: gpu.Process{ID: gpu.ProcessID{PID: 7, Start: 1}, Owner: &gpu.Owner{Process: "train.py"}}, Verdict: v},
		{Process: gpu.Process{ID: gpu.ProcessID{PID: 8, Start: 1}}, Verdict: other},
	}
	return d
}

// muted is the verdict on what a rule switches the judgement off for.
func muted() detector.Verdict {
	v := healthy(0)
	return detector.Verdict{Windows: v.Windows, Trough: v.Trough, Muted: true}
}

// zombie is the verdict on a process that holds memory and will not go on.
func zombie() detector.Verdict {
	v := healthy(0)
	v.Pattern = detector.PatternZombie
	return v
}

func memory(total, used, reserved uint64) gpu.Memory {
	return gpu.Memory{Total: gpu.Some(total), Used: gpu.Some(used), Free: gpu.Some(total - used - reserved), Reserved: gpu.Some(reserved)}
}

// curve is that of 90 minutes, of which the amount in bytes is a function of the minute. Troughs are
// those of stretches of five minutes.
func curve(used func(minute int) float64) *sampler.Curve {
	c := &sampler.Curve{Width: 64 * time.Second}
	low := math.Inf(1)
	for m := range 90 {
		at := steady(epoch.Add(time.Duration(m-90) * time.Minute))
		v := used(m)
		c.Ranges = append(c.Ranges, sampler.Range{T: at, Low: float32(v), High: float32(used(m) * 1.02)})
		if low = min(low, v); m%5 == 4 {
			c.Troughs = append(c.Troughs, detector.Trough{At: at, V: low})
			low = math.Inf(1)
		}
	}
	return c
}

// leakingCurve leaks from the 65th minute on, what was found out after ten minutes; toothed is a sawtooth of ten minutes.
func leakingCurve(base float64) *sampler.Curve {
	c := curve(func(m int) float64 { return base + float64(max(0, m-65)*60<<20) })
	c.Called = steady(epoch.Add(-15 * time.Minute))
	return c
}

func toothed(base float64) *sampler.Curve {
	return curve(func(m int) float64 { return base + float64(m%10)*(1<<28) })
}

// fixture is a State of a GPU that leaks and holds what nobody will use again, one in MIG mode that leaks too, one that
// is lost, one that has just been found and one that offers nothing.
func fixture() *sampler.State {
	const gib = 1 << 30
	return &sampler.State{
		Time: epoch,
		Devices: []*sampler.DeviceState{
			{
				Info: gpu.Info{Index: 0, UUID: "GPU-leaks", Name: "NVIDIA H200"}, Up: true, SampleTime: epoch.Add(-time.Second),
				Unattributed: gpu.Some(uint64(gib)), ProcessCount: 7, ProcessesKnown: true,
				MemoryState: sampler.MemoryState{
					Memory: memory(80*gib, 40*gib, gib), Curve: leakingCurve(38.5 * gib),
					Judgement: detector.Judgement[gpu.ProcessID]{T: steady(epoch), Device: with(leaking(90*time.Minute), 39.9*gib), Attributed: true, Headroom: detector.Of(38 * gib), Evidence: detector.EvidenceLeak, Rate: detector.Of(1 << 20)},
				},
				Processes: []sampler.ProcessState{
					{
						Process: gpu.Process{ID: gpu.ProcessID{PID: 42, Start: 7}, Used: gpu.Some(uint64(30 * gib)), Owner: &gpu.Owner{
							Process: "train.py", User: "alice", Namespace: "ml", Pod: "train-0", Container: "main",
						}},
						Verdict: with(leaking(90*time.Minute), 29.9*gib), Grows: detector.InsideTensors, Share: detector.Of(1), Curve: leakingCurve(28.5 * gib),
						Sites: &allocator.Sites{
							State: allocator.SitesDone, Asked: epoch.Add(-20 * time.Minute), Over: 5 * time.Minute, Pause: 20 * time.Millisecond, List: []allocator.Site{
								{Growth: 3 * gib, Live: 4 * gib, Blocks: 512, Line: "app/train.py:88 step", Frames: []string{"/usr/lib/torch/nn/functional.py:2900 linear", "/srv/app/train.py:88 step", "/srv/app/train.py:120 <module>"}},
								{Growth: gib / 2, Live: gib, Blocks: 3},
							},
						},
					},
					{Process: gpu.Process{ID: gpu.ProcessID{PID: 43}}, Verdict: detector.Verdict{}},
					{
						Process: gpu.Process{ID: gpu.ProcessID{PID: 45}, Used: gpu.Some(uint64(2 * gib)), Owner: &gpu.Owner{Process: "vllm", Namespace: "serving", Pod: "llm-0"}},
						Verdict: muted(), Curve: toothed(gib),
					},
					{
						Process: gpu.Process{ID: gpu.ProcessID{PID: 46}, Used: gpu.Some(uint64(3 * gib)), Owner: &gpu.Owner{Process: "ddp_worker.py", User: "bob", SlurmJob: "4712"}},
						Idle:    gpu.Some(20 * time.Minute), Verdict: zombie(),
					},
				},
				Unreleased: []sampler.EndState{{
					ID: gpu.ProcessID{PID: 40, Start: 6}, Used: 6 * gib, At: steady(epoch.Add(-5 * time.Minute)),
					Owner: &gpu.Owner{Process: "evaluate.py", User: "bob", SlurmJob: "4712"},
				}},
				Workloads: []sampler.WorkloadState{{Who: finding.Who{Namespace: "ml", Pod: "train-0", Whole: true}, Used: 31 * gib, Verdict: healthy(0.25)}},
			},
			{
				Info: gpu.Info{Index: 1, UUID: "GPU-mig", Name: "NVIDIA H200"}, Up: true, SampleTime: epoch, ProcessesKnown: true,
				MemoryState: sampler.MemoryState{Memory: memory(80*gib, 12*gib, gib), Judgement: detector.Judgement[gpu.ProcessID]{T: steady(epoch), Device: healthy(0)}},
				Instances: []sampler.MemoryState{{
					MemoryKey: sampler.MemoryKey{Instance: gpu.Some(uint32(3))}, Profile: "2g.20gb", Memory: memory(20*gib, 6*gib, 0),
					Judgement: detector.Judgement[gpu.ProcessID]{T: steady(epoch), Device: with(leaking(20*time.Minute), 5.9*gib), Residual: leaking(20 * time.Minute), Attributed: true, Headroom: detector.Of(20 * 60 << 20), Evidence: detector.EvidenceLeak, Rate: detector.Of(1 << 20), Page: true},
					Curve:     leakingCurve(4.5 * gib),
				}},
				Unreleased: []sampler.EndState{
					{Instance: gpu.Some(uint32(3)), ID: gpu.ProcessID{PID: 47}, Used: gib / 2, At: steady(epoch.Add(-90 * time.Second))},
					{Instance: gpu.Some(uint32(9)), ID: gpu.ProcessID{PID: 48}, Used: gib}, // no page of another instance has it
				},
				Processes: []sampler.ProcessState{{
					Process: gpu.Process{ID: gpu.ProcessID{PID: 44}, Instance: gpu.Some(uint32(3)), Used: gpu.Some(uint64(gib)), Owner: &gpu.Owner{Process: "a", SlurmJob: "4711"}},
					Verdict: healthy(0.1), Curve: toothed(gib / 2),
				}},
			},
			{Info: gpu.Info{Index: 2, UUID: "GPU-lost", Name: "NVIDIA H200"}, SampleTime: epoch.Add(-3 * time.Minute), MemoryState: sampler.MemoryState{Memory: memory(80*gib, gib, gib)}},
			{Info: gpu.Info{Index: 3, UUID: "GPU-new"}},
			{Info: gpu.Info{Index: 4, UUID: "GPU-bare"}, Up: true, SampleTime: epoch},
		},
	}
}
