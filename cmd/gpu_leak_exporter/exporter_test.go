// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpu_leak_exporter/internal/pages"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// TestLeakIsSeen runs the whole program over simulated GPUs.
func TestLeakIsSeen(t *testing.T) {
	r := startProgram(t, "--source=sim:node", "--source.speed=600")
	eventually(t, r.contains(t, "/-/ready", "gpu_leak_exporter is ready."))
	eventually(t, r.contains(t, "/metrics", `gpu_leak_detected{gpu="0",uuid="GPU-c6bbd36b-d0ed-a1a8-9680-95da6274ea03"} 1`))
	if code, page := r.get(t, "/predict"); code != http.StatusOK || !strings.Contains(page, "runs out of memory in") || !strings.Contains(page, "These GPUs are simulated: scenario node") {
		t.Errorf("status %d\n%s", code, page)
	}
	testkit.Equal(t, r.end(), exitOK, "exit code")
	if log := r.stderr.String(); !strings.Contains(log, `level=warn`) || !strings.Contains(log, `msg="These GPUs are simulated: scenario node, 600 times as fast as real time."`) {
		t.Error(log)
	}
}

func TestHangup(t *testing.T) {
	r := startProgram(t, "--source=sim:crashloop", "--log.format=logfmt")
	testkit.Must(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	eventually(t, func() error {
		if !strings.Contains(r.stderr.String(), "there is no --detector.config") {
			return errors.New("nothing said of SIGHUP")
		}
		return nil
	})
	code, _ := r.get(t, pages.HealthyPath)
	testkit.Equal(t, code, http.StatusOK, "status after SIGHUP")
}

// stub is a source without GPUs.
type stub struct {
	err   error
	close func() error
	calls gpu.Calls
}

func (s *stub) Devices(context.Context) ([]gpu.Device, error) { return nil, s.err }
func (s *stub) Calls() *gpu.Calls                             { return &s.calls }
func (s *stub) Close() error                                  { return s.close() }
func (*stub) Watch(ctx context.Context, _ func(gpu.Event)) error {
	<-ctx.Done()
	return nil
}

func startStub(t *testing.T, s *stub) *running {
	t.Helper()
	cfg := flagsOf(t, "--web.listen-address=127.0.0.1:0")
	return start(t, func(ctx context.Context, stderr io.Writer) int {
		e, err := newExporter(cfg, s, stderr)
		if err != nil {
			fmt.Fprintln(stderr, err)
			return -1
		}
		return e.run(ctx)
	})
}

// TestOtherDriver ends so that a supervisor starts a new process.
func TestOtherDriver(t *testing.T) {
	closed := false
	r := startStub(t, &stub{
		err:   &gpu.DriverError{Reason: "lib_rm_version_mismatch", Fatal: true, Err: errors.New("driver/library version mismatch")},
		close: func() error { closed = true; return nil },
	})
	<-r.done
	if r.code != exitOldDriver || !closed {
		t.Errorf("exit code %d, source closed: %v", r.code, closed)
	}
	if said := r.stderr.String(); strings.Count(said, "to be started again") != 1 {
		t.Error(said)
	}
}

func TestSourceThatDoesNotClose(t *testing.T) {
	r := startStub(t, &stub{close: func() error { return errors.New("a call has not returned") }})
	testkit.Equal(t, r.end(), exitOK, "exit code")
	if log := r.stderr.String(); !strings.Contains(log, `msg="The driver was not released" err="a call has not returned"`) {
		t.Error(log)
	}
}

// TestStopReading ends though the driver never lets go.
func TestStopReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log output
		release := make(chan struct{})
		e := &exporter{source: &stub{close: func() error { <-release; return nil }}}
		e.logger, _ = newLoggers(logConfig(t, "info", "logfmt"), &log)
		sampled := make(chan struct{})
		close(sampled)
		began := time.Now()
		grace, cancel := context.WithTimeout(t.Context(), stopGrace)
		defer cancel()
		e.stopReading(grace, sampled)
		testkit.Equal(t, time.Since(began), stopGrace, "it took")
		if !strings.Contains(log.String(), "a call into it has not returned") {
			t.Error(log.String())
		}
		close(release)
	})
}
