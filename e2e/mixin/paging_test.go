// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package mixin

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

var update = flag.Bool("update", false, "write the tables of TestTimeToPage and TestWaitsOfAPage into mixin/README.md")

// growth is a program that leaks on a GPU of 80 GiB.
type growth struct {
	perMinute int           // MiB
	room      int           // GiB that are free when it begins
	after     time.Duration // the program has started before it begins
}

const (
	mebibyte = 1 << 20
	gibibyte = 1 << 30
	gpuBytes = 80 * gibibyte
)

// lasts is how long the memory takes to be full.
func (g growth) lasts() time.Duration {
	return time.Duration(float64(g.room) * 1024 / float64(g.perMinute) * float64(time.Minute))
}

// record writes what the exporter samples each second, from a minute before the program starts until the memory is full.
func (g growth) record(t *testing.T) (file string) {
	t.Helper()
	used := func(s int) int {
		if s < 0 {
			return 0
		}
		grown := max(0, s-int(g.after.Seconds())) * g.perMinute / 60
		return gpuBytes - (g.room+1)*gibibyte + grown/2*2*mebibyte // an allocator asks for 2 MiB at least
	}
	file = filepath.Join(t.TempDir(), "recording")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	buffered := bufio.NewWriter(f)
	fmt.Fprintln(buffered, `{"format":"gpu_leak_exporter recording","version":1}`)
	fmt.Fprintln(buffered, `{"gpu":{"index":0,"uuid":"GPU-a"}}`)
	for s := -60; s < int((g.after + g.lasts()).Seconds()); s++ {
		at, processes := began.Add(time.Duration(s)*time.Second), ""
		if s >= 0 {
			processes = fmt.Sprintf(`"processes":[{"id":{"pid":77,"start":1},"type":1,"started":%d,"used":%d,"owner":{"process":"train.py"}}],`, began.UnixNano(), used(s))
		}
		fmt.Fprintf(buffered, `{"uuid":"GPU-a","sample":{"time":%q,"t":%d,"memory":{"total":%d,"used":%d},%s"processes_known":true}}`+"\n",
			at.Format(time.RFC3339Nano), at.UnixNano(), uint64(gpuBytes), gibibyte+used(s), processes)
	}
	if err := errors.Join(buffered.Flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return file
}

// judged is what the detector says of a series at a time.
type judged struct {
	Time   time.Time
	Series map[string]string
	Leak   bool
	Judged bool
	OOM    *float64 `json:"seconds_to_oom"`
	Upper  *float64 `json:"seconds_to_oom_upper"`
	By     *string  `json:"evidence"`
	// Whether the tool says that an alert fires for it.
	Page   bool
	Ticket bool
}

// append stores the series that the exporter has of it and the rules look at. m is what the exporter remembers of the memory.
func (j *judged) append(app storage.Appender, m *finding.Memory) error {
	if j.Series["pid"] != "" {
		return nil
	}
	for _, f := range m.Judge(j.sample()) {
		if !f.OOMDue {
			continue
		}
		l := labels.NewBuilder(labels.FromMap(j.Series)).Set("__name__", "gpu_predicted_oom_seconds").Set("job", "gpu_leak_exporter").Set("instance", "node-1:9844")
		if _, err := app.Append(0, l.Set("scope", "gpu").Set("evidence", f.Evidence.String()).Labels(), j.Time.UnixMilli(), f.OOM.V); err != nil {
			return err
		}
	}
	return nil
}

// sample is what the exporter decides by.
func (j *judged) sample() *finding.Sample {
	cfg := detector.DefaultConfig()
	s := &finding.Sample{Judgement: &detector.Judgement[gpu.ProcessID]{T: time.Duration(j.Time.UnixNano())}, FillsWithin: cfg.FillsWithin}
	v := &s.Judgement.Device
	v.Judged, v.Leak = j.Judged, j.Leak
	if j.By == nil || j.OOM == nil {
		return s
	}
	if v.SecondsToOOM = detector.Of(*j.OOM); j.Upper != nil {
		v.Upper = detector.Of(*j.Upper)
	}
	s.Judgement.Evidence = detector.EvidenceLeak
	within := cfg.PageWithin
	if *j.By == detector.EvidenceFilling.String() {
		s.Judgement.Evidence, within = detector.EvidenceFilling, cfg.FillsWithin
	}
	s.Judgement.Page = *j.OOM < within.Seconds() && (*j.By == detector.EvidenceLeak.String() || v.Upper.Finite() != nil)
	return s
}

// told is when it was told of a growth, from its first byte on; 0 if never.
type told struct{ detected, ticket, page time.Duration }

// tell has the exporter's detector judge the growth, Prometheus scrape that and evaluate the alerts as shipped, and returns
// when Alertmanager sends its first notifications.
func (g growth) tell(t *testing.T) (when told, alert string) {
	t.Helper()
	start := began.Add(g.after)
	out := g.backtest(t, scrapeInterval)
	storage, groups := shippedAlerts(t)
	memory := groups[rules.GroupKey(filepath.Join(shipped(), "alerts.yaml"), "gpu-memory")]
	look := func(now time.Time) {
		for _, r := range memory.AlertingRules() {
			if r.State() != rules.StateFiring {
				continue
			}
			if r.Labels().Get("severity") == "critical" && when.page == 0 {
				when.page, alert = now.Sub(start)+pageGroupWait, r.Name()
			}
			// Alertmanager sends no ticket on what is a page.
			if r.Labels().Get("severity") == "warning" && when.ticket == 0 && when.page == 0 {
				when.ticket = now.Sub(start) + ticketGroupWait
			}
		}
	}
	app, last := storage.Appender(t.Context()), time.Time{}
	var remembers finding.Memory
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	var said told // by the tool
	for lines.Scan() && (when.page == 0 || said.page == 0) {
		var j judged
		if err := json.Unmarshal(lines.Bytes(), &j); err != nil {
			t.Fatal(err)
		}
		if j.Page && said.page == 0 {
			said.page = j.Time.Sub(start) + pageGroupWait
		}
		if j.Ticket && said.ticket == 0 && said.page == 0 {
			said.ticket = j.Time.Sub(start) + ticketGroupWait
		}
		if j.Time.After(last) && !last.IsZero() {
			if err := app.Commit(); err != nil {
				t.Fatal(err)
			}
			memory.Eval(t.Context(), last)
			look(last)
			app = storage.Appender(t.Context())
		}
		last = j.Time
		if err := j.append(app, &remembers); err != nil {
			t.Fatal(err)
		}
		if j.Leak && when.detected == 0 {
			when.detected = j.Time.Sub(start)
		}
	}
	if d := said.page - when.page; (said.page == 0) != (when.page == 0) || d.Abs() > time.Minute {
		t.Errorf("%+v: backtest says that it pages after %s, the rules do after %s", g, said.page, when.page)
	}
	if d := said.ticket - when.ticket; when.ticket > 0 && (said.ticket == 0 || d.Abs() > time.Minute) {
		t.Errorf("%+v: backtest says that it makes a ticket after %s, the rules do after %s", g, said.ticket, when.ticket)
	}
	return when, alert
}

// backtest returns what the exporter's detector says of the growth, each step, a line of JSON each.
func (g growth) backtest(t *testing.T, step time.Duration) []byte {
	t.Helper()
	out, err := exec.Command(harness.Tool(t), "backtest", "--step="+step.String(), "--output=json", g.record(t)).Output()
	if code, is := errors.AsType[*exec.ExitError](err); err != nil && (!is || code.ExitCode() != 1) {
		t.Fatalf("backtest: %v", err)
	}
	return out
}

// How long examples/alertmanager.yml waits for what belongs together.
const pageGroupWait, ticketGroupWait = 10 * time.Second, 2 * time.Minute

// minutes is a wait as the tables have it; "–" for none.
func minutes(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// TestTimeToPage says how long it takes from the first leaked byte to the notification, in simulated time.
func TestTimeToPage(t *testing.T) {
	t.Parallel()
	config, err := os.ReadFile(filepath.Join(harness.Root(), "examples/alertmanager.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"  group_wait: 2m\n", "      group_wait: 10s\n"} {
		if strings.Count(string(config), line) != 1 {
			t.Errorf("examples/alertmanager.yml has no %q", line)
		}
	}
	var table strings.Builder
	table.WriteString("| MiB a minute | free GiB | leaks from | full after | called a leak after | ticket after | page after | before the end |\n|---|---|---|---|---|---|---|---|\n")
	for _, after := range []time.Duration{time.Hour, 0} {
		for _, room := range []int{8, 40} {
			for _, perMinute := range []int{50, 100, 300, 600, 1200} {
				g := growth{perMinute, room, after}
				from := "its start"
				if after > 0 {
					from = "an hour later"
				}
				w, alert := g.tell(t)
				before := "never"
				if w.page > 0 && w.page < g.lasts() {
					before = minutes(g.lasts() - w.page)
				}
				if w.page > 0 && alert != "GPUOutOfMemoryPredicted" {
					t.Errorf("%+v: the page is %s", g, alert)
				}
				fmt.Fprintf(&table, "| %d | %d | %s | %s | %s | %s | %s | %s |\n",
					perMinute, room, from, minutes(g.lasts()), minutes(w.detected), minutes(w.ticket), minutes(w.page), before)
			}
		}
	}
	holdsTable(t, "TestTimeToPage", table.String())
}

// readme is held while mixin/README.md is read and written: tests of several tables run at a time.
var readme sync.Mutex

// holdsTable holds a table of mixin/README.md against what the test of that name has measured, or writes it there.
func holdsTable(t *testing.T, test, table string) {
	t.Helper()
	readme.Lock()
	defer readme.Unlock()
	file := filepath.Join(harness.Root(), "mixin/README.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	from, to := "<!-- "+test+" writes this table. -->\n", "<!-- its end -->\n"
	head, rest, found1 := strings.Cut(string(text), from)
	old, tail, found2 := strings.Cut(rest, to)
	switch {
	case !found1 || !found2:
		t.Fatalf("mixin/README.md has no %q", from)
	case *update:
		if err := os.WriteFile(file, []byte(head+from+table+to+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	case old != table:
		t.Errorf("the table of mixin/README.md is another one: go test -tags e2e,nightly -run %s ./mixin -update\n%s", test, table)
	}
}
