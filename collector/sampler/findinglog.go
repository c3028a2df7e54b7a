// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"maps"
	"slices"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
)

// findingLog logs each message on a memory when it begins, and when it is over. So you can read in the morning what the page
// showed for a minute at night.
type findingLog struct {
	known   map[messageKey]finding.Message // as it was logged last
	located map[processKey]time.Time       // when the question was asked whose answer is logged
}

// messageKey names a message for its whole life.
type messageKey struct {
	memory MemoryKey
	alert  string // finding.Leak also for finding.OutOfMemory
	who    finding.Who
}

// update logs the differences between a new state and the last one. Messages on a memory that could not be read stay.
func (l *findingLog) update(logger log.Logger, state *DeviceState) {
	if l.located == nil {
		l.located = map[processKey]time.Time{}
	}
	logger = log.With(logger, "at", log.TimestampFormat(state.SampleTime.UTC, time.RFC3339)) // formats it only if there is news
	now := map[messageKey]finding.Message{}
	for d := range state.Domains() {
		l.domain(logger, &d, now)
	}
	for k, m := range l.known {
		if _, goesOn := now[k]; !goesOn {
			level.Info(logger).Log("msg", "it is over", "alert", m.Alert, "who", finding.Joined(" of ", m.Who.Process, m.Who.Place()))
		}
	}
	l.known = now
	l.sites(logger, state)
}

// domain logs the new messages on a memory.
func (l *findingLog) domain(logger log.Logger, d *Domain, now map[messageKey]finding.Message) {
	v := &d.Judgement.Device
	for k, before := range l.known {
		if k.memory == d.MemoryKey && !v.Judged && !v.Muted && !d.judged() {
			now[k] = before
		}
	}
	if len(d.Device.Findings) == 0 { // words cost time
		return
	}
	for _, m := range d.Messages() {
		k := messageKey{d.MemoryKey, m.Alert, m.Who}
		if m.Alert == finding.OutOfMemory {
			k.alert = finding.Leak
		}
		before, known := l.known[k]
		waits := m.Severity == finding.Page && !m.Due
		switch {
		case waits && !known:
			continue
		case !known || m.Severity > before.Severity && !waits:
			level.Warn(logger).Log("msg", m.Text(), "alert", m.Alert, "severity", m.Severity)
			before = m
		}
		now[k] = before
	}
}

// judged reports whether a process on a memory is judged.
func (m *Domain) judged() bool {
	return slices.ContainsFunc(m.Device.Processes, func(p ProcessState) bool { return m.Has(&p.Process) && p.Verdict.Judged })
}

// sites logs the line of code that allocates most of a leak, once for each question.
func (l *findingLog) sites(logger log.Logger, state *DeviceState) {
	for i := range state.Processes {
		p := &state.Processes[i]
		key := processKey{p.ID, p.Instance}
		if p.Sites == nil || p.Sites.State != allocator.SitesDone || l.located[key].Equal(p.Sites.Asked) {
			continue
		}
		l.located[key] = p.Sites.Asked
		if list := p.LeakSites(); len(list) > 0 {
			level.Warn(logger).Log("msg", "the line that allocates most of what leaks", "pid", p.ID.PID, "process", p.Owner.Process, "group", p.Owner.Group(),
				"site", list[0].Line, "bytes", list[0].Bytes, "over", p.Sites.Over)
		}
	}
	maps.DeleteFunc(l.located, func(key processKey, _ time.Time) bool {
		return !slices.ContainsFunc(state.Processes, func(p ProcessState) bool { return key == processKey{p.ID, p.Instance} })
	})
}
