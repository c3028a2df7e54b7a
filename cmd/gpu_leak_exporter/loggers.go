// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log/slog"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/prometheus/common/promslog"
	sloggokit "github.com/tjhop/slog-gokit"
)

// newLoggers returns the logger of this program and the slog front over it that
// exporter-toolkit and net/http take. Both end in the same sink, at the same
// level and with the same keys.
func newLoggers(cfg *promslog.Config, w io.Writer) (log.Logger, *slog.Logger) {
	sink := log.NewLogfmtLogger(log.NewSyncWriter(w))
	if cfg.Format.String() == "json" {
		sink = log.NewJSONLogger(log.NewSyncWriter(w))
	}
	least := level.Allow(level.ParseDefault(cfg.Level.String(), level.InfoValue()))
	// The filter is inside, so that time and caller of what it drops are never
	// computed.
	own := log.With(level.NewFilter(sink, least), "ts", log.DefaultTimestampUTC, "caller", log.DefaultCaller)
	return own, slog.New(sloggokit.NewGoKitHandler(likeOwn(sink), cfg.Level.Level()))
}

// likeOwn gives lines of the slog bridge the look of the program's own: the time
// is called ts and comes before the caller, and values are not wrapped.
func likeOwn(sink log.Logger) log.Logger {
	return log.LoggerFunc(func(kv ...any) error {
		for i := 0; i+1 < len(kv); i += 2 {
			if v, ok := kv[i+1].(slog.Value); ok {
				kv[i+1] = v.Any()
			}
			if t, ok := kv[i+1].(time.Time); ok && kv[i] == slog.TimeKey {
				kv[i], kv[i+1] = "ts", t.UTC().Format(time.RFC3339Nano)
				if i >= 2 && kv[i-2] == "caller" {
					kv[i-2], kv[i-1], kv[i], kv[i+1] = kv[i], kv[i+1], kv[i-2], kv[i-1]
				}
			}
		}
		return sink.Log(kv...)
	})
}
