// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Command gpu_leak_exporter detects GPU memory leaks, foretells when a GPU runs
// out of memory, and exports both to Prometheus.
//
// It exits with 0 when it was told to end, with 1 when it cannot start or serve, and with 5 when the
// driver was replaced by one of another version: its supervisor has to start it again, because only a new process
// loads the new library. A process that finds another version at its start serves and says so.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/alecthomas/kingpin/v2"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/source"
)

// Exit codes. 2 is Go's for a panic.
const (
	exitOK        = 0
	exitFailure   = 1
	exitOldDriver = 5
)

func main() {
	runtime.MemProfileRate = 0 // nothing shows the profile
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends at once
	cli.CompleteVersion()
	kingpin.ManPageTemplate = cli.ManPage(kingpin.ManPageTemplate, program, "finds leaks of GPU memory, for Prometheus")
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program: it serves until ctx is done and returns the exit code.
// What keeps it from starting is one line on stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	stdout, stderr = &cli.Terminal{Raw: stdout}, &cli.Terminal{Raw: stderr} // logfmt lets some through
	cfg, err := parseFlags(args, stdout)
	if errors.Is(err, errNoStart) {
		return exitOK
	}
	var e *exporter
	if err == nil {
		e, err = open(cfg, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: error: %s\n", program, oneLine(err))
		return exitFailure
	}
	return e.run(ctx)
}

// open returns an exporter of the GPUs that the config names.
func open(cfg *config, stderr io.Writer) (*exporter, error) {
	cfg.source.Fleet.Logger, _ = newLoggers(&cfg.log, stderr)
	src, err := source.Open(cfg.source)
	if err != nil {
		return nil, err
	}
	e, err := newExporter(cfg, src, stderr)
	if err != nil {
		return nil, errors.Join(err, src.Close())
	}
	return e, nil
}

// oneLine joins the lines of an error such as a YAML parser's, and takes out what
// a terminal would not print but act on.
func oneLine(err error) string {
	return cli.Escape(strings.Join(strings.Fields(err.Error()), " "))
}
