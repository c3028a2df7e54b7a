// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"bytes"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
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
				testkit.Equal(t, err.Error() == "EOF", i == tt.ends, "%v: connection %d has ended, %v", tt.states, i, err)
			}
			testkit.Equal(t, c.count(), float64(len(tt.states)), "connections")
			testkit.Equal(t, testutil.ToFloat64(l.refused.WithLabelValues(refusedConnection)), 1, "refused")
		})
	}
}

// TestRequestThatWaits has the oldest connection be spared whose request is there and was not read yet.
func TestRequestThatWaits(t *testing.T) {
	l := testLimits(1)
	c := newConnections(2, l.refused)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer listener.Close()
	var accepted []net.Conn
	for n := range 3 {
		client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
		testkit.Must(t, err)
		defer client.Close()
		conn, err := listener.Accept()
		testkit.Must(t, err)
		defer conn.Close()
		if n == 0 {
			_, err := client.Write([]byte("GET"))
			testkit.Must(t, err)
			raw, err := conn.(*net.TCPConn).SyscallConn()
			testkit.Must(t, err)
			// It waits until the system has handed the input over, and reads nothing of it.
			testkit.Must(t, raw.Read(func(uintptr) bool { return hasInput(conn) }))
		}
		c.changed(conn, http.StateNew)
		accepted = append(accepted, conn)
	}
	if _, err := accepted[0].Read(make([]byte, 3)); err != nil {
		t.Errorf("the one with a request: %v", err)
	}
	if _, err := accepted[1].Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the idle one: %v", err)
	}
}

func TestConnectionsFor(t *testing.T) {
	for descriptors, want := range map[uint64]int{4096: maxConnections, 1 << 40: maxConnections, 256: 128, 1: 1, 0: 1} {
		testkit.Equal(t, connectionsFor(descriptors), want, "connections for %d descriptors", descriptors)
	}
}

// TestServerLog has a client spoil a handshake, and a server that cannot accept: only the latter is for operators.
func TestServerLog(t *testing.T) {
	var out bytes.Buffer
	logger := log.New(serverLog{slog.New(slog.NewTextHandler(&out, nil))}, "", 0)
	logger.Print("http: TLS handshake error from 192.0.2.1:5: EOF")
	logger.Print("http: Accept error: too many open files; retrying in 1s")
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `level=ERROR msg="http: Accept error: too many open files; retrying in 1s"`) {
		t.Error(got)
	}
}
