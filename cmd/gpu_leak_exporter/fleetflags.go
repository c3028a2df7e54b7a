// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/setting"
	"github.com/gpuleak/gpu_leak_exporter/collector"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// What differs with GPUs that a Prometheus knows.
const (
	fleetInterval    = 15 * time.Second
	minFleetInterval = time.Second
	maxHistory       = 7 * 24 * time.Hour
	minMaxAge        = 30 * time.Second
	maxMaxAge        = time.Hour
)

// fleetFamilies are the collectors that are on by default with them: a Prometheus tells of memory alone.
var fleetFamilies = []string{"detector", "memory"}

// fleetLabels are the default labels that tell where a GPU is: that of the target, that of relabelling, and DCGM exporter's own.
var fleetLabels = []string{"instance", "node", "Hostname"}

// fleetFlags is which of the flags were given.
type fleetFlags struct {
	interval, details bool
	given             map[string]*bool
}

// fleetFlags adds the flags of --source=prometheus:URL.
func (p *parser) fleetFlags() {
	f := &p.config.source.Fleet
	p.fleet.given = map[string]*bool{}
	add := func(name, help string, value *setting.Value, defaults ...string) {
		p.fleet.given[name] = new(bool)
		p.flag(name, help+" Only with --source=prometheus:URL.", value, defaults...).IsSetByUser(p.fleet.given[name])
	}
	text := func(string) error { return nil }
	add("source.query", "PromQL for the used memory; each series is one GPU or GPU instance. What is more than a metric and its matchers is evaluated at each interval, "+
		"and a series that ends goes on for as long as Prometheus repeats its last value, five minutes.",
		setting.Checked("source.query", &f.Query, func(s string) error {
			if s == "" {
				return errors.New("must be PromQL, such as DCGM_FI_DEV_FB_USED or nvidia_smi_memory_used_bytes")
			}
			return nil
		}), "DCGM_FI_DEV_FB_USED")
	add("source.capacity-query", "PromQL for the memory that there is: one series a GPU with its UUID, or one number for all. Metrics of DCGM exporter and nvidia_gpu_exporter need none.",
		setting.Checked("source.capacity-query", &f.Capacity, text), "")
	units := map[string]float64{"auto": 0, "B": 1, "MiB": promapi.Mebibyte}
	unit := "auto"
	add("source.unit", "Unit of both: auto (as the names of the metrics tell), B or MiB.",
		setting.OneOf("source.unit", []string{"auto", "B", "MiB"}, func(s string) error { unit, f.Unit = s, units[s]; return nil }, func() string { return unit }), unit)
	add("source.http-config", "File with basic authentication, a token, TLS and so on for the Prometheus: the http_config of its own configuration.",
		setting.Checked("source.http-config", &f.HTTPConfigFile, text), "")
	add("source.history", "How much is read at the start, so that verdicts are there at once; 0s is nothing.",
		setting.Duration("source.history", &f.History, 0, maxHistory), "6h")
	add("source.max-age", "How old the last sample of a GPU may be before its verdict is left out.",
		setting.Duration("source.max-age", &f.MaxAge, minMaxAge, maxMaxAge), "5m")
	add("source.label", "Label that tells where a GPU is; its series keep it. Repeatable, up to 4 times.", labelNames("source.label", &f.Labels), fleetLabels...)
	add("shard", "Part of the GPUs that this exporter takes: 0/3, 1/3 and 2/3 are three exporters that share a fleet.",
		setting.Checked("shard", new(string), f.SetShard), "0/1")
}

// labelNames are the names of labels, one a flag.
func labelNames(flag string, names *[]string) *setting.Value {
	return setting.List(flag, names, gpu.MaxPlaceLabels, func(name string) error {
		switch {
		case !model.LegacyValidation.IsValidLabelName(name):
			return errors.New("is not the name of a label, such as instance")
		case slices.Contains(collector.ReservedLabels, name):
			return errors.New("is a label that the series have already: choose another one")
		}
		return nil
	})
}

// checkFleet completes the settings for GPUs that a Prometheus knows, and refuses those that do not go with them.
func (p *parser) checkFleet() error {
	c := p.config
	if !c.ofFleet() {
		for _, name := range slices.Sorted(maps.Keys(p.fleet.given)) {
			if *p.fleet.given[name] {
				return fmt.Errorf("--%s needs --source=prometheus:URL", name)
			}
		}
		return nil
	}
	if !p.fleet.interval {
		c.source.Interval = fleetInterval
	}
	if !p.fleet.details {
		c.processDetail = collector.DetailGrowing
	}
	switch {
	case p.speed:
		return errors.New("--source.speed needs --source=sim:SCENARIO or --source=replay:FILE: a Prometheus has no speed")
	case c.source.Interval < minFleetInterval:
		return fmt.Errorf("--sample.interval=%s: must be %s or more with --source=prometheus:URL", humanize.FormatDuration(c.source.Interval), humanize.FormatDuration(minFleetInterval))
	case c.source.Fleet.MaxAge < 2*c.source.Interval:
		return fmt.Errorf("--source.max-age=%s must be twice --sample.interval=%s or more", humanize.FormatDuration(c.source.Fleet.MaxAge), humanize.FormatDuration(c.source.Interval))
	case c.stateFile != "":
		return errors.New("--detector.state-file has no use with --source=prometheus:URL: leave it out. After a restart the history is read again, see --source.history")
	}
	return nil
}
