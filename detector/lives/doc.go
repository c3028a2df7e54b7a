// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package lives remembers what programs held in their earlier lives: a pod after each deploy, a job
// each night, a server after each restart. What a healthy program reached before is no leak when it
// reaches it again, and what grows above that need not be given time.
package lives
