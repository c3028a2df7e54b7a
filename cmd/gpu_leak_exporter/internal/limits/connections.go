// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxConnections bounds how many clients are connected. A node has a few: two of
	// Prometheus, the kubelet, a person with a browser. With TLS each takes up to 100 KB.
	maxConnections = 1024
	// maxStreams bounds the requests of an HTTP/2 connection at a time. Each takes 12 KB.
	maxStreams = 4
	// stuckTime is how long an HTTP/2 connection may take nothing of what it is sent: its streams wait for each other, so
	// that their deadlines do not end them.
	stuckTime = 5 * time.Second
	// socketBuffer is how much the system keeps of what a connection is sent, in bytes: it
	// would keep megabytes for a client that does not read.
	socketBuffer = 64 << 10
)

// connections are the clients' connections. One more than there may be ends the one whose last request or answer is longest
// ago: a client that scrapes now is served, however many connections others hold.
type connections struct {
	most    int
	refused *prometheus.CounterVec

	mu     sync.Mutex
	all    map[net.Conn]*list.Element // of oldest
	oldest *list.List                 // of net.Conn, the one that ends next in front
}

func newConnections(most int, refused *prometheus.CounterVec) *connections {
	return &connections{most: most, refused: refused, all: map[net.Conn]*list.Element{}, oldest: list.New()}
}

// connectionsFor returns how many connections there may be where that many descriptors may be open: half
// of them are kept for the exporter itself.
func connectionsFor(descriptors uint64) int {
	return int(max(1, min(maxConnections, descriptors/2)))
}

// descriptorLimit returns how many descriptors the process may have open.
func descriptorLimit() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 2 * maxConnections
	}
	return limit.Cur
}

// serve sets up a server whose connections these are.
func (c *connections) serve(s *http.Server) {
	s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams, WriteByteTimeout: stuckTime}
	s.ConnState = c.changed
}

// changed follows a connection. The server calls it before it accepts the next one.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.all[conn]
	switch {
	case state == http.StateNew:
		limitBuffers(conn)
		if len(c.all) == c.most {
			oldest := c.oldest.Remove(c.oldest.Front()).(net.Conn)
			delete(c.all, oldest)
			c.refused.WithLabelValues(refusedConnection).Inc()
			_ = plainOf(oldest).Close() // without the farewell of TLS, which may block; its user notices
		}
		c.all[conn] = c.oldest.PushBack(conn)
	case at == nil: // it was ended
	case state == http.StateIdle || state == http.StateActive:
		c.oldest.MoveToBack(at)
	default:
		c.oldest.Remove(at)
		delete(c.all, conn)
	}
}

// plainOf returns the connection under that of TLS.
func plainOf(conn net.Conn) net.Conn {
	if t, ok := conn.(*tls.Conn); ok {
		return t.NetConn()
	}
	return conn
}

// count returns how many connections there are.
func (c *connections) count() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return float64(len(c.all))
}

func limitBuffers(conn net.Conn) {
	if t, ok := plainOf(conn).(*net.TCPConn); ok {
		_ = t.SetWriteBuffer(socketBuffer) // without it only memory is lost
		_ = t.SetReadBuffer(socketBuffer)
	}
}
