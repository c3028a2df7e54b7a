// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// drawn returns what of a page belongs to the plot of that identifier.
func drawn(t *testing.T, page, id string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, `aria-labelledby="`+id+`-t"`)
	svg, _, ends := strings.Cut(rest, "</svg></div>")
	if !found || !ends {
		t.Fatalf("no plot %s in\n%s", id, page)
	}
	return svg
}

// TestCrashLoopOfAPod has one whose new process does not leak yet: it is the pod's. Nothing is kept from life to life.
func TestCrashLoopOfAPod(t *testing.T) {
	s := fixture()
	d := s.Devices[0]
	loops := leaking(10 * time.Minute)
	loops.Pattern = detector.PatternCrashLoop
	d.Judgement.Device, d.Workloads[0].Verdict = loops, loops
	for i := range d.Processes {
		d.Processes[i].Verdict = healthy(0)
	}
	got := words(predictAt(s, "", PredictPath+"/gpu-0"))
	says(t, "a pod", got, "Pod ml/train-0 grows by 60.0 MiB/min. It is a crash loop: for 24 min a program has filled the memory, died and been started again. Stop the restarts.")
	if strings.Contains(got, "Kept ") {
		t.Errorf("something is kept in\n%s", got)
	}
}

// TestCurveOfGrowthThatIsNoLeak has a forecast that looks like none of a leak.
func TestCurveOfGrowthThatIsNoLeak(t *testing.T) {
	s := fixture()
	d := s.Devices[0]
	d.Judgement.Device, d.Judgement.Evidence, d.Processes[0].Verdict = growing(), detector.EvidenceFilling, growing()
	page := predict(s, "")
	says(t, "its curve", drawn(t, page, "gpu-0-curve"), `class="doubtful forecast"`, "If it goes on, the memory is full at 12:39.", "full 12:39")
	says(t, "the page", words(page), "No leak yet: it may be the start of a program, and must grow for another 25 min.")
	drawn(t, page, "gpu-0-pid-42-curve") // a suspect, with its reason
}

// crowd is a node of GPUs with processes, of which so many leak, with the curves that a sampler
// gives them: of eight suspects and the three largest others.
func crowd(gpus, processes, leaks int) *sampler.State {
	s := &sampler.State{Time: epoch}
	for i := range gpus {
		d := &sampler.DeviceState{
			Info: gpu.Info{Index: i, UUID: "GPU-" + strconv.Itoa(i), Name: "NVIDIA H100 80GB HBM3"}, Up: true, SampleTime: epoch,
			ProcessesKnown: true, ProcessCount: processes,
			MemoryState: sampler.MemoryState{
				Memory: memory(80<<30, 40<<30, 1<<30), Curve: noisy(40 << 30),
				Judgement: detector.Judgement[gpu.ProcessID]{T: steady(epoch), Device: healthy(0), Attributed: true, Headroom: detector.Of(38 << 30)},
			},
		}
		if leaks > 0 {
			d.Judgement.Device = leaking(time.Hour)
		}
		for k := range processes {
			p := sampler.ProcessState{
				Process: gpu.Process{ID: gpu.ProcessID{PID: uint32(1000 + k), Start: 1}, Used: gpu.Some(uint64(1 << 28)), Owner: &gpu.Owner{Process: "train.py", Namespace: "ml", Pod: fmt.Sprintf("train-%d", k), User: "alice"}},
				Verdict: healthy(0),
			}
			if k < leaks {
				p.Verdict = leaking(time.Hour)
			}
			if k < min(leaks, 8) || (k >= leaks && k < leaks+3) {
				p.Curve = noisy(1 << 28)
			}
			d.Processes = append(d.Processes, p)
		}
		s.Devices = append(s.Devices, d)
	}
	return s
}

// noisy is a curve as long as there is one, no two points of which are on a line.
func noisy(base float64) *sampler.Curve {
	c := &sampler.Curve{Width: 256 * time.Second, Called: steady(epoch.Add(-time.Hour))}
	for i := range 128 {
		at := steady(epoch) - time.Duration(128-i)*c.Width
		v := base * (1 + float64(i*7919%97)/300)
		c.Ranges = append(c.Ranges, sampler.Range{T: at, Low: float32(v), High: float32(1.1 * v)})
		if i >= 40 {
			c.Troughs = append(c.Troughs, detector.Trough{At: at, V: v})
		}
	}
	return c
}

// TestPageIsBounded has pages of the largest nodes. It says what it left out.
func TestPageIsBounded(t *testing.T) {
	for _, tt := range []struct {
		gpus, processes, leaks int
		most, plots            int
		want                   []string
	}{
		{8, 8, 0, 100 << 10, 8, []string{"Not shown: 8 processes. All of GPU 7"}},
		{8, 8, 1, 200 << 10, 8 + 8, []string{"Not shown: 7 processes."}},
		{16, 8, 8, 700 << 10, 16 + mostProcesses, nil},
		{16, 256, 1, 400 << 10, 16 + 16, []string{"Not shown: 255 processes."}},
		{16, 256, 256, 1 << 20, 16 + mostProcesses, []string{"Not shown: 248 processes."}},
	} {
		page := predict(crowd(tt.gpus, tt.processes, tt.leaks), "")
		plots := strings.Count(page, `<svg class="plot"`)
		t.Logf("%d GPUs, %d processes, %d leaks each: %d bytes, %d plots", tt.gpus, tt.processes, tt.leaks, len(page), plots)
		if len(page) > tt.most || plots != tt.plots {
			t.Errorf("%d GPUs, %d processes, %d leaks each: %d bytes with %d plots, want %d and %d at most", tt.gpus, tt.processes, tt.leaks, len(page), plots, tt.most, tt.plots)
		}
		says(t, fmt.Sprintf("%+v", tt), words(page), tt.want...)
		ids := map[string]bool{}
		for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			if ids[m[1]] {
				t.Errorf("two elements are called %s", m[1])
			}
			ids[m[1]] = true
		}
		for _, m := range regexp.MustCompile(` href="#([^"]*)"`).FindAllStringSubmatch(page, -1) {
			if !ids[m[1]] {
				t.Errorf("a link leads to %s, which is not there", m[1])
			}
		}
	}
}

// TestPageOfOneMemory has the page of the GPU with most on it.
func TestPageOfOneMemory(t *testing.T) {
	page := predictAt(crowd(16, 256, 1), "", PredictPath+"/gpu-3")
	plots := strings.Count(page, `<svg class="plot"`)
	t.Logf("256 processes: %d bytes, %d plots", len(page), plots)
	if len(page) > 100<<10 || plots != 1+1+3 || strings.Contains(page, "GPU\u00a04") {
		t.Errorf("%d bytes with %d plots", len(page), plots)
	}
	says(t, "the page", words(page), "Not shown: 252 processes.", "All GPUs")
}
