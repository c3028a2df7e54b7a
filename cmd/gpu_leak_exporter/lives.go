// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/source"
	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
)

// livesSecret returns the secret with which programs are named: that of
// --detector.lives-key-file, or else the stored one, or a new one if nothing is stored.
func (c *config) livesSecret(stored []byte) ([]byte, error) {
	switch {
	case c.livesKeyFile != "":
		key, err := source.LivesKey(c.livesKeyFile)
		if err != nil {
			return nil, fmt.Errorf("--detector.lives-key-file: %w", err)
		}
		return key, nil
	case len(stored) > 0:
		return stored, nil
	}
	return source.NewLivesKey(), nil
}

// newNamer returns what names programs with that secret.
func newNamer(secret []byte) *lives.Namer { return lives.NewNamer(secret) }
