// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the programs as a user runs them. Tests that need more than
// Go and gcc carry the build tag e2e: `make e2e` runs them.
package e2e

import (
	"fmt"
	"os"
	"reflect"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// afterwards is what is left to do once all tests have run.
var afterwards = func() error { return nil }

func TestMain(m *testing.M) {
	code := harness.Main(m)
	if err := afterwards(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// equal checks that got is want, part by part. The format tells of what they are.
func equal[T any](t testing.TB, got, want T, format string, args ...any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", fmt.Sprintf(format, args...), got, want)
	}
}
