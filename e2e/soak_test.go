// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"bufio"
	"compress/gzip"
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

var soakTime = flag.Duration("soak.time", 40*time.Second, "how long the exporter is watched; each second is half an hour of simulated time")

// soakSpeed is how fast the simulated time goes, and soakStep how far apart two scrapes are. Two samples are
// soakInterval apart.
const (
	soakSpeed    = 1800
	soakStep     = 500 * time.Millisecond
	soakInterval = 5 * time.Second
)

// usage is what the exporter takes, by name.
type usage map[string]float64

// used returns what a scrape and procfs tell of it.
func used(t *testing.T, p *harness.Process, s harness.Metrics) usage {
	t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.PID()))
	harness.Must(t, err)
	u := usage{"threads": float64(len(threads)), "series": float64(len(s))}
	for name, metric := range map[string]string{
		"goroutines": "go_goroutines", "descriptors": "process_open_fds", "heap": "go_memstats_heap_alloc_bytes", "resident": "process_resident_memory_bytes",
	} {
		u[name], err = s.Value(metric, nil)
		harness.Must(t, err)
	}
	return u
}

// TestSoak runs the exporter over simulated weeks in which processes come and go. What it takes does not grow, and the
// detector says so, too.
//
// It collects garbage once its heap is a tenth larger, so that what is live shows. As shipped, the heap grows to twice that, and at
// this speed several times a second.
func TestSoak(t *testing.T) {
	var all []usage
	p := harness.StartExporter(t, harness.Options{Env: []string{"GOGC=10"}, Args: []string{
		"--source=replay:" + churn(t), fmt.Sprintf("--source.speed=%d", soakSpeed), "--detector.state-file=" + filepath.Join(t.TempDir(), "state"),
	}})
	for end := time.Now().Add(*soakTime); time.Now().Before(end); time.Sleep(soakStep) {
		all = append(all, used(t, p, p.Scrape(t)))
	}
	p.Stop(t)
	names := []string{"goroutines", "descriptors", "threads", "series"}
	if !raced { // the memory of a build with the race detector is not that of the program: make soak
		names = append(names, "heap", "resident")
	}
	quarter := len(all) / 4
	for _, name := range names {
		early, late := highest(all[quarter:2*quarter], name), highest(all[3*quarter:], name)
		t.Logf("%s: at most %.0f in the second quarter, %.0f in the last one", name, early, late)
		if late > early*1.15+5 {
			t.Errorf("%s grow from %.0f to %.0f", name, early, late)
		}
	}
	if raced {
		return
	}
	verdict := "Would not have alerted."
	if *soakTime >= 5*time.Minute { // before, it is not judged for long enough to be known by its form
		verdict = "It stays the same."
	}
	judgeItself(t, all, "heap", verdict)
}

// raced is whether the exporter is built with the race detector.
var raced = os.Getenv("E2E_RACE") != ""

// churn writes a recording of a GPU on which 64 workers start and end all the time, 35,000 an hour, beside a server that
// leaks and is started again every six hours. The recording ends after the test.
func churn(t *testing.T) string {
	t.Helper()
	const total, each, base, perMinute = 80 << 30, 600 << 20, 2 << 30, 40 << 20
	path := filepath.Join(t.TempDir(), "recording.gz")
	file, err := os.Create(path)
	harness.Must(t, err)
	z, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	harness.Must(t, err)
	w := bufio.NewWriter(z) // it keeps the first error for Flush
	fmt.Fprint(w, `{"format":"gpu_leak_exporter recording","version":1}`+"\n"+`{"gpu":{"index":0,"uuid":"GPU-churn"}}`+"\n")
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var workers [64]int // of each the number of its process, which is its start
	started := 0
	for n := range int((*soakTime + 20*time.Second) * soakSpeed / soakInterval) {
		at := time.Duration(n) * soakInterval
		life, age := at/(6*time.Hour), at%(6*time.Hour)
		leak := base + int(age.Minutes()*perMinute)
		used := leak + len(workers)*each
		fmt.Fprintf(w, `{"uuid":"GPU-churn","sample":{"time":%q,"t":%d,"step":0,"memory":{"total":%d,"used":%d,"free":%d},"processes":[`+
			`{"id":{"pid":100,"start":%d},"type":1,"used":%d,"owner":{"process":"router.py","user":"app","namespace":"default","pod":"router-0"}}`,
			start.Add(at).Format(time.RFC3339), start.Add(at).UnixNano(), total, used, total-used, life, leak)
		for i := range workers {
			if n%(1+i%2) == 0 { // one half is in a single sample, the other in two
				started++
				workers[i] = started
			}
			fmt.Fprintf(w, `,{"id":{"pid":%d,"start":%d},"type":1,"used":%d,"owner":{"process":"render","user":"farm","slurm_job":"%d"}}`,
				1000+workers[i]%4_000_000, workers[i], each, 60000+i)
		}
		fmt.Fprint(w, `],"processes_known":true,"processes_complete":true}}`+"\n")
	}
	harness.Must(t, errors.Join(w.Flush(), z.Close(), file.Close()))
	return path
}

func highest(all []usage, name string) (most float64) {
	for _, u := range all {
		most = max(most, u[name])
	}
	return most
}

// judgeItself has the detector judge memory of the exporter, as if it were a GPU's: a scrape stands for a quarter of a
// minute, and the first eighth, in which it starts, is left out.
func judgeItself(t *testing.T, all []usage, what, verdict string) {
	t.Helper()
	var b strings.Builder
	for i, u := range all[len(all)/8:] {
		fmt.Fprintf(&b, "%d,0,%.0f,%d\n", 1_790_000_000+15*i, u[what], 256<<20)
	}
	file := filepath.Join(t.TempDir(), "itself.csv")
	harness.WriteFile(t, file, b.String())
	out, err := exec.Command(harness.Tool(t), "backtest", "--columns=timestamp,gpu,used[B],total[B]", file).CombinedOutput()
	t.Logf("the detector of its %s memory:\n%s", what, strings.TrimSpace(string(out)))
	if err != nil || !strings.Contains(string(out), verdict) {
		t.Errorf("the detector of its %s memory does not say %q: %v", what, verdict, err)
	}
}
