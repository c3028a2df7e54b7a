// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"

	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must = testkit.Must

// allFamilies returns options that switch every family on, or every one off.
func allFamilies(on bool) Options {
	o := Options{Enabled: map[string]bool{}}
	for _, f := range Families() {
		o.Enabled[f.Name] = on
	}
	return o
}

// newCollector returns a Collector of a fixed State.
func newCollector(t testing.TB, s *sampler.State, o Options) *Collector {
	t.Helper()
	c, err := New(func() *sampler.State { return s }, o)
	must(t, err)
	return c
}

// gather returns what c exposes by metric name. The registry is pedantic: it refuses series that Describe did not announce.
func gather(t testing.TB, c prometheus.Collector) map[string]*dto.MetricFamily {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	must(t, reg.Register(c))
	list, err := reg.Gather()
	must(t, err)
	byName := make(map[string]*dto.MetricFamily, len(list))
	for _, mf := range list {
		byName[mf.GetName()] = mf
	}
	return byName
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := make(map[string]string, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// golden holds what c exposes of those metrics against a file.
func golden(t *testing.T, c *Collector, file string, names ...string) {
	t.Helper()
	text, err := testutil.CollectAndFormat(c, expfmt.TypeTextPlain, names...)
	must(t, err)
	testkit.Golden(t, filepath.Join("testdata", file+".metrics"), string(text))
}

func TestGolden(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			o := allFamilies(false)
			if !f.always {
				o.Enabled[f.name] = true
			}
			var names []string
			for _, m := range f.metrics {
				names = append(names, m.name)
			}
			golden(t, newCollector(t, fixture(), o), f.name, names...)
		})
	}
	down := newCollector(t, &sampler.State{DriverReason: "library_not_found"}, Options{})
	golden(t, down, "driver_down", slices.Collect(maps.Keys(gather(t, down)))...)
}

func TestFamilies(t *testing.T) {
	var off []string
	for _, f := range Families() { // the golden files have their names
		if !f.Default {
			off = append(off, f.Name)
		}
	}
	testkit.Equal(t, off, []string{"nvlink"}, "families that are not on by default")
	for name, on := range map[string]bool{"gpu_nvlink_up": false, "gpu_memory_used_bytes": true} {
		testkit.Equal(t, gather(t, newCollector(t, fixture(), Options{}))[name] != nil, on, "%s is exported by default", name)
	}
}

func TestNewErrors(t *testing.T) {
	state := func() *sampler.State { return nil }
	for name, tc := range map[string]struct {
		state   func() *sampler.State
		enabled map[string]bool
		want    string
	}{
		"no state":      {want: "no state"},
		"unknown":       {state: state, enabled: map[string]bool{"mempry": true, "memory": true}, want: `unknown collector "mempry"`},
		"always on":     {state: state, enabled: map[string]bool{"exporter": false}, want: `unknown collector "exporter"`},
		"none switched": {state: state, want: "<nil>"},
	} {
		if _, err := New(tc.state, Options{Enabled: tc.enabled}); !strings.Contains(fmt.Sprint(err), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, tc.want)
		}
	}
}

// TestLint holds the names and helps against promtool's rules.
func TestLint(t *testing.T) {
	// The user asked for the name spike_count, as it reads in the detector's
	// papers; the linter wants _count kept for histograms and summaries.
	exceptions := map[string]bool{"gpu_spike_count": false, "gpu_mig_spike_count": false, "gpu_process_spike_count": false, "gpu_workload_spike_count": false}
	problems, err := testutil.CollectAndLint(newCollector(t, fixture(), allFamilies(true)))
	must(t, err)
	for _, p := range problems {
		if _, known := exceptions[p.Metric]; known && strings.Contains(p.Text, `"_count" suffix`) {
			exceptions[p.Metric] = true
			continue
		}
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for name, met := range exceptions {
		if !met {
			t.Errorf("the exception for %s is not needed any more", name)
		}
	}
}

func TestRows(t *testing.T) {
	name := regexp.MustCompile(`^gpu(_[a-z0-9]+)+$`)
	reserved := []string{"instance", "job", "node", "cluster", "le", "quantile", "endpoint", "service"}
	for _, f := range families {
		for _, m := range f.metrics {
			if !name.MatchString(m.name) {
				t.Errorf("%s: not a name of ours", m.name)
			}
			testkit.Equal(t, strings.HasSuffix(m.name, "_total"), (m.kind == prometheus.CounterValue), "%s: _total is for counters, and counters have it", m.name)
			if len(m.help) < 20 || !strings.HasSuffix(m.help, ".") || strings.ContainsAny(m.help, "{}\n") {
				t.Errorf("%s: help %q is no sentence", m.name, m.help)
			}
			labels := slices.Concat(scopeLabels[m.scope], m.labels)
			for _, l := range labels {
				if slices.Contains(reserved, l) {
					t.Errorf("%s: label %s belongs to the target or to Prometheus", m.name, l)
				}
			}
			slices.Sort(labels)
			testkit.Equal(t, len(slices.Compact(labels)), len(labels), "%s: a label twice in %v", m.name, labels)
		}
	}
}

func TestProcessCommand(t *testing.T) {
	o := allFamilies(true)
	for _, wanted := range []bool{false, true} {
		o.ProcessCommand = wanted
		for _, m := range gather(t, newCollector(t, fixture(), o))["gpu_process_info"].GetMetric() {
			labels := labelsOf(m)
			if command, there := labels["command"]; there != wanted || (labels["pid"] == "1001" && wanted && command != "python3 train.py --lr=3e-4") {
				t.Errorf("command wanted: %t, got %q in %v", wanted, command, labels)
			}
		}
	}
}

// TestVerdictNotYet holds back what a verdict says before it means anything.
func TestVerdictNotYet(t *testing.T) {
	unjudged := verdict(200, true)
	unjudged.Judged = false
	cleared := verdict(200, true)
	cleared.Leak = false
	always := strings.Fields("leak_r2 leak_slope_bytes_per_second memory_trough_bytes seconds_to_oom seconds_to_oom_lower seconds_to_oom_upper spike_count spikes_total")
	judged := strings.Fields("leak_confidence leak_detected leak_withheld_seconds memory_pattern")
	leak := strings.Fields("leak_rate_bytes_per_second leak_start_timestamp_seconds leaked_bytes")
	for name, tc := range map[string]struct {
		verdict detector.Verdict
		want    []string
	}{
		"unknown":  {detector.Verdict{}, nil},
		"unjudged": {unjudged, always},
		"cleared":  {cleared, slices.Concat(always, judged)},
		"leak":     {verdict(200, true), slices.Concat(always, judged, leak)},
	} {
		t.Run(name, func(t *testing.T) {
			o := allFamilies(false)
			o.Enabled["detector"] = true
			s := &sampler.State{Devices: []*sampler.DeviceState{{Up: true, Processes: []sampler.ProcessState{{Verdict: tc.verdict}}}}}
			var got []string
			for name := range gather(t, newCollector(t, s, o)) {
				if suffix, ok := strings.CutPrefix(name, "gpu_process_"); ok {
					got = append(got, suffix)
				}
			}
			slices.Sort(got)
			slices.Sort(tc.want)
			testkit.Equal(t, got, tc.want, "metrics")
		})
	}
}

// TestDuplicates gathers a State in which everything stands twice, as no State should be: a scrape does not fail for it.
func TestDuplicates(t *testing.T) {
	once, twice := fixture(), fixture()
	for _, d := range twice.Devices {
		d.XIDs = slices.Repeat(d.XIDs, 2)
		d.Status.Clocks = slices.Repeat(d.Status.Clocks, 2)
		d.Status.Thermal.Temperatures = slices.Repeat(d.Status.Thermal.Temperatures, 2)
		d.Processes = repeatEach(d.Processes)
		d.Instances = repeatEach(d.Instances)
		d.Workloads = repeatEach(d.Workloads)
		d.Unreleased = repeatEach(d.Unreleased)
		d.Findings = repeatEach(d.Findings)
	}
	twice.Devices = repeatEach(twice.Devices)
	twice.DeviceHolders = slices.Repeat(twice.DeviceHolders, 2)
	twice.Collectors = slices.Repeat(twice.Collectors, 2)
	twice.Calls.Errors = slices.Repeat(twice.Calls.Errors, 2)
	want := testutil.CollectAndCount(newCollector(t, once, allFamilies(true)))
	testkit.Equal(t, testutil.CollectAndCount(newCollector(t, twice, allFamilies(true))), want, "series")
}

func repeatEach[T any](list []T) []T {
	var twice []T
	for _, x := range list {
		twice = append(twice, x, x)
	}
	return twice
}

func TestCollectWithoutState(t *testing.T) {
	testkit.Equal(t, testutil.CollectAndCount(newCollector(t, nil, allFamilies(true))), 0, "series of no state")
}

func TestLabelValue(t *testing.T) {
	for name, tc := range map[string]struct{ label, value, want string }{
		"empty":            {"process", "", ""},
		"plain":            {"process", "python3", "python3"},
		"as long as it is": {"process", strings.Repeat("x", 128), strings.Repeat("x", 128)},
		"too long":         {"process", strings.Repeat("x", 129), strings.Repeat("x", 128)},
		"on a border":      {"process", strings.Repeat("x", 126) + "é" + "y", strings.Repeat("x", 126) + "é"},
		"across a border":  {"process", strings.Repeat("x", 127) + "é", strings.Repeat("x", 127)},
		"command":          {"command", strings.Repeat("x", 300), strings.Repeat("x", 256)},
		"pod":              {"pod", strings.Repeat("x", 300), strings.Repeat("x", 253)},
		"not UTF-8":        {"process", "a\xff\xfeb\xc3", "a\ufffdb\ufffd"},
		"grows, is cut":    {"process", strings.Repeat("\xffx", 100), strings.Repeat("\ufffdx", 32)},
		"control":          {"process", "a\n\x00\"\\", "a\n\x00\"\\"},
	} {
		testkit.Equal(t, sampler.LabelValue(tc.label, tc.value), tc.want, "%s", name)
	}
}

func FuzzLabelValue(f *testing.F) {
	f.Add("process", "python3")
	f.Add("command", strings.Repeat("é\xff", 200))
	f.Fuzz(func(t *testing.T, label, value string) {
		got := sampler.LabelValue(label, value)
		if !utf8.ValidString(got) || len(got) > 256 {
			t.Errorf("%q", got)
		}
		testkit.Equal(t, sampler.LabelValue(label, got), got, "becomes when it is cut again")
	})
}

// TestFixtureIsWhole fails if a metric is zero all over the fixture, or a label of its own empty, for then nothing shows
// whether it is exported as it should be.
func TestFixtureIsWhole(t *testing.T) {
	told := map[string]bool{"gpu_driver_error": true, "gpu_driver_error reason": true} // while the driver is down
	o := allFamilies(true)
	o.ProcessCommand = true
	for name, mf := range gather(t, newCollector(t, fixture(), o)) {
		for _, m := range mf.GetMetric() {
			told[name] = told[name] || m.GetGauge().GetValue()+m.GetCounter().GetValue() != 0
			for label, value := range labelsOf(m) {
				told[name+" "+label] = told[name+" "+label] || value != ""
			}
		}
	}
	for _, f := range families {
		for _, m := range f.metrics {
			for _, of := range append([]string{""}, m.labels...) {
				if key := strings.TrimSpace(m.name + " " + of); !told[key] {
					t.Errorf("%s is nowhere in the fixture", key)
				}
			}
		}
	}
}

// TestFixtureIsDistinct fails if two metrics of GPU 0 or of the exporter have the
// same value, for then nothing shows that each reads its own field.
func TestFixtureIsDistinct(t *testing.T) {
	owner := make(map[float64]string)
	for name, mf := range gather(t, newCollector(t, fixture(), allFamilies(true))) {
		for _, m := range mf.GetMetric() {
			if uuid, ok := labelsOf(m)["uuid"]; ok && uuid != "GPU-full" {
				continue
			}
			v := m.GetGauge().GetValue() + m.GetCounter().GetValue()
			if v == 0 || v == 1 || math.IsInf(v, 1) {
				continue
			}
			if other, taken := owner[v]; taken && other != name {
				t.Errorf("%s and %s are both %v", name, other, v)
			}
			owner[v] = name
		}
	}
}

// TestCollectConcurrently scrapes from many sides at once, while the State changes. It is for the race detector.
func TestCollectConcurrently(t *testing.T) {
	states := []*sampler.State{fixture(), {DriverReason: sampler.ReasonStarting}}
	var mu sync.Mutex
	n := 0
	c, err := New(func() *sampler.State {
		mu.Lock()
		defer mu.Unlock()
		n++
		return states[n%len(states)]
	}, allFamilies(true))
	must(t, err)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 5 {
				list, err := reg.Gather()
				if err != nil {
					t.Error(err)
				}
				for _, mf := range list {
					if _, err := expfmt.MetricFamilyToText(&bytes.Buffer{}, mf); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// crowd returns a State of that many full GPUs and processes on each, none of which leaks: the everyday scrape.
func crowd(gpus, processes int) *sampler.State {
	s := fixture()
	s.Devices, s.DeviceHolders = nil, nil
	for i := range gpus {
		d := fullGPU()
		d.Info.Index, d.Info.UUID = i, fmt.Sprintf("GPU-%08d-0000-0000-0000-000000000000", i)
		d.Judgement, d.Workloads = judgement(100, false), nil
		p := d.Processes[0]
		p.Verdict, p.Allocator = verdict(200, false), nil // few programs have a probe
		p.Verdict.Windows[1] = p.Verdict.Windows[0]
		d.Processes = slices.Repeat([]sampler.ProcessState{p}, processes)
		for k := range d.Processes {
			d.Processes[k].ID.PID = uint32(100_000*i + k)
		}
		s.Devices = append(s.Devices, d)
	}
	return s
}

// still returns s with processes that do not grow.
func still(s *sampler.State) *sampler.State {
	for _, d := range s.Devices {
		for i := range d.Processes {
			d.Processes[i].Sites = nil // asked for only once it leaks
			v := &d.Processes[i].Verdict
			v.Withheld = detector.WithheldNone
		}
	}
	return s
}

func BenchmarkCollect(b *testing.B) {
	c := newCollector(b, crowd(8, 64), Options{})
	n := testutil.CollectAndCount(c)
	b.Run("gather", func(b *testing.B) {
		reg := prometheus.NewRegistry()
		reg.MustRegister(c)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := reg.Gather(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(n), "series/op")
	})
	b.Run("text", func(b *testing.B) {
		var text bytes.Buffer
		b.ReportAllocs()
		for b.Loop() {
			text.Reset()
			must(b, c.WriteText(&text, expfmt.NewFormat(expfmt.TypeTextPlain), nil))
		}
		b.SetBytes(int64(text.Len()))
	})
}

// readmeLabels is the table of labels.
const readmeLabels = `| labels of | |
|---|---|
| a GPU | %s |
| a GPU instance (MIG) | %s |
| a process | %s |
| a workload: a pod or job with two processes or more on a GPU | %s |
| a finding: what alerts say of a memory, with the labels of the culprit | %s |
`

// TestReadme holds the tables of README.md to those of the package.
func TestReadme(t *testing.T) {
	code := func(labels []string) string { return "`" + strings.Join(labels, "`, `") + "`" }
	var b strings.Builder
	fmt.Fprintf(&b, readmeLabels, code(scopeLabels[ofGPU]), code(scopeLabels[ofInstance]), code(scopeLabels[ofProcess]), code(scopeLabels[ofWorkload]), code(scopeLabels[ofFinding]))
	for _, f := range families {
		flag := ""
		switch {
		case f.always:
			flag = "Always on.\n\n"
		case !f.enabled:
			flag = "Off by default.\n\n"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s| series | of | |\n|---|---|---|\n", f.name, flag)
		rows := map[string][]metric{}
		for _, m := range f.metrics {
			rows[readmeGeneral(m)] = append(rows[readmeGeneral(m)], m)
		}
		for _, m := range f.metrics {
			b.WriteString(readmeRow(rows[readmeGeneral(m)]))
			delete(rows, readmeGeneral(m))
		}
	}
	const begin = "<!-- go test ./collector -run Readme -update writes what follows. -->\n"
	head, _, found := strings.Cut(testkit.Read(t, "README.md"), begin)
	if !found {
		t.Fatal("README.md has no place for the tables")
	}
	testkit.Golden(t, "README.md", head+begin+b.String())
}

// readmeGeneral is what a metric says of any memory. Those of several scopes that say the same have one row.
func readmeGeneral(m metric) string {
	help := strings.NewReplacer(
		"the used memory of the GPU instance", "the memory", "the used memory of the GPU", "the memory", "the GPU memory of the process", "the memory", "the summed GPU memory of the pod or job", "the memory",
		"the GPU instance (its", "the GPU (its", "the memory of the GPU instance is full", "the memory of the GPU is full", "on the GPU instance before", "on the GPU before", "the pod or job", "the process", "this pod or job", "this process",
		"gpu_mig_", "gpu_", "gpu_process_", "gpu_", "gpu_workload_", "gpu_").Replace(m.help)
	return strings.NewReplacer("gpu_mig_", "", "gpu_process_", "", "gpu_workload_", "", "gpu_", "").Replace(m.name) + help
}

// readmeRow is the row of metrics that differ in their scopes alone. It has the help of the first.
func readmeRow(metrics []metric) string {
	if len(metrics) == 0 {
		return ""
	}
	var names, scopes []string
	m, own := metrics[0], ""
	if len(m.labels) > 0 {
		own = "{" + strings.Join(m.labels, ",") + "}"
	}
	for _, m := range metrics {
		names = append(names, "`"+m.name+own+"`")
		scopes = append(scopes, [numScopes]string{ofExporter: "node", ofGPU: "GPU", ofInstance: "GPU instance", ofProcess: "process", ofWorkload: "workload", ofUnreleased: "process that has ended", ofFinding: "finding"}[m.scope])
	}
	name := strings.Join(names, ", ")
	if m.down {
		name += " †"
	}
	// The head of the page says what these do.
	help := strings.NewReplacer("|", `\|`, "\n", " ", " (1 or 0)", "", " (0 to 1)", "",
		", in bytes per second", "", ", in bytes", "", " in bytes", "", ", in seconds since the Unix epoch", "", ", in seconds", "", " in hertz", "", ", in watts", "", " in watts", "",
		" in joules", "", " in degrees Celsius", "").Replace(strings.TrimSuffix(m.help, findingHelp))
	return fmt.Sprintf("| %s | %s | %s |\n", name, strings.Join(scopes, ", "), help)
}

// seriesOf returns the series of s: the name with the labels, and their number by family.
func seriesOf(t *testing.T, s *sampler.State, o Options) (series map[string]string, byFamily map[string]int, windows int) {
	t.Helper()
	series, byFamily = map[string]string{}, map[string]int{}
	owners := map[string]string{} // the family of each metric
	for _, f := range families {
		for _, m := range f.metrics {
			if owner, there := owners[m.name]; there {
				t.Errorf("%s is one of %s and of %s", m.name, owner, f.name)
			}
			owners[m.name] = f.name
		}
	}
	for name, mf := range gather(t, newCollector(t, s, o)) {
		for _, m := range mf.GetMetric() {
			series[fmt.Sprint(name, m.GetLabel())] = name
			byFamily[owners[name]]++
			for _, l := range m.GetLabel() {
				if l.GetName() == "window" && l.GetValue() == "10m" {
					windows++
				}
			}
		}
	}
	return series, byFamily, windows
}

// TestDetailKeepsWhatAlertsAsk compares what the alerts see of processes in full detail and in less: leaking ones, growing
// ones, and those that do neither.
func TestDetailKeepsWhatAlertsAsk(t *testing.T) {
	s := still(crowd(2, 6))
	for _, d := range s.Devices {
		for i, pattern := range []detector.Pattern{detector.PatternStable, detector.PatternZombie, detector.PatternFragmentation} {
			d.Processes[i].Verdict.Pattern = pattern
		}
		d.Processes[3].Verdict = verdict(200, true)
		d.Processes[4].Verdict = verdict(200, false)
	}
	asked := map[string]bool{}
	for _, name := range regexp.MustCompile(`\bgpu_process_\w+`).FindAllString(testkit.Read(t, "../dashboards/alerts.yaml"), -1) {
		asked[name] = true
	}
	all, _, _ := seriesOf(t, s, Options{})
	less, _, _ := seriesOf(t, s, Options{ProcessDetail: DetailGrowing})
	left := 0
	for id, name := range all {
		if _, there := less[id]; there {
			continue
		}
		left++
		// The rules take these only of a process that takes part in what fills the memory: that one grows.
		if asked[name] && name != "gpu_process_leak_slope_bytes_per_second" && name != "gpu_process_seconds_to_oom" {
			t.Errorf("an alert asks for %s, which less detail leaves out", id)
		}
	}
	if left == 0 {
		t.Error("less detail leaves nothing out")
	}
	for id := range less {
		if all[id] == "" {
			t.Errorf("%s is there in less detail only", id)
		}
	}
}

// TestSeriesTable holds the table of docs/operating.md against what a scrape has.
func TestSeriesTable(t *testing.T) {
	const file, begin, end = "../docs/operating.md", "<!-- series -->\n", "<!-- end of series -->"
	_, all, windows := seriesOf(t, still(crowd(8, 8)), Options{})
	_, less, _ := seriesOf(t, still(crowd(8, 8)), Options{ProcessDetail: DetailGrowing})
	_, bare, bareWindows := seriesOf(t, crowd(8, 0), Options{})
	var b strings.Builder
	b.WriteString("| collector | 8 GPUs of 8 processes | with `growing` | of a GPU | of a process |\n|---|---|---|---|---|\n")
	total := [2]int{}
	for _, f := range families {
		if all[f.name] > 0 {
			fmt.Fprintf(&b, "| `%s` | %d | %d | %.3g | %.3g |\n", f.name, all[f.name], less[f.name], float64(bare[f.name])/8, float64(all[f.name]-bare[f.name])/64)
			total[0], total[1] = total[0]+all[f.name], total[1]+less[f.name]
		}
	}
	if total[0] >= 3000 || total[1] > 1200 { // what a scrape of it may be
		t.Errorf("%d series, and %d in less detail", total[0], total[1])
	}
	fmt.Fprintf(&b, "| together | %d | %d | | |\n", total[0], total[1])
	fmt.Fprintf(&b, "| of these, one `--detector.window` | %d | | %d | %d |\n", windows, bareWindows/8, (windows-bareWindows)/64)
	head, rest, found := strings.Cut(testkit.Read(t, file), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the table", file)
	}
	testkit.Golden(t, file, head+begin+b.String()+end+tail)
}
