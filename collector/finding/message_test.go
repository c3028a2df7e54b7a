// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"math"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// TestMessages puts each kind of finding into words.
func TestMessages(t *testing.T) {
	inf := detector.Of(math.Inf(1))
	leaking := detector.Verdict{
		Judged: true, Leak: true, Rate: detector.Of(1 << 20), Leaked: detector.Of(1.5 * (1 << 30)), Since: 35 * time.Minute,
		SecondsToOOM: detector.Of(600), Lower: detector.Of(300), Upper: detector.Of(900),
	}
	fills := detector.Verdict{Judged: true, Withheld: detector.WithheldProgramBegin, WithheldFor: time.Hour, SecondsToOOM: detector.Of(600), Lower: detector.Of(600), Upper: detector.Of(600)}
	fills.Windows[0].Slope = detector.Of(1 << 18) // over a window that is longer than the growth
	endless := leaking
	endless.SecondsToOOM, endless.Lower, endless.Upper = inf, inf, inf
	small := endless
	small.Leaked = detector.Of(50 << 20)
	who := Who{Process: "train.py", Namespace: "ml", Pod: "train-0", User: "alice"}
	pod := Who{Namespace: "ml", Pod: "train-0", Whole: true}
	out := func(w Who, by detector.Evidence) Finding {
		return Finding{Who: w, OOM: detector.Of(600), Evidence: by, Leaking: detector.Of(1 << 20)}
	}
	of := func(v detector.Verdict, page bool, f Finding) *Sample {
		s := memory(0)
		s.Name, s.Now, s.Judgement.Device, s.Judgement.Page = "GPU 0", time.Hour, v, page
		s.Judgement.Rate = detector.Of(1 << 20)
		list := &s.Processes
		if f.Whole {
			list = &s.Workloads
		}
		*list = append(*list, Part{Who: f.Who, PID: 6, Used: 2, Verdict: &detector.Verdict{Judged: true}}, Part{Who: f.Who, PID: 7, Used: 1, Verdict: &v})
		return s
	}
	shared := of(fills, true, out(who, detector.EvidenceFilling))
	shared.Processes = append(shared.Processes, Part{Who: a, PID: 8, Verdict: &fills})
	const kept = " It has not given back 1.50 GiB in 25 min."
	for name, c := range map[string]struct {
		sample   *Sample
		found    Finding
		severity Severity
		want     string
	}{
		"a leak that is a page": {
			of(leaking, true, out(who, detector.EvidenceLeak)), out(who, detector.EvidenceLeak), Page,
			"GPU 0 runs out of memory in 10 min (5 min to 15 min). train.py (pid 7) of pod ml/train-0, user alice grows by 60.0 MiB/min." + kept + " Save a checkpoint, then restart what grows.",
		},
		"a leak within the day": {
			of(leaking, false, out(pod, detector.EvidenceLeak)), out(pod, detector.EvidenceLeak), Ticket,
			"GPU 0 runs out of memory in 10 min (5 min to 15 min). Pod ml/train-0 grows by 60.0 MiB/min." + kept + " Choose a good moment to restart what grows, and have the leak fixed.",
		},
		"what fills": {
			of(fills, true, out(who, detector.EvidenceFilling)), out(who, detector.EvidenceFilling), Page,
			"GPU 0 runs out of memory in 10 min. train.py (pid 7) of pod ml/train-0, user alice grows by 60.0 MiB/min. No leak yet: it may be the start of a program, and must grow for another 1 h. Save a checkpoint, then restart what grows.",
		},
		"what fills with others": {
			shared, out(who, detector.EvidenceFilling), Page,
			"GPU 0 runs out of memory in 10 min. train.py (pid 7) of pod ml/train-0, user alice grows by 30.0 MiB/min. No leak yet: it may be the start of a program, and must grow for another 1 h. Save a checkpoint, then restart what grows.",
		},
		"a leak": {
			of(endless, false, Finding{Who: a}),
			Finding{Leaking: detector.Of(1 << 20)},
			Ticket,
			"GPU 0 leaks. The memory as a whole grows by 60.0 MiB/min." + kept + " Choose a good moment to restart what grows, and have the leak fixed.",
		},
		"a small leak": {
			of(small, false, Finding{Who: a}),
			Finding{Leaking: detector.Of(1 << 20)},
			Note,
			"GPU 0 leaks. The memory as a whole grows by 60.0 MiB/min. It has not given back 50.0 MiB in 25 min. Choose a good moment to restart what grows, and have the leak fixed.",
		},
		"held by a process": {
			of(detector.Verdict{Judged: true, Pattern: detector.PatternZombie}, false, Finding{Who: who}),
			Finding{Who: who, Zombie: detector.Of(1 << 30)},
			Ticket,
			"1.00 GiB of GPU 0 are held, and nobody uses them. train.py (pid 7) of pod ml/train-0, user alice computes nothing, and shows no sign of going on. End it with kill -9. If that does not help, reboot the node.",
		},
		"held by one that has ended": {
			of(detector.Verdict{Judged: true}, false, Finding{Who: pod}),
			Finding{Who: Who{Process: "a.py"}, Unreleased: detector.Of(200 << 20)},
			Note,
			"200 MiB of GPU 0 are held, and nobody uses them. a.py has left the GPU, and this memory has stayed. fuser -v /dev/nvidia* on the node tells who still has the device open.",
		},
		"nearly full": {
			of(detector.Verdict{Judged: true}, false, Finding{Who: pod}),
			Finding{NearlyFull: true},
			Ticket,
			"The memory of GPU 0 is nearly full, though nothing leaks. Move a program elsewhere, or let one ask for less.",
		},
		"a crash loop": {
			of(detector.Verdict{Judged: true}, false, Finding{Who: pod}),
			Finding{Who: Who{Process: "a.py", SlurmJob: "4712"}, CrashLoop: true},
			Ticket,
			"Processes end again and again while the memory of GPU 0 is full. a.py of Slurm job 4712 ended most often. Stop the restarts. Let it ask for less, or give it more memory.",
		},
	} {
		got := c.sample.Messages([]Finding{c.found})
		if len(got) != 1 || got[0].Severity != c.severity || got[0].Text() != c.want {
			t.Errorf("%s: %+v", name, got)
			if len(got) == 1 {
				t.Errorf("%s\nwant\n%s", got[0].Text(), c.want)
			}
		}
	}
}

// TestWhatGrows names what grows in a process that has a probe.
func TestWhatGrows(t *testing.T) {
	s := foretold(detector.EvidenceLeak, 600, true)
	s.Name = "GPU 0"
	s.Processes = []Part{{Who: a, PID: 1, Verdict: grows(1<<20, true), Grows: detector.InsideTensors, Line: "a.py:88 step"}, {Who: b, PID: 2, Verdict: grows(9, true)}, {Who: b, PID: 3, Verdict: grows(9, false)}}
	got := s.Messages([]Finding{{Who: a, OOM: detector.Of(600), Evidence: detector.EvidenceLeak}})
	want := "a.py (pid 1) grows by 60.0 MiB/min. Its tensors grow. Most of that is allocated at a.py:88 step."
	if len(got) != 1 || got[0].Detail != want {
		t.Errorf("%+v, want %s", got, want)
	}
	if got := s.Messages([]Finding{{Who: a, OOM: detector.Of(600), CrashLoop: true}}); got[0].Advice != loopAdvice || got[1].Advice != loopAdvice {
		t.Errorf("a crash loop: %+v", got)
	}
	s.Processes, s.Judgement.Residual.Leak = nil, true
	if got := s.Messages([]Finding{{OOM: detector.Of(30), Evidence: detector.EvidenceLeak}}); got[0].Text() != "GPU 0 runs out of memory in 10 min. What no process accounts for grows. Save a checkpoint, then restart what grows." {
		t.Error(got[0].Text())
	}
}

// TestBegun has names at the begin of a sentence.
func TestBegun(t *testing.T) {
	for text, want := range map[string]string{"pod ml/a": "Pod ml/a", "über.py leaks": "Über.py leaks", "1 GiB": "1 GiB"} {
		if got := begun(text); got != want {
			t.Errorf("%q begins as %q", text, got)
		}
	}
}

// TestUrgency: what is full already comes first.
func TestUrgency(t *testing.T) {
	var list []Message
	for _, left := range []float64{3000, 0} {
		s := foretold(detector.EvidenceLeak, left, true)
		list = append(list, s.Messages([]Finding{{OOM: detector.Of(left), Evidence: detector.EvidenceLeak}})...)
	}
	if list[1].Compare(&list[0]) >= 0 || list[1].Summary != " runs out of memory in 0 s" {
		t.Errorf("%+v", list)
	}
}
