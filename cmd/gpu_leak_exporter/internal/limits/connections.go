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
	"golang.org/x/sys/unix"
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

// connections are the clients' connections. One more than there may be ends the one that has done nothing for
// longest: a client that scrapes now is served, however many connections others hold.
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

const (
	// maxSpared bounds how many connections are spared at a time.
	maxSpared = 16
	// newFor is how long a client may take to send its request before another one that waits for its
	// answer has to go for it.
	newFor = time.Second
)

// endIdlest ends the connection that has done nothing for longest; mu is held. It spares a connection with a request that was not read
// yet, and one that was just made as long as few are: then the oldest of those goes whose requests do not end. Without this, a scrape
// is cut off while 4,096 clients connect and say nothing.
func (c *connections) endIdlest() {
	from, at := c.quiet, c.idlest()
	if at == nil {
		from, at = c.active, c.active.Front()
	}
	conn := from.Remove(at).(held).conn
	delete(c.all, conn) // its end is noticed later
	c.refused.WithLabelValues(refusedConnection).Inc()
	_ = plainOf(conn).Close() // without the farewell of TLS, which may block; its user notices
}

// idlest returns the connection of quiet that may be ended; nil if an active one is to be.
func (c *connections) idlest() *list.Element {
	few := c.quiet.Len() < (c.most+3)/4 && c.active.Len() > 0
	at := c.quiet.Front()
	for spared := 0; at != nil && spared < maxSpared; spared++ {
		if h := at.Value.(held); !hasInput(h.conn) && (!few || time.Since(h.since) >= newFor) {
			return at
		}
		at = at.Next()
	}
	if few {
		return nil
	}
	return c.quiet.Front()
}

// hasInput reports whether a client has sent something that was not read yet.
func hasInput(conn net.Conn) bool {
	t, ok := plainOf(conn).(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	err = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return err == nil && n > 0
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
