// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/detectorconfig"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

// reloader reads the file of --detector.config again when it is told to. A file
// with an error leaves everything as it is.
type reloader struct {
	cfg    *config
	apply  func(sampler.Resolver)
	logger log.Logger
	// reading is held while the file is read: of two readings the later one must
	// hold.
	reading sync.Mutex
	state   atomic.Pointer[sampler.FileState] // nil without a file
}

// newReloader returns a reloader. The rules that were read at the start hold
// already; apply puts others in their place.
func newReloader(cfg *config, apply func(sampler.Resolver), logger log.Logger) *reloader {
	r := &reloader{cfg: cfg, apply: apply, logger: logger}
	if cfg.rulesFile != "" {
		r.took(cfg.rules)
	}
	return r
}

// took notes that rules were read without an error.
func (r *reloader) took(c *detectorconfig.Config) {
	r.state.Store(&sampler.FileState{Success: true, Time: time.Now()})
	level.Info(r.logger).Log("msg", "The rules of the detector hold", "file", r.cfg.rulesFile, "groups", len(c.Groups()), "rules", c.Rules())
}

// reload reads the file again. It may take as long as the file system does.
func (r *reloader) reload() error {
	if r.cfg.rulesFile == "" {
		level.Info(r.logger).Log("msg", "Nothing to read again: there is no --detector.config")
		return nil
	}
	r.reading.Lock()
	defer r.reading.Unlock()
	c, err := r.cfg.loadRules()
	if err != nil {
		r.state.Store(&sampler.FileState{Time: r.state.Load().Time})
		level.Error(r.logger).Log("msg", "The rules of the detector cannot be read; those of before stay", "err", oneLine(err))
		return err
	}
	r.apply(c.For)
	r.took(c)
	return nil
}

// follow reads the file again at each hangup until ctx is done.
func (r *reloader) follow(ctx context.Context, hangup <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			// It has been logged, and there is nobody else to tell.
			_ = r.reload()
		}
	}
}

// with returns the state with the status of the file.
func (r *reloader) with(state func() *sampler.State) func() *sampler.State {
	return func() *sampler.State {
		s := *state()
		s.Reload = r.state.Load()
		return &s
	}
}

// ServeHTTP reads the file again and answers with its errors, each in a line.
func (r *reloader) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if !r.cfg.lifecycle {
		http.Error(w, "This is switched off: start "+program+" with --web.enable-lifecycle.", http.StatusForbidden)
		return
	}
	switch err := r.reload(); {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case r.cfg.rulesFile == "":
		fmt.Fprintln(w, "There is no --detector.config to read again.")
	default:
		fmt.Fprintln(w, "The rules of "+r.cfg.rulesFile+" hold.")
	}
}
