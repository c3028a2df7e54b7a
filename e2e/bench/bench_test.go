// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/workloads"
)

// fake is a detector whose alarms and forecasts are known.
type fake struct {
	alarms            [][2]time.Duration // from and until
	eta, lower, upper float64
}

// score runs it past a series that is sampled each minute.
func (f fake) score(is truth) outcome {
	s := newScorer(is)
	for t := time.Duration(0); t <= is.length; t += time.Minute {
		on := slices.ContainsFunc(f.alarms, func(a [2]time.Duration) bool { return a[0] <= t && t < a[1] })
		s.observe(t, on, f.eta, f.lower, f.upper)
	}
	return s.end()
}

const (
	minutes = time.Minute
	hours   = time.Hour
)

var nan = math.NaN()

func silent(alarms ...[2]time.Duration) fake {
	return fake{alarms: alarms, eta: nan, lower: nan, upper: nan}
}

func TestScore(t *testing.T) {
	leak := truth{leak: true, onset: 1 * hours, length: 5 * hours}
	healthy := truth{length: 5 * hours}
	for _, c := range []struct {
		name     string
		fake     fake
		is       truth
		found    time.Duration
		early    bool
		episodes int
		alarmed  time.Duration
	}{
		{"no alarm", silent(), leak, never, false, 0, 0},
		{"stays on", silent([2]time.Duration{70 * minutes, 9 * hours}), leak, 70 * minutes, false, 1, 230 * minutes},
		{"off after 9 min", silent([2]time.Duration{70 * minutes, 79 * minutes}), leak, never, false, 1, 9 * minutes},
		{"still on after 10 min", silent([2]time.Duration{70 * minutes, 81 * minutes}), leak, 70 * minutes, false, 1, 11 * minutes},
		{"off and on again at 10 min", silent([2]time.Duration{70 * minutes, 72 * minutes}, [2]time.Duration{80 * minutes, 82 * minutes}), leak, 70 * minutes, false, 2, 4 * minutes},
		{"the second holds", silent([2]time.Duration{70 * minutes, 72 * minutes}, [2]time.Duration{100 * minutes, 9 * hours}), leak, 100 * minutes, false, 2, 202 * minutes},
		{"before the onset", silent([2]time.Duration{30 * minutes, 9 * hours}), leak, never, true, 1, 270 * minutes},
		{"before and after", silent([2]time.Duration{30 * minutes, 40 * minutes}, [2]time.Duration{90 * minutes, 9 * hours}), leak, 90 * minutes, true, 2, 220 * minutes},
		{"on at the end", silent([2]time.Duration{295 * minutes, 9 * hours}), leak, 295 * minutes, false, 1, 5 * minutes},
		{"healthy", silent([2]time.Duration{30 * minutes, 40 * minutes}, [2]time.Duration{90 * minutes, 91 * minutes}), healthy, never, false, 2, 11 * minutes},
	} {
		o := c.fake.score(c.is)
		if o.found != c.found || o.early != c.early || len(o.begun) != c.episodes || o.alarmed != c.alarmed {
			t.Errorf("%s: found %s, early %t, %d episodes for %s", c.name, o.found, o.early, len(o.begun), o.alarmed)
		}
	}
}

func TestForecast(t *testing.T) {
	// At 2 h, the half-life, there are 3600 s left.
	is := truth{leak: true, onset: 1 * hours, half: 2 * hours, oom: 3 * hours, length: 3 * hours}
	inf := math.Inf(1)
	for _, c := range []struct {
		eta, lower, upper float64
		want              forecast
	}{
		{3600, 1800, 5400, forecast{true, 0, true, 1, 1}},
		{2700, 1800, 3000, forecast{true, 0.25, false, 1.0 / 3, 1200.0 / 2700}},
		{5400, 4000, 7600, forecast{true, 0.5, false, 1, 3600.0 / 5400}},
		{3600, 1800, inf, forecast{true, 0, true, inf, inf}},
		{3600, nan, nan, forecast{true, 0, false, inf, 0}},
		{inf, inf, inf, forecast{true, 1, false, inf, 0}},
		{nan, nan, nan, forecast{true, 1, false, inf, 0}},
	} {
		o := fake{eta: c.eta, lower: c.lower, upper: c.upper}.score(is)
		if o.forecast != c.want {
			t.Errorf("%g (%g to %g): %+v, want %+v", c.eta, c.lower, c.upper, o.forecast, c.want)
		}
	}
	is.length = is.half - time.Minute
	if o := (fake{eta: 3600}).score(is); o.forecast.due {
		t.Error("a forecast is due after the end")
	}
	is.half, is.oom = 0, 0
	if o := (fake{eta: 1}).score(is); o.forecast.due {
		t.Error("a forecast is due without an out-of-memory")
	}
}

// A leak of which a third is lost by the half-life has twice as long to go, at its mean rate, as it has.
func TestClairvoyant(t *testing.T) {
	is := truth{leak: true, onset: 1 * hours, half: 2 * hours, oom: 3 * hours, length: 3 * hours}
	var results []judged
	for _, lost := range []float64{1.0 / 2, 1.0 / 3, 3.0 / 4, 0} {
		is.halfLost = lost
		results = append(results, judged{ours: silent().score(is)})
	}
	if got, want := clairvoyant(results)[1:], []string{"3", "66.7 %", "100.0 %", "–"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := untold(results)[1:], []string{"4", "100.0 %", "100.0 %", "0/4 0.0 %"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if none := calibration(nil, "none").rows; none[len(none)-1][2] != "–" || none[len(none)-2][4] != "–" {
		t.Errorf("of nothing: %q", none)
	}
}

// labelled are the outcomes of a fake detector on six leaks, three healthy
// series and a straight fill.
func labelled() []outcome {
	at := func(found time.Duration) fake { return silent([2]time.Duration{found, 9 * hours}) }
	leak := truth{leak: true, onset: 1 * hours, length: 5 * hours}
	fine, big := leak, leak
	fine.fine = true
	big.fine, big.steadyBig, big.fromStart = true, true, true
	late := leak
	late.steadyBig = true
	dies := truth{leak: true, onset: 1 * hours, half: 2 * hours, oom: 3 * hours, length: 3 * hours}
	told := at(100 * minutes)
	told.eta, told.lower, told.upper = 2700, 2000, 3800
	return []outcome{
		at(70 * minutes).score(late), at(80 * minutes).score(fine), at(75 * minutes).score(big),
		silent().score(leak), told.score(dies), at(30 * minutes).score(dies),
		silent().score(truth{length: 5 * hours}), silent().score(truth{length: 10 * hours}),
		silent([2]time.Duration{60 * minutes, 120 * minutes}, [2]time.Duration{180 * minutes, 240 * minutes}).score(truth{length: 5 * hours}),
		silent([2]time.Duration{60 * minutes, 120 * minutes}).score(truth{length: 5 * hours, straight: true}),
	}
}

func TestFigures(t *testing.T) {
	var f figures
	for _, o := range labelled() {
		f.add(&o)
	}
	want := map[string]string{
		"precision (series)": "66.7 %", "recall": "4/6 66.7 %", "found within 15 min": "2/6 33.3 %",
		"steady ≥ 50 MB/min within 15 min": "2/2 100.0 %", laterRows[0].name: "1/5 20.0 %", laterRows[1].name: "1/1 100.0 %", "delay, median": "17m30s", "delay, 90 %": "40m0s",
		"early alarms": "1/6 16.7 %", "false episodes per 100 series-hours": "10.00",
		"healthy series ever alarmed": "1/3 33.3 %", "healthy time in alarm": "10.0 %",
		"ETA error at half-life, median": "62.5 %", "ETA error at half-life, 90 %": "100.0 %",
		"90 % interval covers": "1/2 50.0 %", "90 % interval, median width/true": "none",
		"healthy series ever paged": "0/3 0.0 %", "out-of-memories with a page 10 min before": "1/2 50.0 %", "page to out-of-memory, median": "1h17m0s",
		"page to out-of-memory, 10 % to 90 %": "1h17m0s to 1h17m0s", "leaks with a page before the onset": "0/6 0.0 %",
	}
	rows := slices.Concat(leakRows, laterRows, healthyRows, forecastRows, pageRows)
	for _, r := range rows {
		if text, ok := want[r.name]; ok && r.of(&f) != text {
			t.Errorf("%s: %s, want %s", r.name, r.of(&f), text)
		}
	}
	if f.fine != 2 || f.fineQuick != 1 || f.bigFineQuick != 1 {
		t.Errorf("sampled finely: %+v", f)
	}
	var none figures
	for _, r := range rows {
		if text := r.of(&none); text != "–" {
			t.Errorf("%s of nothing: %s", r.name, text)
		}
	}
}

func TestQuantile(t *testing.T) {
	list := []float64{4, 1, 3, 2}
	if quantile(list, 0.9) != 4 || quantile(list, 0.5) != 2 || median(list) != 2.5 || median(list[:3]) != 3 {
		t.Error(quantile(list, 0.9), quantile(list, 0.5), median(list), median(list[:3]))
	}
	inf := math.Inf(1)
	if median([]float64{inf, inf}) != inf || median([]float64{1, inf}) != inf {
		t.Error("the median of infinities is none")
	}
}

// The bounds are those of the usual tables: chi² of 2n+2 at 0.95, halved.
func TestPoissonUpper(t *testing.T) {
	for n, want := range map[int]float64{0: 2.9957, 1: 4.7439, 2: 6.2958, 10: 16.9622, 100: 118.0792} {
		if got := poissonUpper(n, 0.95); math.Abs(got-want) > 1e-3 {
			t.Errorf("%d seen: at most %.4f, want %.4f", n, got, want)
		}
	}
}

// TestCurve holds the row of the default threshold against the table of the same series.
func TestCurve(t *testing.T) {
	got := text(t, "--kind=st", "--series=1", "--rivals=false", "--markdown", "--curve")
	row := func(name string) []string {
		_, rest, _ := strings.Cut(got, "\n| "+name+" | ")
		cells, _, _ := strings.Cut(rest, " |\n")
		return strings.Split(cells, " | ")
	}
	want := []string{row("recall")[0], row("found within 15 min")[0], row("early alarms")[0], row("healthy series ever alarmed")[0], row("false episodes per 100 series-hours")[0], row("delay, median")[0]}
	if curve := row(fmt.Sprint(detector.DefaultConfig().LeakThreshold)); !slices.Equal(curve, want) || want[0] == "" {
		t.Errorf("the row of the default is %q, want %q", curve, want)
	}
}

// An episode that begins on a tooth of more than 15 minutes is counted apart, and one in its pause is not.
func TestOnFills(t *testing.T) {
	i := slices.IndexFunc(workloads.Kinds(), func(k workloads.Kind) bool { return k.Name == "epochs-grow" })
	for index := range 40 {
		j := job{workloads.Kinds()[i], index, workloads.Long}
		s := j.kind.New(workloads.Tune, index, j.length)
		var on, off []time.Duration
		for at, _, ok := s.Next(); ok; at, _, ok = s.Next() {
			if s.Fills() {
				on = append(on, at)
			} else {
				off = append(off, at)
			}
		}
		if len(on) < 3 || len(off) < 1 {
			continue
		}
		begun := []time.Duration{on[0], off[0], on[len(on)-1]}
		slices.Sort(begun)
		if n := onFills([]job{j}, []judged{{ours: outcome{begun: begun}}}, workloads.Tune); n != 2 {
			t.Errorf("%d of 2 episodes began in a straight fill", n)
		}
		return
	}
	t.Error("no series has long teeth and pauses")
}

// text runs the program and returns what it writes.
func text(t *testing.T, args ...string) string {
	t.Helper()
	opt, err := parse(args)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := bench(&b, opt); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSameForAnyNumberOfWorkers(t *testing.T) {
	args := []string{"--kind=st", "--series=2", "--hours=300", "--verbose", "--curve"}
	many := text(t, args...)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if one := text(t, args...); one != many {
		t.Errorf("with one worker:\n%s\nwith more:\n%s", one, many)
	}
	for _, want := range []string{"Set tune: ", "Leaks by kind", "stairs-small", "Other leak thresholds", "series-hours: "} {
		if !strings.Contains(many, want) {
			t.Errorf("%q is missing in\n%s", want, many)
		}
	}
}

func TestMarkdown(t *testing.T) {
	got := text(t, "--kind=constant", "--series=1", "--rivals=false", "--markdown", "--set=test")
	for _, want := range []string{"# How well", "## Set test: 0 leaks, 1 healthy", "|  | ours |\n|---|---:|\n", "| constant | 1 |"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"--set=all"}, {"x"}, {"--hours=x"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	opt, err := parse([]string{"--kind=no such kind"})
	if err != nil {
		t.Fatal(err)
	}
	if err := bench(&bytes.Buffer{}, opt); err == nil {
		t.Error("no kind, no error")
	}
}

func TestTraces(t *testing.T) {
	dir := t.TempDir()
	if got := text(t, "--series=0", "--traces="+dir); !strings.Contains(got, "No real logs") {
		t.Error(got)
	}
	var b strings.Builder
	b.WriteString("timestamp, index, uuid, memory.used [MiB], memory.total [MiB]\n")
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for i := range 6 * 60 * 6 { // 6 h each 10 s
		fmt.Fprintf(&b, "%s, 0, GPU-1, %d MiB, 24000 MiB\n", at.Add(time.Duration(i)*10*time.Second).Format("2006/01/02 15:04:05.000"), 9000+2*(i%3))
	}
	if err := os.WriteFile(filepath.Join(dir, "a.csv"), []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	got := text(t, "--series=0", "--verbose", "--rivals=false", "--traces="+dir)
	for _, want := range []string{"Real logs as they are: 1 of 6 h", "with a leak from one third on: 4", "0.5 MiB/s"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// A leak of 2 MiB/s in 1 GiB free from 2 h on: 512 s, and 1000 MiB of it in steps
// of 500 at 2000 s.
func TestReplayTruth(t *testing.T) {
	tr := &trace{name: "a", capacity: 2048 * mib}
	for i := range 6*360 + 1 {
		tr.samples = append(tr.samples, traceSample{time.Duration(i) * 10 * time.Second, 1024 * mib})
	}
	p := &replayed{trace: tr, onset: 2 * hours, steady: injected[2].steady, lost: injected[2].lost}
	is := p.truth()
	if is.oom != 2*hours+510*time.Second || is.half != 2*hours+255*time.Second || !is.fine || !is.steadyBig {
		t.Errorf("%+v", is)
	}
	if p.lost = injected[3].lost; p.truth().oom != 2*hours+1990*time.Second {
		t.Errorf("%+v", p.truth())
	}
	if list := replaysWithLeaks([]*trace{tr}); len(list) != 1 {
		t.Errorf("%d leaks leave memory for 40 min", len(list))
	}
	if got := p.sampled(); got != 1990*time.Second {
		t.Errorf("sampled for %s", got)
	}
	gaps := &trace{name: "gaps", capacity: 80 << 30}
	for _, s := range tr.samples {
		if s.t%hours <= 10*time.Minute { // a sixth of the time
			gaps.samples = append(gaps.samples, s)
		}
	}
	q := &replayed{trace: gaps, onset: 2 * hours}
	if got := q.sampled(); got != 40*time.Minute {
		t.Errorf("with gaps sampled for %s", got)
	}
	if q.onset = 2*hours + 10*time.Second; q.sampled() != 40*time.Minute-10*time.Second {
		t.Errorf("with gaps sampled for %s", q.sampled())
	}
	if list := replaysWithLeaks([]*trace{gaps}); len(list) != len(injected) {
		t.Errorf("%d leaks are sampled for 40 min", len(list))
	}
	gaps.samples = slices.DeleteFunc(gaps.samples, func(s traceSample) bool { return s.t > 5*hours && s.t < 6*hours })
	if list := replaysWithLeaks([]*trace{gaps}); len(list) != 0 {
		t.Errorf("%d leaks are sampled for 30 min", len(list))
	}
	p.lost = nil
	if is := p.truth(); is.leak || is.oom != 0 || is.length != 6*hours {
		t.Errorf("%+v", is)
	}
}

// Episodes and hours count at the age at which they are.
func TestFalseEpisodesByAge(t *testing.T) {
	young := judged{ours: outcome{truth: truth{length: time.Hour}, begun: []time.Duration{time.Minute, 29 * time.Minute, 30 * time.Minute}}}
	old := judged{ours: outcome{truth: truth{length: 20 * time.Hour}, begun: []time.Duration{2 * time.Hour, 20 * time.Hour}}}
	var got []string
	for _, row := range byAge([]judged{young, old}).rows {
		got = append(got, strings.Join(row[:5], " "))
	}
	want := []string{"0s 30m0s 2 1 20000.00", "30m0s 2h0m0s 1 2 5000.00", "2h0m0s 12h0m0s 1 10 1000.00", "12h0m0s the end 1 8 1250.00"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The hard kinds are told with each noise.
func TestHard(t *testing.T) {
	var out strings.Builder
	if err := bench(&out, options{set: workloads.Test, hard: 1}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2+len(workloads.HardKinds(0)) || strings.Count(out.String(), " of 1, ") != 3*len(workloads.HardKinds(0)) {
		t.Errorf("not a row a kind, with a column a noise:\n%s", out.String())
	}
}
