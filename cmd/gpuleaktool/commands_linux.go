// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/alecthomas/kingpin/v2"

// addLinux adds the commands that look into this machine.
func addLinux(app *kingpin.Application, commands map[string]command) {
	addRecord(app, commands)
	addSites(app, commands)
}
