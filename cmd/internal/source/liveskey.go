// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"syscall"
)

// minLivesKey and maxLivesKey bound a secret in bytes. A shorter one can be guessed.
const (
	minLivesKey = 16
	maxLivesKey = 4096
)

// LivesKey returns the secret in a file, without the blanks and line breaks around it. A
// fleet that shares it knows each other's programs.
func LivesKey(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe waits for its writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxLivesKey+1))
	key := bytes.TrimSpace(b)
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxLivesKey:
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxLivesKey)
	case len(key) < minLivesKey:
		return nil, fmt.Errorf("%s holds a secret of %d bytes, must be %d or more: openssl rand -base64 32 makes one", path, len(key), minLivesKey)
	}
	return key, nil
}

// CheckLivesKey returns why LivesKey cannot read a file; nil for no file.
func CheckLivesKey(path string) error {
	if path == "" {
		return nil
	}
	_, err := LivesKey(path)
	return err
}

// NewLivesKey returns a secret that nobody else has.
func NewLivesKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	return key
}
