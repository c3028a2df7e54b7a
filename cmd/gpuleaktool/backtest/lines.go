// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/history"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Line is what --output=json prints of one series at one step. The rate is that
// of a leak, and absent without one; an out-of-memory that is not foreseen is
// null, as is what is not known, and how long growth that slows down must last.
type Line struct {
	Time       time.Time      `json:"time"`
	Series     history.Labels `json:"series"`
	Text       string         `json:"text"`
	Leak       bool           `json:"leak"`
	Pattern    string         `json:"pattern"`
	Confidence float64        `json:"confidence"`
	Slope      *float64       `json:"slope_bytes_per_second"`
	R2         *float64       `json:"r2"`
	Spikes     *float64       `json:"spike_count"`
	Leaked     float64        `json:"leaked_bytes"`
	Seconds    *float64       `json:"seconds_to_oom"`
	Lower      *float64       `json:"seconds_to_oom_lower"`
	Upper      *float64       `json:"seconds_to_oom_upper"`
	Evidence   *string        `json:"evidence"`
	Withheld   *string        `json:"withheld"`
	WithheldS  *float64       `json:"withheld_seconds"`
	// Beyond what the metrics of the same names show.
	Judged   bool     `json:"judged"`
	Muted    bool     `json:"muted"`
	Rate     *float64 `json:"leak_rate_bytes_per_second"`
	Used     float64  `json:"used_bytes"`
	Since    *float64 `json:"leak_start_timestamp_seconds"`
	Capacity *float64 `json:"capacity_bytes"`
	Trough   *float64 `json:"trough_bytes"`
	// Whether an alert of the mixin fires for it.
	Page   bool   `json:"page"`
	Ticket bool   `json:"ticket"`
	File   string `json:"file,omitempty"`
}

// writeLines writes a line for each step of each series, in the order of time; at
// the same time in that of the series. every is the time between two.
func writeLines(w io.Writer, list []result, every time.Duration) error {
	out := bufio.NewWriterSize(w, 64<<10)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	type at struct {
		t            time.Duration
		series, step int
	}
	var order []at
	for i := range list {
		x := &list[i]
		for k := range x.steps {
			if t, due := x.due(k, every); due {
				order = append(order, at{t, i, k})
			}
		}
	}
	slices.SortFunc(order, func(a, b at) int {
		return cmp.Or(cmp.Compare(a.t, b.t), cmp.Compare(a.series, b.series))
	})
	for _, o := range order {
		f := &list[o.series]
		if err := encoder.Encode(lineOf(f, &f.steps[o.step], o.t)); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// due reports whether the k-th verdict is the one that a step tells which are so far apart,
// and when that step is: where the series ends, that is its end.
func (x *series) due(k int, every time.Duration) (t time.Duration, due bool) {
	s := &x.steps[k]
	if s.last {
		return s.t, true
	}
	t = ceil(s.t, every)
	return t, k+1 == len(x.steps) || ceil(x.steps[k+1].t, every) != t
}

func lineOf(f *result, s *step, t time.Duration) Line {
	var since detector.Value
	if s.leak {
		since = detector.Of(s.since.Seconds())
	}
	var withheld *string
	var withheldFor detector.Value
	if why := s.withheld.String(); why != "" {
		withheld, withheldFor = &why, detector.WithheldSeconds(s.withheldFor)
	}
	v, cfg := detector.Verdict{Judged: s.judged, Muted: s.muted, Leak: s.leak, Withheld: s.withheld, Confidence: s.confidence}, detector.DefaultConfig()
	var evidence *string
	if by := s.evidence.String(); by != "" && s.seconds.Finite() != nil {
		evidence = &by
	}
	return Line{
		Time: history.Wall(t), Series: f.labels, File: f.from, Text: finding.Word(&v, &cfg),
		Leak: s.leak, Pattern: s.pattern.String(), Confidence: s.confidence,
		Slope: s.slope.Finite(), R2: s.r2.Finite(), Spikes: s.spikes.Finite(), Leaked: s.leaked.V,
		Seconds: s.seconds.Finite(), Lower: s.lower.Finite(), Upper: s.upper.Finite(),
		Withheld: withheld, WithheldS: withheldFor.Finite(), Evidence: evidence,
		Judged: s.judged, Muted: s.muted, Rate: s.rate.Finite(), Used: s.used, Since: since.Finite(), Capacity: s.capacity.Finite(), Trough: s.trough.Finite(),
		Page: firing(f.pages, s.t), Ticket: firing(f.tickets, s.t),
	}
}
