// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package mixin holds what of the mixin the exporter serves.
package mixin

import _ "embed"

// Runbook is runbook.md: a section for each alert, headed by its name.
//
//go:embed runbook.md
var Runbook string
