// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package mixin

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	sdk "github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// question is a query of a dashboard, and where it is from.
type question struct {
	where, expr string
	instant     bool
}

// grafana asks Prometheus what Grafana would for a dashboard.
type grafana struct {
	prometheus *harness.Process
	since      time.Time
	// offered are the variables that have offered a value, as "file variable".
	offered map[string]bool
}

// has reports whether a query has any result, now or in the time range.
func (g grafana) has(expr string, instant bool) (bool, error) {
	if !instant {
		expr = fmt.Sprintf("last_over_time((%s)[%s:5s])", expr, g.lasts())
	}
	m, err := g.prometheus.Query(expr)
	return len(m) > 0, err
}

// lasts is how long the time range is.
func (g grafana) lasts() string { return strconv.Itoa(int(time.Since(g.since).Seconds())+1) + "s" }

// fill puts the values of variables into a query.
func (g grafana) fill(query string, values map[string]string) string {
	builtins := builtIn()
	builtins["__range"] = g.lasts()
	builtins["__interval_ms"] = "5000"
	builtins["__interval"] = "5s" // the step of the queries: a minute may have passed between two marks of a minute
	maps.Copy(builtins, values)
	return replaceVariables(query, builtins, "")
}

// options returns the values of a variable. Of one that takes several there is one: all
// of them. Of one that is empty there is the empty one.
func (g grafana) options(file string, v variable, values map[string]string) ([]string, error) {
	expr, label, err := v.expression()
	if err != nil {
		return nil, err
	}
	expr = g.fill(expr, values)
	m, err := g.prometheus.Query(expr)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, s := range m {
		if label != "" {
			all = append(all, s.Labels[label])
			continue
		}
		value, err := find(v.Regex, resultText(s))
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", v.Name, err)
		}
		all = append(all, value)
	}
	all = slices.DeleteFunc(all, func(value string) bool { return value == "" })
	g.offered[file+" "+v.Name] = g.offered[file+" "+v.Name] || len(all) > 0
	switch {
	case v.IncludeAll:
		return []string{v.AllValue}, nil
	case len(all) == 0:
		return []string{""}, nil
	}
	return all, nil
}

// resultText is how Grafana writes a series that query_result found.
func resultText(s harness.Sample) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		if name != "__name__" {
			pairs = append(pairs, fmt.Sprintf("%s=%q", name, s.Labels[name]))
		}
	}
	value := strconv.FormatFloat(s.Value, 'f', -1, 64)
	return fmt.Sprintf("%s{%s} %s %d", s.Labels["__name__"], strings.Join(pairs, ","), value, time.Now().UnixMilli())
}

// find applies the regular expression of a variable as Grafana does: the group named
// value counts, or else the first one, or else the whole text.
func find(expression, text string) (string, error) {
	if expression == "" {
		return text, nil
	}
	re, err := regexp.Compile(strings.Trim(expression, "/"))
	if err != nil {
		return "", err
	}
	m := re.FindStringSubmatch(text)
	switch i := re.SubexpIndex("value"); {
	case m == nil:
		return "", nil
	case i > 0:
		return m[i], nil
	case len(m) > 1:
		return m[1], nil
	}
	return m[0], nil
}

// choices returns all combinations of values of the variables of a dashboard.
func (g grafana) choices(file string, list []variable, values map[string]string) ([]map[string]string, error) {
	if len(list) == 0 {
		return []map[string]string{values}, nil
	}
	options := []string{"-"} // what is no query, such as the data source
	if list[0].Type == "query" {
		var err error
		if options, err = g.options(file, list[0], values); err != nil {
			return nil, err
		}
	}
	var all []map[string]string
	for _, o := range options {
		chosen := maps.Clone(values)
		chosen[list[0].Name] = o
		more, err := g.choices(file, list[1:], chosen)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// driverNode is a node with the fake driver: for what simulated GPUs do not have.
type driverNode struct {
	*fakenvml.Node
	script   string
	exporter *harness.Process
}

func startDriverNode(t *testing.T) driverNode {
	t.Helper()
	library, err := fakenvml.Build(harness.Dir())
	harness.Must(t, err)
	dir := t.TempDir()
	n := driverNode{Node: fakenvml.NewNode(8), script: filepath.Join(dir, "script")}
	old := &n.GPUs[4] // before Ampere, pages are retired
	old.Unsupported, old.RetiredPages = nil, []fakenvml.RetiredPage{{Cause: 0, Address: 1}}
	// One more process than are shown.
	n.GPUs[2].Processes = []fakenvml.Process{
		{PID: uint32(os.Getpid()), Memory: fakenvml.Constant(2 << 30)}, {PID: uint32(os.Getppid()), Memory: fakenvml.Constant(1 << 30)},
	}
	n.apply(t)
	bus := filepath.Join(dir, "sys/bus/pci/devices/0000:3b:00.0")
	for name, text := range map[string]string{"vendor": "0x10de\n", "class": "0x030200\n"} {
		harness.Must(t, errors.Join(os.MkdirAll(bus, 0o755), os.WriteFile(filepath.Join(bus, name), []byte(text), 0o600)))
	}
	n.exporter = harness.StartExporter(t, harness.Options{
		Args: []string{
			"--nvml.library-path=" + library, "--nvml.timeout=1s", "--path.sysfs=" + filepath.Join(dir, "sys"),
			"--detector.config=" + filepath.Join(harness.Root(), "examples/detector.yml"),
			"--detector.state-file=" + filepath.Join(dir, "state"), "--detector.state-interval=1s", "--sample.slow-interval=1s",
			"--collector.process.max=1",
		},
		Env: fakenvml.Env(n.script, ""),
	})
	return n
}

// apply makes the driver see the node as it is now.
func (n driverNode) apply(t *testing.T) {
	t.Helper()
	harness.Must(t, n.Write(n.script))
}

// fail has things happen to the node once Prometheus has scraped it, one after the
// other: replays on a PCIe link, a GPU that is lost for a moment, one that hangs for one.
func (n driverNode) fail(t *testing.T, prometheus ...*harness.Process) {
	t.Helper()
	until := func(p *harness.Process, ask func(*harness.Process) (harness.Metrics, error)) {
		t.Helper()
		harness.Eventually(t, patience, func() error {
			m, err := ask(p)
			if err == nil && len(m) == 0 {
				err = errors.New("not yet")
			}
			return err
		})
	}
	for _, metric := range []string{"gpu_pcie_replays_total", "gpu_detector_resets_total", "gpu_samples_missed_total"} {
		for _, p := range prometheus {
			until(p, func(p *harness.Process) (harness.Metrics, error) {
				return p.Query(fmt.Sprintf(`%s{uuid=%q}`, metric, n.GPUs[0].UUID))
			})
		}
	}
	n.GPUs[0].PCIe.Replays += 3
	for _, step := range []struct {
		fault fakenvml.Fault
		shows string
		least float64
	}{
		{fakenvml.Fail("nvmlDeviceGetMemoryInfo*", fakenvml.GPUIsLost).On(n.GPUs[0].UUID), "gpu_nvml_errors_total", 1},
		{fakenvml.Hang("nvmlDeviceGetMemoryInfo*").On(n.GPUs[1].UUID), "gpu_nvml_call_in_flight_seconds", 3},
	} {
		n.Faults = []fakenvml.Fault{step.fault}
		n.apply(t)
		until(n.exporter, func(p *harness.Process) (harness.Metrics, error) {
			m, err := p.TryScrape()
			return slices.DeleteFunc(m, func(s harness.Sample) bool { return s.Name != step.shows || s.Value < step.least }), err
		})
	}
	n.Faults = nil
	n.apply(t)
}

func (d dashboard) questions() []question {
	var all []question
	for _, a := range d.Annotations.List {
		if a.Expr != "" {
			all = append(all, question{where: "annotation " + a.Name, expr: a.Expr})
		}
	}
	for _, p := range d.panels() {
		for _, q := range p.Targets {
			if q.LegendFormat == "none" {
				continue // what is shown where the query before it has no answer
			}
			all = append(all, question{where: p.Title + " " + q.RefID, expr: q.Expr, instant: q.Instant})
		}
	}
	return all
}

// unanswered returns the questions to which there is no answer yet, whichever of its
// GPUs a dashboard shows.
func (g grafana) unanswered(d dashboard, open []question) ([]question, error) {
	choices, err := g.choices(d.file, d.Templating.List, map[string]string{})
	if err != nil {
		return open, err
	}
	var errs []error
	still := slices.DeleteFunc(slices.Clone(open), func(q question) bool {
		for _, values := range choices {
			found, err := g.has(g.fill(q.expr, values), q.instant)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", q.where, err))
			}
			if found {
				return true
			}
		}
		return false
	})
	return still, errors.Join(errs...)
}

// TestDashboardsLive asks a real Prometheus that scrapes simulated nodes, and the oldest that there may be, every query of
// every dashboard, of its variables and of its annotations: each has data to show. And both page.
func TestDashboardsLive(t *testing.T) {
	t.Parallel()
	driver := startDriverNode(t)
	since := time.Now()
	config := harness.ExampleConfig(t, harness.FastRules(t),
		simulated(t, "node", "60", "--collector.nvlink"),
		// GPUs that hang, that are lost, that are hot, whose memory has errors: slow
		// enough for a scrape before, also where it takes a minute to begin.
		simulated(t, "faulty", "2"),
		// It has no driver.
		harness.StartExporter(t, harness.Options{Args: []string{"--nvml.library-path=" + filepath.Join(t.TempDir(), "libnvidia-ml.so.1")}}),
		// Its process runs out of memory after 17 seconds, and every 18 from then on.
		simulated(t, "crashloop", "60"),
		simulated(t, "healthy", "60"),
		driver.exporter,
	) + "        labels: {cluster: test}\n"
	both := []*harness.Process{harness.StartPrometheus(t, config), harness.StartOldest(t, config)}
	driver.fail(t, both...)
	type view struct {
		grafana
		dashboard
		open []question
	}
	var views []*view
	for _, p := range both {
		for _, d := range readDashboards(t) {
			open := slices.DeleteFunc(d.questions(), func(q question) bool { // simulated processes have no probe
				return strings.HasPrefix(q.where, "What the memory of processes is ") || strings.HasPrefix(q.where, "Lines that allocate what stays ")
			})
			open = append(open, question{where: "page", expr: `ALERTS{alertname="GPUOutOfMemoryPredicted", severity="critical", alertstate="firing"}`})
			views = append(views, &view{grafana{p, since, map[string]bool{}}, d, open})
		}
	}
	harness.Eventually(t, patience, func() error {
		var errs []error
		for _, v := range views {
			var err error
			if v.open, err = v.unanswered(v.dashboard, v.open); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", v.file, err))
			}
			for _, q := range v.open {
				errs = append(errs, fmt.Errorf("%s: %s %s has no answer: %s", v.prometheus.URL, v.file, q.where, q.expr))
			}
			for name, offered := range v.offered {
				if !offered {
					errs = append(errs, fmt.Errorf("the variable %s offers nothing", name))
				}
			}
		}
		return errors.Join(errs...)
	})
}

// TestSettingsRefused has settings of which no rule can be made: the error says what to give.
func TestSettingsRefused(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{`exporterSelector: ""`: "exporterSelector is empty", `oomPageSeconds: "2h"`: "oomPageSeconds is a number of seconds"} {
		text, err := exec.Command(harness.ExternalTool(t, "jsonnet"), "-J", filepath.Join(harness.Root(), "mixin"), "-e",
			`((import "mixin.libsonnet") + { _config+:: { `+setting+` } }).prometheusAlerts`).CombinedOutput()
		if err == nil || !strings.HasPrefix(string(text), "RUNTIME ERROR: "+want) {
			t.Errorf("%s: %v, %.200s", setting, err, text)
		}
	}
}

// TestLinksToGrafana sets the address of a Grafana: each alert links to a dashboard there.
func TestLinksToGrafana(t *testing.T) {
	t.Parallel()
	const grafana = "https://grafana.example.org"
	text, err := exec.Command(harness.ExternalTool(t, "jsonnet"), "-J", filepath.Join(harness.Root(), "mixin"), "-e",
		`((import "mixin.libsonnet") + { _config+:: { grafanaURL: "`+grafana+`", predictURLPattern: "" } }).prometheusAlerts`).Output()
	harness.Must(t, err)
	uids := map[string]bool{}
	for _, d := range readDashboards(t) {
		uids[d.UID] = true
	}
	s := readSchema(t)
	for _, r := range parseRules(t, "alerts of "+grafana, string(text)) {
		if r.Alert == "" {
			continue
		}
		link := r.Annotations["dashboard_url"]
		rest, ok := strings.CutPrefix(link, grafana+"/d/")
		if !ok || len(rest) < 32 || !uids[rest[:32]] {
			t.Errorf("%s links to %q", r.Alert, link)
		}
		has := (&inference{schema: s}).of(r.expr).union(labelsNamed("alertname", "severity"))
		if err := checkText(has, link); err != nil {
			t.Errorf("%s: %v", r.Alert, err)
		}
		if page := r.Annotations["predict_url"]; page != "" {
			t.Errorf("%s links to %q, which was left out", r.Alert, page)
		}
	}
}

// TestDashboardsAreGrafanas holds the dashboards against Grafana's own schema of dashboards and panels, which knows every
// field that there is and those that have to be there.
func TestDashboardsAreGrafanas(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	wrong := func(text string) string {
		var d sdk.Dashboard                                                              //nolint:staticcheck // the format that Grafana 10 to 12 read from files
		if err := d.UnmarshalJSONStrict([]byte(text)); err != nil && err.Error() != "" { // it may be a list of none
			return err.Error()
		}
		if err := d.Validate(); err != nil && err.Error() != "" {
			return err.Error()
		}
		return ""
	}
	for _, d := range readDashboards(t) {
		if says := wrong(d.text); says != "" {
			t.Errorf("%s: %s", d.file, says)
		}
		for old, mistake := range map[string]string{`"graphMode":`: `"graphMod":`, `"title":`: `"titel":`, `"type": "timeseries"`: `"type": "timeseries", "fill": 1`} {
			if strings.Contains(d.text, old) && wrong(strings.Replace(d.text, old, mistake, 1)) == "" {
				t.Errorf("%s: %s in place of %s is not found", d.file, mistake, old)
			}
		}
	}
}
