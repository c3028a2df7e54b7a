// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	gib   = 1 << 30
	begin = 1_772_323_200 * time.Second // 2026-03-01
)

// TestEnvelope holds a long series against its own extremes: no spike is lost, and
// the memory is bounded, and small for a process that lives for seconds.
func TestEnvelope(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 10, 1000, 100_000} {
		var e Envelope
		low, high := math.Inf(1), math.Inf(-1)
		for i := range n {
			v := random.NormFloat64()
			low, high = min(low, v), max(high, v)
			e.Add(begin+time.Duration(i)*time.Second, v)
		}
		if len(e.bins) > min(n, maxBins) {
			t.Errorf("%d samples: %d bins", n, len(e.bins))
		}
		list := e.stretches()
		if len(list) != 1 {
			t.Fatalf("%d samples: %d stretches", n, len(list))
		}
		gotLow, gotHigh := math.Inf(1), math.Inf(-1)
		for i, x := range list[0] {
			gotLow, gotHigh = min(gotLow, x.low), max(gotHigh, x.high)
			if x.t < begin || x.t > begin+time.Duration(n)*time.Second || i > 0 && x.t <= list[0][i-1].t {
				t.Fatalf("%d samples: %s after %s", n, x.t, begin)
			}
		}
		if gotLow != low || gotHigh != high {
			t.Errorf("%d samples: %g to %g, want %g to %g", n, gotLow, gotHigh, low, high)
		}
	}
	if got := (*Envelope)(nil).stretches(); got != nil {
		t.Errorf("nothing has %v", got)
	}
}

func TestEnvelopeGap(t *testing.T) {
	var e Envelope
	for i := range 100 {
		at := begin + time.Duration(i)*time.Minute
		if i >= 50 {
			at += 2 * time.Hour
		}
		e.Add(at, 1)
	}
	if list := e.stretches(); len(list) != 2 || len(list[0]) != 50 || len(list[1]) != 50 {
		t.Errorf("stretches %v", list)
	}
}

// numbers are the places in a drawing.
var numbers = regexp.MustCompile(` (?:[xy][12]?|width|height)="([^"]*)"| points="([^"]*)"| d="([^"]*)"`)

// TestSVG draws what is unusual, too, and checks that it is XML within its frame.
func TestSVG(t *testing.T) {
	var used, empty Envelope
	for i := range 600 {
		used.Add(begin+time.Duration(i)*time.Minute, float64(10*gib+i%7*gib+i*40<<20))
	}
	end := begin + 10*time.Hour
	at := begin + 3*time.Hour
	plots := map[string]*Plot{
		"empty":    {From: begin, To: begin, Used: &empty},
		"no leak":  {From: begin, To: end, Used: &used},
		"far away": {From: begin, To: end, Used: &used, Capacity: 1024 * gib, Title: `<"&>`},
		"leak": {
			ID: "a", Alarm: "leak", Title: `<"&>`, Description: "<in words>",
			From: begin, To: end, Used: &used, Capacity: 40 * gib, Alarms: []Span{{From: at, To: at + 2*time.Hour}, {From: at + 121*time.Minute, To: end, Open: true}},
			Troughs: []Point{{begin, 10 * gib}, {end, 30 * gib}}, Fit: []Point{{begin, 9 * gib}, {at, 16 * gib}},
			Forecast: &Forecast{From: Point{at, 22 * gib}, At: at + 5*time.Hour, Lower: at + 4*time.Hour, Upper: at + 6*time.Hour},
		},
		"never": {
			From: begin, To: end, Used: &used, Capacity: 40 * gib, Alarms: []Span{{From: end, To: end, Open: true}},
			Ahead: 1, Height: 130,
			Forecast: &Forecast{Doubtful: true, From: Point{end, 22 * gib}, At: end + 5000*time.Hour, Lower: end + time.Hour, Upper: end + 1e6*time.Hour},
		},
	}
	for name, p := range plots {
		t.Run(name, func(t *testing.T) {
			p.Location = time.UTC
			text := string(p.SVG())
			for dec := xml.NewDecoder(strings.NewReader(text)); ; {
				if _, err := dec.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%v in %s", err, text)
				}
			}
			for _, m := range numbers.FindAllStringSubmatch(text, -1) {
				for _, n := range strings.FieldsFunc(m[1]+m[2]+m[3], func(r rune) bool { return strings.ContainsRune("ML Z,", r) }) {
					v, err := strconv.ParseFloat(strings.TrimSuffix(n, "%"), 64)
					if most := map[bool]float64{true: 100, false: width + 1}[strings.HasSuffix(n, "%")]; err != nil || (v < -1 && n != "-8") || v > most {
						t.Errorf("%q in %s", n, m[0])
					}
				}
			}
		})
	}
	text := string(plots["leak"].SVG())
	for _, want := range []string{"leak 03:00", "cleared 05:00", `text-anchor="end">40.0 GiB<`, "full 08:00", `class="band"`, `<title id="a-t">&lt;&#34;&amp;&gt;</title><desc id="a-d">&lt;in words&gt;</desc>`, `class="fit"`, `class="forecast"`, `class="trough"`, "Mar 1<"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
}

// rising is ten hours of a memory that grows by so many MiB a minute.
func rising(mib int) *Envelope {
	var e Envelope
	for i := range 600 {
		e.Add(begin+time.Duration(i)*time.Minute, float64(10*gib+i*mib<<20))
	}
	return &e
}

// TestForecastMeetsTheCapacity has the axis go on until the forecast meets the line, with the band
// around it, where there is room for that.
func TestForecastMeetsTheCapacity(t *testing.T) {
	end := begin + 10*time.Hour
	for ahead, want := range map[time.Duration]string{5 * time.Hour: "full 15:00<", 9 * time.Hour: "full 19:00<", 20 * time.Hour: "full Mar 2 06:00 →<"} {
		p := &Plot{
			Location: time.UTC, From: begin, To: end, Used: rising(32), Capacity: 80 * gib, Ahead: 1,
			Forecast: &Forecast{From: Point{end, 30 * gib}, At: end + ahead, Lower: end + ahead*9/10, Upper: end + ahead*12/10},
		}
		c := newCanvas(p)
		meets := c.cut(p.Forecast.From, p.Forecast.At)
		if met := meets.V == p.Capacity && meets.T == p.Forecast.At; met != (ahead < 10*time.Hour) || met != strings.Contains(string(p.SVG()), `<circle class="full"`) {
			t.Errorf("%s ahead: the line ends at %s and %g", ahead, meets.T-end, meets.V)
		}
		if text := string(p.SVG()); !strings.Contains(text, want) || !strings.Contains(text, `class="now"`) {
			t.Errorf("%s ahead: no %q", ahead, want)
		}
	}
}

// TestForecastKeepsItsSlope has a capacity far above the axis: the line and both ends of its
// band are as steep as what was foreseen.
func TestForecastKeepsItsSlope(t *testing.T) {
	p := &Plot{
		Location: time.UTC, From: begin, To: begin + 10*time.Hour, Used: rising(16), Capacity: 80 * gib,
		Forecast: &Forecast{From: Point{begin + 5*time.Hour, 14 * gib}, At: begin + 50*time.Hour, Lower: begin + 20*time.Hour, Upper: begin + 200*time.Hour},
	}
	c := newCanvas(p)
	f := p.Forecast
	for _, at := range []time.Duration{f.At, f.Lower, f.Upper} {
		end := c.cut(f.From, at)
		got := (end.V - f.From.V) / (end.T - f.From.T).Seconds()
		want := (p.Capacity - f.From.V) / (at - f.From.T).Seconds()
		if math.Abs(got/want-1) > 1e-6 || end.V > c.highest || end.T > c.to {
			t.Errorf("to %s: %g bytes a second until %s and %g, want %g", at, got, end.T, end.V, want)
		}
	}
}

func TestTicks(t *testing.T) {
	for span, want := range map[time.Duration]time.Duration{
		3 * time.Second: time.Second, time.Hour: 10 * time.Minute, 10 * time.Hour: 2 * time.Hour, 24 * time.Hour: 3 * time.Hour,
		20 * 24 * time.Hour: 3 * 24 * time.Hour,
	} {
		if got := timeTick(span); got != want {
			t.Errorf("%s: a tick every %s, want %s", span, got, want)
		}
	}
	for highest, want := range map[float64]float64{83 * gib: 20 * gib, gib: gib / 4, 1.2 * gib: gib / 4, 900 << 20: 200 << 20, 4: 1} {
		if got := amountTick(highest, 5); got != want {
			t.Errorf("%g: a tick every %g, want %g", highest, got, want)
		}
	}
}
