// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

const exposition = `# TYPE gpu_up gauge
gpu_up{gpu="0",uuid="GPU-a"} 1
gpu_up{gpu="1",uuid="GPU-b"} 0
# TYPE gpu_seconds_to_oom gauge
gpu_seconds_to_oom{gpu="0",uuid="GPU-a"} +Inf
# TYPE calls summary
calls_sum 2.5
calls_count 3
`

func TestMetrics(t *testing.T) {
	m, err := ParseMetrics([]byte(exposition))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		labels map[string]string
		want   float64
	}{
		{"gpu_up", map[string]string{"uuid": "GPU-b"}, 0},
		{"gpu_seconds_to_oom", nil, math.Inf(1)},
		{"calls_sum", nil, 2.5},
		{"calls_count", nil, 3},
	} {
		if got, err := m.Value(tc.name, tc.labels); err != nil || got != tc.want {
			t.Errorf("%s%v is %g, %v, want %g", tc.name, tc.labels, got, err, tc.want)
		}
	}
	if _, err := m.Value("gpu_up", nil); err == nil {
		t.Error("the value of two series was given")
	}
	if _, err := m.Value("gpu_up", map[string]string{"uuid": "GPU-c"}); err == nil {
		t.Error("the value of no series was given")
	}
}

func TestPoll(t *testing.T) {
	calls := 0
	err := poll(time.Minute, nil, func() error {
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil || calls != 3 {
		t.Errorf("%v after %d calls, want success after 3", err, calls)
	}
	never := func() error { return errors.New("never") }
	if err := poll(time.Millisecond, nil, never); err == nil || !strings.Contains(err.Error(), "never") {
		t.Errorf("past the deadline: %v, want the last error", err)
	}
	ended := make(chan struct{})
	close(ended)
	if err := poll(time.Minute, ended, never); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("after the end of the process: %v", err)
	}
}

func TestListening(t *testing.T) {
	for line, want := range map[string]string{
		`level=info caller=tls_config.go:395 msg="Listening on" address=127.0.0.1:41001`:     "127.0.0.1:41001",
		`{"address":"127.0.0.1:41001","level":"info","msg":"Listening on"}`:                  "127.0.0.1:41001",
		`{"level":"info","msg":"Listening on","address":"127.0.0.1:41001"}`:                  "127.0.0.1:41001",
		`level=INFO msg="Start listening for connections" component=web address=127.0.0.1:0`: "",
	} {
		if got := listenAddress(line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
