// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Command pause is what the containers of the end-to-end tests run: it does nothing
// until it is told to end.
package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// longest is more than any test takes. A container outlives a test that was killed
// before it could clean up, so it has to end by itself.
const longest = time.Hour

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-end:
	case <-time.After(longest):
	}
}
