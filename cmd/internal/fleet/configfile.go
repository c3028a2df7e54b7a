// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// minMaxAge and maxMaxAge bound Config.MaxAge.
const (
	minMaxAge = 30 * time.Second
	maxMaxAge = time.Hour
)

// file is what --source.config says. Its other keys are those of http_config of Prometheus.
type file struct {
	Query         string                  `yaml:"query"`
	CapacityQuery string                  `yaml:"capacity_query"`
	Unit          string                  `yaml:"unit"`
	History       model.Duration          `yaml:"history"`
	MaxAge        model.Duration          `yaml:"max_age"`
	Labels        []string                `yaml:"labels"`
	HTTP          config.HTTPClientConfig `yaml:",inline"`
}

const knownKeys = "known are query, capacity_query, unit, history, max_age, labels, and what http_config of Prometheus has"

// units are what a query can be in; 0 is to find out.
var units = map[string]float64{"auto": 0, "B": 1, "MiB": promapi.Mebibyte}

// Load returns what a file says of the Prometheus that is asked each interval; without one, which is "", what holds for
// DCGM exporter. Client, Shard and Logger are left to set.
func Load(path string, interval time.Duration) (Config, error) {
	f := file{
		Query: "DCGM_FI_DEV_FB_USED", Unit: "auto", History: model.Duration(6 * time.Hour), MaxAge: model.Duration(5 * time.Minute),
		// That of the target, that of relabelling, and DCGM exporter's own.
		Labels: []string{"instance", "node", "Hostname"},
		HTTP:   config.DefaultHTTPClientConfig,
	}
	if path != "" {
		if err := f.read(path); err != nil {
			return Config{}, fmt.Errorf("--source.config=%s: %w", path, err)
		}
	}
	switch err := f.check(interval); {
	case err != nil && path == "":
		return Config{}, fmt.Errorf("%w: set it in a file, and name that with --source.config", err)
	case err != nil:
		return Config{}, fmt.Errorf("--source.config=%s: %w", path, err)
	}
	return Config{
		Query: f.Query, Capacity: f.CapacityQuery, Unit: units[f.Unit], Interval: interval,
		History: time.Duration(f.History), MaxAge: time.Duration(f.MaxAge), Labels: f.Labels, HTTP: f.HTTP, file: path,
	}, nil
}

// read takes over the keys of a file. What names files in it is relative to where it is.
func (f *file) read(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(f); err != nil && !errors.Is(err, io.EOF) { // of a file without a key
		return fmt.Errorf("%w; %s", err, knownKeys)
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return errors.New("has more than one document")
	}
	f.HTTP.SetDirectory(filepath.Dir(path))
	return f.HTTP.Validate()
}

// check returns the error of a setting.
func (f *file) check(interval time.Duration) error {
	_, known := units[f.Unit]
	switch {
	case strings.TrimSpace(f.Query) == "":
		return errors.New("query must be PromQL, such as DCGM_FI_DEV_FB_USED or nvidia_smi_memory_used_bytes")
	case !known:
		return fmt.Errorf("unit: %s: choose one of auto, B, MiB", f.Unit)
	case time.Duration(f.History) > longestHistory:
		return fmt.Errorf("history: %s: must be between 0s and %s", f.History, model.Duration(longestHistory))
	case time.Duration(f.MaxAge) < minMaxAge || time.Duration(f.MaxAge) > maxMaxAge:
		return fmt.Errorf("max_age: %s: must be between %s and %s", f.MaxAge, model.Duration(minMaxAge), model.Duration(maxMaxAge))
	case time.Duration(f.MaxAge) < 2*interval:
		return fmt.Errorf("max_age: %s: must be twice --sample.interval=%s or more", f.MaxAge, model.Duration(interval))
	case len(f.Labels) == 0 || len(f.Labels) > gpu.MaxPlaceLabels:
		return fmt.Errorf("labels: there must be between 1 and %d", gpu.MaxPlaceLabels)
	}
	for i, name := range f.Labels {
		switch {
		case !model.LegacyValidation.IsValidLabelName(name):
			return fmt.Errorf("labels: %q is not the name of a label, such as instance", name)
		case slices.Contains(f.Labels[:i], name):
			return fmt.Errorf("labels: %s is given twice", name)
		}
	}
	return nil
}
