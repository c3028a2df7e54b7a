// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// smiZone is the time zone of a log. Between from and to no local time comes twice; a row beyond finds new ones.
type smiZone struct {
	loc      *time.Location
	from, to time.Duration
}

// smiStamp is the time stamp of a row.
type smiStamp struct {
	text  string
	t     time.Duration
	later time.Duration // where a local time comes twice, its second moment, else 0
}

// settle chooses the second moment of a local time that comes twice if the first lies before the last row.
func (s *smiStamp) settle(last time.Duration) {
	if s.t < last && s.later >= last {
		s.t = s.later
	}
}

// read reads a time stamp.
func (z *smiZone) read(text string) (smiStamp, error) {
	t, local, err := parseSMITime(text, z.loc)
	if err != nil || !local {
		return smiStamp{text: text, t: t}, err
	}
	return z.stamp(text, t), nil
}

// stamp returns the stamp of a local time.
func (z *smiZone) stamp(text string, t time.Duration) smiStamp {
	if t >= z.from && t < z.to {
		return smiStamp{text: text, t: t}
	}
	first, later := z.moments(t)
	return smiStamp{text, first, later}
}

// moments returns both moments of the local time of t if it comes twice because the clock is set back, else t and 0. It finds
// from and to.
func (z *smiZone) moments(t time.Duration) (first, later time.Duration) {
	moment := time.Unix(0, int64(t)).In(z.loc)
	_, offset := moment.Zone()
	start, end := moment.ZoneBounds()
	first, z.from, z.to = t, math.MinInt64, math.MaxInt64
	if !start.IsZero() {
		_, before := start.Add(-1).Zone()
		back := time.Duration(max(before-offset, 0)) * time.Second
		if z.from = time.Duration(start.UnixNano()) + back; t < z.from {
			first, later = t-back, t
		}
	}
	if !end.IsZero() {
		_, after := end.Zone()
		back := time.Duration(max(offset-after, 0)) * time.Second
		if z.to = time.Duration(end.UnixNano()) - back; t >= z.to {
			later = t + back
		}
	}
	return first, later
}

// parseSMITime reads a time stamp of nvidia-smi, or one in ISO 8601. local says that it has no zone.
func parseSMITime(text string, loc *time.Location) (moment time.Duration, local bool, err error) {
	if t, ok := parseSMIStamp(text, loc); ok {
		return t, true, nil
	}
	for _, layout := range []string{"2006/01/02 15:04:05", time.DateTime, "2006-01-02T15:04:05", time.RFC3339} {
		t, err := time.ParseInLocation(layout, text, loc)
		if err != nil {
			continue
		}
		if y := t.UTC().Year(); y < 1971 || y > gpu.LastYear {
			return 0, false, fmt.Errorf("%q is not between 1971 and %d", text, gpu.LastYear)
		}
		return time.Duration(t.UnixNano()), layout != time.RFC3339, nil
	}
	return 0, false, fmt.Errorf("cannot read %q as a time with the year first, such as 2026/03/01 17:01:16.000", text)
}

// parseSMIStamp reads a stamp of nvidia-smi, 2026/03/01 17:01:16.000, as time.Parse does, but in a fraction of the time. ok is
// false for all else.
func parseSMIStamp(text string, loc *time.Location) (t time.Duration, ok bool) {
	const form = "0000/00/00 00:00:00.000"
	if len(text) != len(form) {
		return 0, false
	}
	var numbers [7]int // year, month, day, hour, minute, second, millisecond
	n := 0
	for i := range len(form) {
		switch c := text[i]; {
		case form[i] == '0' && c >= '0' && c <= '9':
			numbers[n] = 10*numbers[n] + int(c-'0')
		case form[i] != '0' && c == form[i]:
			n++
		default:
			return 0, false
		}
	}
	year, month, day := numbers[0], time.Month(numbers[1]), numbers[2]
	hour, minute, second := numbers[3], numbers[4], numbers[5]
	if year < 1972 || year >= gpu.LastYear || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	moment := time.Date(year, month, day, hour, minute, second, numbers[6]*int(time.Millisecond), loc)
	if month < 1 || month > 12 || day < 1 || day > 28 && time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Day() != day {
		return 0, false
	}
	return time.Duration(moment.UnixNano()), true
}
