// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"strings"
	"testing"
)

// TestMissing has laptops told in one line what they cannot do, and where it can be done.
func TestMissing(t *testing.T) {
	for _, c := range []struct {
		system, args string
		missing      bool
	}{
		{"linux", "record --output=x", false},
		{"darwin", "record --output=x", true},
		{"windows", "sites --pid=1", true},
		{"windows", "backtest gpu.csv", false},
		{"darwin", "", false},
	} {
		err := missing(c.system, strings.Fields(c.args))
		if (err != nil) != c.missing {
			t.Errorf("%s on %s: %v", c.args, c.system, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "this build for "+c.system+" has backtest") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s on %s: %v", c.args, c.system, err)
		}
	}
}
