// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestHourTwice reads logs over the end of daylight saving.
func TestHourTwice(t *testing.T) {
	stamps := func(day string, clocks ...string) string {
		var b strings.Builder
		b.WriteString("timestamp, memory.used [MiB]\n")
		for i, c := range clocks {
			fmt.Fprintf(&b, "%s %s, %d MiB\n", day, c, i)
		}
		return b.String()
	}
	berlin := stamps("2026/10/25", "01:59:59.000", "02:00:00.000", "02:30:00.000", "02:59:59.000", "02:00:00.000", "02:30:00.000", "02:59:59.000", "03:00:00.000")
	for _, tc := range []struct {
		name, zone, text string
		samples          []string
		left             []string
	}{
		{"east of Greenwich", "Europe/Berlin", berlin, []string{"23:59:59 0", "00:00:00 1", "00:30:00 2", "00:59:59 3", "01:00:00 4", "01:30:00 5", "01:59:59 6", "02:00:00 7"}, nil},
		{
			"west of Greenwich", "America/New_York", stamps("2026/11/01", "00:59:59.000", "01:00:00.000", "01:59:59.000", "01:00:00.000", "01:59:59.000", "02:00:00.000"),
			[]string{"04:59:59 0", "05:00:00 1", "05:59:59 2", "06:00:00 3", "06:59:59 4", "07:00:00 5"},
			nil,
		},
		{
			"half an hour", "Australia/Lord_Howe", stamps("2026/04/05", "01:29:59.000", "01:30:00.000", "01:59:59.000", "01:30:00.000", "01:59:59.000", "02:00:00.000"),
			[]string{"14:29:59 0", "14:30:00 1", "14:59:59 2", "15:00:00 3", "15:29:59 4", "15:30:00 5"},
			nil,
		},
		{
			"without the zone", "UTC", berlin,
			[]string{"01:59:59 0", "02:00:00 1", "02:30:00 2", "02:59:59 3", "03:00:00 7"},
			[]string{`left out 3 lines, the first is line 6: 2026/10/25 02:00:00.000 is not after 2026/10/25 02:59:59.000, its row before` + leftOutWhy},
		},
		{
			"a stamp that stands twice", "Europe/Berlin", stamps("2026/10/25", "02:10:00.000", "02:10:00.000", "02:10:01.000", "02:00:00.000", "02:00:00.000"),
			[]string{"00:10:00 0", "00:10:01 2", "01:00:00 3"},
			[]string{`left out 2 lines, the first is line 3: 2026/10/25 02:10:00.000 is not after 2026/10/25 02:10:00.000, its row before` + leftOutWhy},
		},
		{
			"the stamp tells its zone", "Europe/Berlin", "timestamp, memory.used [MiB]\n2026-10-25T02:30:00+02:00, 1\n2026-10-25T02:20:00+02:00, 2\n2026-10-25T02:20:00+01:00, 3\n",
			[]string{"00:30:00 1", "01:20:00 3"},
			[]string{`left out 1 line, line 3: 2026-10-25T02:20:00+02:00 is not after 2026-10-25T02:30:00+02:00, its row before` + leftOutWhy},
		},
		{
			"processes", "Europe/Berlin", "timestamp, pid, used_memory [MiB]\n2026/10/25 02:59:59.000, 1, 1\n2026/10/25 02:59:59.001, 2, 1\n2026/10/25 02:00:00.000, 1, 1\n2026/10/25 02:00:00.001, 2, 1\n2026/10/25 03:00:00.000, 1, 1\n",
			[]string{"00:59:59 2", "01:00:00 2", "02:00:00 1"},
			nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			samples, left, err := readLog(t, tc.text, zoneOf(t, tc.zone))
			if err != nil || !slices.Equal(samples, tc.samples) || !slices.Equal(left, tc.left) {
				t.Errorf("samples %q, left out %q, %v\nwant    %q, left out %q", samples, left, err, tc.samples, tc.left)
			}
		})
	}
}

// TestMoments looks for the other moment of a local time by trying.
func TestMoments(t *testing.T) {
	const form = "2006/01/02 15:04:05.000"
	random := rand.New(rand.NewPCG(1, 2))
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kolkata"} {
		z := smiZone{loc: zoneOf(t, zone)}
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
			got, err := z.read(moment.Format(form))
			if err != nil || got.t != want[0] || len(want) == 2 && got.later != want[1] || len(want) == 1 && got.later != 0 {
				t.Fatalf("%s in %s: %+v, %v, want %v", moment.Format(form), zone, got, err, want)
			}
			twice += len(want) - 1
		}
		if fixed := zone == "UTC" || zone == "Asia/Kolkata"; fixed != (twice == 0) {
			t.Errorf("%s: %d times came twice", zone, twice)
		}
	}
}
