// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/livesfile"
	"github.com/gpuleak/gpu_leak_exporter/collector"
	"github.com/gpuleak/gpu_leak_exporter/collector/savefile"
	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
)

// livesPause is for how long the lives file is not written again, and when writing that failed is tried
// again.
const livesPause = 10 * time.Second

// livesKeeper keeps the lives of programs in a file. The book is that of the sampler, which never
// waits for the file.
type livesKeeper struct {
	path   string // "" for memory alone
	file   *livesfile.File
	namer  *lives.Namer // makes the keys of the file
	logger log.Logger
	// saved is how the last writing went; nil before the first.
	saved atomic.Pointer[collector.WriteState]
	// unwritable is whether a file is there that cannot be read: it is not written over.
	unwritable bool
	done       chan struct{} // is closed when keep has returned
}

// newLivesKeeper reads the lives at path.
func newLivesKeeper(path string, logger log.Logger) *livesKeeper {
	k := &livesKeeper{path: path, logger: log.With(logger, "file", path), done: make(chan struct{})}
	k.load()
	if k.file == nil {
		k.file = livesfile.New()
	}
	k.namer = lives.NewNamer(k.file.Secret)
	return k
}

// load reads the file. One that cannot be used is set aside, and nothing is known then.
func (k *livesKeeper) load() {
	if k.path == "" {
		return
	}
	f, err := livesfile.Read(k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case savefile.Unreadable(err):
		k.unwritable = true
		k.saved.Store(&collector.WriteState{})
		level.Error(k.logger).Log("msg", "no earlier lives of programs are known, and none is saved: the file may be good", "err", err)
		return
	case err != nil:
		kept, failed := savefile.SetAside(k.path)
		level.Error(k.logger).Log("msg", "no earlier lives of programs are known", "kept_as", kept, "err", errors.Join(err, failed))
		return
	}
	k.file = f
	level.Info(k.logger).Log("msg", "earlier lives of programs are known", "saved", f.Saved.UTC().Format(time.RFC3339), "programs", len(f.Book.Programs()))
}

// book returns the lives.
func (k *livesKeeper) book() *lives.Book { return k.file.Book }

// keep writes the file at once, which tells whether that can be done, and then when a life has ended,
// until ctx is done.
func (k *livesKeeper) keep(ctx context.Context) {
	defer close(k.done)
	if k.path == "" {
		return
	}
	for ctx.Err() == nil {
		written := k.write()
		select {
		case <-ctx.Done():
			return
		case <-time.After(livesPause):
		}
		if !written {
			continue
		}
		select {
		case <-ctx.Done():
		case <-k.file.Book.Changed():
		}
	}
}

// finish writes the file for the last time, once keep has ended. It does not wait for a disk that does not
// answer.
func (k *livesKeeper) finish() {
	select {
	case <-k.done:
	case <-time.After(stopGrace):
		level.Warn(k.logger).Log("msg", "the last lives of programs were not written: the disk has not answered")
		return
	}
	if k.path != "" {
		k.write()
	}
}

// write writes the file, and says once that it cannot.
func (k *livesKeeper) write() bool {
	if k.unwritable {
		return true // there is nothing to try again
	}
	k.file.Saved = time.Now()
	before, now := k.saved.Load(), collector.WriteState{Time: k.file.Saved, Success: true}
	if err := k.file.Write(k.path); err != nil {
		now = collector.WriteState{}
		if before != nil {
			now.Time = before.Time
		}
		if before == nil || before.Success {
			level.Error(k.logger).Log("msg", "a restart would lose the lives of programs, will try again", "err", err)
		}
	}
	k.saved.Store(&now)
	return now.Success
}

// with returns state with what is known of the file.
func (k *livesKeeper) with(state func() *collector.State) func() *collector.State {
	return func() *collector.State {
		s := *state()
		s.LivesFile = k.saved.Load()
		return &s
	}
}
