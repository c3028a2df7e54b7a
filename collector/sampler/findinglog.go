// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"slices"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
)

// findingLog has each message on a memory as it was logged last. It logs one when it begins, and when it is over. So you can read in
// the morning what the page showed for a minute at night.
type findingLog map[messageKey]finding.Message

// messageKey names a message for its whole life.
type messageKey struct {
	memory MemoryKey
	alert  string // finding.Leak also for finding.OutOfMemory
	who    finding.Who
}

// update logs the differences between a new state and the last one. Messages on a memory that could not be read stay.
func (l *findingLog) update(logger log.Logger, state *DeviceState) {
	logger = log.With(logger, "at", log.TimestampFormat(state.SampleTime.UTC, time.RFC3339)) // formats it only if there is news
	now := findingLog{}
	for d := range state.Domains() {
		l.domain(logger, &d, now)
	}
	for k, m := range *l {
		if _, goesOn := now[k]; !goesOn {
			level.Info(logger).Log("msg", "it is over", "alert", m.Alert, "who", finding.Joined(" of ", m.Who.Process, m.Who.Place()))
		}
	}
	*l = now
}

// domain logs the new messages on a memory.
func (l *findingLog) domain(logger log.Logger, d *Domain, now findingLog) {
	for k, before := range *l {
		if k.memory == d.MemoryKey && !d.judged() {
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
		before, known := (*l)[k]
		waits := m.Severity == finding.Page && !m.Due
		switch {
		case waits && !known:
			continue
		case waits:
			before.Severity = min(before.Severity, finding.Ticket) // a page that was over for PageWait is news again
		case !known || m.Severity > before.Severity:
			level.Warn(logger).Log("msg", m.Text(), "alert", m.Alert, "severity", m.Severity)
			before = m
		}
		now[k] = before
	}
}

// judged reports whether a memory or a process on it is judged, or the memory is not to be.
func (m *Domain) judged() bool {
	v := &m.Judgement.Device
	return v.Judged || v.Muted || slices.ContainsFunc(m.Device.Processes, func(p ProcessState) bool { return m.Has(&p.Process) && p.Verdict.Judged })
}
