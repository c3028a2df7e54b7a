// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// near returns an error unless the one series of that name is v, give or take a
// share of it.
func near(s harness.Metrics, v, share float64, name string, labels map[string]string) error {
	got, err := s.Value(name, labels)
	if err == nil && math.Abs(got-v) > share*math.Abs(v) {
		err = fmt.Errorf("%s%v is %g, want %g ± %g %%", name, labels, got, v, 100*share)
	}
	return err
}

// recording writes two hours of two GPUs as nvidia-smi logs them, a row in 10 s: the
// first leaks 1 MiB a second from half an hour on.
func recording(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("timestamp, index, uuid, name, memory.total [MiB], memory.reserved [MiB], memory.used [MiB], memory.free [MiB]\n")
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for row := range 720 {
		for gpu, used := range []int{5000 + 10*max(0, row-180), 7000} {
			fmt.Fprintf(&b, "%s, %d, GPU-%d, NVIDIA H100 80GB HBM3, 81559 MiB, 551 MiB, %d MiB, %d MiB\n",
				at.Add(time.Duration(row)*10*time.Second).Format("2006/01/02 15:04:05.000"), gpu, gpu, used, 81559-551-used)
		}
	}
	path := filepath.Join(t.TempDir(), "smi.csv")
	harness.WriteFile(t, path, b.String())
	return path
}

// verdicts returns what the API says, without the time of the answer.
func verdicts(t *testing.T, p *harness.Process) map[string]any {
	t.Helper()
	body, err := harness.Get(p.URL + "/api/v1/verdicts")
	harness.Must(t, err)
	var answer struct {
		Status string
		Data   map[string]any
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Status != "success" {
		t.Fatalf("%v: %.300s", err, body)
	}
	delete(answer.Data, "time")
	return answer.Data
}

// TestReplay replays a recording as fast as it goes and at 1,200 times its speed:
// the verdicts are the same, and right.
func TestReplay(t *testing.T) {
	t.Parallel()
	path := recording(t)
	fast := harness.Replay(t, path, "inf", 2)
	atOnce, paced := verdicts(t, fast), verdicts(t, harness.Replay(t, path, "1200", 2))
	for _, a := range []struct {
		answer map[string]any
		speed  string
	}{{atOnce, "as fast as it goes"}, {paced, "1200 times"}} {
		if note, _ := a.answer["note"].(string); !strings.Contains(note, "replayed") || !strings.Contains(note, a.speed) {
			t.Errorf("the answer of a replay has the note %q", note)
		}
		delete(a.answer, "note")
	}
	equal(t, atOnce, paced, "verdicts at once, and at 1,200 times the speed")
	equal(t, len(atOnce["devices"].([]any)), 2, "devices")
	s := fast.Scrape(t)
	leak, flat := map[string]string{"uuid": "GPU-0"}, map[string]string{"uuid": "GPU-1"}
	last := 5000.0 + 10*(719-180) // MiB
	if err := errors.Join(
		want(s, 1, "gpu_leak_detected", leak), want(s, 0, "gpu_leak_detected", flat),
		near(s, mib, 0.02, "gpu_leak_rate_bytes_per_second", leak), gone(s, "gpu_leak_rate_bytes_per_second", flat),
		near(s, mib, 0.001, "gpu_leak_slope_bytes_per_second", with(leak, "window", "1h")),
		near(s, (81559-551-last)*mib, 1e-12, "gpu_oom_headroom_bytes", leak),
		near(s, 81559-551-last, 0.02, "gpu_seconds_to_oom", leak), // at 1 MiB/s
		want(s, math.Inf(1), "gpu_seconds_to_oom", flat),
	); err != nil {
		t.Error(err)
	}
	// As the help tells users, the forecast is headroom over rate, and inside the interval.
	headroom, err := s.Value("gpu_oom_headroom_bytes", leak)
	rate, err2 := s.Value("gpu_leak_rate_bytes_per_second", leak)
	lower, err3 := s.Value("gpu_seconds_to_oom_lower", leak)
	upper, err4 := s.Value("gpu_seconds_to_oom_upper", leak)
	eta := headroom / rate
	harness.Must(t, errors.Join(err, err2, err3, err4, near(s, eta, 1e-9, "gpu_seconds_to_oom", leak)))
	if lower > eta || upper < eta {
		t.Errorf("the interval from %g to %g s has no %g", lower, upper, eta)
	}
}
