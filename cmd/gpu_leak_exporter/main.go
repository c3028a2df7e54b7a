// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Command gpu_leak_exporter detects GPU memory leaks, foretells when a GPU runs
// out of memory, and exports both to Prometheus.
//
// It exits with 0 when it was told to end, and with 1 when it cannot start or serve. When the
// driver was replaced by one of another version, which only a fresh process can use,
// it executes itself again. Where it cannot, or where that has not helped after five minutes, it exits with 3, once:
// whoever supervises it should start it again, in a new container if it is in one.
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
	exitOK      = 0
	exitFailure = 1
	exitAfresh  = 3
	// again is none: it asks for the program to be executed again.
	again = -1
)

func main() {
	runtime.MemProfileRate = 0 // nothing shows the profile
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends at once
	cli.CompleteVersion()
	kingpin.ManPageTemplate = cli.ManPage(kingpin.ManPageTemplate, program, "finds leaks of GPU memory, for Prometheus")
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case code == again && ctx.Err() != nil: // it was told to end meanwhile
		code = exitOK
	case code == again:
		err := afresh()
		fmt.Fprintf(os.Stderr, "%s: error: executing it again: %s\n", program, oneLine(err))
		code = exitAfresh
	}
	os.Exit(code)
}

// run is the program: it serves until ctx is done and returns the exit code, or again.
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
