// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// programArgs is the variable with the arguments of the program where a test runs that in
// another process, for what the system does to a whole one.
const programArgs = "GPULEAKTOOL_ARGS"

func TestMain(m *testing.M) {
	if args := os.Getenv(programArgs); args != "" {
		os.Args = append(os.Args[:1], strings.Fields(args)...)
		main()
	}
	goleak.VerifyTestMain(m)
}
