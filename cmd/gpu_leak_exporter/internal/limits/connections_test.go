// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestConnections has one connection more than there may be: the one goes whose last request or answer is longest ago.
func TestConnections(t *testing.T) {
	for _, tt := range []struct {
		states []http.ConnState // of the second, the first, and the second connection again
		ends   int
	}{
		{nil, 0},
		{[]http.ConnState{http.StateActive, http.StateActive}, 2},
		{[]http.ConnState{http.StateActive, http.StateActive, http.StateIdle}, 2},
		{[]http.ConnState{http.StateClosed}, -1},
	} {
		l := testLimits(1)
		c := newConnections(3, l.refused)
		var conns, ends []net.Conn
		connect := func() {
			conn, end := net.Pipe()
			conns, ends = append(conns, conn), append(ends, end)
			c.changed(conn, http.StateNew)
		}
		for range 3 {
			connect()
		}
		for i, state := range tt.states {
			c.changed(conns[(i+1)%2], state)
		}
		connect()
		for i, end := range ends {
			_ = end.SetReadDeadline(time.Now())
			_, err := end.Read(make([]byte, 1))
			if ended := errors.Is(err, io.EOF); ended != (i == tt.ends) {
				t.Errorf("%v: connection %d: %v", tt.states, i, err)
			}
		}
		if tt.ends >= 0 {
			c.changed(conns[tt.ends], http.StateClosed) // as the server notices
		}
		if n, ended := c.count(), testutil.ToFloat64(l.refused.WithLabelValues(refusedConnection)); n != 3 || (ended == 1) != (tt.ends >= 0) {
			t.Errorf("%v: %g connections, %g ended", tt.states, n, ended)
		}
	}
}

func TestConnectionsFor(t *testing.T) {
	for descriptors, want := range map[uint64]int{4096: maxConnections, 1 << 40: maxConnections, 256: 128, 1: 1, 0: 1} {
		if got := connectionsFor(descriptors); got != want {
			t.Errorf("%d descriptors: %d connections, want %d", descriptors, got, want)
		}
	}
}
