// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpu_leak_exporter/internal/limits"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fixture is a State of a GPU that leaks, one in MIG mode of which a slice leaks, one that is lost, and one that tells nothing.
func fixture() *sampler.State {
	leaks := func(left time.Duration) detector.Judgement[gpu.ProcessID] {
		return detector.Judgement[gpu.ProcessID]{T: time.Duration(epoch.UnixNano()), Device: detector.Verdict{
			Judged: true, Confidence: 0.9712, Leak: true, Pattern: detector.PatternLeakLinear, SecondsToOOM: detector.Of(left.Seconds()),
		}}
	}
	memory := func(total uint64) gpu.Memory { return gpu.Memory{Total: gpu.Some(total), Used: gpu.Some(total / 2)} }
	return &sampler.State{Time: epoch, Devices: []*sampler.DeviceState{
		{
			Info: gpu.Info{Index: 0, UUID: "GPU-leaks"}, Up: true, SampleTime: epoch, MemoryState: sampler.MemoryState{Memory: memory(80 << 30), Judgement: leaks(90 * time.Minute)},
			ProcessCount: 1, Processes: []sampler.ProcessState{{Process: gpu.Process{ID: gpu.ProcessID{PID: 42, Start: 7}}, Verdict: leaks(90 * time.Minute).Device}},
		},
		{
			Info: gpu.Info{Index: 1, UUID: "GPU-mig"}, Up: true, SampleTime: epoch, MemoryState: sampler.MemoryState{Memory: memory(80 << 30)},
			Instances: []sampler.MemoryState{{MemoryKey: sampler.MemoryKey{Instance: gpu.Some(uint32(3))}, Profile: "2g.20gb", Memory: memory(20 << 30), Judgement: leaks(20 * time.Minute)}},
		},
		{Info: gpu.Info{Index: 2, UUID: "GPU-lost"}, SampleTime: epoch.Add(-3 * time.Minute)},
		{Info: gpu.Info{Index: 4, UUID: "GPU-bare", Name: `a "quoted" one`}, Up: true, SampleTime: epoch},
	}}
}

func testHandler(t *testing.T, s *sampler.State, args ...string) http.Handler {
	t.Helper()
	return handlerOf(t, func() *sampler.State { return s }, args...)
}

// handlerOf asks for the State each time.
func handlerOf(t *testing.T, state func() *sampler.State, args ...string) http.Handler {
	t.Helper()
	cfg := flagsOf(t, args...)
	discard := slog.New(slog.DiscardHandler)
	h, err := newHandler(cfg, state, http.NotFoundHandler(), limits.New(limits.Config{MaxRequests: cfg.maxRequests, Logger: discard}), discard)
	testkit.Must(t, err)
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
		{"GET", "/", 200, `<a href="/runbook">Runbook</a>`},
		{"GET", "/gpu/metrics", 200, `gpu_leak_detected{gpu="0",uuid="GPU-leaks"} 1`},
		{"GET", "/gpu/metrics", 200, "promhttp_metric_handler_requests_total"},
		{"GET", "/gpu/metrics", 200, "go_goroutines"},
		{"GET", "/gpu/metrics", 200, "process_start_time_seconds"},
		{"GET", "/gpu/metrics", 200, "gpu_leak_exporter_build_info{"},
		{"GET", "/predict", 200, "GPU 2 (GPU-lost) cannot be read"},
		{"GET", "/runbook", 200, `<h3 id="gpuoutofmemorypredicted">`},
		{"GET", "/predict/gpu-1-mig-3", 200, "GPU 1, MIG 3 (2g.20gb): leaks"},
		{"GET", "/predict/gpu-4", 200, "GPU 4: not judged yet"},
		{"GET", "/predict/gpu-2", 200, "GPU 2 (GPU-lost) cannot be read"},
		{"GET", "/predict/gpu-9", 404, "There is no such GPU or GPU instance now."},
		{"GET", "/predict/gpu-1", 404, "There is no such GPU or GPU instance now."},
		{"GET", "/predict/gpu-0/x", 404, "not found"},
		{"GET", "/api/v1/verdicts", 200, `{"status":"success","data":{"time":"2026-03-01T12:00:00Z"`},
		{"GET", "/", 200, `<a href="/incidents">Incidents</a>`},
		{"GET", "/incidents", 200, "<h1>No incident</h1>"},
		{"GET", "/api/v1/incidents", 200, `{"status":"success","data":[]}`},
		{"POST", "/incidents", 405, "Method Not Allowed"},
		{"GET", "/-/healthy", 200, "gpu_leak_exporter is healthy.\n"},
		{"HEAD", "/-/healthy", 200, ""},
		{"GET", "/-/ready", 200, "gpu_leak_exporter is ready.\n"},
		{"GET", "/metrics", 404, "not found"},
		{"GET", "/debug/pprof/", 404, "not found"},
		{"GET", "/-/reload", 405, "Method Not Allowed"},
		{"POST", "/-/reload", 404, "not found"},
		{"POST", "/predict", 405, "Method Not Allowed"},
	} {
		w := request(h, tt.method, tt.path)
		if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.body) {
			t.Errorf("%s %s: status %d, want %d and %q in\n%.3000s", tt.method, tt.path, w.Code, tt.code, tt.body, w.Body)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(w.Header().Get("Content-Security-Policy"), "default-src 'none'") ||
			w.Header().Get("Cache-Control") != "no-store" {
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

func TestLanding(t *testing.T) {
	const path = `/tmp/<script>alert(1)</script>.csv`
	state := fixture()
	state.Time = epoch.Add(time.Hour) // the replay has a clock of its own
	h := testHandler(t, state, "--source=replay:"+path, "--source.speed=60")
	for _, page := range []string{"/", "/predict"} {
		body := request(h, "GET", page).Body.String()
		const want = "These GPUs are replayed from the recording /tmp/&lt;script&gt;alert(1)&lt;/script&gt;.csv, 60 times as fast as real time."
		at := epoch.Local().Format("As of 2006-01-02 15:04:05 MST;")
		if !strings.Contains(body, want) || !strings.Contains(body, at) || strings.Contains(body, "<script") {
			t.Errorf("%s: no %q and %q in\n%s", page, want, at, body)
		}
	}
	at := epoch.UTC().Format(`"time":"2006-01-02T15:04:05Z"`)
	if body := request(h, "GET", "/api/v1/verdicts").Body.String(); !strings.Contains(body, `"note":"These GPUs are replayed from`) || !strings.Contains(body, at) {
		t.Errorf("the JSON has no note, or not %s:\n%s", at, body)
	}
	body := request(testHandler(t, fixture()), "GET", "/").Body.String()
	if strings.Contains(body, "simulated") || strings.Contains(body, "debug/pprof") {
		t.Error(body)
	}
}

func TestReady(t *testing.T) {
	down := &sampler.DeviceState{Info: gpu.Info{UUID: "GPU-0"}}
	sampled := &sampler.DeviceState{Info: gpu.Info{UUID: "GPU-1"}, Up: true, SampleTime: epoch}
	for _, tt := range []struct {
		state *sampler.State
		want  string // "" is ready, as all are after the time that a call may take
	}{
		{&sampler.State{DriverReason: sampler.ReasonStarting}, "the driver has not answered yet"},
		{&sampler.State{DriverReason: "library_not_found"}, ""},
		{&sampler.State{}, ""}, // the driver answers and has no GPU
		{&sampler.State{Awaited: 1}, "no GPU has been read yet"},
		{&sampler.State{Awaited: 1, Devices: []*sampler.DeviceState{sampled}}, ""},
		{&sampler.State{Devices: []*sampler.DeviceState{down}}, "no GPU has been read yet"},
		{&sampler.State{Devices: []*sampler.DeviceState{down, sampled}}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := testHandler(t, tt.state)
			for _, want := range []string{tt.want, ""} {
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

// hurried is a connection's writer, which has deadlines.
type hurried struct {
	*httptest.ResponseRecorder
	deadlines int
}

func (w *hurried) SetWriteDeadline(time.Time) error { w.deadlines++; return nil }

// TestDeadlines has the handlers on the way pass on how long a client may take to read.
func TestDeadlines(t *testing.T) {
	h := testHandler(t, fixture())
	for _, path := range []string{"/metrics", "/predict", "/api/v1/verdicts"} {
		w := &hurried{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if w.Code != http.StatusOK || w.deadlines == 0 {
			t.Errorf("%s: status %d, %d deadlines", path, w.Code, w.deadlines)
		}
	}
}

// TestTooManyScrapes has one page be made, for long, and asks for others. Who asks for a page of a memory that is not there is told
// so without an answer that is made, of which something would be kept.
func TestTooManyScrapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		var asked atomic.Int32
		h := handlerOf(t, func() *sampler.State {
			if asked.Add(1) == 1 {
				<-leave
			}
			return fixture()
		}, "--web.max-requests=1")
		first := make(chan int)
		go func() { first <- request(h, "GET", "/predict").Code }()
		synctest.Wait()
		for path, want := range map[string]int{
			"/metrics": http.StatusServiceUnavailable, "/-/healthy": http.StatusOK,
			"/predict/gpu-0": http.StatusServiceUnavailable,
			"/predict/gpu-1": http.StatusNotFound, // it has its slices in its place
			"/predict/gpu-9": http.StatusNotFound,
		} {
			if w := request(h, "GET", path); w.Code != want || (w.Header().Get("Retry-After") == "1") != (want == http.StatusServiceUnavailable) {
				t.Errorf("%s: status %d, want %d; %v", path, w.Code, want, w.Header())
			}
		}
		close(leave)
		testkit.Equal(t, <-first, http.StatusOK, "status of the first")
		if w := request(h, "GET", "/metrics"); !strings.Contains(w.Body.String(), `gpu_leak_exporter_web_refused_total{reason="busy"} 2`) {
			t.Error(w.Body)
		}
	})
}

// TestSites has the lines that allocate what leaks, where the flag allows it.
func TestSites(t *testing.T) {
	for flag, want := range map[string]int{"--no-collector.allocator.sites": http.StatusNotFound, "--collector.allocator.sites": http.StatusOK} {
		h := testHandler(t, fixture(), flag)
		testkit.Equal(t, request(h, "GET", "/api/v1/sites").Code, want, "%s: status", flag)
		testkit.Equal(t, strings.Contains(request(h, "GET", "/").Body.String(), `<a href="/api/v1/sites">`), want == http.StatusOK, "%s: whether the start page leads there", flag)
	}
}

func TestVerdictsEmpty(t *testing.T) {
	w := request(testHandler(t, &sampler.State{Time: epoch, DriverReason: "no_permission"}), "GET", "/api/v1/verdicts")
	const want = `{"status":"success","data":{"time":"2026-03-01T12:00:00Z","severity":"page","text":"The driver does not answer (no_permission).",` +
		`"findings":[{"severity":"page","alert":"GPUDriverDown","text":"The driver does not answer (no_permission)."}],"last_incident":null,"driver":{"up":false,"reason":"no_permission","pci_devices":null},"devices":[]}}` + "\n"
	testkit.Equal(t, w.Body.String(), want, "answer")
}
