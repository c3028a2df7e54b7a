// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"fmt"

	"github.com/alecthomas/kingpin/v2"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/detectorconfig"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// settings are those of the detector: the exporter's flags and file of rules.
type settings struct {
	base detector.Config
	file string
}

// addFlags adds the exporter's flags.
func (s *settings) addFlags(cmd *kingpin.CmdClause) {
	s.base = detector.DefaultConfig()
	cmd.Flag("detector.config", "File of rules, as the exporter takes it.").StringVar(&s.file)
	for _, t := range detectorconfig.Thresholds() {
		cmd.Flag(t.Flag(), t.Help).Default(t.Default()).SetValue(t.Value(&s.base))
	}
}

// load returns the rules.
func (s *settings) load() (*detectorconfig.Config, error) {
	if err := s.base.Validate(); err != nil {
		return nil, fmt.Errorf("--detector flags: %w", err)
	}
	if s.file == "" {
		return detectorconfig.New(s.base), nil
	}
	return detectorconfig.Load(s.file, detectorconfig.Options{Base: s.base})
}
