// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

// findings is what the begin of a page says: what is worst, and what else is known.
type findings struct {
	Headline, Detail string
	Urgent, Well     bool // the headline is bad news, or good
	First            said // what the headline says, if it is a finding
	Others           []said
	Rest             int // findings that are not listed
}

// said is one thing that somebody should know, with the addresses of its memory and of what to do.
type said struct {
	Class, Summary, Details, Page, Runbook string
}

// findingsOf puts a report into words, with that many findings at most.
func findingsOf(r *sampler.Report, most int) (f findings) {
	f.Headline, f.Detail, f.Urgent, f.Well = r.Headline, r.Detail, r.Severity >= finding.Ticket, r.Severity == finding.Note
	for i := range r.Messages {
		m := &r.Messages[i]
		s := said{Summary: m.Summary, Details: m.Details()}
		if m.Severity >= finding.Ticket {
			s.Class = "bad"
		}
		if m.Alert != "" {
			s.Runbook = RunbookPath + "#" + strings.ToLower(m.Alert)
		}
		if m.Memory != nil {
			s.Page = PredictPath + "/" + nameOf(m.Memory, nil)
		}
		switch {
		case i == 0 && s.Summary == f.Headline:
			f.First = s
		case len(f.Others) < most:
			f.Others = append(f.Others, s)
		default:
			f.Rest++
		}
	}
	return f
}
