// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-kit/log"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// beginning is the verdict on growth that has lasted for so many minutes of an hour.
func beginning(minutes int) detector.Verdict {
	lasted := time.Duration(minutes) * time.Minute
	return detector.Verdict{
		Judged: true, Confidence: float64(minutes) / 100, Withheld: detector.WithheldProgramBegin, Lasted: lasted, WithheldFor: time.Hour - lasted,
	}
}

// waitState is a GPU, so many minutes after a start, on which each of the processes has that verdict.
func waitState(minute int, verdicts ...detector.Verdict) *DeviceState {
	s := &DeviceState{ProcessesKnown: true, SampleTime: time.Unix(1_772_323_200, 0).Add(time.Duration(minute) * time.Minute)}
	s.Judgement.Device.Judged = true
	for i, v := range verdicts {
		p := ProcessState{Process: gpu.Process{Owner: &gpu.Owner{Process: fmt.Sprintf("p%d", i)}}, Verdict: v}
		p.ID.PID = uint32(i + 1)
		s.Processes = append(s.Processes, p)
		s.Judgement.Device.Withheld, s.Judgement.Device.WithheldFor, s.Judgement.Device.Lasted = v.Withheld, v.WithheldFor, v.Lasted
	}
	return s
}

const (
	growsLine = `pid=%d process=p%d group= msg="memory grows, and is not called a leak yet" withheld=program_begin `
	endedLine = `pid=%d process=p%d group= msg="a process has ended with the memory nearly full, before its growth was called a leak" withheld=program_begin `
)

// TestWaitIsSaidOnce has programs of which one goes on to grow: there is a line when half of its
// wait is over, and the leak says that it was withheld.
func TestWaitIsSaidOnce(t *testing.T) {
	var out bytes.Buffer
	logger, l := log.NewLogfmtLogger(&out), leakLog{}
	fine := detector.Verdict{Judged: true}
	for minute := 1; minute < 60; minute++ {
		loads := fine // another program, each quarter of an hour, that loads for nine minutes
		if n := minute % 15; n > 0 && n < 10 {
			loads = beginning(n)
		}
		l.update(logger, waitState(minute, beginning(minute), loads))
		if got := strings.Count(out.String(), "\n"); got > 1 || (got == 1) != (minute >= 30) {
			t.Fatalf("minute %d:\n%s", minute, out.String())
		}
	}
	if want := fmt.Sprintf(growsLine, 1, 0) + "confidence=0.3 lasted_seconds=1800 withheld_seconds=1800\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("got  %swant %s", out.String(), want)
	}
	out.Reset()
	l.update(logger, waitState(60, fine, fine))
	leak := detector.Verdict{Judged: true, Leak: true, Since: time.Duration(waitState(2).SampleTime.UnixNano())}
	l.update(logger, waitState(61, leak, fine))
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "was_withheld=program_begin was_withheld_seconds=3480\n") {
		t.Errorf("at the leak:\n%s", got)
	}
	// Another leak of that process, which nothing withheld.
	l.update(logger, waitState(62, fine, fine))
	out.Reset()
	l.update(logger, waitState(63, leak, fine))
	if got := out.String(); !strings.Contains(got, "memory leak detected") || strings.Contains(got, "was_withheld") {
		t.Errorf("at the next one:\n%s", got)
	}
}

// TestWaitsAreBounded has 64 programs that begin every day, all at once, and never stop to be
// suspected: an hour has one line, of the surest.
func TestWaitsAreBounded(t *testing.T) {
	var out bytes.Buffer
	logger, l := log.NewLogfmtLogger(&out), leakLog{}
	for minute := range 24 * 60 {
		verdicts := make([]detector.Verdict, 64)
		for i := range verdicts {
			verdicts[i] = beginning(40)
			verdicts[i].Confidence += float64(i%7) / 100
		}
		l.update(logger, waitState(minute, verdicts...))
	}
	if got := strings.Count(out.String(), "\n"); got != 24 {
		t.Errorf("%d lines a day", got)
	}
	if first, _, _ := strings.Cut(out.String(), "\n"); !strings.Contains(first, "pid=63 ") || !strings.Contains(first, "confidence=0.46") {
		t.Errorf("the first is %s", first)
	}
	l.update(logger, waitState(25*60))
	if n := len(l.waits.waits); n != 0 {
		t.Errorf("%d are known of an hour later", n)
	}
}

// TestWhoseWaitIsSaid: a process, a workload, or else the memory as a whole.
func TestWhoseWaitIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*DeviceState)
		want   string
	}{
		"of a process": {func(*DeviceState) {}, "pid=1 process=p0"},
		"of a workload": {func(s *DeviceState) {
			s.Processes, s.Workloads = nil, []WorkloadState{{Namespace: "ml", Pod: "a", Verdict: beginning(40)}}
		}, "workload=ml/a"},
		"of nobody":  {func(s *DeviceState) { s.Processes = nil }, "who=unknown"},
		"not judged": {func(s *DeviceState) { s.Processes, s.Judgement.Device = nil, detector.Verdict{} }, ""},
		"of a GPU's slice": {
			func(s *DeviceState) {
				s.Processes, s.Judgement.Device = nil, detector.Verdict{}
				s.Instances = []InstanceState{{Instance: gpu.Instance{ID: 3}, Judgement: detector.Judgement[gpu.ProcessID]{Device: beginning(40)}}}
			},
			"gpu_instance=3 who=unknown",
		},
		"for seconds": {func(s *DeviceState) {
			s.Processes[0].Verdict = beginning(9)
			s.Processes[0].Verdict.WithheldFor = time.Second
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			logger, l := log.NewLogfmtLogger(&out), leakLog{}
			s := waitState(0, beginning(40))
			c.change(s)
			l.update(logger, s)
			if got := out.String(); strings.Count(got, "\n") != min(1, len(c.want)) || !strings.Contains(got, c.want) {
				t.Errorf("want %q:\n%s", c.want, got)
			}
		})
	}
}

// TestEndBeforeTheVerdict has processes that end with the memory nearly full: who asks why nothing
// was reported finds it in the log.
func TestEndBeforeTheVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		verdict detector.Verdict
		minutes int // from that to the end
		want    string
	}{
		"withheld":      {beginning(25), 1, fmt.Sprintf(endedLine, 1, 0) + "confidence=0.25 lasted_seconds=1500 withheld_seconds=2100\n"},
		"long ago":      {beginning(25), 5, ""},
		"not suspected": {detector.Verdict{Judged: true}, 1, ""},
		"reported":      {detector.Verdict{Judged: true, Leak: true}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			logger, l := log.NewLogfmtLogger(&out), leakLog{}
			s := waitState(0, c.verdict)
			l.update(logger, s)
			l.waits.ended = append(l.waits.ended, keyOf(&s.Processes[0].Process))
			l.update(logger, waitState(c.minutes))
			if got := out.String(); strings.Contains(got, "has ended with") != (c.want != "") || !strings.HasSuffix(got, c.want) {
				t.Errorf("got  %swant %s", got, c.want)
			}
			// It is said of the first of those that end in an hour.
			out.Reset()
			for minute := 10; minute < 20; minute++ {
				l.update(logger, waitState(minute, c.verdict))
				l.waits.ended = append(l.waits.ended, keyOf(&s.Processes[0].Process))
			}
			if got := strings.Count(out.String(), "has ended with"); got > 0 && c.want != "" {
				t.Errorf("%d more lines", got)
			}
		})
	}
}

// TestClockIsSetBack: the log is not silent until the time of its last line is reached again.
func TestClockIsSetBack(t *testing.T) {
	var out bytes.Buffer
	logger, l := log.NewLogfmtLogger(&out), leakLog{}
	l.update(logger, waitState(600, beginning(40)))
	l.update(logger, waitState(300, detector.Verdict{Judged: true}, beginning(40)))
	if got := strings.Count(out.String(), "\n"); got != 2 {
		t.Errorf("%d lines:\n%s", got, out.String())
	}
}

// TestWithheldLeaksAreLogged has growth from the start of the exporter on, as its loop sees it.
func TestWithheldLeaksAreLogged(t *testing.T) {
	for name, c := range map[string]struct {
		full int // MiB at which it dies
		want []string
	}{
		"reported": {80000, []string{"and is not called a leak yet", "was_withheld=program_begin"}},
		"dies":     {17800, []string{"a process has ended with the memory nearly full, before its growth was called a leak"}},
	} {
		t.Run(name, func(t *testing.T) {
			dead := false
			d := newGPU(0, func(second int) (gpu.Sample, error) {
				m := float64(second) / 60
				used := 15000 + 500*m
				if dead = dead || int(used) > c.full; dead {
					return flat(1 << 30)(second)
				}
				p := process(1, uint64(used)<<20)
				s, err := flat(p.Used.V, p)(second)
				s.Memory.Total = gpu.Some(uint64(c.full+300) << 20)
				return s, err
			})
			runSampler(t, &scriptSource{devices: []gpu.Device{d}}, nil, func(_ *Sampler, out *lines) {
				after(2 * time.Hour)
				for _, want := range c.want {
					if n := out.count(want); n != 1 {
						t.Errorf("%d times %q:\n%s", n, want, out.b.String())
					}
				}
			})
		})
	}
}
