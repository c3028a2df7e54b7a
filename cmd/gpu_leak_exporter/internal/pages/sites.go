// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"net/http"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

// NewSites answers with the lines of code that allocate a leak, for each process that was asked:
//
//	{"status":"success","data":{"time":…,"processes":[{"labels":{"gpu":"0","uuid":"GPU-…","pid":"…",…},
//	  "state":"done","reason":"","asked":…,"seconds":300,"pause_seconds":0.02,"unsure_lines":0,"sites":[{
//	  "line":"app/serve.py:41 handle","growth_bytes":…,"live_bytes":…,"blocks":…,"uuid":"…","frames":[…]}]}]}}
//
// unsure_lines counts other lines that grew. They may only have replaced memory that was freed. state is
// asked, recording, done or refused, and reason says why it was refused. labels are those of the series of the
// process. Lists are never null; sites has the largest growth first, and frames the innermost first.
//
// state must not block, and is called from any goroutine, once for each answer.
func NewSites(state func() *sampler.State) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fromstate.Answer(w, sitesIn(state()))
	})
}

type (
	sitesData struct {
		Time      time.Time     `json:"time"`
		Processes []locatedJSON `json:"processes"`
	}
	locatedJSON struct {
		Labels  map[string]string `json:"labels"`
		State   string            `json:"state"`
		Reason  string            `json:"reason"`
		Asked   *time.Time        `json:"asked"`
		Seconds float64           `json:"seconds"`
		Pause   float64           `json:"pause_seconds"`
		Unsure  uint32            `json:"unsure_lines"`
		Sites   []verdicts.Site   `json:"sites"`
	}
)

func sitesIn(s *sampler.State) sitesData {
	data := sitesData{Time: s.Time.UTC(), Processes: []locatedJSON{}}
	for _, d := range s.Devices {
		for i := range d.Processes {
			p := &d.Processes[i]
			if !d.Up || p.Sites == nil {
				continue
			}
			labels := map[string]string{"gpu": d.Info.IndexLabel(), "uuid": d.Info.UUID}
			who := finding.Of(p.Owner)
			fromstate.NameProcess(labels, p.Instance, p.ID, &who)
			j := locatedJSON{
				Labels: labels, State: string(p.Sites.State), Reason: p.Sites.Reason, Asked: fromstate.MomentOf(p.Sites.Asked),
				Seconds: p.Sites.Over.Seconds(), Pause: p.Sites.Pause.Seconds(), Unsure: p.Sites.Unsure, Sites: fromstate.SitesOf(p.Sites.List),
			}
			data.Processes = append(data.Processes, j)
		}
	}
	return data
}
