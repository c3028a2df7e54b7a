// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestMoments looks for the other moment of a local time by trying.
func TestMoments(t *testing.T) {
	const form = "2006/01/02 15:04:05.000"
	random := rand.New(rand.NewPCG(1, 2))
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kolkata"} {
		z := clock{loc: zoneOf(zone)}
		twice := 0
		for range 20_000 {
			moment := time.Date(2010, 1, 1, 0, 0, random.IntN(20*365*24*3600), 0, time.UTC).In(z.loc)
			if _, end := moment.ZoneBounds(); !end.IsZero() && random.IntN(2) == 0 {
				moment = end.Add(time.Duration(random.IntN(8*3600)-4*3600) * time.Second)
			}
			want := []time.Duration{}
			for _, d := range []time.Duration{-time.Hour, -30 * time.Minute, 0, 30 * time.Minute, time.Hour} {
				if other := moment.Add(d); other.Format(form) == moment.Format(form) {
					want = append(want, time.Duration(other.UnixNano()))
				}
			}
			for _, more := range []time.Duration{0, 250 * time.Millisecond} { // two rows of a second
				text := moment.Add(more).Format(form)
				got, err := z.read(text)
				if err != nil || got.text != text || got.t != want[0]+more || len(want) == 2 && got.later != want[1]+more || len(want) == 1 && got.later != 0 {
					t.Fatalf("%s in %s: %+v, %v, want %v", text, zone, got, err, want)
				}
			}
			twice += len(want) - 1
		}
		equal(t, zone == "UTC" || zone == "Asia/Kolkata", twice == 0, "%s: whether none of the %d times came twice", zone, twice)
	}
}

// A text is no stamp because it goes on like the one before.
func TestOnlyStampsShareASecond(t *testing.T) {
	for before, text := range map[string]string{
		"":                         ".250",
		"2026/03/01 17:01":         "2026/03/01 17:01.250",
		"Sun Mar  1 17:01:16 2026": "Sun Mar  1 17:01:16.250",
		"2026/03/01 17:01:16.250":  "2026/03/01 17:01:16.+25",
	} {
		z := clock{loc: time.UTC}
		_, err := z.read(before)
		equal(t, err == nil, before != "", "%q", before)
		if got, err := z.read(text); err == nil {
			t.Errorf("%q after %q: %+v", text, before, got)
		}
	}
}
