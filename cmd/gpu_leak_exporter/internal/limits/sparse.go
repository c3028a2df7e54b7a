// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// What anybody can have the server log, such as a handshake that fails, is logged this often at most.
const (
	sparseLines = 10
	sparseSpan  = time.Minute
)

// sparse is a handler of slog that passes on some records in a span, and how many it left out before.
type sparse struct {
	slog.Handler
	state *sparseState
}

type sparseState struct {
	mu      sync.Mutex
	began   time.Time // the span
	passed  int       // in it
	leftOut int
}

func newSparse(h slog.Handler) slog.Handler { return &sparse{h, &sparseState{}} }

// Handle passes a record on, or not.
func (s *sparse) Handle(ctx context.Context, r slog.Record) error {
	st := s.state
	st.mu.Lock()
	if now := time.Now(); now.Sub(st.began) >= sparseSpan {
		st.began, st.passed = now, 0
	}
	if st.passed == sparseLines {
		st.leftOut++
		st.mu.Unlock()
		return nil
	}
	st.passed++
	leftOut := st.leftOut
	st.leftOut = 0
	st.mu.Unlock()
	if leftOut > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("left_out_before", leftOut))
	}
	return s.Handler.Handle(ctx, r)
}

// WithAttrs and WithGroup have the new handler share the span.
func (s *sparse) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sparse{s.Handler.WithAttrs(attrs), s.state}
}

// WithGroup is as WithAttrs.
func (s *sparse) WithGroup(name string) slog.Handler {
	return &sparse{s.Handler.WithGroup(name), s.state}
}
