// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/replay"
)

// clock turns what a log says of the time into time since the Unix epoch.
//
// There is one rule for what a log leaves out. A time without a zone is in the zone of the
// options. A time without a date is on the day on which the log begins, and on the next day
// once it goes back by more than half a day. Rows without a time are the interval apart.
// Neither is guessed: without Options.Start and Interval such a log is an error.
type clock struct {
	loc      *time.Location
	start    time.Time
	interval time.Duration

	layout string        // that fitted last
	day    time.Time     // of the last time of day
	ofDay  time.Duration // the last time of day
}

// The layouts of time stamps. A fraction of a second may follow the seconds in each.
var (
	zonedLayouts = []string{
		time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 Z07:00", "2006-01-02 15:04:05 -0700", "Mon Jan _2 15:04:05 UTC 2006", "Mon Jan _2 15:04:05 GMT 2006",
	}
	localLayouts = []string{
		"2006/01/02 15:04:05", time.DateTime, "2006-01-02T15:04:05", time.ANSIC, "20060102 15:04:05", "2006/01/02 15:04", "2006-01-02 15:04",
	}
)

// read reads a time stamp. local says that it tells no zone.
func (c *clock) read(text string) (t time.Duration, local bool, err error) {
	if t, ok, err := epoch(text); ok || err != nil {
		return t, false, err
	}
	if t, err := time.ParseInLocation(time.TimeOnly, text, time.UTC); err == nil {
		t, err := c.timeOfDay(t)
		return t, true, err
	}
	if moment, local, ok := c.parse(text); ok {
		t, err := inRange(moment, text)
		return t, local, err
	}
	if yearLast.MatchString(text) {
		return 0, false, fmt.Errorf("cannot read %s as a time: whether the day comes first or the month is not guessed. Write the year first, as sed -E 's#(..)[./](..)[./](....)#\\3-\\2-\\1#' does where the day comes first", replay.QuoteLine(text))
	}
	return 0, false, fmt.Errorf("cannot read %s as a time such as 2026-03-01 17:01:16, 2026-03-01T17:01:16Z or 1772384476", replay.QuoteLine(text))
}

// parse reads a time stamp by the layouts.
func (c *clock) parse(text string) (t time.Time, local, ok bool) {
	for _, layout := range zonedLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t, false, true
		}
	}
	if t, err := time.ParseInLocation(c.layout, text, c.loc); c.layout != "" && err == nil {
		return t, true, true
	}
	for _, layout := range localLayouts {
		if t, err := time.ParseInLocation(layout, text, c.loc); err == nil {
			c.layout = layout
			return t, true, true
		}
	}
	return t, false, false
}

// yearLast is how a date begins in most countries, each with an order of its own.
var yearLast = regexp.MustCompile(`^\d\d?[./]\d\d?[./]\d{4}\b`)

// epoch reads seconds or milliseconds since the Unix epoch. No year is both. Fewer than ten digits
// before the point are seconds since some other moment, such as the start of a program.
func epoch(text string) (t time.Duration, ok bool, err error) {
	digits, _, _ := strings.Cut(text, ".")
	if strings.Trim(text, "0123456789.") != "" || len(digits) < len("1000000000") {
		return 0, false, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, false, fmt.Errorf("cannot read %s as seconds since 1970", replay.QuoteLine(text))
	}
	if v > 1e11 {
		v /= 1000
	}
	if v > 230*365*86400 {
		return 0, false, fmt.Errorf("cannot read %s as seconds since 1970: it is after the year 2199", replay.QuoteLine(text))
	}
	whole := math.Floor(v)
	// A float64 holds the seconds of our time to some 200 ns.
	t, err = inRange(time.Unix(int64(whole), int64(math.Round((v-whole)*1e6))*int64(time.Microsecond)), text)
	return t, err == nil, err
}

// inRange refuses what is no time of a log.
func inRange(t time.Time, text string) (time.Duration, error) {
	if y := t.UTC().Year(); y < 1971 || y > 2199 {
		return 0, fmt.Errorf("%s is not between 1971 and 2199", replay.QuoteLine(text))
	}
	return time.Duration(t.UnixNano()), nil
}

// errNoDate asks for the day of a log.
const errNoDate = replay.LogError("tells the time of day and no date: give the day on which it begins, as --log.start=2026-03-01")

// timeOfDay returns the moment of a time of day.
func (c *clock) timeOfDay(t time.Time) (time.Duration, error) {
	if c.start.IsZero() {
		return 0, errNoDate
	}
	of := t.Sub(time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC))
	start := c.start.In(c.loc)
	switch {
	case c.day.IsZero():
		c.day = time.Date(start.Year(), start.Month(), start.Day(), 0, 0, 0, 0, time.UTC)
	case of < c.ofDay-12*time.Hour:
		c.day = c.day.AddDate(0, 0, 1)
	}
	c.ofDay = of
	d := c.day
	local := time.Date(d.Year(), d.Month(), d.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), c.loc)
	return inRange(local, d.Format(time.DateOnly)+" "+t.Format(time.TimeOnly))
}

// round returns the moment of the n-th row of a log that tells no time, counted from 0.
func (c *clock) round(n int) (time.Time, error) {
	_, err := inRange(c.start, c.start.String())
	return c.start.Add(time.Duration(n) * c.interval), err
}
