// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
)

// The reasons for which something of an answer, or all of it, is of no use: values of a label.
const (
	reasonQuery     = "query_failed"
	reasonTimeout   = "query_timeout"
	reasonTooLarge  = "answer_too_large"
	reasonType      = "wrong_type"
	reasonNoResult  = "no_result"
	reasonWarning   = "warning"
	reasonInfo      = "info"
	reasonValue     = "no_amount"
	reasonAbove     = "above_capacity"
	reasonDuplicate = "duplicate"
	reasonLabels    = "labels"
	reasonTooMany   = "too_many"
	reasonLate      = "late"
	reasonCapacity  = "capacity"
	reasonHistory   = "history"
	reasonSilent    = "silent" // counted by gpu_leak_exporter_source_gpus
)

var reasons = []string{
	reasonQuery, reasonTimeout, reasonTooLarge, reasonType, reasonNoResult, reasonWarning, reasonInfo, reasonValue, reasonAbove, reasonDuplicate,
	reasonLabels, reasonTooMany, reasonLate, reasonCapacity, reasonHistory,
}

// reasonOf names why there is no answer.
func reasonOf(err error) string {
	if _, ok := errors.AsType[promapi.TypeError](err); ok {
		return reasonType
	}
	switch {
	case errors.Is(err, errNoResult):
		return reasonNoResult
	case promapi.IsTooMuch(err):
		return reasonTooLarge
	case errors.Is(err, context.DeadlineExceeded):
		return reasonTimeout
	}
	return reasonQuery
}

// quietFor is how long a problem must not have been there to be logged again when it comes back.
const quietFor = time.Hour

// metrics tell how the source fares, and log the first problem of each kind.
type metrics struct {
	prometheus.Collector // of all of them

	problems          *prometheus.CounterVec
	up, success       prometheus.Gauge
	requests, seconds prometheus.Counter
	gpus              *prometheus.GaugeVec

	logger log.Logger
	last   map[string]time.Time // when there was a problem last, by reason
}

func newMetrics(logger log.Logger) *metrics {
	const prefix = "gpu_leak_exporter_source_"
	r := prometheus.NewRegistry()
	m := &metrics{
		Collector: r, logger: logger, last: map[string]time.Time{},
		problems: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "problems_total",
			Help: "What was of no use in answers of the Prometheus that tells of the GPUs, by reason: series, samples, or whole answers. The log has the first of each kind.",
		}, []string{"reason"}),
		up: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "up",
			Help: "Whether (1 or 0) the Prometheus that tells of the GPUs answered the last request with something of use.",
		}),
		success: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "last_success_timestamp_seconds",
			Help: "When it did so last, in seconds since the Unix epoch. 0: never.",
		}),
		requests: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "polls_total",
			Help: "How often that Prometheus was asked for what is new.",
		}),
		seconds: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "poll_seconds_total",
			Help: "Seconds from asking to the end of the answer's reading, summed.",
		}),
		gpus: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "gpus",
			Help: "GPUs of that Prometheus, by state: fresh (it has new samples), lost (it has them of other GPUs of the same place alone; gpu_up is 0), " +
				"silent (it has none of the whole place, or does not answer; their series are left out).",
		}, []string{"state"}),
	}
	r.MustRegister(m.problems, m.up, m.success, m.requests, m.seconds, m.gpus)
	for _, reason := range reasons {
		m.problems.WithLabelValues(reason) // there from the start: increase() does not see the first of a series
	}
	return m
}

// note counts n problems of a kind and logs the first. The goroutine that asks calls it.
func (m *metrics) note(reason string, n int, msg string, keyvals ...any) {
	if n > 0 {
		m.problems.WithLabelValues(reason).Add(float64(n))
	}
	last := m.last[reason]
	m.last[reason] = time.Now()
	if last.IsZero() || time.Since(last) > quietFor {
		level.Warn(m.logger).Log(append([]any{"msg", msg, "reason", reason}, keyvals...)...)
	}
}

// asked notes how a request went.
func (m *metrics) asked(took time.Duration, err error) {
	m.requests.Inc()
	m.seconds.Add(took.Seconds())
	if err != nil {
		m.up.Set(0)
		return
	}
	m.up.Set(1)
	m.success.SetToCurrentTime()
}

// count counts the GPUs and returns how many are silent.
func (m *metrics) count(feeds map[string]*feed) (n int) {
	var counts [silent + 1]int
	for _, f := range feeds {
		counts[f.state]++
	}
	for state, name := range []string{"fresh", "lost", "silent"} {
		m.gpus.WithLabelValues(name).Set(float64(counts[state]))
	}
	return counts[silent]
}
