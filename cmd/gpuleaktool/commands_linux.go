// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/alecthomas/kingpin/v2"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/command"
	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/record"
	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/sites"
)

// addLinux adds the commands that look into this machine.
func addLinux(app *kingpin.Application, commands command.Commands) {
	record.Add(app, commands)
	sites.Add(app, commands)
}
