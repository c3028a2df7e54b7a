// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !cgo

package source

import (
	"errors"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// errNoNVML is what a build for laptops answers, of which backtest, check and watch are of use.
var errNoNVML = errors.New("this build cannot read a driver: take the one for Linux from a package or tarball, or sim:SCENARIO or replay:FILE")

func openNVML(Config) (gpu.Source, error) { return nil, errNoNVML }
