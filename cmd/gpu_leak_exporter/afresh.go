// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	// executedVar is in the environment of a process that afresh began. Whoever supervises it does not
	// pass it on.
	executedVar = "GPU_LEAK_EXPORTER_EXECUTED"
	// staleAfter is how long such a process may find library and driver of different versions. A
	// container has the library of when it was made, so that it must be made again; elsewhere the
	// library may have been replaced after the driver.
	staleAfter = 5 * time.Minute
)

// afresh replaces the process by a fresh one of the same program, with the same arguments. It
// returns only if that fails.
func afresh() error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	// What asks for the configuration to be read again would end a process that does not listen yet.
	signal.Ignore(syscall.SIGHUP)
	return syscall.Exec(path, os.Args, append(os.Environ(), executedVar+"=1"))
}

// stale returns a channel on which it is said once, in a process that afresh began, that it is time
// to look whether that has helped.
func stale() <-chan time.Time {
	if os.Getenv(executedVar) == "" {
		return nil
	}
	return time.After(staleAfter)
}
