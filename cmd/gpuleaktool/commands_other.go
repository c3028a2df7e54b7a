// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"github.com/alecthomas/kingpin/v2"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/command"
)

// addLinux has the help name the commands that this build does not have.
func addLinux(app *kingpin.Application, _ command.Commands) {
	for _, name := range command.LinuxOnly {
		app.Command(name, "Runs on Linux alone: it looks into the machine with the GPU.")
	}
}
