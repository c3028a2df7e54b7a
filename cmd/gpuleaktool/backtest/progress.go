// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/command"
)

// progressEvery is how often progress is shown; what is shorter shows none.
const progressEvery = time.Second

// progress says on a terminal how far a long run is. Its methods may be called
// from any goroutine.
type progress struct {
	w        io.Writer // nil shows nothing
	terminal bool
	what     string
	now      func() time.Time

	mu        sync.Mutex
	done, all int64
	shown     time.Time
	written   bool
}

// newProgress returns a progress that is shown if w is a terminal, or always.
func newProgress(w io.Writer, always bool, what string) *progress {
	w = command.Raw(w) // no text from elsewhere
	p := &progress{terminal: command.IsTerminal(w), what: what, now: time.Now}
	if p.terminal || always {
		p.w, p.shown = w, p.now()
	}
	return p
}

// add counts what was done.
func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += int64(n)
	p.show()
}

// set says how much was done of all.
func (p *progress) set(done, all int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.all = int64(done), int64(all)
	p.show()
}

func (p *progress) show() {
	if p.w == nil || p.all <= 0 {
		return
	}
	now := p.now()
	if now.Sub(p.shown) < progressEvery {
		return
	}
	p.shown, p.written = now, true
	begin, end := "", "\n"
	if p.terminal {
		begin, end = "\r", ""
	}
	fmt.Fprintf(p.w, "%s%s: %s %d %%%s", begin, command.Program, p.what, min(100*p.done/p.all, 100), end)
}

// end takes the line off a terminal.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal && p.written {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// countingReader tells count what is read. It ends with ctx.
type countingReader struct {
	ctx   context.Context
	in    io.Reader
	count func(n int)
}

// Read implements io.Reader.
func (r *countingReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.in.Read(b)
	r.count(n)
	return n, err
}
