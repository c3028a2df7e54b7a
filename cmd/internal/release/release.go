// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package release tells which version of a program this is.
package release

import (
	"cmp"
	"runtime/debug"

	"github.com/prometheus/common/version"
)

// Complete fills in the version of a program that was built by go build or go
// install: only the Makefile and promu pass one to the linker. It is called once,
// at the start.
func Complete() {
	if info, ok := debug.ReadBuildInfo(); ok {
		version.Version = cmp.Or(version.Version, info.Main.Version)
	}
}
