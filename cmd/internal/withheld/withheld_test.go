// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package withheld

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector"
)

func TestPhrase(t *testing.T) {
	for _, c := range []struct {
		why  detector.Withheld
		more time.Duration
		want string
	}{
		{detector.WithheldNone, time.Hour, ""},
		{detector.WithheldMinSpan, 50 * time.Second, "has only begun to grow, and must grow for another 50 s"},
		{detector.WithheldProgramBegin, 34*time.Minute + time.Second, "may be the start of a program, and must grow for another 35 min"},
		{detector.WithheldSlowing, 0, "slows down, and would end before the memory is full"},
		{detector.WithheldDailyLoad, 9 * time.Hour, "may be a daily load, and must grow for another 9 h"},
	} {
		if got := Phrase(c.why, c.more); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// reasons are all that the detector knows.
func reasons() (list []detector.Withheld) {
	for why := detector.WithheldNone + 1; why.String() != ""; why++ {
		list = append(list, why)
	}
	return list
}

// TestEveryReasonHasWords fails with a new reason that nobody has put in words.
func TestEveryReasonHasWords(t *testing.T) {
	if len(reasons()) != len(words) {
		t.Errorf("words for %d of %d reasons", len(words), len(reasons()))
	}
	for _, why := range reasons() {
		if text := words[why]; text == "" || strings.ContainsAny(text, ":;_") {
			t.Errorf("%s: %q", why, text)
		}
	}
	for _, why := range reasons() {
		if got := WordsOf(why.String()); got != Words(why) {
			t.Errorf("%s: %q by its label, %q by itself", why, got, Words(why))
		}
	}
	if got := WordsOf("of_a_later_version"); got != "of a later version" {
		t.Errorf("an unknown reason: %q", got)
	}
	if got := Words(detector.WithheldNone); got != "" {
		t.Errorf("nothing withheld: %q", got)
	}
}

// TestDashboardSaysTheSame: who goes from the page to the dashboard meets the same words.
func TestDashboardSaysTheSame(t *testing.T) {
	text, err := os.ReadFile("../../../dashboards/leak.json")
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(text) {
		t.Fatal("the dashboard is no JSON")
	}
	for _, why := range reasons() {
		// The name of a series is replaced by its words.
		shown := regexp.MustCompile(`"options": "` + why.String() + `"\s*},\s*"properties": \[\s*{\s*"id": "displayName",\s*"value": "([^"]*)"`).FindSubmatch(text)
		if shown == nil {
			t.Errorf("%s: the dashboard has no words", why)
		} else if got := string(shown[1]); got != Words(why) {
			t.Errorf("%s: the dashboard has %q, want %q", why, got, Words(why))
		}
	}
}
