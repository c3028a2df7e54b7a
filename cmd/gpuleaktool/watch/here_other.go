// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package watch

import (
	"context"
	"errors"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/source"
)

// errWatchHere is what a laptop answers, where no GPU can be looked at.
var errWatchHere = errors.New("without a URL it looks at the GPUs of this machine, which needs Linux: give it the URL of an exporter, such as http://node7:9844")

func lookHere(context.Context, source.Config) (look, func(), error) { return nil, nil, errWatchHere }
