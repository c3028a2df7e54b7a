// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
)

// benchIncidents lives what was reported in public again.
func benchIncidents(io.Writer, options) error {
	return errors.New("the reports are being made data")
}
