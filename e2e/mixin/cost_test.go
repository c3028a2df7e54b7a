// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package mixin

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/teststorage"
	"golang.org/x/sys/unix"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// make bench-rules measures what each group of rules costs, and writes the table to bin/RULES.md.
var (
	costNodes = flag.String("rules.nodes", "", "measure what the rules cost for so many nodes, such as 200,1000")
	costFile  = flag.String("rules.file", "", "write the table of -rules.nodes to this file")
)

// costLeaks is how many GPUs of the fleet leak.
const costLeaks = 500

// A node has as many processes as 8 GPUs of 8: those of the simulated one in turn, each several times.
const nodeProcesses = 64

// costHistory is what the storage holds: the longest range of a rule is an hour.
const costHistory = time.Hour + 2*time.Minute

// groupCost is what one evaluation of a group takes, and what its queries read.
type groupCost struct {
	interval, time time.Duration // of the processor
	samples        int64
}

// TestRulesCost measures each group of rules. Without -rules.nodes it only holds what can be counted against its bound: no time.
func TestRulesCost(t *testing.T) {
	page := costPage(t)
	if *costNodes == "" {
		const nodes = 4 // all have leaks
		samples := costOfRules(t, page, nodes, nodes, 2)["gpu-memory"].samples
		t.Logf("group gpu-memory: %d samples a node", samples/nodes)
		if samples/nodes > samplesOfMemory {
			t.Errorf("group gpu-memory reads %d samples a node, want %d at most", samples/nodes, samplesOfMemory)
		}
		return
	}
	// A node has as many memories that leak, each of a GPU.
	leaking := costLeaks / len(page.All("gpu_leaking_bytes_per_second", nil))
	var table strings.Builder
	fmt.Fprintf(&table, costHead, harness.Processor(), runtime.NumCPU(), runtime.Version(), costHistory)
	for n := range strings.SplitSeq(*costNodes, ",") {
		var nodes int
		if _, err := fmt.Sscan(n, &nodes); err != nil {
			t.Fatal(err)
		}
		writeCosts(&table, page, nodes, costOfRules(t, page, nodes, leaking, costRounds))
	}
	t.Log("\n" + table.String())
	if *costFile != "" {
		harness.Must(t, os.WriteFile(*costFile, []byte(table.String()), 0o600))
	}
}

const costHead = `# What the rules cost

` + "`make bench-rules`" + ` wrote this: all rules of dashboards/ with Prometheus's own packages, on %s, %d cores, %s.

The storage holds %s of the nodes' series at 15 s, as far as a rule reads them. The values stand still, but for the times of samples.
Times are processor time of one evaluation, the mean of fifteen: queries, the texts of alerts, and the way of the results into the storage.
What leaks is full within the hour, so each of these GPUs has a page and two tickets.
`

// samplesOfMemory is how many samples one evaluation of the group gpu-memory may read for each node: as many as it does.
const samplesOfMemory = 136

// costPage returns the series of one node, which has leaks, GPU instances, pods and jobs: those at the end of a recording, so that they
// are the same however busy this machine is. It has as many series with a sample every 10 s as with one a second.
func costPage(t *testing.T) harness.Metrics {
	t.Helper()
	costRecording.Do(func() {
		file := filepath.Join(t.TempDir(), "node.rec")
		harness.Run(t, exec.Command(harness.Tool(t), "record", "--source=sim:node", "--source.speed=inf", "--interval=10s", "--duration=90m", "--output="+file))
		costSeries = harness.Replay(t, file, "inf", 8).Scrape(t)
	})
	if len(costSeries.All("gpu_process_leak_rate_bytes_per_second", nil)) == 0 {
		t.Fatal("nothing leaks")
	}
	return costSeries
}

// The tests of costs share one page.
var (
	costRecording sync.Once
	costSeries    harness.Metrics
)

func costInstance(node int) string { return fmt.Sprintf("node-%05d:9844", node) }

// nodeSeries are the labels of the series of one node, and their values. Only those are kept that a rule reads.
func nodeSeries(page harness.Metrics, read map[string]bool, node int, leaks bool) (series []labels.Labels, values []float64) {
	add := func(b *labels.Builder, v float64) {
		series, values = append(series, b.Labels()), append(values, v)
	}
	copies := processCopies(page)
	for _, s := range page {
		if !leaks && !quiet(&s) || !read[s.Name] {
			continue
		}
		if s.Name == "gpu_predicted_oom_seconds" {
			s.Value = 1800
		}
		b := labels.NewBuilder(labels.EmptyLabels())
		for name, v := range s.Labels {
			b.Set(name, v)
		}
		b.Set("__name__", s.Name).Set("job", "gpu_leak_exporter").Set("instance", costInstance(node))
		add(b, s.Value)
		if strings.HasPrefix(s.Name, "gpu_process_") && s.Labels["pid"] != "" {
			for k := 1; k < copies[s.Labels["pid"]]; k++ {
				b.Set("pid", fmt.Sprintf("%s%d", s.Labels["pid"], k))
				add(b, s.Value)
			}
		}
	}
	b := labels.NewBuilder(labels.EmptyLabels()).Set("__name__", "up").Set("job", "gpu_leak_exporter")
	b.Set("instance", costInstance(node))
	add(b, 1)
	return series, values
}

// processCopies tells for each process of the page, by pid, how many of its kind a node has.
func processCopies(page harness.Metrics) map[string]int {
	processes := page.All("gpu_process_memory_used_bytes", nil)
	copies := make(map[string]int, len(processes))
	for i := range nodeProcesses {
		copies[processes[i%len(processes)].Labels["pid"]]++
	}
	return copies
}

// quiet makes a series what it is where nothing leaks, and tells whether it is there then.
func quiet(s *harness.Sample) bool {
	switch {
	case strings.HasSuffix(s.Name, "_leak_detected"):
		s.Value = 0
	case strings.HasSuffix(s.Name, "_seconds_to_oom"):
		s.Value = math.Inf(1)
	case strings.HasSuffix(s.Name, "_memory_pattern") && (strings.HasPrefix(s.Labels["pattern"], "leak_") || s.Labels["pattern"] == "zombie"):
		s.Labels = maps.Clone(s.Labels)
		s.Labels["pattern"] = "stable"
	}
	return !whileLeaking.MatchString(s.Name)
}

// whileLeaking are the series that are there only while memory grows.
var whileLeaking = regexp.MustCompile(`^gpu_(predicted_oom_seconds|leaking_bytes_per_second|memory_held_bytes|memory_state|(process_|workload_|mig_)?(leak_rate_bytes_per_second|oom_evidence|oom_rate_bytes_per_second|leaked_bytes|leak_start_timestamp_seconds|leak_withheld_seconds))$`)

// fleet is a storage that has an hour of many nodes, and the rules over it.
type fleet struct {
	groups []*rules.Group
	meter  *costMeter // of all queries
	end    time.Time
}

// newFleet fills a storage with the series that rules read, and those of more. The first nodes have leaks.
func newFleet(t *testing.T, page harness.Metrics, nodes, leaking int, more ...parser.Expr) *fleet {
	t.Helper()
	db, err := teststorage.NewWithError(func(o *tsdb.Options) { o.WALSegmentSize = -1 })
	harness.Must(t, err)
	t.Cleanup(func() { db.Close() })
	parsing := parser.NewParser(parser.Options{})
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 5e9, Timeout: 10 * time.Minute, EnableAtModifier: true, EnableNegativeOffset: true, Parser: parsing})
	t.Cleanup(func() { engine.Close() })
	f := &fleet{meter: &costMeter{engine: engine, of: db, costs: map[string]groupCost{}}}
	f.groups = loadGroups(t, db, f.meter.query, "alerts.yaml", "rules.yaml")
	for _, g := range f.groups {
		for _, r := range g.Rules() {
			more = append(more, r.Query())
		}
	}
	read := map[string]bool{} // the names of all series that queries read
	for _, q := range more {
		parser.Inspect(q, func(n parser.Node, _ []parser.Node) error {
			if v, ok := n.(*parser.VectorSelector); ok {
				read[v.Name] = true
			}
			return nil
		})
	}
	f.end = fill(t, db, page, read, nodes, leaking)
	runtime.GC()
	return f
}

// evaluate evaluates all rules once.
func (f *fleet) evaluate(t *testing.T, at time.Time) {
	t.Helper()
	for _, g := range f.groups {
		start := processTime()
		f.meter.samples = 0
		g.Eval(t.Context(), at)
		c := f.meter.costs[g.Name()]
		f.meter.costs[g.Name()] = groupCost{g.Interval(), c.time + processTime() - start, c.samples + f.meter.samples}
		for _, r := range g.Rules() {
			if r.LastError() != nil {
				t.Errorf("%s: %v", r.Name(), r.LastError())
			}
		}
	}
}

// costRounds is how often all rules are evaluated for their time, because a collection of garbage hits now one rule and now another.
const costRounds = 16

// costOfRules fills a storage with an hour of so many nodes, and evaluates all rules so often. A cost is the mean of all rounds but
// the first.
func costOfRules(t *testing.T, page harness.Metrics, nodes, leaking, rounds int) map[string]groupCost {
	t.Helper()
	f := newFleet(t, page, nodes, leaking)
	for round := range rounds {
		if round == 1 {
			clear(f.meter.costs)
		}
		f.evaluate(t, f.end.Add(time.Duration(round+1)*time.Millisecond)) // no sample comes twice
	}
	for _, g := range f.groups {
		for _, r := range g.AlertingRules() {
			if n := len(r.ActiveAlerts()); n > 0 {
				t.Logf("%d nodes: %s is pending or fires %d times", nodes, r.Name(), n)
			}
		}
	}
	for name, c := range f.meter.costs {
		f.meter.costs[name] = groupCost{c.interval, c.time / time.Duration(rounds-1), c.samples / int64(rounds-1)}
	}
	return f.meter.costs
}

// sampleTime is the metric whose values do not stand still: a fleet whose samples are all old is another one.
const sampleTime = "gpu_sample_timestamp_seconds"

// fill stores what Prometheus would have scraped from the nodes.
func fill(t *testing.T, db storage.Appendable, page harness.Metrics, read map[string]bool, nodes, leaking int) time.Time {
	t.Helper()
	end := began.Add(costHistory)
	for node := range nodes {
		series, values := nodeSeries(page, read, node, node < leaking)
		refs := make([]storage.SeriesRef, len(series))
		app := db.Appender(t.Context())
		for at := began; !at.After(end); at = at.Add(scrapeInterval) {
			for i := range series {
				v := values[i]
				if series[i].Get(model.MetricNameLabel) == sampleTime {
					v = float64(at.Unix())
				}
				ref, err := app.Append(refs[i], series[i], at.UnixMilli(), v)
				harness.Must(t, err)
				refs[i] = ref
			}
		}
		harness.Must(t, app.Commit())
	}
	return end
}

// costMeter counts what the queries of rules read.
type costMeter struct {
	engine  *promql.Engine
	of      storage.Queryable
	samples int64
	costs   map[string]groupCost // by group, of all evaluations
}

func (m *costMeter) query(ctx context.Context, qs string, at time.Time) (promql.Vector, error) {
	q, err := m.engine.NewInstantQuery(ctx, m.of, promql.NewPrometheusQueryOpts(false, 0), qs, at)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	result := q.Exec(ctx)
	if result.Err != nil {
		return nil, result.Err
	}
	m.samples += q.Stats().Samples.TotalSamples
	return result.Vector()
}

// processTime is what the processor has spent on this process, in user and kernel mode: other programs are not in it.
func processTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		panic(err) // the clock is there on every Linux
	}
	return time.Duration(ts.Nano())
}

// writeCosts writes the table of one number of nodes, the most expensive group first.
func writeCosts(w *strings.Builder, page harness.Metrics, nodes int, costs map[string]groupCost) {
	series, copies := len(page), processCopies(page)
	for _, s := range page {
		if strings.HasPrefix(s.Name, "gpu_process_") && s.Labels["pid"] != "" {
			series += copies[s.Labels["pid"]] - 1
		}
	}
	fmt.Fprintf(w, "\n%d nodes of 8 GPUs, %d processes and %d series, %d GPUs leak:\n\n| group | interval | seconds | samples read |\n|---|---|---|---|\n", nodes, nodeProcesses, series, costLeaks)
	order := slices.SortedFunc(maps.Keys(costs), func(a, b string) int { return cmp.Compare(costs[b].time, costs[a].time) })
	var all groupCost
	for _, name := range order {
		c := costs[name]
		all.time, all.samples = all.time+c.time, all.samples+c.samples
		fmt.Fprintf(w, "| %s | %s | %.3f | %d |\n", name, c.interval, c.time.Seconds(), c.samples)
	}
	fmt.Fprintf(w, "| all | | %.3f | %d |\n", all.time.Seconds(), all.samples)
}

// maxSamples is the default of Prometheus's --query.max-samples: a query that would hold more at once is refused.
const maxSamples = 50_000_000

// What a dashboard is drawn on: Grafana asks for one point of a graph per pixel, but not more often than a scrape.
const (
	screenWidth, gridWidth = 1920, 24
	dashboardsRange        = 6 * time.Hour
)

// points is for how many points Grafana asks for a panel.
func (p panel) points() int {
	if p.MaxDataPoints > 0 {
		return p.MaxDataPoints
	}
	return min(p.GridPos.W*screenWidth/gridWidth, int(dashboardsRange/scrapeInterval))
}

// measuredPoints is for how many the test asks, of the hour that the storage has. What a query holds grows with them.
const measuredPoints = int(time.Hour / scrapeInterval)

// TestDashboardsCost holds what the queries of each dashboard need at once, with all nodes selected, against the number of nodes
// that docs/operating.md names for it.
func TestDashboardsCost(t *testing.T) {
	t.Parallel()
	const nodes = 20 // one of them has leaks
	page, dashboards := costPage(t), readDashboards(t)
	var queries []parser.Expr
	for _, d := range dashboards {
		for _, q := range d.targets() {
			expr, err := parseQuery(q.Expr)
			if err != nil {
				t.Fatalf("%s, %s %s: %v", d.file, q.panel.Title, q.RefID, err)
			}
			queries = append(queries, expr)
		}
	}
	f := newFleet(t, page, nodes, 1, queries...)
	for at := f.end.Add(-time.Hour); !at.After(f.end); at = at.Add(4 * time.Minute) { // a recorded value holds for five
		f.evaluate(t, at)
	}
	stated := statedNodes(t)
	for _, d := range dashboards {
		values := d.choose(page, f.end)
		worst, of := 0, ""
		for _, q := range d.targets() {
			peak := f.peak(t, q.target, replaceVariables(q.Expr, values, ""))
			if !q.Instant {
				peak = peak * q.panel.points() / measuredPoints
			}
			if peak > worst {
				worst, of = peak, q.panel.Title+" "+q.RefID
			}
		}
		if worst == 0 {
			t.Errorf("%s: no query holds a sample", d.file)
			continue
		}
		most := maxSamples / worst * nodes
		t.Logf("%s: %d samples a node (%s), %d nodes", d.file, worst/nodes, of, most)
		if want, ok := stated[d.Title]; !ok || most < want {
			t.Errorf("%s is for %d nodes at most (%s), and docs/operating.md says %d (of it: %t)", d.file, most, of, want, ok)
		}
	}
}

// panelTarget is a query and the panel that it is for.
type panelTarget struct {
	target
	panel panel
}

func (d dashboard) targets() (all []panelTarget) {
	for _, p := range d.panels() {
		for _, q := range p.Targets {
			all = append(all, panelTarget{q, p})
		}
	}
	return all
}

// choose returns the values of variables: all of what there is, where a dashboard has all, or else the first node, which has leaks.
func (d dashboard) choose(page harness.Metrics, end time.Time) map[string]string {
	values := map[string]string{
		"__rate_interval": "1m", "__interval": scrapeInterval.String(), "__range": "1h", "__range_s": "3600",
		"node": costInstance(0), "gpu": page.All("gpu_memory_used_bytes", nil)[0].Labels["uuid"],
		"latest": strconv.FormatInt(end.Unix(), 10), "now": strconv.FormatInt(end.Unix(), 10),
	}
	for _, v := range d.Templating.List {
		if v.IncludeAll {
			values[v.Name] = v.AllValue
		}
	}
	return values
}

// peak returns how many samples a query of a dashboard holds at once.
func (f *fleet) peak(t *testing.T, q target, expr string) int {
	t.Helper()
	opts := promql.NewPrometheusQueryOpts(false, 0)
	query, err := f.meter.engine.NewInstantQuery(t.Context(), f.meter.of, opts, expr, f.end)
	if !q.Instant {
		query, err = f.meter.engine.NewRangeQuery(t.Context(), f.meter.of, opts, expr, f.end.Add(-time.Hour), f.end, scrapeInterval)
	}
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer query.Close()
	if err := query.Exec(t.Context()).Err; err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return query.Stats().Samples.PeakSamples
}

// statedNodes is the table of docs/operating.md: for how many nodes each dashboard is, by its title.
func statedNodes(t *testing.T) map[string]int {
	t.Helper()
	text := harness.ReadFile(t, filepath.Join(harness.Root(), "docs/operating.md"))
	_, table, _ := strings.Cut(text, "<!-- dashboards -->")
	table, _, ok := strings.Cut(table, "<!-- end of dashboards -->")
	if !ok {
		t.Fatal("docs/operating.md has no table of dashboards")
	}
	stated := map[string]int{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| ([0-9,]+) \|`).FindAllStringSubmatch(table, -1) {
		n, err := strconv.Atoi(strings.ReplaceAll(row[2], ",", ""))
		harness.Must(t, err)
		stated[row[1]] = n
	}
	return stated
}
