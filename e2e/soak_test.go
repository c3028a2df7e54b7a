// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
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

// soakSpeed is how fast the simulated time goes, and soakStep how far apart two scrapes are.
const (
	soakSpeed = 1800
	soakStep  = 500 * time.Millisecond
)

// usage is what the exporter takes, by name.
type usage map[string]float64

// used returns what a scrape and procfs tell of it.
func used(t *testing.T, p *harness.Process, s harness.Metrics) usage {
	t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	u := usage{"threads": float64(len(threads)), "series": float64(len(s))}
	for name, metric := range map[string]string{
		"goroutines": "go_goroutines", "descriptors": "process_open_fds", "heap": "go_memstats_heap_alloc_bytes", "resident": "process_resident_memory_bytes",
	} {
		if u[name], err = s.Value(metric, nil); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

// TestSoak runs the exporter over simulated weeks in which processes come and go. What it takes does not grow, and the
// detector says so, too.
//
// As shipped, a Go program's heap grows to twice what is live before it is collected, and at this speed that happens
// several times a second: what is resident goes up and down between 40 and 60 MiB, and the detector calls that a step or a
// sawtooth, and no leak. What is live shows in an exporter that collects once its heap is a tenth larger: that is stable.
func TestSoak(t *testing.T) {
	t.Run("as shipped", func(t *testing.T) {
		t.Parallel()
		all := soak(t)
		names := []string{"goroutines", "descriptors", "threads", "series"}
		if !raced {
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
		if !raced {
			judgeItself(t, all, "resident", "no leak")
		}
	})
	t.Run("what is live", func(t *testing.T) {
		t.Parallel()
		if raced {
			return // the memory of a build with the race detector is not that of the program: make soak
		}
		verdict := "no leak"
		if *soakTime >= 5*time.Minute { // before, it is not judged for long enough to be known by its form
			verdict = "no leak  stable"
		}
		judgeItself(t, soak(t, "GOGC=10"), "heap", verdict)
	})
}

// raced is whether the exporter is built with the race detector.
var raced = os.Getenv("E2E_RACE") != ""

// soak watches an exporter for the time of the test.
func soak(t *testing.T, env ...string) (all []usage) {
	t.Helper()
	p := harness.StartExporter(t, harness.Options{Env: env, Args: []string{
		"--source=sim:churn", fmt.Sprintf("--source.speed=%d", soakSpeed), "--detector.state-file=" + filepath.Join(t.TempDir(), "state"),
	}})
	for end := time.Now().Add(*soakTime); time.Now().Before(end); time.Sleep(soakStep) {
		all = append(all, used(t, p, p.Scrape(t)))
	}
	p.Stop(t)
	noStack(t, p.Output())
	return all
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
	for _, name := range []string{"total", "used"} {
		fmt.Fprintf(&b, "# TYPE gpu_memory_%s_bytes gauge\n", name)
		for i, u := range all[len(all)/8:] {
			v := u[what]
			if name == "total" {
				v = 256 << 20
			}
			fmt.Fprintf(&b, "gpu_memory_%s_bytes{gpu=\"0\",uuid=\"GPU-itself\"} %.0f %d\n", name, v, 1_790_000_000+15*i)
		}
	}
	b.WriteString("# EOF\n")
	file := filepath.Join(t.TempDir(), "itself.om")
	write(t, file, b.String())
	out, err := exec.Command(harness.Tool(t), "backtest", "--format=openmetrics", file).CombinedOutput()
	t.Logf("the detector of its %s memory:\n%s", what, strings.TrimSpace(string(out)))
	if err != nil || !strings.Contains(string(out), verdict) {
		t.Errorf("the detector of its %s memory does not say %q: %v", what, verdict, err)
	}
}
