// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/plot"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// suspicion is the growth of a series that was suspected, and not called a leak at that time.
type suspicion struct {
	spans    []plot.Span
	surest   *step // of those moments the one of the highest confidence, the last of several; nil without any
	reported *step // the alarm that came of what was suspected then; nil without one
}

// note takes the next step at which something was said. alarm says that a leak is reported there,
// and was not at the step before.
func (p *suspicion) note(s *step, alarm bool) {
	open := p.open()
	if s.withheld == detector.WithheldNone {
		if open {
			last := &p.spans[len(p.spans)-1]
			last.To, last.Open = s.t, false
		}
		if alarm && p.surest != nil && p.reported == nil && s.since <= p.surest.t {
			p.reported = s
		}
		return
	}
	if !open {
		p.spans = append(p.spans, plot.Span{From: s.t, Open: true})
	}
	p.spans[len(p.spans)-1].To = s.t
	if p.surest == nil || s.confidence >= p.surest.confidence {
		p.surest, p.reported = s, nil
	}
}

// open reports whether growth is suspected at the last step.
func (p *suspicion) open() bool { return len(p.spans) > 0 && p.spans[len(p.spans)-1].Open }

// why writes why this is not called a leak, and how sure it was that it is one, such as "it may be the start of
// a program, and must grow for another 35 min (confidence 0.42)". The confidence is rounded down: one that is
// below the threshold never looks like it.
func (s *step) why() string {
	sure := math.Floor(100*s.confidence+1e-9) / 100
	return fmt.Sprintf("it %s (confidence %.2f)", finding.Withheld(s.withheld, s.withheldFor), sure)
}

// atSurest writes what was suspected when that was surest, and what came of it; "" without any, and
// where it is that which is suspected at the end. Every leak waits for the few minutes that any growth
// must last: of one that was reported this says nothing.
func (f *result) atSurest(loc *time.Location) string {
	p := &f.suspected
	switch {
	case p.surest == nil || p.open() && p.surest.t >= p.spans[len(p.spans)-1].From:
		return ""
	case p.reported != nil && p.surest.withheld == detector.WithheldMinSpan:
		return ""
	}
	text := "At " + moment(p.surest.t, loc) + " no leak yet: " + p.surest.why() + ". "
	if p.reported != nil {
		return text + "It was called a leak later."
	}
	return text + "It stopped before."
}

// atEnd writes what is suspected at the end of the record, "" for nothing.
func (f *result) atEnd() string {
	if !f.suspected.open() {
		return ""
	}
	return "No leak yet: " + f.final().why() + "."
}

// withheld writes both.
func (f *result) withheld(loc *time.Location) string {
	return strings.TrimSpace(f.atSurest(loc) + " " + f.atEnd())
}

// suspects is the sentence about what is suspected at the end of the record, of which nothing
// was reported. "" without any.
func suspects(list []result) string {
	var surest *result
	n := 0
	for i := range list {
		f := &list[i]
		if !f.suspected.open() {
			continue
		}
		n++
		// A process comes after its memory, and its name has that of the memory.
		if surest == nil || f.final().confidence >= surest.final().confidence {
			surest = f
		}
	}
	if surest == nil {
		return ""
	}
	text := " Suspected at the end: " + surest.title()
	if n > 1 {
		text += fmt.Sprintf(" (%d series in all)", n)
	}
	return text + ". " + surest.atEnd()
}
