// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	CompleteVersion()
	if v := Version("x"); !strings.HasPrefix(v, "x, version ") || strings.TrimSpace(v) != v {
		t.Errorf("%q", v)
	}
	if page := ManPage(".SH \"NAME\"\n{{.App.Name}}\n", "x", "does y"); page != ".SH \"NAME\"\nx \\- does y\n" {
		t.Errorf("%.300s", page)
	}
}
