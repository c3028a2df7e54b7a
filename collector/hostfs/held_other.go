// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package hostfs

import "errors"

// Held is a file that another process has open. Only Linux shows such files.
type Held struct{}

// Hold returns an error.
func Hold(string) (*Held, error) {
	return nil, errors.New("only Linux shows the open files of a process")
}

// Close does nothing.
func (*Held) Close() error { return nil }

// IsCharacterDevice returns false.
func (*Held) IsCharacterDevice() bool { return false }
