// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/backtest"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// tool runs the program.
func tool(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

// write writes a file of the test, and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	testkit.Write(t, path, text)
	return path
}

// held returns the flags that ask a Prometheus which answers with a file of testdata.
func held(t *testing.T, name string) []string {
	t.Helper()
	answer := testkit.Read(t, "testdata/"+name)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
	t.Cleanup(server.Close)
	metric := regexp.MustCompile(`"__name__":"(\w+)"`).FindStringSubmatch(answer)[1]
	return []string{"--prometheus.url=" + server.URL, "--query=" + metric, "--start=2026-03-01T12:00:00Z", "--end=2026-03-01T18:00:00Z"}
}

func TestBacktestGolden(t *testing.T) {
	for _, c := range []struct {
		name, golden string
		args         []string
		code         int
	}{
		{"a leak", "leak.table", []string{"testdata/leak.csv"}, exitLeak},
		{"as JSON", "leak.json", []string{"--output=json", "--step=5m", "testdata/leak.csv"}, exitLeak},
		{"as a page", "leak.html", []string{"--output=html", "--step=2m", "--timezone=Asia/Kolkata", "testdata/leak.csv"}, exitLeak},
		{"withheld", "withheld.table", []string{"testdata/withheld.csv"}, exitLeak},
		{"withheld, as a page", "withheld.html", []string{"--output=html", "testdata/withheld.csv"}, exitLeak},
		{"withheld, as JSON", "withheld.json", []string{"--output=json", "--step=20m", "testdata/withheld.csv"}, exitLeak},
		{"a false alarm before the leak", "sawtooth.table", []string{"testdata/sawtooth.csv"}, exitLeak},
		{"a false alarm before the leak, as a page", "sawtooth.html", []string{"--output=html", "testdata/sawtooth.csv"}, exitLeak},
		{"a false alarm before the leak, as JSON", "sawtooth.json", []string{"--output=json", "--step=20m", "testdata/sawtooth.csv"}, exitLeak},
		{"no leak", "healthy.table", []string{"testdata/healthy.csv"}, exitOK},
		{"processes", "apps.table", []string{"--capacity=16GiB", "testdata/apps.csv"}, exitLeak},
		{"processes alone", "apps.json", []string{"--output=json", "--step=10m", "testdata/apps.csv"}, exitLeak},
		{"a metric", "metric.json", append(held(t, "leak.prom"), "--output=json", "--step=10m", "--capacity=10GiB"), exitLeak},
		{"several files", "several.table", []string{"testdata/healthy.csv", "testdata/leak.csv", "testdata/sawtooth.csv"}, exitLeak},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := tool(t.Context(), append([]string{"backtest"}, c.args...)...)
			if code != c.code || stderr != "" {
				t.Errorf("exit code %d, want %d: %s", code, c.code, stderr)
			}
			testkit.Golden(t, "testdata/"+c.golden, stdout)
			_, again, _ := tool(t.Context(), append([]string{"backtest"}, c.args...)...)
			if again != stdout {
				t.Error("a second run says something else")
			}
		})
	}
}

// The pages show what the program prints: a reader compares the two.
func TestReadmeShowsTheTable(t *testing.T) {
	page := testkit.Read(t, "../../README.md")
	for line := range strings.Lines(testkit.Read(t, "testdata/leak.table")) {
		if !strings.Contains(page, line) {
			t.Errorf("README.md lacks this line of testdata/leak.table:\n%s", line)
		}
	}
	const example = "No leak yet: it may be the start of a program, and must grow for another 37 min."
	if !strings.Contains(testkit.Read(t, "testdata/withheld.table"), example) || !strings.Contains(testkit.Read(t, "../../docs/backtest.md"), example) {
		t.Errorf("docs/backtest.md and testdata/withheld.table do not both say: %s", example)
	}
}

// lines reads what --output=json has printed and checks its order.
func lines(t *testing.T, text string) []backtest.Line {
	t.Helper()
	var list []backtest.Line
	for dec := json.NewDecoder(strings.NewReader(text)); ; {
		var l backtest.Line
		err := dec.Decode(&l)
		if errors.Is(err, io.EOF) {
			return list
		}
		testkit.Must(t, err)
		if n := len(list); n > 0 && l.Time.Before(list[n-1].Time) {
			t.Errorf("%s comes after %s", l.Time, list[n-1].Time)
		}
		list = append(list, l)
	}
}

// TestSteps holds the times of the lines against what the contract says: each multiple of the step that follows a sample, and the
// last sample. They tell of the processes of that sample, but for those of the first seconds.
func TestSteps(t *testing.T) {
	var ends, gaps strings.Builder
	ends.WriteString("timestamp,gpu_uuid,pid,process_name,used_gpu_memory [MiB]\n")
	begin := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for i := range 10 {
		stamp := begin.Add(time.Duration(i) * 25 * time.Second).Format("2006/01/02 15:04:05.000")
		if i < 5 {
			fmt.Fprintf(&ends, "%s,GPU-0,7,a,100\n", stamp)
		}
		fmt.Fprintf(&ends, "%s,GPU-0,9,b,200\n", stamp)
	}
	gaps.WriteString("timestamp,index,memory.used [MiB]\n")
	for _, stamp := range []string{"10:00:20.000", "10:00:50.000", "10:01:00.000", "10:01:00.001", "10:07:59.000", "10:08:30.500"} {
		fmt.Fprintf(&gaps, "2026/03/01 %s,0,100\n", stamp)
	}
	for _, c := range []struct {
		log  string
		want []string // time, process, MiB
	}{
		{gaps.String(), []string{"01:00.000  100", "02:00.000  100", "08:00.000  100", "08:30.500  100"}},
		{ends.String(), []string{
			"00:00.000  300", "01:00.000  300", "01:00.000 a 100", "01:00.000 b 200", "02:00.000  300", "02:00.000 a 100", "02:00.000 b 200",
			"03:00.000  200", "03:00.000 b 200", "03:45.000  200", "03:45.000 b 200",
		}},
	} {
		code, stdout, stderr := tool(t.Context(), "backtest", "--output=json", write(t, "log", c.log))
		if code != unjudged {
			t.Fatal(stderr)
		}
		var got []string
		for _, l := range lines(t, stdout) {
			got = append(got, fmt.Sprint(l.Time.Format("04:05.000"), " ", l.Series["process"], " ", *l.Used>>20))
		}
		testkit.Equal(t, got, c.want, "lines")
	}
}

// TestRecordedNode backtests what record has written: GPUs, slices, processes, and
// workloads of several processes.
func TestRecordedNode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.gz")
	if code, _, stderr := tool(t.Context(), "record", "--output="+path, "--source=sim:node", "--source.speed=inf", "--duration=4m", "--interval=5s"); code != exitOK {
		t.Fatal(stderr)
	}
	_, stdout, stderr := tool(t.Context(), "backtest", "--output=json", "--step=2m", path)
	kinds := map[string]bool{}
	for _, l := range lines(t, stdout) {
		labels := l.Series
		switch {
		case labels["gpu"] == "" || labels["uuid"] == "":
			t.Fatalf("labels %v", labels)
		case labels["pid"] != "":
			kinds["process"] = true
		case labels["profile"] != "":
			kinds["slice"] = true
		case labels["slurm_job"] != "":
			kinds["job"] = true
		default:
			kinds["gpu"] = true
		}
		testkit.Equal(t, l.File, "", "file, though there is only one")
	}
	testkit.Equal(t, len(kinds), 4, "kinds of series, %v: %s", kinds, stderr)
}

func TestBacktestErrors(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args string
		want string // a part of the error
	}{
		{"", "name the files to read"},
		{"testdata/leak.csv --prometheus.url=http://localhost:1 --query=a --start=-1h", "either files or --prometheus.url"},
		{"--query=up testdata/leak.csv", "need --prometheus.url"},
		{"--prometheus.url=localhost:9090 --query=a --start=-1h", "--prometheus.url: is not an address"},
		{"--prometheus.url=http://localhost:1 --start=-1h", "--query is missing"},
		{"--prometheus.url=http://localhost:1 --query=a", "--start is missing"},
		{"--prometheus.url=http://localhost:1 --query=a --start=-1h --query-step=30m", "--query-step=30m: 30m is not between 1s and 5m"},
		{"--prometheus.url=http://localhost:1 --query=a --start=yesterday", "--start=yesterday: is not a time"},
		{"--prometheus.url=http://localhost:1 --query=a --start=-1h --end=-2h", "is not before --end"},
		{"--prometheus.url=http://localhost:1 --query=a --start=-1h --http.config.file=" + dir + "/absent", "--http.config.file=" + dir + "/absent: "},
		{"--output=xml testdata/leak.csv", "--output=xml: choose one of table, json, html"},
		{"--fail-on=verdict testdata/leak.csv", "--fail-on=verdict: choose one of leak, ticket, page"},
		{"--columns=timestamp,used --prometheus.url=http://localhost:1 --query=a --start=-1h", "leave them out with --prometheus.url"},
		{"--columns=timestamp,gpu testdata/leak.csv", "testdata/leak.csv: no column of used memory: record with"},
		{"--log.start=today testdata/leak.csv", "--log.start=today: is no time such as 2026-03-01"},
		{"--incidents --output=html testdata/leak.csv", "--incidents is for --output=table and json"},
		{"--unit=B testdata/leak.csv", "--unit is for --query: a log tells its units"},
		{"--unit=GiB testdata/leak.csv", "choose one of auto, B, MiB"},
		{"--step=0s testdata/leak.csv", "--step=0s: 0s is not between"},
		{"--step=90s testdata/leak.csv", "--step=1m30s: must be whole minutes, or less than one"},
		{"--capacity=all testdata/leak.csv", "--capacity=all: is not a number of bytes"},
		{"--timezone=Mars testdata/leak.csv", "--timezone=Mars: is no time zone"},
		{"--detector.config=" + dir + "/absent testdata/leak.csv", dir + "/absent: no such file"},
		{"testdata/leak.csv " + dir + "/absent", "absent: no such file"},
		{dir, "error: " + dir + " is a directory: name a file\n"},
		{write(t, "unavailable.csv", "timestamp,gpu_uuid,pid,process_name,used_memory [MiB]\n2026/03/01 00:00:00.000, GPU-0, 7, a, [N/A]\n"), "holds no used memory"},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, stdout, stderr := tool(t.Context(), append([]string{"backtest"}, strings.Fields(c.args)...)...)
			if code != exitWrong || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q, want %q", code, stdout, stderr, c.want)
			}
		})
	}
}

// crashes is a log of a program that fills its GPU of 16 GiB and ends, twice, beside a server. It begins at that hour of a day.
func crashes(t *testing.T, uuid string, hour int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n")
	for n := range 180 {
		at := time.Date(2026, 3, 1, hour, 0, 30*n, 0, time.UTC).Format("2006/01/02 15:04:05.000")
		if life, age := n/90, n%90; age < 80 {
			fmt.Fprintf(&b, "%s, %s, %d, /opt/app/bin/train, %d MiB\n", at, uuid, 100+life, 500+age*15500/79)
		}
		fmt.Fprintf(&b, "%s, %s, 7, /opt/app/bin/serve, 100 MiB\n", at, uuid)
	}
	return write(t, uuid+".csv", b.String())
}

// TestBacktestIncidents has the ends in a full memory of two files: in the order of time below the table, and as the last lines of JSON.
// Without the flag there are none.
func TestBacktestIncidents(t *testing.T) {
	files := []string{"--capacity=16GiB", crashes(t, "GPU-late", 12), crashes(t, "GPU-early", 11)}
	run := func(args ...string) string {
		code, stdout, stderr := tool(t.Context(), append(append([]string{"backtest"}, args...), files...)...)
		if code != exitLeak || stderr != "" {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		return stdout
	}
	const text = "%s  train (pid %d) ended when %s was full (15.7 GiB of 16.0 GiB): it held 15.6 GiB, 15.1 GiB more than 39 min before. A page had come 10 min before.\n"
	var want strings.Builder
	want.WriteString("\nIncidents:\n")
	for _, i := range []struct {
		at, uuid string
		pid      int
	}{{"11:39", "GPU-early", 100}, {"12:24", "GPU-early", 101}, {"12:39", "GPU-late", 100}, {"13:24", "GPU-late", 101}} {
		fmt.Fprintf(&want, "  2026-03-01 "+text, i.at+" UTC", i.pid, i.uuid)
	}
	table, plain := run("--incidents"), run()
	if !strings.Contains(table, want.String()+"\n") || strings.Replace(table, want.String(), "", 1) != plain {
		t.Errorf("the table is\n%s, which does not have\n%s", table, &want)
	}
	judged, told := lines(t, run("--output=json", "--step=10m")), strings.Split(strings.TrimSpace(run("--incidents", "--output=json", "--step=10m")), "\n")
	if len(told) != len(judged)+4 {
		t.Fatalf("%d lines of JSON, and %d without incidents", len(told), len(judged))
	}
	var last struct{ Incident incident.Incident }
	testkit.Must(t, json.Unmarshal([]byte(told[len(told)-1]), &last))
	i := &last.Incident
	got := fmt.Sprintf("%d %s %s %s, %d of %d ended, pid %d, %s, %d MiB", i.Version, i.Kind, i.Time.Format("15:04:05"), i.UUID, i.Ended, len(i.Processes), i.Processes[0].PID, i.Finding.By, i.Course[len(i.Course)-1].V>>20)
	testkit.Equal(t, got, "1 oom 13:24:30 GPU-late, 1 of 2 ended, pid 101, page, 16100 MiB", "the last incident")
}

// TestBacktestTraces backtests real logs.
func TestBacktestTraces(t *testing.T) {
	paths, err := filepath.Glob("../../../shared/traces/*.csv")
	testkit.Must(t, err)
	if len(paths) == 0 {
		t.Skip("traces: there are none in ../../../shared/traces")
	}
	code, stdout, stderr := tool(t.Context(), append([]string{"backtest", "--output=json"}, paths...)...)
	if code == exitWrong {
		t.Fatal(stderr)
	}
	files := map[string]bool{}
	for _, l := range lines(t, stdout) {
		files[l.File] = true
	}
	testkit.Equal(t, len(files), len(paths), "files")
}

// TestFailOn has a leak that pages, one that lasts until a ticket, and one that nobody is told of.
func TestFailOn(t *testing.T) {
	for _, c := range []struct {
		file, failOn string
		code         int
	}{
		{"leak.csv", "leak", exitLeak},
		{"leak.csv", "ticket", exitLeak},
		{"leak.csv", "page", exitLeak},
		{"withheld.csv", "leak", exitLeak},
		{"withheld.csv", "ticket", exitLeak},
		{"withheld.csv", "page", exitOK},
		{"healthy.csv", "leak", exitOK},
		{"healthy.csv", "page", exitOK},
	} {
		code, _, stderr := tool(t.Context(), "backtest", "--fail-on="+c.failOn, "testdata/"+c.file)
		testkit.Equal(t, code, c.code, "%s, --fail-on=%s: exit code, %s", c.file, c.failOn, stderr)
	}
}

// TestFull has a job that takes almost all of a GPU and ends, before one that leaks: the alarm
// came before the memory was full, not hours after it.
func TestFull(t *testing.T) {
	const at = 1_772_323_200
	var text strings.Builder
	for s := 0; s < 6*3600; s += 15 {
		used := 20.0 * gib
		switch {
		case s < 600:
			used = 79 * gib
		case s < 3600:
			used = 0
		case s >= 7200:
			used = min(79, 20+float64(s-7200)/150) * gib
		}
		fmt.Fprintf(&text, "%d,%.0f,%d\n", at+s, used, 80*gib)
	}
	code, stdout, stderr := tool(t.Context(), "backtest", "--columns=timestamp,used[B],total[B]", write(t, "full.csv", text.String()))
	if code != exitLeak || strings.Count(stdout, " before 95 % ") != 1 || strings.Contains(stdout, "after 95 %") {
		t.Errorf("exit code %d, %s%s", code, stderr, stdout)
	}
}

const gib = 1 << 30

// TestSettings mutes a leak by the rules that the exporter takes, of every scope.
func TestSettings(t *testing.T) {
	for _, c := range []struct {
		file, selector string
		code           int
	}{
		{"leak.csv", `{scope="gpu", uuid="GPU-01"}`, exitOK},
		{"leak.csv", `{scope="gpu", uuid="GPU-00"}`, exitLeak},
		{"apps.csv", `{scope=~"process|gpu", uuid="GPU-00"}`, exitOK},
		{"leak.prom", `{pod="b", namespace="ml"}`, exitOK},
		{"scopes.prom", `{scope="process", process="serve"}`, exitOK},
		{"scopes.prom", `{scope="gpu"}`, exitLeak},
	} {
		path := write(t, "rules.yml", "groups:\n- name: a\n  rules:\n  - match: ['"+c.selector+"']\n    mute: true\n")
		args := []string{"testdata/" + c.file}
		if strings.HasSuffix(c.file, ".prom") {
			args = held(t, c.file)
		}
		code, _, stderr := tool(t.Context(), append([]string{"backtest", "--detector.config=" + path}, args...)...)
		testkit.Equal(t, code, c.code, "%s: exit code, %s", c.selector, stderr)
	}
	code, _, stderr := tool(t.Context(), "backtest", "--detector.min-growth=1TiB", "testdata/leak.csv")
	testkit.Equal(t, code, exitOK, "exit code, %s", stderr)
}

// An alarm counts that begins and ends between two steps, and the lines stay as far apart as
// was asked for.
func TestAlarmBetweenSteps(t *testing.T) {
	var log strings.Builder
	log.WriteString("timestamp,index,memory.used [MiB],memory.total [MiB]\n")
	begin := time.Date(2026, 3, 1, 1, 0, 0, 0, time.UTC)
	for i := range 4 * 360 {
		used := 10_000
		if i >= 360 && i < 720 { // an hour of 120 MiB a minute, and then it is as before
			used += (i - 360) * 20
		}
		fmt.Fprintf(&log, "%s,0,%d,81920\n", begin.Add(time.Duration(i)*10*time.Second).Format("2006/01/02 15:04:05.000"), used)
	}
	path := write(t, "log", log.String())
	_, every, _ := tool(t.Context(), "backtest", path)
	for step, want := range map[string][]string{
		"90m": {"01:30:00", "03:00:00", "04:30:00", "04:59:50"},
		"24h": {"04:59:50"},
	} {
		if code, stdout, stderr := tool(t.Context(), "backtest", "--step="+step, path); code != exitLeak || stdout != every {
			t.Errorf("step %s: exit code %d: %s%s\nwith the step of a minute: %s", step, code, stdout, stderr, every)
		}
		_, stdout, _ := tool(t.Context(), "backtest", "--output=json", "--step="+step, path)
		var got []string
		for _, l := range lines(t, stdout) {
			got = append(got, l.Time.Format(time.TimeOnly))
		}
		testkit.Equal(t, got, want, "step %s: lines at", step)
	}
}
