// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
)

// linuxOnly are the commands that look into the machine which they run on.
var linuxOnly = []string{"record", "sites"}

// missing returns what to do in place of a command that the build for this system does not have, as Go names
// it. It is asked before the flags are read: such a build does not know them either.
func missing(system string, args []string) error {
	if system == "linux" || len(args) == 0 || !slices.Contains(linuxOnly, args[0]) {
		return nil
	}
	return fmt.Errorf("%s runs on Linux alone, on the machine with the GPU: this build for %s has backtest, check and watch URL, for files that you copy here and exporters elsewhere", args[0], system)
}
