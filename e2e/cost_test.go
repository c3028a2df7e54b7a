// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// What the exporter itself costs. make bench-cost measures all loads and writes the table to bin/COST.md.
var (
	costFile = flag.String("cost.file", "", "measure what the exporter costs, and write the table to this file; - is the log")
	costOnly = flag.String("cost.only", "", "measure this load only, such as 8x8/100")
	// A scrape of it asks the driver, so its calls are a part of what a scrape takes; the fake library's own time is not.
	costRival = flag.String("cost.rival", "", "measure this binary of utkuozdemir/nvidia_gpu_exporter in place of the exporter")
)

// costScrapes is how many scrapes a round has, costRounds how many rounds: the median of the rounds is told.
const (
	costScrapes = 200
	costRounds  = 3
)

// costTime is how long the background is measured, and costWarm how long an exporter runs before: its first look at all open files
// of the host is over then, and the next one comes later.
const costTime, costWarm = time.Minute, 75 * time.Second

// load is what an exporter has to look at.
type load struct {
	gpus, processes int // processes a GPU
	host            int // other processes
	descriptors     int // that those have open in all
}

func (l load) String() string {
	return fmt.Sprintf("%dx%d/%d", l.gpus, l.processes, l.host)
}

var loads = []load{
	{1, 1, 100, 1000},
	{1, 64, 100, 1000},
	{8, 8, 100, 1000},
	{8, 8, 5000, 100_000},
	{8, 64, 100, 1000},
	{16, 256, 100, 1000},
	{16, 256, 5000, 100_000},
}

// costs are what one load takes. Times are of the processor, in user and kernel mode, without the fake library's.
type costs struct {
	load          load
	series, bytes int
	gzipped       int           // bytes
	plain, gzip   time.Duration // a scrape
	background    time.Duration // a second
	resident      int           // bytes
	allocations   int           // a scrape, plain
	reads         float64       // system calls that read, a second of the background
	calls         float64       // into the library, a second of the background
	waits         float64       // for events, a second of the background
}

// TestCost measures what the exporter takes under each load.
func TestCost(t *testing.T) {
	if *costFile == "" {
		costCounts(t)
		return
	}
	var all []costs
	for _, l := range loads {
		if *costOnly == "" || *costOnly == l.String() {
			t.Run(l.String(), func(t *testing.T) { all = append(all, measure(t, l)) })
		}
	}
	table := costTable(all)
	t.Log("\n" + table)
	if *costFile != "-" {
		harness.WriteFile(t, *costFile, table)
	}
}

// crowd starts processes that do nothing and returns their numbers.
func crowd(t *testing.T, processes, descriptors int) []uint32 {
	t.Helper()
	program := filepath.Join(harness.Dir(), "crowd")
	harness.Run(t, exec.Command(cmp.Or(os.Getenv("CC"), "cc"), "-O2", "-o", program, "testdata/crowd/crowd.c"))
	cmd := exec.Command(program, strconv.Itoa(processes), strconv.Itoa(descriptors))
	stdin, err := cmd.StdinPipe()
	harness.Must(t, err)
	stdout, err := cmd.StdoutPipe()
	harness.Must(t, err)
	cmd.Stderr = os.Stderr
	harness.Must(t, cmd.Start())
	var pids []uint32
	lines := bufio.NewScanner(stdout)
	for len(pids) < processes && lines.Scan() {
		pid, err := strconv.ParseUint(lines.Text(), 10, 32)
		harness.Must(t, err)
		pids = append(pids, uint32(pid))
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait() // what it makes are dead by then or a moment later
	})
	if len(pids) != processes {
		t.Fatalf("%d processes of %d could be started", len(pids), processes)
	}
	return pids
}

// costBench is an exporter under a load.
type costBench struct {
	*harness.Process
	t     *testing.T
	calls string // the call log
}

// startCost starts an exporter over the fake library, and waits until it shows all processes that it will.
func startCost(t *testing.T, l load, args ...string) *costBench {
	t.Helper()
	crowd(t, l.host, l.descriptors/max(1, l.host))
	pids := crowd(t, l.gpus*l.processes, 4)
	library, err := fakenvml.Build(harness.Dir())
	harness.Must(t, err)
	dir := t.TempDir()
	b := &costBench{t: t, calls: filepath.Join(dir, "calls")}
	node := fakenvml.NewNode(l.gpus)
	for i, pid := range pids {
		p := fakenvml.Process{
			PID: pid, Memory: fakenvml.Constant(uint64(i%7+1) << 26),
			Utilization: &fakenvml.Utilization{SM: uint32(i % 100), Memory: uint32(i % 50)},
		}
		if i%10 == 0 {
			p.Memory.Rate = 256 << 10
		}
		g := &node.GPUs[i%l.gpus]
		g.Processes = append(g.Processes, p)
	}
	script := filepath.Join(dir, "script")
	harness.Must(t, node.Write(script))
	o := harness.Options{Args: append([]string{"--nvml.library-path=" + library}, args...), Env: fakenvml.Env(script, b.calls)}
	shown, series := l.gpus*min(l.processes, 64), "gpu_process_memory_used_bytes"
	if *costRival != "" {
		o.Program, o.Args = []string{*costRival}, []string{"--collect.backend=nvml", "--collect.compute-apps"}
		o.Env = append(o.Env, "LD_LIBRARY_PATH="+filepath.Dir(library))
		shown, series = l.gpus*l.processes, "nvidia_smi_compute_app_used_memory_bytes"
	}
	b.Process = harness.StartExporter(t, o)
	harness.Eventually(t, patience, func() error {
		m, err := b.TryScrape()
		if err != nil {
			return err
		}
		if n := len(m.All(series, nil)); n != shown {
			return fmt.Errorf("%d processes are shown, want %d", n, shown)
		}
		return nil
	})
	return b
}

// meter is what a process has used so far.
type meter struct {
	at                  time.Time
	cpu, fake           time.Duration
	reads, calls, waits int // waits are those for events
}

func (b *costBench) read() meter {
	b.t.Helper()
	var ts unix.Timespec
	// The clock of a process's time, as clock_getcpuclockid(3) makes it: in nanoseconds, where /proc/PID/stat has ticks.
	harness.Must(b.t, unix.ClockGettime(int32(^b.PID()<<3|2), &ts))
	m := meter{at: time.Now(), cpu: time.Duration(ts.Nano())}
	log, err := fakenvml.ReadCalls(b.calls)
	harness.Must(b.t, err)
	for name, f := range log.Functions {
		m.fake += f.CPU
		m.calls += int(f.Calls)
		if strings.HasPrefix(name, "nvmlEventSetWait") {
			m.waits += int(f.Calls)
		}
	}
	m.reads = procNumber(b.t, fmt.Sprintf("%d/io", b.PID()), "syscr")
	return m
}

// own is the exporter's time between two readings, without the fake's.
func own(a, b meter) time.Duration { return b.cpu - a.cpu - (b.fake - a.fake) }

// perSecond is how much of an amount falls on a second between two readings.
func perSecond(a, b meter, amount float64) float64 { return amount / b.at.Sub(a.at).Seconds() }

func measure(t *testing.T, l load) costs {
	b := startCost(t, l)
	time.Sleep(costWarm)
	c := b.counts(costTime)
	c.load = l
	c.plain, _ = b.scrapes("identity", costScrapes, costRounds, c.background)
	c.gzip, _ = b.scrapes("gzip", costScrapes, costRounds, c.background)
	c.resident = procNumber(t, fmt.Sprintf("%d/status", b.PID()), "VmRSS") << 10
	b.Stop(t)
	t.Logf("%+v", c)
	return c
}

// counts measures the background, and what can be counted of scrapes.
func (b *costBench) counts(background time.Duration) (c costs) {
	b.t.Helper()
	page := fetch(b.t, b.Process, prometheusAccepts, "identity")
	c.bytes, c.gzipped = len(page), len(fetch(b.t, b.Process, prometheusAccepts, "gzip"))
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "#") {
			c.series++
		}
	}
	from := b.read()
	time.Sleep(background)
	to := b.read()
	c.background = time.Duration(perSecond(from, to, float64(own(from, to))))
	c.reads = perSecond(from, to, float64(to.reads-from.reads))
	c.calls = perSecond(from, to, float64(to.calls-from.calls))
	c.waits = perSecond(from, to, float64(to.waits-from.waits))
	_, c.allocations = b.scrapes("identity", 50, 1, c.background)
	return c
}

// prometheusAccepts is the header Accept of Prometheus.
const prometheusAccepts = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"

// fetch scrapes, and returns the page as it was sent, however long that takes on a busy machine.
func fetch(t *testing.T, p *harness.Process, accept, encoding string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL+"/metrics", http.NoBody)
	harness.Must(t, err)
	r.Header.Set("Accept", accept)
	r.Header.Set("Accept-Encoding", encoding)
	answer, err := http.DefaultTransport.RoundTrip(r)
	harness.Must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if got := cmp.Or(answer.Header.Get("Content-Encoding"), "identity"); err != nil || answer.StatusCode != http.StatusOK || got != encoding {
		t.Fatalf("%s: %s in %s, %v", r.URL, answer.Status, got, err)
	}
	return body
}

// scrapes returns the median over some rounds of what a scrape takes, the background's share taken away, and how many
// objects it allocates.
func (b *costBench) scrapes(encoding string, number, rounds int, background time.Duration) (cpu time.Duration, allocations int) {
	b.t.Helper()
	var times []time.Duration
	var objects []int
	for range rounds {
		before, from := b.mallocs(), b.read()
		for range number {
			fetch(b.t, b.Process, prometheusAccepts, encoding)
		}
		to := b.read()
		spent := own(from, to) - time.Duration(to.at.Sub(from.at).Seconds()*float64(background))
		times = append(times, spent/time.Duration(number))
		objects = append(objects, (b.mallocs()-before)/number)
	}
	slices.Sort(times)
	slices.Sort(objects)
	return times[len(times)/2], objects[len(objects)/2]
}

func (b *costBench) mallocs() int {
	b.t.Helper()
	n, err := b.Scrape(b.t).Value("go_memstats_mallocs_total", nil)
	harness.Must(b.t, err)
	return int(n)
}

// costTable is the table in e2e/RESULTS.md, with more columns.
func costTable(all []costs) string {
	var s strings.Builder
	fmt.Fprintf(&s, `# What the exporter costs

`+"`make bench-cost`"+` wrote this: the real binary over the fake NVML library, on %s, %d cores, %s.

Times are processor time in user and kernel mode (the process's clock), not wall time, without that of the fake library. A scrape is
the median of %d rounds of %d scrapes with the headers of Prometheus over one connection, less the background meanwhile. The background
is measured over %s without scrapes, after %s. A virtual machine may be three times as fast an hour later.
The processes on the GPUs and on the host are real ones, which sleep. The shown processes of a GPU are 64 at most, and all are judged.

| GPUs x processes | host processes | open descriptors | series | scrape, plain | scrape, gzip | background | resident | page | gzipped | objects a scrape | reads/s | library calls/s |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
`, harness.Processor(), runtime.NumCPU(), runtime.Version(), costRounds, costScrapes, costTime, costWarm)
	for _, c := range all {
		fmt.Fprintf(&s, "| %dx%d | %d | %d | %d | %.2f ms | %.2f ms | %.1f ms/s | %.1f MiB | %d KiB | %d KiB | %d | %.0f | %.0f |\n",
			c.load.gpus, c.load.processes, c.load.host, c.load.descriptors, c.series, float64(c.plain)/1e6, float64(c.gzip)/1e6,
			float64(c.background)/1e6, float64(c.resident)/(1<<20), c.bytes>>10, c.gzipped>>10, c.allocations, c.reads, c.calls)
	}
	return s.String()
}

// costCounts holds what can be counted against bounds: it is alike on every machine, however busy that is. The bounds
// leave a quarter to what differs from build to build.
func costCounts(t *testing.T) {
	b := startCost(t, load{8, 8, 100, 1000}, "--collector.process.min-age=0s")
	c := b.counts(countTime)
	for _, count := range []struct {
		name      string
		got, most float64
	}{
		{"series", float64(c.series), 1900},
		{"bytes of a page", float64(c.bytes), 300_000},
		{"bytes of a gzipped page", float64(c.gzipped), 30_000},
		{"objects allocated a scrape", float64(c.allocations), 3000},
		{"system calls that read, a second", c.reads, 30},
		{"calls into the driver's library, a second", c.calls, 150}, // with two slow readings in the time
		{"waits for events of 8 GPUs, a second", c.waits, 5},
	} {
		t.Logf("%s: %.0f of at most %.0f", count.name, count.got, count.most)
		if count.got > count.most {
			t.Errorf("%s: %.0f, want at most %.0f", count.name, count.got, count.most)
		}
	}
}

// countTime has one or two slow readings in it.
const countTime = 16 * time.Second
