// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !ablate

package ablate

// Off reports whether a mechanism is switched off: never.
func Off(Mechanism) bool { return false }
