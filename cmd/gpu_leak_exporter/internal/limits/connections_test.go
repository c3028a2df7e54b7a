// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestConnections has one connection more than there may be: the one goes that has done nothing for longest,
// and one that waits for an answer only where all do.
func TestConnections(t *testing.T) {
	const newest, idle, active = http.StateNew, http.StateIdle, http.StateActive
	const now http.ConnState = -1 // new, less than a second before the next one
	for _, tt := range []struct {
		states []http.ConnState // a second apart
		ends   int
	}{
		{[]http.ConnState{newest, newest, newest}, 0},
		{[]http.ConnState{active, idle, newest}, 1},
		{[]http.ConnState{active, active, idle}, 2},
		{[]http.ConnState{active, active, active}, 0},
		{[]http.ConnState{idle, active, idle}, 0},
		// Few are quiet: one that was made this second is not the one to go.
		{[]http.ConnState{active, active, active, active, active, active, active, now}, 0},
		{[]http.ConnState{active, active, active, active, active, active, active, newest}, 7},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := testLimits(1)
			c := newConnections(len(tt.states), l.refused)
			var ends []net.Conn
			connect := func(state http.ConnState) {
				conn, end := net.Pipe()
				c.changed(conn, http.StateNew)
				ends = append(ends, end)
				if state == now {
					return
				}
				if state != newest {
					c.changed(conn, state)
				}
				time.Sleep(time.Second)
			}
			for _, state := range tt.states {
				connect(state)
			}
			connect(newest)
			for i, end := range ends {
				_ = end.SetReadDeadline(time.Now())
				_, err := end.Read(make([]byte, 1))
				if ended := err.Error() == "EOF"; ended != (i == tt.ends) {
					t.Errorf("%v: connection %d: %v", tt.states, i, err)
				}
			}
			if n := c.count(); n != float64(len(tt.states)) {
				t.Errorf("%g connections", n)
			}
			if n := testutil.ToFloat64(l.refused.WithLabelValues(refusedConnection)); n != 1 {
				t.Errorf("%g refused", n)
			}
		})
	}
}

func TestConnectionsFor(t *testing.T) {
	for descriptors, want := range map[uint64]int{4096: maxConnections, 1 << 40: maxConnections, 256: 128, 1: 1, 0: 1} {
		if got := connectionsFor(descriptors); got != want {
			t.Errorf("%d descriptors: %d connections, want %d", descriptors, got, want)
		}
	}
}
