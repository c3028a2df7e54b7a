// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/prometheus/common/model"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// FuzzAnswer spreads answers, one a line, of a Prometheus that may lie. Whatever it says, the samples of a memory
// follow each other in time, fit into it, and are counted as what waits.
func FuzzAnswer(f *testing.F) {
	const series = `[{"metric":{"__name__":"DCGM_FI_DEV_FB_USED","UUID":"GPU-1","gpu":"0","instance":"a"},"values":[[100,"1"],[115,"2"]]}]`
	f.Add(series)
	f.Add(series + "\n" + series)
	f.Add(strings.ReplaceAll(series, "[115", "[85"))                                                         // not in order
	f.Add(strings.ReplaceAll(series, "[115", "[9223372036854775"))                                           // at the end of all time
	f.Add(strings.ReplaceAll(series, `"gpu":"0"`, `"GPU_I_ID":"1"`) + "\n" + series)                         // a GPU instance, then a GPU
	f.Add(strings.ReplaceAll(series, "USED", "TOTAL") + "\n" + strings.ReplaceAll(series, `"2"`, `"1e300"`)) // above the capacity
	f.Add(`[{"metric":{"UUID":"GPU-1"},"histograms":[[1,{"count":"1","sum":"1"}]]},null,{}]`)
	f.Fuzz(func(t *testing.T, text string) {
		s := &Source{
			cfg:   Config{Client: &promapi.Client{}, Query: used, MaxAge: 5 * time.Minute, Labels: []string{"instance"}, Logger: log.NewNopLogger()},
			feeds: map[string]*feed{}, drained: make(chan struct{}, 1), metrics: newMetrics(log.NewNopLogger()), advanced: time.Now(),
		}
		testkit.Must(t, s.understand())
		for line := range strings.Lines(text) {
			var matrix model.Matrix
			if json.Unmarshal([]byte(line), &matrix) != nil {
				continue
			}
			if matrix, err := promapi.MatrixOf(matrix); err == nil {
				s.spread(matrix, true)
				s.takeBounds(matrix)
				s.review()
			}
		}
		queued := 0
		for _, feed := range s.feeds {
			queued += len(feed.rows)
			for _, m := range feed.memories {
				checkRows(t, feed.rows, m)
			}
			for feed.waiting() {
				before := len(feed.rows)
				sample, err := feed.next()
				queued -= before - len(feed.rows)
				if err == nil && sample.Memory.Free.OK && sample.Memory.Free.V > sample.Memory.Total.V {
					t.Fatalf("more is free than there is: %+v", sample.Memory)
				}
			}
		}
		if queued != 0 || s.queued.Load() != 0 {
			t.Fatalf("%d rows are left, %d are counted", queued, s.queued.Load())
		}
	})
}

func checkRows(t *testing.T, rows []row, m *memory) {
	t.Helper()
	last := time.Duration(-1)
	for _, r := range rows {
		if r.memory != m {
			continue
		}
		if r.t < last {
			t.Fatalf("%s follows %s", r.t, last)
		}
		if last = r.t; r.used > detector.MaxBytes {
			t.Fatalf("%d bytes are used", r.used)
		}
	}
}
