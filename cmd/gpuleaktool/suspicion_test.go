// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// suspected is a step at which growth that began so long ago is withheld.
func suspected(why detector.Withheld, confidence float64, lasted, more time.Duration) step {
	return step{judged: true, confidence: confidence, withheld: why, lasted: lasted, withheldFor: more}
}

// following is a series of which each step says one of these, a minute apart.
func following(steps ...step) *series {
	x := &series{kind: kindMemory, labels: labelsOf("gpu", "0", "uuid", "GPU-0"), samples: 60, last: time.Duration(len(steps)-1) * time.Minute}
	for i, s := range steps {
		s.t = time.Duration(i) * time.Minute
		x.steps = append(x.steps, s)
	}
	return x
}

// TestWithheld has what the table says of growth that is suspected.
func TestWithheld(t *testing.T) {
	const minute = time.Minute
	fine, blind := step{judged: true}, step{blind: true}
	begin := func(confidence float64, lasted time.Duration) step {
		return suspected(detector.WithheldProgramBegin, confidence, lasted, 60*minute-lasted)
	}
	young := suspected(detector.WithheldMinSpan, 0.3, 5*minute, minute)
	daily := suspected(detector.WithheldDailyLoad, 0.5, 3*time.Hour, 9*time.Hour)
	leak := func(since time.Duration) step { return step{judged: true, leak: true, since: since} }
	for _, c := range []struct {
		name, verdict, want string
		steps               []step
	}{
		{"nothing", "no leak", "", []step{fine, fine}},
		{"at the end", "no leak yet", "No leak yet: it may be the start of a program, and must grow for another 35 min (confidence 0.42).", []step{fine, begin(0.4, 24*minute), begin(0.42, 25*minute)}},
		{"less sure at the end", "no leak yet", "No leak yet: it may be the start of a program, and must grow for another 34 min (confidence 0.40).", []step{begin(0.42, 25*minute), begin(0.4, 26*minute)}},
		{"it has ended", "no leak", "At 1970-01-01 00:01 no leak yet: it may be the start of a program, and must grow for another 35 min (confidence 0.42). It stopped before.", []step{fine, begin(0.42, 25*minute), begin(0.3, 26*minute), fine}},
		{"it was as sure twice", "no leak", "At 1970-01-01 00:01 no leak yet: it may be the start of a program, and must grow for another 35 min (confidence 0.42). It stopped before.", []step{begin(0.42, 24*minute), begin(0.42, 25*minute), fine}},
		{"it is reported", "leak at 1970-01-01 00:02", "At 1970-01-01 00:00 no leak yet: it may be the start of a program, and must grow for another 1 min (confidence 0.69). It was called a leak later.", []step{begin(0.696, 59*minute), fine, leak(0), leak(0)}},
		{"something else is reported", "leak at 1970-01-01 00:03", "At 1970-01-01 00:00 no leak yet: it may be the start of a program, and must grow for another 35 min (confidence 0.42). It stopped before.", []step{begin(0.42, 25*minute), fine, fine, leak(2 * minute)}},
		{"every leak is young", "leak at 1970-01-01 00:01", "", []step{young, leak(0)}},
		{"too young, and over", "no leak", "At 1970-01-01 00:00 no leak yet: it has only begun to grow, and must grow for another 1 min (confidence 0.30). It stopped before.", []step{young, fine}},
		{"surer after the leak", "leak at 1970-01-01 00:01, cleared after 1 min", "At 1970-01-01 00:03 no leak yet: it may be a daily load, and must grow for another 9 h (confidence 0.50). It stopped before.", []step{begin(0.42, 25*minute), leak(0), fine, daily, fine}},
		{
			"two", "no leak yet", "At 1970-01-01 00:00 no leak yet: it may be a daily load, and must grow for another 9 h (confidence 0.50). It stopped before. No leak yet: it may be the start of a program, and must grow for another 35 min (confidence 0.42).",
			[]step{daily, fine, begin(0.42, 25*minute)},
		},
		{"reading failed last", "no leak yet", "No leak yet: it may be the start of a program, and must grow for another 35 min (confidence 0.42).", []step{begin(0.42, 25*minute), blind}},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := resultsOf([]*series{following(c.steps...)})
			if got := list[0].withheld(time.UTC); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if got := list[0].verdict(time.UTC); got != c.verdict {
				t.Errorf("verdict %q, want %q", got, c.verdict)
			}
			var table bytes.Buffer
			if err := writeTable(&table, list, time.UTC); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(table.String(), "WITHHELD"); got != (c.want != "") || !strings.Contains(table.String(), c.want) {
				t.Error(table.String())
			}
		})
	}
}
