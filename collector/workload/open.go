// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package workload

import "syscall"

// Flags to open files of others, so that it neither waits nor follows a link.
const (
	openDirectory = syscall.O_DIRECTORY
	openFlags     = syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_NOCTTY
)
