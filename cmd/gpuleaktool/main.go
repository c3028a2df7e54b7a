// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Command gpuleaktool works beside gpu_leak_exporter: it watches GPUs, runs the exporter's
// detector over recorded history, records what the exporter would sample, finds the
// lines of a process that leak, and checks rules.
//
// It exits with 2 when the call was wrong or could not be carried out, with 1 when a backtest has
// found a leak, or the alert that --fail-on names, and with 3 when it could judge nothing.
package main

import (
	"context"
	"io"
	"os"

	"github.com/alecthomas/kingpin/v2"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/backtest"
	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/check"
	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/command"
	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/watch"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
)

func main() {
	ctx := command.UntilSignal()
	cli.CompleteVersion()
	kingpin.ManPageTemplate = cli.ManPage(kingpin.ManPageTemplate, command.Program, "watches GPUs for leaks of memory, and finds them in recordings")
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return command.Run(ctx, args, stdout, stderr, backtest.Add, check.Add, addLinux, watch.Add)
}
