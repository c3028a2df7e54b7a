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
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

var update = flag.Bool("update", false, "write the table of TestTimeToPage into mixin/README.md")

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
	harness.Must(t, err)
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
	harness.Must(t, errors.Join(buffered.Flush(), f.Close()))
	return file
}

// told is when it was told of a growth, from its first byte on; 0 if never.
type told struct{ detected, ticket, page time.Duration }

// tell has gpuleaktool judge the growth as the exporter does, and returns when Alertmanager sends its first notifications.
func (g growth) tell(t *testing.T) (when told) {
	t.Helper()
	out, err := exec.Command(harness.Tool(t), "backtest", "--step="+scrapeInterval.String(), "--output=json", g.record(t)).Output()
	if code, is := errors.AsType[*exec.ExitError](err); err != nil && (!is || code.ExitCode() != 1) {
		t.Fatalf("backtest: %v", err)
	}
	for line := range bytes.Lines(out) {
		var said struct {
			Time               time.Time
			Leak, Page, Ticket bool
		}
		harness.Must(t, json.Unmarshal(line, &said))
		after := said.Time.Sub(began) - g.after
		if said.Leak && when.detected == 0 {
			when.detected = after
		}
		if said.Page {
			when.page = after + pageGroupWait
			break // Alertmanager sends no ticket on what is a page
		}
		if said.Ticket && when.ticket == 0 {
			when.ticket = after + ticketGroupWait
		}
	}
	return when
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
	config := harness.ReadFile(t, filepath.Join(harness.Root(), "examples/alertmanager.yml"))
	for _, line := range []string{"  group_wait: 2m\n", "      group_wait: 10s\n"} {
		if strings.Count(config, line) != 1 {
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
				w := g.tell(t)
				before := "never"
				if w.page > 0 && w.page < g.lasts() {
					before = minutes(g.lasts() - w.page)
				}
				fmt.Fprintf(&table, "| %d | %d | %s | %s | %s | %s | %s | %s |\n",
					perMinute, room, from, minutes(g.lasts()), minutes(w.detected), minutes(w.ticket), minutes(w.page), before)
			}
		}
	}
	harness.HoldTable(t, "mixin/README.md", table.String(), *update)
}
