// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package withheld says in words why growth is not called a leak yet. The page of the exporter
// and the table and report of a backtest say it in the same words.
package withheld

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// words are those of the dashboard, too: a test compares them.
var words = map[detector.Withheld]string{
	detector.WithheldMinSpan:      "grows, not yet for long",
	detector.WithheldLoadRamp:     "may be a ramp of load",
	detector.WithheldProgramLoad:  "may be a program that loads",
	detector.WithheldProgramBegin: "may be the start of a program",
	detector.WithheldDailyLoad:    "may be a daily load",
	detector.WithheldPriorLives:   "below what its earlier lives held",
}

// Words returns the reason in words. One that has none is written as its label; "" for
// detector.WithheldNone.
func Words(why detector.Withheld) string {
	if text, ok := words[why]; ok {
		return text
	}
	return strings.ReplaceAll(why.String(), "_", " ")
}

// Phrase returns the reason, and how far growth that has lasted so long is if it must go on for
// more, such as "may be the start of a program; 25 of 60 min". It is "" for
// detector.WithheldNone.
func Phrase(why detector.Withheld, lasted, more time.Duration) string {
	if why == detector.WithheldNone {
		return ""
	}
	return Words(why) + "; " + humanize.Part(lasted, lasted+more)
}

// PriorLives is Phrase for detector.WithheldPriorLives where it is known what the earlier lives of the
// process say, such as "below what its last 3 lives held; 25 of 60 min".
func PriorLives(e *detector.Earlier, lasted, more time.Duration) string {
	if e.Lives == 0 {
		return Phrase(detector.WithheldPriorLives, lasted, more)
	}
	lives := "life"
	if e.Lives > 1 {
		lives = fmt.Sprintf("%d lives", e.Lives)
	}
	text := "below what its last " + lives + " held"
	if e.Kin {
		text = "below what the last " + lives + " of a like program held"
	}
	return text + "; " + humanize.Part(lasted, lasted+more)
}
