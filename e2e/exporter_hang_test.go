// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// scrapeOnce scrapes and says how long that took.
func scrapeOnce(client *http.Client, url string) (m harness.Metrics, took time.Duration, err error) {
	begin := time.Now()
	body, err := harness.GetBy(client, url)
	took = time.Since(begin)
	if err != nil {
		return nil, took, err
	}
	m, err = harness.ParseMetrics(body)
	return m, took, err
}

// movingMachine has n GPUs whose used memory grows.
func movingMachine(t *testing.T, n int) *machine {
	t.Helper()
	m := newMachine(t, n)
	for i := range m.GPUs {
		m.GPUs[i].Memory.Used = fakenvml.Ramp{Base: gib, Rate: 64 * mib}
	}
	return m
}

// allUp returns an error unless all GPUs of the machine can be read.
func (m *machine) allUp(s harness.Metrics) error {
	var errs []error
	for i := range m.GPUs {
		errs = append(errs, want(s, 1, "gpu_up", m.id(i)), positive(s, "gpu_memory_used_bytes", m.id(i)))
	}
	return errors.Join(errs...)
}

// inFlight returns an error unless a memory call of the GPU is shown as hung, for
// longer than it was before.
func (m *machine) inFlight(s harness.Metrics, gpu int, before float64) (float64, error) {
	labels := with(m.id(gpu), "call", "nvmlDeviceGetMemoryInfo_v2")
	v, err := s.Value("gpu_nvml_call_in_flight_seconds", labels)
	if err == nil && v < before {
		err = fmt.Errorf("gpu_nvml_call_in_flight_seconds%v is %g after %g", labels, v, before)
	}
	return v, err
}

// TestHang has the memory call of one GPU never return. That GPU is down, the
// others and all scrapes notice nothing; it comes back when the call returns.
func TestHang(t *testing.T) {
	t.Parallel()
	m := movingMachine(t, 4)
	p := m.start(t, "--nvml.timeout=1s")
	eventually(t, p, m.allUp)
	m.fault(t, fakenvml.Hang("nvmlDeviceGetMemoryInfo*").On(m.GPUs[0].UUID))
	first := eventually(t, p, func(s harness.Metrics) error {
		_, err := m.inFlight(s, 0, 1)
		return errors.Join(onlyDown(s, m.id(0)), m.up(s, 0, 1, 1, 1), err)
	})
	m.scrapeDuringHang(t, p, first)
	// Memory moves with the clock: nobody's loop waits for the one that hangs.
	eventually(t, p, func(s harness.Metrics) error { return m.moved(first, s, 1, 2, 3) })
	m.fault(t)
	eventually(t, p, func(s harness.Metrics) error {
		return errors.Join(m.allUp(s), gone(s, "gpu_nvml_call_in_flight_seconds", m.id(0)))
	})
}

// scrapeDuringHang scrapes 200 times in a row.
func (m *machine) scrapeDuringHang(t *testing.T, p *harness.Process, first harness.Metrics) {
	t.Helper()
	var slowest time.Duration
	hung, err := m.inFlight(first, 0, 0)
	for range 200 {
		s, took, failed := scrapeOnce(http.DefaultClient, p.URL+"/metrics")
		if failed != nil || took > 2*time.Second {
			t.Fatalf("a scrape took %s: %v", took, failed)
		}
		slowest = max(slowest, took)
		var longer error
		hung, longer = m.inFlight(s, 0, hung)
		err = errors.Join(err, longer, onlyDown(s, m.id(0)), m.up(s, 0, 1, 1, 1), want(s, 3, "gpu_devices", nil))
		harness.Must(t, err)
	}
	t.Logf("the slowest of 200 scrapes took %s", slowest.Round(10*time.Microsecond))
}

// moved returns an error unless the used memory of these GPUs has grown between two
// scrapes.
func (m *machine) moved(before, after harness.Metrics, gpus ...int) error {
	var errs []error
	for _, i := range gpus {
		a, err := before.Value("gpu_memory_used_bytes", m.id(i))
		b, err2 := after.Value("gpu_memory_used_bytes", m.id(i))
		if !(b > a) {
			err = errors.Join(err, fmt.Errorf("used memory of GPU %d is %g after %g", i, b, a))
		}
		errs = append(errs, err, err2)
	}
	return errors.Join(errs...)
}

// TestEndDuringHang ends the exporter while a call hangs, which may be Init. It must not shut the library down under it.
func TestEndDuringHang(t *testing.T) {
	t.Parallel()
	first := fakenvml.NewNode(1).GPUs[0].UUID
	for call, fault := range map[string]fakenvml.Fault{
		"memory": fakenvml.Hang("nvmlDeviceGetMemoryInfo*").On(first), "Init": fakenvml.Hang(fakenvml.AnyInit),
	} {
		m := movingMachine(t, 2)
		m.Faults = []fakenvml.Fault{fault}
		p := m.start(t, "--nvml.timeout=1s")
		eventually(t, p, func(s harness.Metrics) error { return positive(s, "gpu_nvml_call_in_flight_seconds", nil) })
		harness.Must(t, p.Signal(syscall.SIGTERM))
		equal(t, p.Wait(t, 20*time.Second), 0, "exit code after SIGTERM, in less time than systemd and Kubernetes give by default")
		equal(t, m.read(t).Functions["nvmlShutdown"].Calls, 0, "%s: calls of nvmlShutdown while a thread was inside", call)
	}
}
