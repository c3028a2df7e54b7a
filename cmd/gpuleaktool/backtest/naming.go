// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/history"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
)

// longestName bounds the name of a series, in characters.
const longestName = 1000

// spoken are the labels that words has in its own way, or that say nothing beside them.
var spoken = []string{
	"gpu", "uuid", "UUID", "device", "gpu_instance", "profile", "process", "pid", "namespace", "pod", "container", "slurm_job", model.MetricNameLabel,
}

// telling returns the names of the other labels in which the GPUs of a list differ, such as
// the instance of a fleet's, in order.
func telling(list []*series) []string {
	values := map[string]string{}
	var names []string
	for _, x := range list {
		for name, value := range x.labels {
			if v, ok := values[name]; ok && v != value && !slices.Contains(names, name) && !slices.Contains(spoken, name) {
				names = append(names, name)
			}
			values[name] = value
		}
	}
	slices.Sort(names)
	return names
}

// namesOf names each series as people do. Those that would share a name bear the
// uuid of their GPU.
func namesOf(list []*series) []string {
	names, others := make([]string, len(list)), telling(list)
	type named struct{ from, name string }
	uuids := map[named][]string{}
	for i, x := range list {
		names[i] = x.words(others)
		key := named{x.from, names[i]}
		if uuid := x.labels.UUID(); !slices.Contains(uuids[key], uuid) {
			uuids[key] = append(uuids[key], uuid)
		}
	}
	for i, x := range list {
		if len(uuids[named{x.from, names[i]}]) > 1 {
			names[i] += " [" + x.labels.UUID() + "]"
		}
	}
	return names
}

// words names what a series is about, with those of its labels that others names.
func (x *series) words(others []string) string {
	l := x.labels
	name := ""
	switch {
	case l["gpu"] != "" && l.UUID() != "":
		name = "GPU " + l["gpu"]
	case x.gpu:
		name = unnumbered(l)
	case len(l) == 0:
		return "the series"
	default:
		return cli.Printable(l.String(), longestName)
	}
	parts := []string{name}
	add := func(what, name string) {
		if name != "" {
			parts = append(parts, what+name)
		}
	}
	slice := l["gpu_instance"]
	if profile := l["profile"]; profile != "" {
		slice += " (" + profile + ")"
	}
	add("MIG ", slice)
	add("", x.whose())
	for _, name := range others {
		add(name+" ", l[name])
	}
	return cli.Printable(strings.Join(parts, ", "), longestName)
}

var fullUUID = regexp.MustCompile(`^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// unnumbered names a GPU of which a log tells no number, or nothing.
func unnumbered(l history.Labels) string {
	switch uuid := l.UUID(); {
	case uuid == "":
		return "the GPU"
	case fullUUID.MatchString(uuid): // its first part is enough, as for nvidia-smi -i
		return uuid[:len("GPU-12345678")]
	case len(uuid) >= 3 && strings.EqualFold(uuid[:3], "gpu"):
		return uuid
	default:
		return "GPU " + uuid
	}
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
	add("", strings.TrimSpace(l["process"]))
	add("pid ", l["pid"])
	if pod := l["pod"]; pod != "" {
		add("pod ", l["namespace"]+"/"+pod)
	}
	add("Slurm job ", l["slurm_job"])
	return strings.Join(parts, ", ")
}
