// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"

	"github.com/prometheus/common/version"
)

func TestLinkedVersionIsKept(t *testing.T) {
	before := version.Version
	defer func() { version.Version = before }()
	version.Version = "1.2.3"
	if Complete(); version.Version != "1.2.3" {
		t.Errorf("version %q", version.Version)
	}
}
