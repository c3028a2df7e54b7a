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
	// Prometheus, the kubelet, somebody who looks. With TLS each takes up to 100 KB.
	maxConnections = 1024
	// maxStreams bounds the requests of an HTTP/2 connection at a time. Each takes 12 KB.
	maxStreams = 4
	// stuckTime is how long an HTTP/2 connection may take nothing of what it is sent: its streams wait for each other, so
	// that their deadlines do not end them.
	stuckTime = 5 * time.Second
	// socketBuffer is how much the system keeps of what a connection is sent, in bytes: it
	// would keep megabytes for who does not read.
	socketBuffer = 64 << 10
)

// connections are the clients' connections. One more than there may be ends the one that has done nothing for
// longest: who scrapes now is served, whoever else holds connections.
type connections struct {
	most    int
	refused *prometheus.CounterVec

	mu  sync.Mutex
	all map[net.Conn]*list.Element // of quiet or active
	// quiet are those that wait for no answer, and active the others. Those of which that is so for
	// longest are the first ones.
	quiet, active *list.List // of held
}

// held is a connection, and since when it is in its list.
type held struct {
	conn  net.Conn
	since time.Time
}

func newConnections(most int, refused *prometheus.CounterVec) *connections {
	return &connections{most: most, refused: refused, all: map[net.Conn]*list.Element{}, quiet: list.New(), active: list.New()}
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

// cut closes a connection without the farewell of TLS, which may block.
func cut(conn net.Conn) {
	_ = plainOf(conn).Close() // whoever uses it notices
}

// changed follows a connection. The server calls it before it accepts the next one.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, known := c.all[conn]
	if known {
		c.quiet.Remove(at) // of the list that it is not in, nothing
		c.active.Remove(at)
		delete(c.all, conn)
	}
	switch {
	case state == http.StateNew:
		limitBuffers(conn)
		if len(c.all) == c.most {
			c.endIdlest()
		}
		c.all[conn] = c.quiet.PushBack(held{conn, time.Now()})
	case known && state == http.StateIdle:
		c.all[conn] = c.quiet.PushBack(held{conn, time.Now()})
	case known && state == http.StateActive:
		c.all[conn] = c.active.PushBack(held{conn, time.Now()})
	}
}

// newFor is how long a client may take to send its request before another one that waits for its
// answer has to go for it.
const newFor = time.Second

// endIdlest ends the connection that has done nothing for longest; mu is held. One that was made just now is spared as long
// as few are quiet: where strangers hold connections by requests that they do not end, the oldest of those goes.
func (c *connections) endIdlest() {
	from, few := c.quiet, c.quiet.Len() < (c.most+3)/4 && c.active.Len() > 0
	if at := c.quiet.Front(); at == nil || few && time.Since(at.Value.(held).since) < newFor {
		from = c.active
	}
	conn := from.Remove(from.Front()).(held).conn
	delete(c.all, conn) // its end is noticed later
	c.refused.WithLabelValues(refusedConnection).Inc()
	cut(conn)
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
