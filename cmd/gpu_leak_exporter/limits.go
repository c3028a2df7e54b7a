// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/throttle"
)

// Reasons for which a client does not get what it wants.
const (
	refusedBusy       = "busy"        // too many answers are made at a time
	refusedConnection = "connections" // there are too many, and this one did nothing for longest
	refusedSlowReader = "slow_reader" // too much is made and not read
	refusedTooLarge   = "too_large"   // an answer
	refusedPassword   = "password"    // wrong ones came from this address just now
)

// limits bound what clients can take: nobody has to log in to ask.
type limits struct {
	refused     *prometheus.CounterVec
	answers     *answers
	connections *connections
	passwords   *throttle.Throttle
}

// newLimits returns limits of which most answers are made at a time, any number if that is 0.
func newLimits(most int, logger *slog.Logger) *limits {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: program + "_web_refused_total",
		Help: "Requests and connections that were refused or cut off, by reason.",
	}, []string{"reason"})
	for _, reason := range []string{refusedBusy, refusedConnection, refusedSlowReader, refusedTooLarge, refusedPassword} {
		refused.WithLabelValues(reason)
	}
	return &limits{
		refused: refused, answers: newAnswers(most, refused, logger), connections: newConnections(connectionsFor(descriptorLimit()), refused),
		passwords: throttle.New(refused.WithLabelValues(refusedPassword).Inc),
	}
}

// collectors are the metrics of the limits.
func (l *limits) collectors() []prometheus.Collector {
	return []prometheus.Collector{l.refused, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: program + "_connections",
		Help: "Connections of clients.",
	}, l.connections.count)}
}
