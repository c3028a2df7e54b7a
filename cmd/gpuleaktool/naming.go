// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
)

// namesOf names each series as people do. Those that would share a name bear the
// uuid of their GPU.
func namesOf(list []*series) []string {
	names := make([]string, len(list))
	type named struct{ from, name string }
	uuids := map[named][]string{}
	for i, x := range list {
		names[i] = x.words()
		key := named{x.from, names[i]}
		if uuid := x.labels.get("uuid"); !slices.Contains(uuids[key], uuid) {
			uuids[key] = append(uuids[key], uuid)
		}
	}
	for i, x := range list {
		if len(uuids[named{x.from, names[i]}]) > 1 {
			names[i] += " [" + x.labels.get("uuid") + "]"
		}
	}
	return names
}

// words names what a series is about.
func (x *series) words() string {
	l := x.labels
	if l.get("gpu") == "" || l.get("uuid") == "" {
		if len(l) == 0 {
			return "the series"
		}
		return l.String()
	}
	parts := []string{"GPU " + l.get("gpu")}
	add := func(what, name string) {
		if name != "" {
			parts = append(parts, what+name)
		}
	}
	slice := l.get("gpu_instance")
	if profile := l.get("profile"); profile != "" {
		slice += " (" + profile + ")"
	}
	add("MIG ", slice)
	add("", x.whose())
	return strings.Join(parts, ", ")
}

// whose names the process, pod or job that a series is about; "" if it is about none.
func (x *series) whose() string {
	l := x.labels
	var parts []string
	add := func(what, name string) {
		if name != "" {
			parts = append(parts, what+name)
		}
	}
	add("", strings.TrimSpace(l.get("process")))
	add("pid ", l.get("pid"))
	if pod := l.get("pod"); pod != "" {
		add("pod ", l.get("namespace")+"/"+pod)
	}
	add("Slurm job ", l.get("slurm_job"))
	return strings.Join(parts, ", ")
}
