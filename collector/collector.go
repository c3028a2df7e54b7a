// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package collector shows Prometheus the last state. A scrape turns one State into series: it calls no driver, takes
// no lock and cannot fail.
//
// The series are grouped in families, one a file and a flag. A family is a table with one row for each metric: its name, its
// help and how to read it from the State.
package collector

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

// Options choose what a Collector exports.
type Options struct {
	// Enabled switches families on and off by name; those it does not name are as Families says.
	Enabled map[string]bool
	// ProcessCommand adds the label command to gpu_process_info: the arguments of each process, which may hold secrets.
	ProcessCommand bool
	// ProcessDetail says which processes have all of their series, and which GPUs of a fleet; empty is DetailAll.
	ProcessDetail Detail
	// Fleet is for the GPUs of many hosts.
	Fleet Fleet
	// NotReal says that the GPUs are simulated or replayed, in the label source of what alerts read; "" where they are real.
	NotReal string
}

// Collector implements prometheus.Collector over the State that a function
// returns. Its methods may be called from several goroutines.
type Collector struct {
	state   func() *sampler.State
	fleet   Fleet
	notReal string
	scopes  *scopes
	rows    []row // ordered by name
}

// New returns a Collector that exports what state returns. state must not block, and nobody may change what it returned. A
// family that does not exist, or that cannot be switched off, is an error.
func New(state func() *sampler.State, o Options) (*Collector, error) {
	if state == nil {
		return nil, errors.New("collector: no state to export")
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	c := &Collector{state: state, fleet: o.Fleet, notReal: o.NotReal, scopes: newScopes(o.Fleet)}
	for i := range families {
		f := &families[i]
		on, told := o.Enabled[f.name]
		if !f.always && !on && (told || !f.enabled) {
			continue
		}
		for _, m := range f.metrics {
			if !o.Fleet.shows(&m) {
				continue
			}
			r, err := newRow(f, m, c.scopes, o)
			if err != nil {
				return nil, err
			}
			c.rows = append(c.rows, r)
		}
	}
	slices.SortFunc(c.rows, func(a, b row) int { return strings.Compare(a.name, b.name) })
	return c, nil
}

// validate returns an error if a family in o is none.
func (o Options) validate() error {
	for name := range o.Enabled {
		if !slices.ContainsFunc(Families(), func(f FamilyInfo) bool { return f.Name == name }) {
			return fmt.Errorf("unknown collector %q", name)
		}
	}
	return nil
}

// Describe sends the descriptors of all metrics that are switched on.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for i := range c.rows {
		ch <- c.rows[i].desc
	}
}

// Collect sends the series of one State. It blocks only as long as ch does.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	entities, err := c.entities()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
	}
	e := emitter{to: metricSink(ch)}
	for i := range c.rows {
		e.emitAll(&c.rows[i], entities)
	}
}

// processValues returns the values of the labels of a process.
func processValues(index, uuid string, instance gpu.Opt[uint32], id gpu.ProcessID, o *gpu.Owner) []string {
	return []string{
		index, uuid, sampler.InstanceID(instance), strconv.FormatUint(uint64(id.PID), 10),
		o.Process, o.Namespace, o.Pod, o.Container, o.SlurmJob,
	}
}

func pidOf(p *gpu.Process) string { return strconv.FormatUint(uint64(p.ID.PID), 10) }

var noOwner gpu.Owner

// ownerOf returns whose process p is; an empty Owner if that is not known.
func ownerOf(p *gpu.Process) *gpu.Owner { return cmp.Or(p.Owner, &noOwner) }
