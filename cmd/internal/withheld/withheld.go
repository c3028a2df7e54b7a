// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package withheld says in words why growth is not called a leak yet. The page of the exporter
// and the table and report of a backtest say it in the same words.
package withheld

import (
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// words are those of the dashboard, too: a test compares them.
var words = map[detector.Withheld]string{
	detector.WithheldMinSpan:      "has only begun to grow",
	detector.WithheldProgramBegin: "may be the start of a program",
	detector.WithheldDailyLoad:    "may be a daily load",
	detector.WithheldGivenBack:    "reached this height before and gave it back",
	detector.WithheldSlowing:      "slows down, and would end before the memory is full",
}

// Words returns the reason in words. One that has none is written as its label; "" for
// detector.WithheldNone.
func Words(why detector.Withheld) string {
	if text, ok := words[why]; ok {
		return text
	}
	return strings.ReplaceAll(why.String(), "_", " ")
}

// WordsOf returns the words of a reason by its label, as the metrics and the JSON have it.
func WordsOf(label string) string {
	for why := range words {
		if why.String() == label {
			return Words(why)
		}
	}
	return strings.ReplaceAll(label, "_", " ")
}

// Phrase returns what can be said of growth behind "it": the reason, and how much longer it must last to be
// called a leak, such as "may be the start of a program, and must grow for another 35 min". It is "" for
// detector.WithheldNone. What slows down need not last: it would end.
func Phrase(why detector.Withheld, more time.Duration) string {
	if why == detector.WithheldNone || why == detector.WithheldSlowing {
		return Words(why)
	}
	return Sentence(Words(why), more)
}

// Sentence is Phrase for a reason in words.
func Sentence(reason string, more time.Duration) string {
	if more > time.Minute {
		more = (more + time.Minute - 1).Truncate(time.Minute) // what is left is over at 0 alone
	}
	return reason + ", and must grow for another " + humanize.Duration(more)
}
