// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector"
	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

var update = flag.Bool("update", false, "rewrite the golden files")

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
		SecondsToFull: detector.Of(0.95 * left.Seconds()), FullLower: detector.Of(0.8 * left.Seconds()), FullUpper: detector.Of(math.Inf(1)),
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
	v.Withheld, v.Lasted, v.WithheldFor, v.SecondsToFull = detector.WithheldProgramBegin, 35*time.Minute, 25*time.Minute, detector.Of(2400)
	return v
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
func curve(used func(minute int) float64) *collector.Curve {
	c := &collector.Curve{Width: 64 * time.Second}
	low := math.Inf(1)
	for m := range 90 {
		at := steady(epoch.Add(time.Duration(m-90) * time.Minute))
		v := used(m)
		c.Ranges = append(c.Ranges, collector.Range{T: at, Low: float32(v), High: float32(used(m) * 1.02)})
		if low = min(low, v); m%5 == 4 {
			c.Troughs = append(c.Troughs, detector.Trough{At: at, V: low})
			low = math.Inf(1)
		}
	}
	return c
}

// leakingCurve leaks from the 65th minute on, what was found out after ten minutes; toothed is a sawtooth of ten minutes.
func leakingCurve(base float64) *collector.Curve {
	c := curve(func(m int) float64 { return base + float64(max(0, m-65)*60<<20) })
	c.Called = steady(epoch.Add(-15 * time.Minute))
	return c
}

func toothed(base float64) *collector.Curve {
	return curve(func(m int) float64 { return base + float64(m%10)*(1<<28) })
}

// fixture is a State of a GPU that leaks and holds what nobody will use again, one in MIG mode that leaks too, one that
// is lost, one that has just been found and one that offers nothing.
func fixture() *collector.State {
	const gib = 1 << 30
	return &collector.State{
		Time: epoch, Windows: []string{"10m", "1h"},
		Devices: []*collector.DeviceState{
			{
				Info: gpu.Info{Index: 0, UUID: "GPU-leaks", Name: "NVIDIA H200"}, Up: true, SampleTime: epoch.Add(-time.Second),
				Memory: memory(80*gib, 40*gib, gib), Unattributed: gpu.Some(uint64(gib)), ProcessCount: 7,
				Judgement: detector.Judgement[gpu.ProcessID]{T: steady(epoch), Device: with(leaking(90*time.Minute), 39.9*gib), Attributed: true, Headroom: detector.Of(38 * gib)},
				Curve:     leakingCurve(38.5 * gib),
				Ends: []collector.EndState{
					{ID: gpu.ProcessID{PID: 39, Start: 5}, Owner: &gpu.Owner{Process: "evaluate.py"}, Used: 2 * gib, At: steady(epoch.Add(-65 * time.Minute))},
					{ID: gpu.ProcessID{PID: 40, Start: 6}, Owner: &gpu.Owner{Process: "evaluate.py"}, Used: 6 * gib, At: steady(epoch.Add(-5 * time.Minute)), NearCapacity: true},
					{ID: gpu.ProcessID{PID: 41, Start: 6}, Instance: gpu.Some(uint32(1)), Used: gib, At: steady(epoch)}, // not of this memory
				},
				Processes: []collector.ProcessState{
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
				Unreleased: []collector.UnreleasedState{{
					ID: gpu.ProcessID{PID: 40, Start: 6}, Used: 6 * gib, Since: steady(epoch.Add(-5 * time.Minute)),
					Owner: &gpu.Owner{Process: "evaluate.py", User: "bob", SlurmJob: "4712"},
				}},
				Workloads: []collector.WorkloadState{{Namespace: "ml", Pod: "train-0", Used: 31 * gib, Verdict: healthy(0.25)}},
			},
			{
				Info: gpu.Info{Index: 1, UUID: "GPU-mig", Name: "NVIDIA H200"}, Up: true, SampleTime: epoch, Memory: memory(80*gib, 12*gib, gib),
				Judgement: detector.Judgement[gpu.ProcessID]{T: steady(epoch), Device: healthy(0)},
				Instances: []collector.InstanceState{{
					Instance:  gpu.Instance{ID: 3, Profile: "2g.20gb", Memory: memory(20*gib, 6*gib, 0)},
					Judgement: detector.Judgement[gpu.ProcessID]{T: steady(epoch), Device: with(leaking(20*time.Minute), 5.9*gib), Residual: leaking(20 * time.Minute), Attributed: true, Headroom: detector.Of(20 * 60 << 20)},
					Curve:     leakingCurve(4.5 * gib),
				}},
				Processes: []collector.ProcessState{{
					Process: gpu.Process{ID: gpu.ProcessID{PID: 44}, Instance: gpu.Some(uint32(3)), Used: gpu.Some(uint64(gib)), Owner: &gpu.Owner{Process: "a", SlurmJob: "4711"}},
					Verdict: healthy(0.1), Curve: toothed(gib / 2),
				}},
			},
			{Info: gpu.Info{Index: 2, UUID: "GPU-lost", Name: "NVIDIA H200"}, SampleTime: epoch.Add(-3 * time.Minute), Memory: memory(80*gib, gib, gib)},
			{Info: gpu.Info{Index: 3, UUID: "GPU-new"}},
			{Info: gpu.Info{Index: 4, UUID: "GPU-bare"}, Up: true, SampleTime: epoch},
		},
	}
}

func testHandler(t *testing.T, s *collector.State, args ...string) http.Handler {
	t.Helper()
	cfg, err := parseFlags(args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	h, err := newHandler(cfg, func() *collector.State { return s }, http.NotFoundHandler(), newLimits(cfg, slog.New(slog.DiscardHandler)), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func request(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, http.NoBody))
	return w
}

func TestRoutes(t *testing.T) {
	h := testHandler(t, fixture(), "--web.telemetry-path=/gpu/metrics")
	for _, tt := range []struct {
		method, path string
		code         int
		body         string
	}{
		{"GET", "/", 200, `<a href="/gpu/metrics">Metrics</a>`},
		{"GET", "/", 200, `<a href="https://github.com/gpuleak/gpu_leak_exporter/blob/main/mixin/runbook.md">Runbook</a>`},
		{"GET", "/gpu/metrics", 200, `gpu_leak_detected{gpu="0",uuid="GPU-leaks"} 1`},
		{"GET", "/gpu/metrics", 200, "promhttp_metric_handler_requests_total"},
		{"GET", "/gpu/metrics", 200, "go_goroutines"},
		{"GET", "/gpu/metrics", 200, "process_start_time_seconds"},
		{"GET", "/gpu/metrics", 200, "gpu_leak_exporter_build_info{"},
		{"GET", "/predict", 200, "GPU\u00a01, MIG\u00a03 (2g.20gb) runs out of memory in 20\u00a0min"},
		{"GET", "/predict/gpu-1-mig-3", 200, "1 leak on GPU\u00a01, MIG\u00a03 (2g.20gb)."},
		{"GET", "/predict/gpu-4", 200, "GPU\u00a04: not judged yet"},
		{"GET", "/predict/gpu-2", 200, "GPU\u00a02: cannot be read"},
		{"GET", "/predict/gpu-9", 404, "There is no such GPU or GPU instance now."},
		{"GET", "/predict/gpu-1", 404, "There is no such GPU or GPU instance now."},
		{"GET", "/predict/gpu-0/x", 404, "not found"},
		{"GET", "/api/v1/verdicts", 200, `{"status":"success","data":{"time":"2026-03-01T12:00:00Z"`},
		{"GET", "/-/healthy", 200, "gpu_leak_exporter is healthy.\n"},
		{"HEAD", "/-/healthy", 200, ""},
		{"GET", "/-/ready", 200, "gpu_leak_exporter is ready.\n"},
		{"GET", "/metrics", 404, "not found"},
		{"GET", "/debug/pprof/", 404, "not found"},
		{"POST", "/-/reload", 404, "not found"},
		{"POST", "/predict", 405, "Method Not Allowed"},
	} {
		w := request(h, tt.method, tt.path)
		if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.body) {
			t.Errorf("%s %s: status %d, want %d and %q in\n%.3000s", tt.method, tt.path, w.Code, tt.code, tt.body, w.Body)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s %s: headers %v", tt.method, tt.path, w.Header())
		}
	}
}

func TestWithoutExporterMetrics(t *testing.T) {
	h := testHandler(t, fixture(), "--web.disable-exporter-metrics", "--collector.disable-defaults")
	body := request(h, "GET", "/metrics").Body.String()
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "gpu_") {
			t.Errorf("unexpected %s", line)
		}
	}
	if !strings.Contains(body, "gpu_leak_exporter_build_info{") || strings.Contains(body, "gpu_memory_") || !strings.Contains(body, "gpu_up{") {
		t.Error(body)
	}
}

func TestOpenMetrics(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
	r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	w := httptest.NewRecorder()
	testHandler(t, fixture()).ServeHTTP(w, r)
	if !strings.HasPrefix(w.Header().Get("Content-Type"), "application/openmetrics-text") || !strings.HasSuffix(w.Body.String(), "# EOF\n") {
		t.Errorf("%v", w.Header())
	}
}

func TestLanding(t *testing.T) {
	const path = `/tmp/<script>alert(1)</script>.csv`
	cfg, err := parseFlags([]string{"--source=replay:" + path, "--source.speed=60"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	h, err := newHandler(cfg, fixture, http.NotFoundHandler(), newLimits(cfg, slog.New(slog.DiscardHandler)), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"/", "/predict"} {
		body := request(h, "GET", page).Body.String()
		const want = "These GPUs are replayed from the recording /tmp/&lt;script&gt;alert(1)&lt;/script&gt;.csv, 60 times as fast as real time."
		if !strings.Contains(body, want) || strings.Contains(body, "<script") {
			t.Errorf("%s: no %q in\n%s", page, want, body)
		}
	}
	body := request(testHandler(t, fixture()), "GET", "/").Body.String()
	if strings.Contains(body, "simulated") || strings.Contains(body, "debug/pprof") {
		t.Error(body)
	}
}

// TestStartSays asks the page that one opens first what one asks first: is all well, what is worst, and what
// is watched.
func TestStartSays(t *testing.T) {
	golden(t, "start.html", request(testHandler(t, fixture()), "GET", "/").Body.Bytes())
	device := func(index int, v detector.Verdict) *collector.DeviceState {
		return &collector.DeviceState{
			Info: gpu.Info{Index: index, UUID: fmt.Sprintf("GPU-%d", index), Name: "T4"}, Up: true, SampleTime: epoch, ProcessCount: 2, Memory: memory(80<<30, 1<<30, 1<<30),
			Judgement: detector.Judgement[gpu.ProcessID]{T: steady(epoch), Device: v},
		}
	}
	well, leaks := detector.Verdict{Judged: true}, detector.Verdict{Judged: true, Leak: true, Confidence: 0.9, SecondsToOOM: detector.Of(1200)}
	for name, tt := range map[string]struct {
		state *collector.State
		want  []string
	}{
		"well":      {&collector.State{Devices: []*collector.DeviceState{device(0, well), device(1, well)}}, []string{`<h1 class="ok">No leak found on 2 GPUs`, "2 GPUs (2 × T4), 4 processes.", "2 no leak"}},
		"one leaks": {&collector.State{Devices: []*collector.DeviceState{device(0, well), device(1, leaks)}}, []string{"<h1 class=\"bad\">GPU\u00a01 runs out of memory in 20\u00a0min", "1 leaks", "1 no leak", `<a href="/predict/gpu-1">`}},
		"no driver": {&collector.State{DriverReason: "library_not_found"}, []string{`<h1 class="">No GPU can be seen`, "libnvidia-ml.so.1 was not found"}},
		"one lost":  {&collector.State{Devices: []*collector.DeviceState{device(0, well), {Info: gpu.Info{Index: 1, Name: "T4"}}}}, []string{`<h1 class="">No leak found on 1 GPU`, "1 cannot be read", "1 more GPU cannot be read."}},
		"young":     {&collector.State{Devices: []*collector.DeviceState{device(0, detector.Verdict{})}}, []string{`<h1 class="">Watching 1 GPU`, "1 not judged yet"}},
	} {
		body := request(testHandler(t, tt.state), "GET", "/").Body.String()
		for _, want := range tt.want {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %q in\n%s", name, want, words(body))
			}
		}
	}
}

// A fleet's page names the worst, and says that there are more.
func TestStartIsShort(t *testing.T) {
	body := request(testHandler(t, crowd(16, 256, 200)), "GET", "/").Body.String()
	if n := strings.Count(body, `<li class="bad">`); n != startLeaks || len(body) > 12<<10 || !strings.Contains(body, "more: <a") {
		t.Errorf("%d leaks in %d bytes", n, len(body))
	}
}

func TestReady(t *testing.T) {
	down := &collector.DeviceState{Info: gpu.Info{UUID: "GPU-0"}}
	sampled := &collector.DeviceState{Info: gpu.Info{UUID: "GPU-1"}, Up: true, SampleTime: epoch}
	for _, tt := range []struct {
		state *collector.State
		want  string // "" is ready
		late  string // after the time that a call may take
	}{
		{&collector.State{DriverReason: collector.ReasonStarting}, "the driver has not answered yet", ""},
		{&collector.State{DriverReason: "library_not_found"}, "", ""},
		{&collector.State{}, "", ""}, // the driver answers and has no GPU
		{&collector.State{Awaited: 1}, "no GPU has been read yet", ""},
		{&collector.State{Awaited: 1, Devices: []*collector.DeviceState{sampled}}, "", ""},
		{&collector.State{Devices: []*collector.DeviceState{down}}, "no GPU has been read yet", ""},
		{&collector.State{Devices: []*collector.DeviceState{down, sampled}}, "", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := testHandler(t, tt.state)
			for _, want := range []string{tt.want, tt.late} {
				code, text := http.StatusOK, "gpu_leak_exporter is ready.\n"
				if want != "" {
					code, text = http.StatusServiceUnavailable, "gpu_leak_exporter is not ready: "+want+"\n"
				}
				if w := request(h, "GET", "/-/ready"); w.Code != code || w.Body.String() != text {
					t.Errorf("%+v: %d %q, want %d %q", tt.state, w.Code, w.Body, code, text)
				}
				time.Sleep(10 * time.Second) // of the bubble
			}
		})
	}
}

// TestTooManyScrapes has one page be made, for long, and asks for another.
func TestTooManyScrapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, err := parseFlags([]string{"--web.max-requests=1"}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		discard := slog.New(slog.DiscardHandler)
		leave := make(chan struct{})
		h, err := newHandler(cfg, func() *collector.State {
			<-leave
			return fixture()
		}, http.NotFoundHandler(), newLimits(cfg, discard), discard)
		if err != nil {
			t.Fatal(err)
		}
		first := make(chan int)
		go func() { first <- request(h, "GET", "/predict").Code }()
		synctest.Wait()
		if w := request(h, "GET", "/metrics"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
			t.Errorf("second request: status %d, %v", w.Code, w.Header())
		}
		if w := request(h, "GET", "/-/healthy"); w.Code != http.StatusOK {
			t.Errorf("health: status %d", w.Code)
		}
		close(leave)
		if code := <-first; code != http.StatusOK {
			t.Errorf("first request: status %d", code)
		}
		if w := request(h, "GET", "/metrics"); !strings.Contains(w.Body.String(), `gpu_leak_exporter_web_refused_total{reason="busy"} 1`) {
			t.Error(w.Body)
		}
	})
}

// TestPagesAreNotManyAnswers has somebody ask for pages of memories that are not there. They are told so without an
// answer that is made, of which something would be kept: while none can be made, only who asks for one that is there waits.
func TestPagesAreNotManyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, err := parseFlags([]string{"--web.max-requests=1"}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		discard := slog.New(slog.DiscardHandler)
		leave := make(chan struct{})
		var asked atomic.Int32
		h, err := newHandler(cfg, func() *collector.State {
			if asked.Add(1) == 1 {
				<-leave
			}
			return fixture()
		}, http.NotFoundHandler(), newLimits(cfg, discard), discard)
		if err != nil {
			t.Fatal(err)
		}
		first := make(chan int)
		go func() { first <- request(h, "GET", "/predict").Code }()
		synctest.Wait()
		for path, want := range map[string]int{
			"/predict/gpu-0": http.StatusServiceUnavailable,
			"/predict/gpu-1": http.StatusNotFound, // it has its slices in its place
			"/predict/gpu-9": http.StatusNotFound,
		} {
			if w := request(h, "GET", path); w.Code != want {
				t.Errorf("%s: status %d, want %d", path, w.Code, want)
			}
		}
		close(leave)
		if code := <-first; code != http.StatusOK {
			t.Errorf("the first: status %d", code)
		}
	})
}

func TestVerdicts(t *testing.T) {
	w := request(testHandler(t, fixture()), "GET", "/api/v1/verdicts")
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, w.Body.Bytes(), "", "  "); err != nil {
		t.Fatal(err)
	}
	golden(t, "verdicts.json", pretty.Bytes())
}

// TestSites has the lines that allocate what leaks, where the flag allows it.
func TestSites(t *testing.T) {
	if w := request(testHandler(t, fixture()), "GET", "/api/v1/sites"); w.Code != http.StatusNotFound {
		t.Errorf("status %d without the flag", w.Code)
	}
	w := request(testHandler(t, fixture(), "--collector.allocator.sites"), "GET", "/api/v1/sites")
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, w.Body.Bytes(), "", "  "); err != nil {
		t.Fatal(err)
	}
	golden(t, "sites.json", pretty.Bytes())
	w = request(testHandler(t, &collector.State{Time: epoch}, "--collector.allocator.sites"), "GET", "/api/v1/sites")
	if got := w.Body.String(); got != `{"status":"success","data":{"time":"2026-03-01T12:00:00Z","processes":[]}}`+"\n" {
		t.Errorf("got %s", got)
	}
}

// TestPredictLocates says how far the search for lines is.
func TestPredictLocates(t *testing.T) {
	for want, s := range map[string]*allocator.Sites{
		"The process records where it allocates, until 12:04.":                                 {State: allocator.SitesAsked, Asked: epoch.Add(-time.Minute), Over: 5 * time.Minute},
		"Which lines allocate it is not known: the program records where it allocates itself.": {State: allocator.SitesRefused, Reason: "the program records where it allocates itself"},
		"No line was seen to allocate what stays in 5 min.":                                    {State: allocator.SitesDone, Over: 5 * time.Minute},
		"(recorded from 12:00 on for 1 min): &#43;1.00 GiB not in Python code":                 {State: allocator.SitesDone, Asked: epoch, Over: time.Minute, List: []allocator.Site{{Growth: 1 << 30}}},
	} {
		f := fixture()
		f.Devices[0].Processes[0].Sites = s
		if got := words(predict(f, "")); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestVerdictsEmpty(t *testing.T) {
	w := request(testHandler(t, &collector.State{Time: epoch, DriverReason: "no_permission"}), "GET", "/api/v1/verdicts")
	const want = `{"status":"success","data":{"time":"2026-03-01T12:00:00Z","driver":{"up":false,"reason":"no_permission","pci_devices":null},"devices":[]}}` + "\n"
	if got := w.Body.String(); got != want {
		t.Errorf("got %s", got)
	}
}

// golden compares with a file of testdata, or rewrites it with -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("differs from %s; see what changed with go test . -update and git diff\n%s", path, got)
	}
}

func predict(s *collector.State, note string) string { return predictAt(s, note, predictPath) }

func predictAt(s *collector.State, note, path string) string {
	w := httptest.NewRecorder()
	h := &predictor{state: func() *collector.State { return s }, note: note, clear: 0.4, leak: 0.7, location: time.UTC, logger: slog.New(slog.DiscardHandler)}
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return w.Body.String()
}

func TestPredictGolden(t *testing.T) {
	golden(t, "predict.html", []byte(predict(fixture(), "")))
	golden(t, "predict-gpu.html", []byte(predictAt(fixture(), "", predictPath+"/gpu-0")))
	golden(t, "predict-mig.html", []byte(predictAt(fixture(), "", predictPath+"/gpu-1-mig-3")))
}

var (
	tags   = regexp.MustCompile(`<[^>]*>`)
	spaces = regexp.MustCompile(`\s+`)
)

// words returns what the body of the page says, without its markup.
func words(page string) string {
	_, body, _ := strings.Cut(page, "<body>")
	return spaces.ReplaceAllString(tags.ReplaceAllString(strings.ReplaceAll(body, "\u00a0", " "), " "), " ")
}

func TestPredictSays(t *testing.T) {
	device := func(v detector.Verdict) *collector.DeviceState {
		return &collector.DeviceState{
			Info: gpu.Info{Name: "T4"}, Up: true, SampleTime: epoch,
			Judgement: detector.Judgement[gpu.ProcessID]{T: steady(epoch), Device: v},
		}
	}
	// remembered has a process that grows as its earlier lives did, beside one that grows otherwise.
	remembered := func(n int) *collector.DeviceState {
		v, other := growing(), growing()
		v.Withheld, other.WithheldFor = detector.WithheldPriorLives, time.Hour
		d := device(v)
		d.Processes = []collector.ProcessState{
			{Verdict: other, Earlier: detector.Earlier{Lives: 9}}, {Verdict: v, Earlier: detector.Earlier{Lives: n}},
		}
		return d
	}
	lost := &collector.DeviceState{Info: gpu.Info{Index: 7, Name: "T4", UUID: "GPU-x"}, SampleTime: epoch.Add(-3 * time.Minute)}
	unified := device(healthy(0))
	unified.Info.CoherentMemory, unified.Info.UnifiedMemory = true, true
	unjudged := detector.Verdict{Windows: [detector.MaxWindows]detector.Fit{{Span: 10 * time.Minute, Fill: 0.5}, {Span: time.Hour, Fill: 0.1}}}
	for name, tt := range map[string]struct {
		state collector.State
		note  string
		want  []string
	}{
		"starting": {collector.State{DriverReason: collector.ReasonStarting}, "", []string{"Waiting for the driver"}},
		"no driver": {
			collector.State{DriverReason: "library_not_found"},
			"",
			[]string{"No GPU can be seen GPUs are picked up as soon as the driver answers.", "(library_not_found): libnvidia-ml.so.1 was not found"},
		},
		"other reason": {collector.State{DriverReason: "error_42"}, "", []string{"The driver does not answer (error_42)."}},
		"no GPU":       {collector.State{}, "", []string{"No GPU found"}},
		"awaited":      {collector.State{Awaited: 2}, "", []string{"Waiting for 2 GPUs"}},
		"all lost": {
			collector.State{Devices: []*collector.DeviceState{lost}},
			"",
			[]string{"No GPU can be read", "GPU 7 (T4, GPU-x) cannot be read; its last sample is of 11:57:00 UTC, 3 min ago."},
		},
		"lost in a simulation": {
			collector.State{Devices: []*collector.DeviceState{lost}}, "Simulated.", []string{"Simulated.", "of 11:57:00 UTC."},
		},
		"unjudged": {
			collector.State{Devices: []*collector.DeviceState{device(unjudged)}},
			"",
			[]string{"Watching 1 GPU", "No judgement yet: watched for 6 min so far.", "not judged yet"},
		},
		"healthy": {
			collector.State{Devices: []*collector.DeviceState{device(healthy(0)), device(healthy(0.3)), lost}},
			"",
			[]string{"No leak found on 2 GPUs", "The longest window holds 24 min.", "1 more GPU cannot be read."},
		},
		"impossible memory": {
			collector.State{
				Devices: []*collector.DeviceState{device(unjudged)},
				Calls: gpu.CallsSnapshot{Errors: []gpu.CallErrors{
					{UUID: device(unjudged).Info.UUID, Call: "nvmlDeviceGetMemoryInfo_v2", Error: "IMPLAUSIBLE_TOTAL_ZERO", Count: 3}, {UUID: "GPU-other", Call: "nvmlDeviceGetMemoryInfo_v2", Error: "UNKNOWN"},
				}},
			},
			"",
			[]string{"does not tell how much memory is used, so that it is not judged: the driver answered IMPLAUSIBLE_TOTAL_ZERO."},
		},
		"no memory known": {
			collector.State{Devices: []*collector.DeviceState{device(detector.Verdict{})}},
			"",
			[]string{"No GPU can be judged The driver does not tell how much memory is used."},
		},
		"the host's memory": {
			collector.State{Devices: []*collector.DeviceState{unified}},
			"",
			[]string{"No leak found on 1 GPU", "GPU 0 has no memory of its own. What is shown is the memory of the host, and all its programs use it."},
		},
		"muted": {
			collector.State{Devices: []*collector.DeviceState{device(muted()), device(healthy(0)), device(muted())}},
			"",
			[]string{"No leak found on 1 GPU", "2 more GPUs muted.", "GPU 0 T4, 0 processes muted not known"},
		},
		"all muted": {
			collector.State{Devices: []*collector.DeviceState{device(muted()), device(muted())}},
			"",
			[]string{"2 muted GPUs", "The rules of --detector.config say that nothing here is to be judged."},
		},
		"muted and young": {
			collector.State{Devices: []*collector.DeviceState{device(muted()), device(unjudged)}},
			"",
			[]string{"Watching 1 GPU", "1 more GPU muted."},
		},
		"suspect":      {collector.State{Devices: []*collector.DeviceState{device(healthy(0.799))}}, "", []string{"not sure", "79 %"}},
		"withheld":     {collector.State{Devices: []*collector.DeviceState{device(growing())}}, "", []string{"No leak yet: it may be the start of a program, and must grow for another 25 min.", "full in 40 min if it goes on"}},
		"as before":    {collector.State{Devices: []*collector.DeviceState{remembered(3)}}, "", []string{"No leak yet: it is below what its last 3 lives held, and must grow for another 25 min."}},
		"as once":      {collector.State{Devices: []*collector.DeviceState{remembered(1)}}, "", []string{"No leak yet: it is below what its last life held, and must grow for another 25 min."}},
		"as others":    {collector.State{Devices: []*collector.DeviceState{remembered(0)}}, "", []string{"No leak yet: it is below what its earlier lives held, and must grow for another 25 min."}},
		"whole GPU":    {collector.State{Devices: []*collector.DeviceState{device(leaking(time.Hour))}}, "", []string{"runs out of memory in 1 h", "at 13:00 UTC", "at least 54 min", "not known"}},
		"soon":         {collector.State{Devices: []*collector.DeviceState{device(leaking(time.Second))}}, "", []string{"GPU 0 is about to run out of memory"}},
		"tomorrow":     {collector.State{Devices: []*collector.DeviceState{device(leaking(24 * time.Hour))}}, "", []string{"at Mon 2 Mar 12:00 UTC"}},
		"in centuries": {collector.State{Devices: []*collector.DeviceState{device(leaking(math.MaxInt64))}}, "", []string{"in over a year"}},
	} {
		tt.state.Time, tt.state.Windows = epoch, []string{"10m", "1h"}
		got := words(predict(&tt.state, tt.note))
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in %s", name, want, got)
			}
		}
	}
}

// TestPredictIdle lists what nobody will use again, on a GPU and on a GPU instance.
func TestPredictIdle(t *testing.T) {
	s := fixture()
	s.Devices[1].Unreleased = []collector.UnreleasedState{{Instance: gpu.Some(uint32(3)), ID: gpu.ProcessID{PID: 47}, Used: 1 << 29, Since: steady(epoch.Add(-90 * time.Second))}}
	got := words(predict(s, ""))
	for _, want := range []string{
		"2 leaks on 3 GPUs, the most urgent first. 9.50 GiB are held that nobody will use again.",
		"6.00 GiB GPU 0 NVIDIA H200 evaluate.py (pid 40) Slurm job 4712, user bob has ended, and its memory has stayed since 11:55 (4 min)",
		"3.00 GiB GPU 0 NVIDIA H200 ddp_worker.py (pid 46) Slurm job 4712, user bob has computed nothing since 11:39 (20 min), and shows no sign of going on",
		"512 MiB GPU 1, MIG 3 (2g.20gb) NVIDIA H200 unknown process (pid 47) has ended, and its memory has stayed since 11:58 (1 min)",
		"NVIDIA H200, 7 processes (1 muted)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

// TestPredictWithoutForecast shows a leak on a GPU whose capacity is not known.
func TestPredictWithoutForecast(t *testing.T) {
	v := leaking(time.Hour)
	v.SecondsToOOM, v.Lower, v.Upper = detector.Value{}, detector.Value{}, detector.Value{}
	s := fixture()
	s.Devices[4].Judgement = detector.Judgement[gpu.ProcessID]{T: steady(epoch), Device: v}
	got := words(predict(s, ""))
	if !strings.Contains(got, "3 leaks on 3 GPUs") || strings.Index(got, "not known GPU 4") < strings.Index(got, "1 h 30 min at") {
		t.Error(got)
	}
}

// TestPredictEscapes gives every text that a process, a user or a driver chooses
// something that a browser would run.
func TestPredictEscapes(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>'`
	s := fixture()
	s.DriverReason, s.Windows = evil, []string{evil}
	for _, d := range s.Devices {
		d.Info.Name, d.Info.UUID = evil, evil
		for i := range d.Processes {
			d.Processes[i].Owner = &gpu.Owner{
				Process: evil, User: evil, Command: evil, ContainerID: evil, Namespace: evil, Pod: evil, Container: evil, SlurmJob: evil,
			}
		}
		for i := range d.Unreleased {
			d.Unreleased[i].Owner = &gpu.Owner{Process: evil, User: evil, Namespace: evil, Pod: evil, Container: evil, SlurmJob: evil}
		}
		for i := range d.Instances {
			d.Instances[i].Profile = evil
		}
	}
	got := predict(s, evil)
	if strings.Contains(got, "<script") || strings.Contains(got, "<img") || strings.Contains(got, "ZgotmplZ") {
		t.Error(got)
	}
	if n := strings.Count(got, "&lt;script&gt;"); n < 12 {
		t.Errorf("only %d texts are shown", n)
	}
}
