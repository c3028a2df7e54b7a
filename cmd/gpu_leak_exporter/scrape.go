// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpu_leak_exporter/internal/limits"
	"github.com/gpuleak/gpu_leak_exporter/collector"
)

// gzipLevel compresses metrics in half the time of the library's default, to an eighth more bytes.
const gzipLevel = 3

// scrape serves the metrics. What Prometheus asks for, a text format, is written by the collector itself; promhttp serves
// the others, such as protobuf, and in all else both answer alike.
type scrape struct {
	own    *collector.Collector
	others prometheus.Gatherer // of the metrics about the exporter
	rest   http.Handler
}

// newScrape returns the handler of a collector's metrics and those that are registered with others.
func newScrape(own *collector.Collector, others *prometheus.Registry, exporterMetrics bool, logger *slog.Logger) (*scrape, error) {
	gpus := prometheus.NewRegistry()
	if err := gpus.Register(own); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	s := &scrape{own: own, others: others}
	options := promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelError),
		// The GPUs' series cannot fail; if others do, these must not go with them.
		ErrorHandling:     promhttp.ContinueOnError,
		EnableOpenMetrics: true,
	}
	if exporterMetrics {
		options.Registry = others
	}
	s.rest = promhttp.HandlerFor(prometheus.Gatherers{gpus, others}, options)
	return s, nil
}

// buffers and compressors are kept for their memory.
var (
	buffers     = sync.Pool{New: func() any { return new(bytes.Buffer) }}
	compressors = sync.Pool{New: func() any {
		z, _ := gzip.NewWriterLevel(io.Discard, gzipLevel) // the level is one
		return z
	}}
)

// ServeHTTP answers one scrape.
func (s *scrape) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	format := expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...)
	if !collector.Writes(format) {
		s.rest.ServeHTTP(w, r)
		return
	}
	page := buffers.Get().(*bytes.Buffer)
	page.Reset()
	defer buffers.Put(page)
	others, err := s.others.Gather()
	if errors.Join(err, s.own.WriteText(page, format, others)) != nil {
		s.rest.ServeHTTP(w, r) // it leaves out what fails, logs it and counts it
		return
	}
	h := w.Header()
	h.Add("Vary", "Accept")
	h.Add("Vary", "Accept-Encoding")
	h.Set("Content-Type", string(format))
	if !limits.AcceptsGzip(r.Header.Get("Accept-Encoding")) {
		_, _ = w.Write(page.Bytes()) // the client has gone, or the answer is too large, which is noticed
		return
	}
	h.Set("Content-Encoding", "gzip")
	z := compressors.Get().(*gzip.Writer)
	defer compressors.Put(z)
	z.Reset(w)
	_, _ = z.Write(page.Bytes()) // as above
	_ = z.Close()
}
