// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// entity is what series are about: a GPU, a process. Its labels are the same in all of its series, so
// they are made once a scrape and not once a series.
type entity struct {
	x      any // *sampler.DeviceState and so on, as the scope says
	up     bool
	values []string // of the labels, in the order of scopes
	// quiet says that it needs few of its series: see DetailGrowing.
	quiet bool
	// device tells from where it is.
	device *sampler.DeviceState
	// fragments and text are made by textSink, when they are first wanted.
	fragments []string
	text      string
}

// entities are those of one State by scope. In each scope they are ordered as Prometheus orders series:
// by the values of their labels, in the order of the labels' names.
type entities struct {
	of     *Collector
	scopes [numScopes][]entity
}

// entities returns those of the current State, if there is one. Of those with the same labels the first one
// stays. That is no error within a GPU, where a number may have been given again; else the error says it.
func (c *Collector) entities() (*entities, error) {
	all, s := &entities{of: c}, c.state()
	if s == nil {
		return all, nil
	}
	all.add(ofExporter, s, nil, nil)
	for _, d := range s.Devices {
		all.addDevice(d)
	}
	var err error
	for scope := range all.scopes {
		list := all.scopes[scope]
		order := c.scopes.order[scope]
		slices.SortStableFunc(list, func(a, b entity) int { return compareValues(order, a.values, b.values) })
		all.scopes[scope] = slices.CompactFunc(list, func(a, b entity) bool {
			same := slices.Equal(a.values, b.values)
			if same && a.device != b.device {
				err = fmt.Errorf("two GPUs have series of the same labels, and one is left out: %s %q", c.scopes.names[scope], a.values)
			}
			return same
		})
	}
	return all, err
}

func compareValues(order []int, a, b []string) int {
	for _, o := range order {
		if n := strings.Compare(a[o], b[o]); n != 0 {
			return n
		}
	}
	return 0
}

// add adds an entity with these values of its scope's labels. It keeps values. v is the verdict on it; nil for none.
func (l *entities) add(s scope, x any, d *sampler.DeviceState, v *detector.Verdict, values ...string) {
	names := l.of.scopes.names[s]
	for i := range values {
		values[i] = sampler.LabelValue(names[i], values[i])
	}
	l.scopes[s] = append(l.scopes[s], entity{x: x, up: d == nil || d.Up, values: values, quiet: v != nil && quiet(v), device: d})
}

func (l *entities) addDevice(d *sampler.DeviceState) {
	index, uuid := d.Info.IndexLabel(), d.Info.UUID
	l.add(ofGPU, d, d, &d.Judgement.Device, append([]string{index, uuid}, l.of.fleet.places(d, d.Who)...)...)
	if !d.Up {
		return
	}
	for i := range d.Instances {
		in := &d.Instances[i]
		values := []string{index, uuid, sampler.InstanceID(in.Instance), in.Profile}
		l.add(ofInstance, in, d, &in.Judgement.Device, append(values, l.of.fleet.places(d, in.Who)...)...)
	}
	for i := range d.Processes {
		p := &d.Processes[i]
		l.add(ofProcess, p, d, &p.Verdict, processValues(index, uuid, p.Instance, p.ID, ownerOf(&p.Process))...)
	}
	for i := range d.Unreleased {
		u := &d.Unreleased[i]
		l.add(ofUnreleased, u, d, nil, processValues(index, uuid, u.Instance, u.ID, u.Owner)...)
	}
	for i := range d.Workloads {
		w := &d.Workloads[i]
		l.add(ofWorkload, w, d, &w.Verdict, index, uuid, sampler.InstanceID(w.Instance), w.Namespace, w.Pod, w.SlurmJob)
	}
	for i := range d.Findings {
		f := &d.Findings[i]
		values := []string{f.Scope(), index, uuid, sampler.InstanceID(f.Instance), f.Namespace, f.Pod, f.Container, f.SlurmJob, f.Process, f.User, l.of.notReal}
		l.add(ofFinding, f, d, nil, append(values, d.Info.Place[:len(l.of.fleet.Labels)]...)...)
	}
}
