// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build ablate

package ablate

import "os"

var off = Mechanism(os.Getenv("DETECTOR_OFF"))

// Off reports whether DETECTOR_OFF names the mechanism.
func Off(m Mechanism) bool { return m == off }
