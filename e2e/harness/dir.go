// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package harness

// Dir returns the folder of what was built for this test binary, for more that
// its tests share. Main makes and removes it.
func Dir() string { return dir }
