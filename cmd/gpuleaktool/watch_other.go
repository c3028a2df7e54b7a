// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"context"
	"errors"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/source"
)

// lookHere cannot: there is no driver for it to ask.
func lookHere(context.Context, source.Config) (look, func(), error) {
	return nil, nil, errors.New("watch without an address runs on Linux alone, on the machine with the GPU: give the address of an exporter, such as http://node7:9844")
}
