// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package check checks files before the exporter reads them.
package check

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/command"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/detectorconfig"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Add adds the command check config.
func Add(app *kingpin.Application, commands command.Commands) {
	var files []string
	var interval time.Duration
	check := app.Command("check", "Check files before the exporter reads them.")
	cmd := check.Command("config", "Check files of --detector.config.")
	cmd.Arg("file", "File of rules.").Required().StringsVar(&files)
	cmd.Flag("sample.interval", "Time between two samples that the exporter is given: a window must hold some.").Default("1s").
		SetValue(cli.Duration("sample.interval", &interval, 100*time.Millisecond, time.Minute))
	commands[cmd.FullCommand()] = func(_ context.Context, stdout, stderr io.Writer) error {
		options := detectorconfig.Options{Base: detector.DefaultConfig(), MinWindow: detectorconfig.SamplesPerWindow * interval}
		return checkFiles(files, options, stdout, stderr)
	}
}

// checkFiles says of each file what is in it or what is wrong with it. The error
// counts those that are wrong.
func checkFiles(files []string, options detectorconfig.Options, stdout, stderr io.Writer) error {
	failed := 0
	for _, file := range files {
		fmt.Fprintf(stdout, "Checking %s\n", file)
		c, err := detectorconfig.Load(file, options)
		if err != nil {
			failed++
			fmt.Fprintf(stderr, "  FAILED:\n    %s\n", strings.ReplaceAll(err.Error(), "\n", "\n    "))
			continue
		}
		for _, g := range c.Groups() {
			fmt.Fprintf(stdout, "  %s: %s\n", g.Name, humanize.Count(g.Rules, "rule"))
		}
		fmt.Fprintf(stdout, "  SUCCESS: %s, %s\n", humanize.Count(len(c.Groups()), "group"), humanize.Count(c.Rules(), "rule"))
	}
	if failed > 0 {
		return fmt.Errorf("%s of %d cannot be used", humanize.Count(failed, "file"), len(files))
	}
	return nil
}
