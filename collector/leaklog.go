// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// leakLog says each leak of a GPU once, when it is detected, and once more when
// it is over: what a page showed for a minute at night can be read in the
// morning. It does the same for memory that stays after its process has ended,
// and says what is withheld for long.
type leakLog struct {
	known, now map[leakKey]bool
	stays      map[processKey]bool
	located    map[processKey]time.Time // when those were asked of which the lines were said
	waits      waitLog
}

// leakKey names who leaks: a process, a workload, or what nobody is known to
// hold.
type leakKey struct {
	process  processKey
	workload string
	instance gpu.Opt[uint32]
}

// labels are the key-value pairs that name k in the log.
func (k leakKey) labels() (pairs []any) {
	if k.instance.OK {
		pairs = append(pairs, "gpu_instance", k.instance.V)
	}
	switch {
	case k.process != processKey{}:
		pairs = append(pairs, "pid", k.process.id.PID)
	case k.workload != "":
		pairs = append(pairs, "workload", k.workload)
	default:
		pairs = append(pairs, "who", "unknown")
	}
	return pairs
}

// update compares the leaks of a new state with those of the one before.
func (l *leakLog) update(logger log.Logger, state *DeviceState) {
	if l.known == nil {
		l.known, l.now = map[leakKey]bool{}, map[leakKey]bool{}
		l.stays = map[processKey]bool{}
		l.located = map[processKey]time.Time{}
	}
	clear(l.now)
	logger = log.With(logger, "at", state.SampleTime.UTC().Format(time.RFC3339))
	l.unreleased(logger, state)
	l.sites(logger, state)
	named := map[gpu.Opt[uint32]]bool{} // instances of which a leaking process or workload is known
	l.processes(logger, state, named)
	l.workloads(logger, state, named)
	l.domain(logger, state, gpu.Opt[uint32]{}, &state.Judgement.Device, named)
	for i := range state.Instances {
		l.domain(logger, state, gpu.Some(state.Instances[i].ID), &state.Instances[i].Judgement.Device, named)
	}
	l.waits.update(logger, state.SampleTime)
	for k := range l.known {
		if !l.now[k] {
			level.Info(log.With(logger, k.labels()...)).Log("msg", "the leak is over: it was taken back or muted, its process has ended, or judging has started anew")
		}
	}
	l.known, l.now = l.now, l.known
}

// processes notes the leaks of processes, and what of them is withheld.
func (l *leakLog) processes(logger log.Logger, state *DeviceState, named map[gpu.Opt[uint32]]bool) {
	for i := range state.Processes {
		p := &state.Processes[i]
		key := leakKey{process: processKey{p.ID, p.Instance}, instance: p.Instance}
		switch {
		case p.Verdict.Leak:
			named[p.Instance] = true
			more := []any{"process", p.Owner.Process, "group", p.Owner.Group()}
			if p.Grows != detector.InsideUnknown {
				more = append(more, "grows", p.Grows)
			}
			l.note(logger, key, &p.Verdict, more...)
		case unsaid(&p.Verdict):
			l.keep(func(k leakKey) bool { return k == key })
		case p.Verdict.Withheld != detector.WithheldNone:
			l.waits.note(key, state.SampleTime, &p.Verdict, "process", p.Owner.Process, "group", p.Owner.Group())
		}
	}
}

// sites says of each process that was asked which line allocates what leaks, or why that is not known.
func (l *leakLog) sites(logger log.Logger, state *DeviceState) {
	there := map[processKey]bool{}
	for i := range state.Processes {
		p := &state.Processes[i]
		key := processKey{p.ID, p.Instance}
		if p.Sites == nil {
			continue
		}
		there[key] = true
		if l.located[key].Equal(p.Sites.Asked) {
			continue
		}
		pairs := append(leakKey{process: key, instance: key.instance}.labels(), "process", p.Owner.Process, "group", p.Owner.Group())
		logger := log.With(logger, pairs...)
		switch p.Sites.State {
		case allocator.SitesRefused:
			level.Info(logger).Log("msg", "the lines that allocate what leaks are not known", "err", p.Sites.Reason)
		case allocator.SitesDone:
			if list := sitesOf(p); len(list) > 0 {
				level.Warn(logger).Log("msg", "the line that allocates most of what leaks", "site", list[0].line, "bytes", list[0].bytes, "over", p.Sites.Over)
			} else {
				level.Info(logger).Log("msg", "no line was seen to allocate what stays", "over", p.Sites.Over)
			}
		default:
			continue
		}
		l.located[key] = p.Sites.Asked
	}
	maps.DeleteFunc(l.located, func(key processKey, _ time.Time) bool { return !there[key] })
}

// workloads does the same for pods and jobs.
func (l *leakLog) workloads(logger log.Logger, state *DeviceState, named map[gpu.Opt[uint32]]bool) {
	for i := range state.Workloads {
		w := &state.Workloads[i]
		o := gpu.Owner{Namespace: w.Namespace, Pod: w.Pod, SlurmJob: w.SlurmJob}
		key := leakKey{workload: o.Group(), instance: w.Instance}
		if w.Verdict.Leak {
			named[w.Instance] = true
			l.note(logger, key, &w.Verdict)
			continue
		}
		l.waits.note(key, state.SampleTime, &w.Verdict)
	}
}

// unreleased says what has stayed after the end of a process, and what has gone.
func (l *leakLog) unreleased(logger log.Logger, state *DeviceState) {
	for i := range state.Unreleased {
		u := &state.Unreleased[i]
		key := processKey{u.ID, u.Instance}
		if !l.stays[key] {
			l.stays[key] = true
			pairs := append(leakKey{process: key, instance: u.Instance}.labels(), "process", u.Owner.Process, "group", u.Owner.Group())
			level.Warn(log.With(logger, pairs...)).Log("msg", "memory has stayed after its process ended",
				"bytes", u.Used, "ended", time.Unix(0, int64(u.Since)).UTC().Format(time.RFC3339))
		}
	}
	for key := range l.stays {
		if !slices.ContainsFunc(state.Unreleased, func(u UnreleasedState) bool { return key == processKey{u.ID, u.Instance} }) {
			delete(l.stays, key)
			level.Info(log.With(logger, leakKey{process: key, instance: key.instance}.labels()...)).Log("msg", "memory that had stayed after its process ended is free")
		}
	}
}

// domain notes the leak of a memory as a whole where nobody in it is known to leak. Where there
// is a list of processes, who is not in it has ended, also in a memory of which nothing is ever said.
func (l *leakLog) domain(logger log.Logger, state *DeviceState, instance gpu.Opt[uint32], v *detector.Verdict, named map[gpu.Opt[uint32]]bool) {
	listed := state.ProcessesKnown
	switch {
	case unsaid(v):
		l.keep(func(k leakKey) bool { return k.instance == instance && !(listed && k.process != processKey{}) })
	case v.Leak && !named[instance] && !l.pausing(instance):
		l.note(logger, leakKey{instance: instance}, v)
	case v.Withheld != detector.WithheldNone && !l.waits.waiting(instance, state.SampleTime):
		l.waits.note(leakKey{instance: instance}, state.SampleTime, v)
	}
}

// unsaid reports whether nothing is said of a memory, as where reading it has failed: that ends no
// leak.
func unsaid(v *detector.Verdict) bool { return !v.Judged && !v.Muted }

// pausing reports whether a workload leaked in a memory that leaks on without it, and
// keeps it: between two lives of a crash loop a workload has no process and no state.
func (l *leakLog) pausing(instance gpu.Opt[uint32]) bool {
	return l.keep(func(k leakKey) bool { return k.workload != "" && k.instance == instance })
}

// keep keeps the leaks that were known before and are meant, and reports whether there are any.
func (l *leakLog) keep(meant func(leakKey) bool) (found bool) {
	for k := range l.known {
		if meant(k) {
			l.now[k], found = true, true
		}
	}
	return found
}

// note says a leak that was not known.
func (l *leakLog) note(logger log.Logger, k leakKey, v *detector.Verdict, more ...any) {
	l.now[k] = true
	if l.known[k] {
		return
	}
	left := "unknown"
	if v.SecondsToOOM.Finite() != nil {
		left = strconv.FormatFloat(math.Round(v.SecondsToOOM.V), 'f', -1, 64)
	}
	pairs := append(k.labels(), more...)
	leak := []any{
		"msg", "memory leak detected", "pattern", v.Pattern,
		"bytes_per_second", int64(math.Round(v.Rate.V)), "leaked_bytes", int64(v.Leaked.V), "seconds_to_oom", left,
	}
	level.Warn(log.With(logger, pairs...)).Log(append(leak, l.waits.over(k, v)...)...)
}
