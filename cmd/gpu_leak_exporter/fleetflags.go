// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/fleet"
	"github.com/gpuleak/gpu_leak_exporter/collector"
)

// What differs with GPUs that a Prometheus knows.
const (
	fleetInterval    = 15 * time.Second
	minFleetInterval = time.Second
)

// fleetFamilies are the collectors that are on by default with them: a Prometheus tells of memory alone.
var fleetFamilies = []string{"detector", "memory"}

// fleetFlags are those of --source=prometheus:URL, and which flags were given.
type fleetFlags struct {
	file                       string
	shard                      fleet.Shard
	sharded, interval, details bool
}

// fleetFlags adds the flags of --source=prometheus:URL.
func (p *parser) fleetFlags() {
	f := &p.fleet
	p.app.Flag("source.config", "File with the queries for the Prometheus of --source, and how to log in there: see docs/fleet.md.").StringVar(&f.file)
	p.flag("shard", "Part of a fleet that this exporter takes: 0/3, 1/3 and 2/3 are three exporters that share it.",
		cli.Checked("shard", new(string), f.shard.Set), "0/1").IsSetByUser(&f.sharded)
}

// checkFleet completes the settings for GPUs that a Prometheus knows, and refuses those that do not go with them.
func (p *parser) checkFleet() error {
	c, f := p.config, &p.fleet
	switch {
	case !c.ofFleet() && f.file != "":
		return errors.New("--source.config needs --source=prometheus:URL")
	case !c.ofFleet() && f.sharded:
		return errors.New("--shard needs --source=prometheus:URL")
	case !c.ofFleet():
		return nil
	}
	if !f.interval {
		c.source.Interval = fleetInterval
	}
	if !f.details {
		c.processDetail = collector.DetailGrowing
	}
	switch {
	case c.source.Interval < minFleetInterval:
		return fmt.Errorf("--sample.interval=%s: must be %s or more with --source=prometheus:URL", cli.FormatDuration(c.source.Interval), cli.FormatDuration(minFleetInterval))
	case c.stateFile != "":
		return errors.New("--detector.state-file has no use with --source=prometheus:URL: leave it out. After a restart the history is read again")
	}
	var err error
	if c.source.Fleet, err = fleet.Load(f.file, c.source.Interval); err != nil {
		return err
	}
	c.source.Fleet.Shard = f.shard
	for _, name := range c.source.Fleet.Labels {
		if slices.Contains(collector.ReservedLabels, name) {
			return fmt.Errorf("--source.config=%s: labels: %s is a label that the series have already: choose another one", f.file, name)
		}
	}
	return nil
}
