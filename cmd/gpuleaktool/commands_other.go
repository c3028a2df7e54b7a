// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "github.com/alecthomas/kingpin/v2"

// addLinux has the help name the commands that this build does not have.
func addLinux(app *kingpin.Application, _ map[string]command) {
	for _, name := range linuxOnly {
		app.Command(name, "Runs on Linux alone: it looks into the machine with the GPU.")
	}
}
