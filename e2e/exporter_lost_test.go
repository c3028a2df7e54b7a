// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// listening waits until the exporter has registered for the events of all GPUs:
// what comes before is not delivered.
func (m *machine) listening(t *testing.T) {
	t.Helper()
	harness.Eventually(t, patience, func() error {
		if n := m.read(t).Functions["nvmlDeviceRegisterEvents"].Calls; n < uint64(len(m.GPUs)) {
			return fmt.Errorf("%d GPUs are registered for events", n)
		}
		return nil
	})
}

// xids returns an error unless a GPU has these counts, and 0 for the XIDs that page
// while its events can be had.
func (m *machine) xids(s harness.Metrics, gpu int, counts map[int]float64) error {
	all := map[int]float64{}
	for _, xid := range pagingXIDs {
		all[xid] = 0
	}
	var errs []error
	for xid, n := range counts {
		all[xid] = n
		at, err := s.Value("gpu_xid_last_timestamp_seconds", with(m.id(gpu), "xid", strconv.Itoa(xid)))
		if age := float64(time.Now().UnixNano())/1e9 - at; err == nil && (age < 0 || age > 120) {
			err = fmt.Errorf("XID %d was %g s ago", xid, age)
		}
		errs = append(errs, err)
	}
	for xid, n := range all {
		errs = append(errs, want(s, n, "gpu_xid_errors_total", with(m.id(gpu), "xid", strconv.Itoa(xid))))
	}
	if n := len(s.All("gpu_xid_errors_total", m.id(gpu))); n != len(all) {
		errs = append(errs, fmt.Errorf("GPU %d has %d XIDs, want %d", gpu, n, len(all)))
	}
	if n := len(s.All("gpu_xid_last_timestamp_seconds", m.id(gpu))); n != len(counts) {
		errs = append(errs, fmt.Errorf("GPU %d has %d times of XIDs, want %d", gpu, n, len(counts)))
	}
	return errors.Join(errs...)
}

// TestXIDs counts events by GPU and code, from the registration on.
func TestXIDs(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 3)
	m.RaiseXID(0, 63) // before anybody has registered
	p := m.start(t)
	m.listening(t)
	eventually(t, p, func(s harness.Metrics) error {
		return errors.Join(m.xids(s, 0, nil), m.xids(s, 1, nil), m.xids(s, 2, nil))
	})
	for _, e := range []struct{ gpu, xid, times int }{{0, 13, 3}, {0, 48, 1}, {2, 31, 2}, {2, 79, 1}} {
		for range e.times {
			m.RaiseXID(e.gpu, uint64(e.xid))
		}
	}
	m.Raise(1, fakenvml.EventDoubleBitECC, 48) // another kind of event, with that number
	m.apply(t)
	eventually(t, p, func(s harness.Metrics) error {
		return errors.Join(m.xids(s, 0, map[int]float64{13: 3, 48: 1}), m.xids(s, 1, nil), m.xids(s, 2, map[int]float64{31: 2, 79: 1}))
	})
	m.RaiseXID(0, 13)
	m.apply(t)
	eventually(t, p, func(s harness.Metrics) error { return m.xids(s, 0, map[int]float64{13: 4, 48: 1}) })
}
