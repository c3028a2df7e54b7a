// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package limits bounds what the clients of a server can take from it. Nobody has to log in to ask, so that anybody can
// ask too often, too much at a time, or not read what is answered.
//
// Bounded are the answers that are made at a time, the bytes that wait to be read, the connections, what a connection may
// hold, and what all that leaves in the log.
package limits

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Reasons for which a client does not get what it wants.
const (
	refusedBusy       = "busy"        // too many answers are made at a time
	refusedConnection = "connections" // there are too many, and its last request or answer is longest ago
	refusedSlowReader = "slow_reader" // it did not read its answer
	refusedTooLarge   = "too_large"   // an answer
)

// Config is what differs from one exporter to another.
type Config struct {
	// MaxRequests is how many answers are made at the same time; 0 is no limit.
	MaxRequests int
	// Fleet allows answers as large as those of a fleet are: of thousands of GPUs.
	Fleet bool
	// Logger gets what an operator should know. What anybody can have a server log, such as a handshake that fails, is
	// for --log.level=debug.
	Logger *slog.Logger
}

// Limits bound what clients can take, of all servers together. Their methods may be called from any goroutine.
type Limits struct {
	logger      *slog.Logger
	refused     *prometheus.CounterVec
	answers     *answers
	connections *connections
}

// New returns limits that nobody has used yet. How many connections there may be depends on how many descriptors the
// process may have open now.
func New(c Config) *Limits {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gpu_leak_exporter_web_refused_total",
		Help: "Requests and connections that were refused or cut off, by reason.",
	}, []string{"reason"})
	for _, reason := range []string{refusedBusy, refusedConnection, refusedSlowReader, refusedTooLarge} {
		refused.WithLabelValues(reason)
	}
	return &Limits{
		logger: c.Logger, refused: refused,
		answers:     newAnswers(c, refused),
		connections: newConnections(connectionsFor(descriptorLimit()), refused),
	}
}

// Server returns a server of a handler, within the limits. It listens nowhere yet. Each listener needs one of its own,
// because exporter-toolkit changes the handler of a server that it is given.
func (l *Limits) Server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ErrorLog:          log.New(serverLog{l.logger}, "", 0),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      sendTime,
		IdleTimeout:       90 * time.Second, // longer than scrapes are apart
		MaxHeaderBytes:    64 << 10,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams, WriteByteTimeout: stuckTime},
		ConnState:         l.connections.changed,
	}
}

// Pages returns a handler that answers as next does, within the limits. Next may look at nothing of a request but its
// path: requests for a path whose answer is being made get the same bytes. One slot is left to the metrics.
func (l *Limits) Pages(next http.Handler) http.Handler {
	return l.answers.serve(next, bare, l.answers.pages, l.answers.slots)
}

// Metrics is as Pages, for the metrics: they are made in any slot. Next may look at the path of a request, and at the
// formats and encodings that it accepts.
func (l *Limits) Metrics(next http.Handler) http.Handler {
	return l.answers.serve(next, canonical, l.answers.slots)
}

// Collectors returns the metrics of the limits: refused requests and open connections.
func (l *Limits) Collectors() []prometheus.Collector {
	return []prometheus.Collector{l.refused, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gpu_leak_exporter_connections",
		Help: "Connections of clients.",
	}, l.connections.count)}
}

// serverLog takes the lines of http.Server. A client can cause a failed handshake at will, so that is for debugging only.
type serverLog struct{ *slog.Logger }

// Write implements io.Writer.
func (l serverLog) Write(line []byte) (int, error) {
	level := slog.LevelError
	if bytes.Contains(line, []byte("TLS handshake error")) {
		level = slog.LevelDebug
	}
	l.Log(context.Background(), level, strings.TrimSpace(string(line)))
	return len(line), nil
}
