// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

// findings is the head of a page: the worst finding, or that there is none, and the others.
type findings struct {
	First        said
	Urgent, Well bool // the first is bad news, or good
	Others       []said
	Rest         int // findings beyond the longest list
}

// said is one finding in words, with the addresses of its memory and its chapter of the runbook, if it has them.
type said struct {
	Class, Summary, Details, Page, Runbook string
}

// findingsOf puts a report into words, with that many findings at most.
func findingsOf(r *sampler.Report, most int) (f findings) {
	f.First, f.Urgent = said{Summary: r.Summary, Details: r.Details()}, r.Severity >= finding.Ticket
	f.Well = r.Severity == finding.Note && len(r.Messages) == 0
	for i := range r.Messages {
		m := &r.Messages[i]
		s := said{Summary: m.Summary, Details: m.Details(), Runbook: RunbookPath + "#" + strings.ToLower(m.Alert)}
		if m.Severity >= finding.Ticket {
			s.Class = "bad"
		}
		if m.Memory != nil {
			s.Page = PredictPath + "/" + fromstate.PathOf(m.Memory)
		}
		switch {
		case i == 0:
			f.First = s
		case i <= most:
			f.Others = append(f.Others, s)
		default:
			f.Rest++
		}
	}
	return f
}
