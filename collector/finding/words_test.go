// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// TestWord has the word for each verdict, and why it is one.
func TestWord(t *testing.T) {
	cfg := detector.DefaultConfig()
	testkit.Equal(t, unsure, cfg.ClearThreshold(), "what is not sure, and under what a leak ends")
	for why, c := range map[string]struct {
		word    string
		verdict detector.Verdict
	}{
		"A rule of --detector.config says that it is not to be judged.":       {Muted, detector.Verdict{Muted: true}},
		"A verdict takes some minutes.":                                       {NotJudged, detector.Verdict{}},
		"It grows in steps.":                                                  {Leaks, detector.Verdict{Judged: true, Leak: true, Confidence: 0.9, Pattern: detector.PatternLeakStaircase}},
		"No leak yet: it may be a daily load, and must grow for another 1 h.": {NoLeakYet, detector.Verdict{Judged: true, Withheld: detector.WithheldDailyLoad, WithheldFor: time.Hour, Confidence: 0.6}},
		"It grows, but that is not sure: the confidence is 35 %.":             {NotSure, detector.Verdict{Judged: true, Confidence: unsure}},
		"It gives back what it takes.":                                        {NoLeak, detector.Verdict{Judged: true, Pattern: detector.PatternSawtooth, Confidence: unsure - 0.01}},
		"It was not seen to grow for long.":                                   {NoLeak, detector.Verdict{Judged: true, Pattern: detector.PatternUnknown}},
	} {
		testkit.Equal(t, Why(&c.verdict), why, "%+v", c.verdict)
		testkit.Equal(t, Word(&c.verdict), c.word, "%+v", c.verdict)
		testkit.Equal(t, Suspect(&c.verdict), c.word == Leaks || c.word == NoLeakYet || c.word == NotSure, "%+v", c.verdict)
	}
}

func TestNames(t *testing.T) {
	withheld := func(why detector.Withheld, more time.Duration) string {
		return Withheld(&detector.Verdict{Withheld: why, WithheldFor: more})
	}
	driver := func(reason string) string {
		m := Driver(reason)
		return m.Text()
	}
	some := func(v float64) gpu.Opt[uint64] { return gpu.Some(uint64(v * (1 << 30))) }
	left := func(seconds, lower, upper float64) string {
		return Left(&detector.Verdict{SecondsToOOM: detector.Of(seconds), Lower: detector.Of(lower), Upper: detector.Of(upper)})
	}
	inf := math.Inf(1)
	for want, got := range map[string]string{
		// What the driver reserves can be used by nobody: it is no part of the memory that there is.
		"37.5 GiB of 79.5 GiB (47 %)":  Used(gpu.Memory{Used: some(37.5), Total: some(80), Reserved: some(0.5)}),
		"37.5 GiB of 80.0 GiB (46 %)":  Used(gpu.Memory{Used: some(37.5), Total: some(80)}),
		"3.00 GiB used":                Used(gpu.Memory{Used: some(3), Reserved: some(1)}),
		"4.00 GiB used":                Used(gpu.Memory{Used: some(4), Total: some(1), Reserved: some(2)}),
		"3.00 GiB of 2.00 GiB (100 %)": Used(gpu.Memory{Used: some(3), Total: some(2)}),
		"not known":                    Used(gpu.Memory{Total: some(1)}),
		"":                             left(inf, inf, inf) + withheld(detector.WithheldNone, time.Hour),
		"1 h 30 min (at least 1 h)":    left(5400, 3600, inf),
		"1 h 30 min (1 h to 2 h)":      left(5400, 3600, 7200),
		"1 h":                          left(3600, 3600, 3600.1),
		"No leak yet: it has only begun to grow, and must grow for another 50 s.":          withheld(detector.WithheldMinSpan, 50*time.Second),
		"No leak yet: it may be the start of a program, and must grow for another 35 min.": withheld(detector.WithheldProgramBegin, 35*time.Minute),
		"No leak yet: it slows down, and would end before the memory is full.":             withheld(detector.WithheldSlowing, detector.Forever),
		"No leak yet: it may be a daily load, and must grow for another 9 h.":              withheld(detector.WithheldDailyLoad, 9*time.Hour),
		"train.py (pid 42)":                          Process("train.py", 42),
		"unknown process (pid 42)":                   Process("", 42),
		"pod ml/train-0, container main, user alice": (&Who{Namespace: "ml", Pod: "train-0", Container: "main", User: "alice"}).Place(),
		"Slurm job 4712":                             (&Who{SlurmJob: "4712"}).Place(),
		"99 %":                                       Percent(math.Nextafter(1, 0) - 1e-6),
		"70 %":                                       Percent(0.7),
		"a, b":                                       Joined(", ", "", "a", "", "b"),
		"The driver does not answer (error_42).":     driver("error_42"),
		"The Prometheus of --source tells of no GPU. The log says why.": driver("prometheus_tells_of_no_gpu"),
	} {
		testkit.Equal(t, got, want, "text")
	}
}

// TestEveryReasonHasWords fails with a new reason or pattern that nobody has put in words, and where the dashboard has others: who
// goes from the page to the dashboard meets the same.
func TestEveryReasonHasWords(t *testing.T) {
	dashboard, err := os.ReadFile("../../dashboards/leak.json")
	if err != nil || !json.Valid(dashboard) {
		t.Fatalf("the dashboard is no JSON: %v", err)
	}
	for why := detector.WithheldNone + 1; why.String() != ""; why++ {
		text := withheld[why]
		if text == "" || strings.ContainsAny(text, ":;_") {
			t.Errorf("%s: %q", why, text)
		}
		// The name of a series is replaced by its words.
		shown := regexp.MustCompile(`"options": "` + why.String() + `"\s*},\s*"properties": \[\s*{\s*"id": "displayName",\s*"value": "([^"]*)"`).FindSubmatch(dashboard)
		if shown == nil || string(shown[1]) != text {
			t.Errorf("%s: the dashboard has %q, want %q", why, shown, text)
		}
	}
	for p := detector.PatternUnknown; p.String() != "" || p == detector.PatternUnknown; p++ {
		if Patterns[p] == "" {
			t.Errorf("pattern %q has no words", p)
		}
	}
}

// TestXIDsAreTheMixins: the page and the alert say the same of a code, and no code of an alert is missing.
func TestXIDsAreTheMixins(t *testing.T) {
	mixin, err := os.ReadFile("../../mixin/lib/xid.libsonnet")
	must(t, err)
	alerts, _, _ := strings.Cut(string(mixin), "  other: {")
	for code := range uint64(200) {
		text := cmp.Or(xids[Page][code], xids[Ticket][code])
		named := strings.Contains(alerts, fmt.Sprintf("'%d': '", code)) || code >= 144 && code <= 150
		if (text != "") != named || !strings.Contains(alerts, text) {
			t.Errorf("%d: %q, and an alert: %v", code, text, named)
		}
	}
}
