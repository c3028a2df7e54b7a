// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package savefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"
)

// replace replaces the file at path at once, as a whole.
func replace(path string, parts ...[]byte) error {
	file, err := renameio.TempFile(filepath.Dir(path), path)
	if err != nil {
		return err
	}
	defer file.Cleanup() //nolint:errcheck // It is what is left to do after an error.
	for _, p := range parts {
		if _, err := file.Write(p); err != nil {
			return err
		}
	}
	if uid, gid, ok := owner(path); ok && uid != os.Geteuid() {
		_ = file.Chown(uid, gid) // an exporter that is not root writes for itself
	}
	return file.CloseAtomicallyReplace()
}

// owner returns the owner of the file at path, or of its directory if there is no file.
func owner(path string) (uid, gid int, ok bool) {
	is, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		is, err = os.Stat(filepath.Dir(path))
	}
	if err != nil {
		return 0, 0, false
	}
	stat, ok := is.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(stat.Uid), int(stat.Gid), true
}
