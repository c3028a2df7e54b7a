// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// clock turns what a log says of the time into time since the Unix epoch.
//
// There is one rule for what a log leaves out. A time without a zone is in loc. A time without a date is on the day on which
// the log begins, and on the next day once it goes back by more than half a day. Rows without a time are the interval apart.
// Neither is guessed: without start and interval such a log is an error.
type clock struct {
	loc      *time.Location
	start    time.Time
	interval time.Duration

	layout string          // that fitted last
	minute stamp           // of the last local time that tells milliseconds, without seconds
	day    time.Time       // of the last time of day
	ofDay  time.Duration   // the last time of day
	rounds int             // of rows without a time, that were before
	seen   map[string]bool // what has had its row in this round
}

// stamp is the time of a row.
type stamp struct {
	text  string
	t     time.Duration
	later time.Duration // where a local time comes twice, its second moment, else 0
}

// settle chooses the second moment of a local time that comes twice if the first lies before the last row.
func (s *stamp) settle(last time.Duration) {
	if s.t < last && s.later >= last {
		s.t = s.later
	}
}

// layouts are those of time stamps. One that ends in 00 tells its zone. A fraction of a second may follow the seconds in each.
var layouts = []string{
	time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 -0700",
	"2006/01/02 15:04:05", time.DateTime, "2006-01-02T15:04:05", time.ANSIC, "20060102 15:04:05", "2006/01/02 15:04", "2006-01-02 15:04",
	"2006/01/02 3:04:05 PM", "2006-01-02 3:04:05 PM",
}

// yearLast is how a date begins in most countries, each with an order of its own.
var yearLast = regexp.MustCompile(`^\d\d?[./]\d\d?[./]\d{4}\b`)

// errNoDate asks for the day of a log.
const errNoDate = logError("tells the time of day and no date: give the day on which it begins, as --log.start=2026-03-01")

// read reads a time stamp. Most rows share their minute with the row before, and to read that is a quarter of a backtest.
func (c *clock) read(text string) (stamp, error) {
	minute, into, tells := cutMinute(text)
	if !tells || minute != c.minute.text {
		t, local, err := c.parse(text)
		switch y := t.UTC().Year(); {
		case err != nil:
			return stamp{}, err
		case y < 1971 || y >= gpu.LastYear:
			return stamp{}, fmt.Errorf("%s is not between 1971 and %d", quote(text), gpu.LastYear)
		case !local:
			return stamp{text: text, t: time.Duration(t.UnixNano())}, nil
		case !tells:
			return c.local(text, t), nil
		}
		c.minute = c.local(minute, t.Add(-into))
	}
	c.ofDay = c.ofDay.Truncate(time.Minute) + into
	s := stamp{text: text, t: c.minute.t + into}
	if c.minute.later > 0 {
		s.later = c.minute.later + into
	}
	return s, nil
}

// cutMinute divides a time stamp that ends in seconds and milliseconds, such as 17:01:16.123.
func cutMinute(text string) (minute string, into time.Duration, ok bool) {
	at := len(text) - len(":16.123")
	if at <= 0 || text[at] != ':' || text[at+3] != '.' {
		return "", 0, false
	}
	s, noSeconds := strconv.ParseUint(text[at+1:at+3], 10, 8)
	ms, noFraction := strconv.ParseUint(text[at+4:], 10, 16)
	return text[:at], time.Duration(s)*time.Second + time.Duration(ms)*time.Millisecond, noSeconds == nil && noFraction == nil && s < 60
}

// parse reads a time stamp of any form. local says that it tells no zone.
func (c *clock) parse(text string) (t time.Time, local bool, err error) {
	if t, err := time.ParseInLocation(c.layout, text, c.loc); c.layout != "" && err == nil {
		return t, !strings.HasSuffix(c.layout, "00"), nil
	}
	if t, ok := epoch(text); ok {
		return t, false, nil
	}
	if t, err := time.Parse(time.TimeOnly, text); err == nil {
		t, err := c.timeOfDay(t)
		return t, true, err
	}
	for _, layout := range layouts {
		if t, err := time.ParseInLocation(layout, text, c.loc); err == nil {
			c.layout = layout
			return t, !strings.HasSuffix(layout, "00"), nil
		}
	}
	if yearLast.MatchString(text) {
		return t, false, fmt.Errorf("cannot read %s as a time: whether the day comes first or the month is not guessed. Write the year first, as sed -E 's#(..)[./](..)[./](....)#\\3-\\2-\\1#' does where the day comes first", quote(text))
	}
	return t, false, fmt.Errorf("cannot read %s as a time such as 2026-03-01 17:01:16, 2026-03-01T17:01:16Z or 1772384476", quote(text))
}

// epoch reads seconds or milliseconds since the Unix epoch. No year is both. Fewer than ten digits before the point are
// seconds since some other moment, such as the start of a program.
func epoch(text string) (t time.Time, ok bool) {
	digits, _, _ := strings.Cut(text, ".")
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.Trim(text, "0123456789.") != "" || len(digits) < len("1000000000") {
		return t, false
	}
	if v > 1e11 {
		v = min(v/1000, 1e11) // which is in no year of a log
	}
	whole := math.Floor(v)
	// A float64 holds the seconds of our time to some 200 ns.
	return time.Unix(int64(whole), int64(math.Round((v-whole)*1e6))*int64(time.Microsecond)), true
}

// timeOfDay returns the moment of a time of day.
func (c *clock) timeOfDay(t time.Time) (time.Time, error) {
	if c.start.IsZero() {
		return t, errNoDate
	}
	of := t.Sub(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC))
	switch start := c.start.In(c.loc); {
	case c.day.IsZero():
		c.day = start
	case of < c.ofDay-12*time.Hour:
		c.day = c.day.AddDate(0, 0, 1)
	}
	c.ofDay = of
	return time.Date(c.day.Year(), c.day.Month(), c.day.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), c.loc), nil
}

// round returns the time of the next row of a log that tells none. A round ends before the row of what has had one in it
// already; of says what this row is of.
func (c *clock) round(of string) (stamp, error) {
	if c.seen[of] {
		c.rounds++
		clear(c.seen)
	}
	c.seen[of] = true
	return c.read(c.start.Add(time.Duration(c.rounds) * c.interval).Format(time.RFC3339Nano))
}

// local returns the stamp of a local time. It comes twice if the clock is set back: then another moment, with the offset of
// some hours before or after, shows the same.
func (*clock) local(text string, t time.Time) stamp {
	s := stamp{text: text, t: time.Duration(t.UnixNano())}
	_, offset := t.Zone()
	for _, near := range []time.Duration{-12 * time.Hour, 12 * time.Hour} {
		_, other := t.Add(near).Zone()
		back := time.Duration(offset-other) * time.Second
		if _, is := t.Add(back).Zone(); back != 0 && is == other {
			s.t, s.later = min(s.t, s.t+back), max(s.t, s.t+back)
		}
	}
	return s
}
