// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// fakePrometheus answers range queries with what series says of the moment; NaN
// stands for no point.
type fakePrometheus struct {
	series map[string]func(query string, t float64) (float64, bool) // by labels, in JSON
	status int
	body   string // instead of a result
	most   int    // more points at once are too many; 0 is no bound

	mu     sync.Mutex
	asked  []string // query start end step
	points int      // the most that were asked for at once
	auth   string
}

func (f *fakePrometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	number := func(name string) float64 {
		v, err := strconv.ParseFloat(r.FormValue(name), 64)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
		return v
	}
	query, start, end, step := r.FormValue("query"), number("start"), number("end"), number("step")
	points := int((end-start)/step) + 1
	f.mu.Lock()
	f.asked = append(f.asked, fmt.Sprintf("%s %.0f %.0f %.0f", query, start, end, step))
	f.points, f.auth = max(f.points, points), r.Header.Get("Authorization")
	f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if f.most > 0 && points > f.most {
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}`)
		return
	}
	if f.body != "" {
		w.WriteHeader(f.status)
		fmt.Fprint(w, f.body)
		return
	}
	type result struct {
		Metric json.RawMessage `json:"metric"`
		Values [][2]any        `json:"values"`
	}
	var results []result
	for labels, value := range f.series {
		x := result{Metric: json.RawMessage(labels)}
		for i := range points {
			t := start + float64(i)*step
			if v, ok := value(query, t); ok {
				x.Values = append(x.Values, [2]any{t, strconv.FormatFloat(v, 'f', -1, 64)})
			}
		}
		if x.Values != nil {
			results = append(results, x)
		}
	}
	text, err := json.Marshal(results)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(w, `{"status":"success","warnings":["some blocks\n\u001b[31m are missing"],"data":{"resultType":"matrix","result":%s}}`, text)
}

// asking runs a backtest that asks a Prometheus which answers like that.
func asking(t *testing.T, answers http.Handler, query string, flags ...string) (code int, stdout, stderr string) {
	t.Helper()
	server := httptest.NewServer(answers)
	defer server.Close()
	return tool(t.Context(), append([]string{"backtest", "--prometheus.url=" + server.URL, "--query=" + query}, flags...)...)
}

// TestPrometheus has a range that is asked for in several parts, each with the same warning, of a server that wants a password.
func TestPrometheus(t *testing.T) {
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	leak := func(query string, at float64) (float64, bool) {
		if query == "total" {
			return 81559, true
		}
		minutes := (at - float64(begin.Unix())) / 60
		if minutes > 100 && minutes < 110 {
			return 0, false // the target was down
		}
		return 8000 + float64(int(max(0, minutes-200)*10)), true
	}
	flat := func(query string, _ float64) (float64, bool) { return 4000, query != "total" }
	f := &fakePrometheus{series: map[string]func(string, float64) (float64, bool){
		`{"__name__":"DCGM_FI_DEV_FB_USED","gpu":"0","pod":"x"}`: leak,
		`{"__name__":"DCGM_FI_DEV_FB_USED","gpu":"1","pod":""}`:  flat,
	}}
	flags := []string{
		"--capacity.query=total", "--unit=MiB", "--start=2026-03-01T00:00:07Z", "--end=2026-03-02T18:00:00Z", "--output=json", "--step=30m",
		"--http.config.file=" + write(t, "http.yml", "basic_auth:\n  username: me\n  password: secret\n"),
	}
	code, stdout, stderr := asking(t, f, "used", flags...)
	if code != exitLeak || strings.Count(stderr, "Prometheus: some blocks \ufffd[31m are missing\n") != 1 || f.auth != "Basic bWU6c2VjcmV0" {
		t.Fatalf("exit code %d, authorization %q: %q", code, f.auth, stderr)
	}
	if f.points > 11000 || len(f.asked) != 4 {
		t.Errorf("asked for %d points at once: %v", f.points, f.asked)
	}
	// The parts follow each other without a gap and without an overlap.
	testkit.Equal(t, f.asked[0], fmt.Sprintf("used %d %d 15", begin.Unix(), begin.Unix()+9999*15), "asked for")
	testkit.Equal(t, f.asked[1], fmt.Sprintf("used %d %d 15", begin.Unix()+10000*15, begin.Unix()+42*3600), "asked for")
	capacities := map[string]bool{}
	for _, l := range lines(t, stdout) {
		known := "unknown"
		if l.Capacity != nil {
			known = strconv.FormatUint(*l.Capacity, 10)
		}
		capacities[l.Series.String()+" "+known] = true
	}
	if len(capacities) != 2 || !capacities["gpu=0, pod=x 85520809984"] || !capacities["gpu=1 unknown"] {
		t.Errorf("capacities %v", capacities)
	}
	if _, again, _ := asking(t, f, "used", flags...); again != stdout {
		t.Error("a second run says something else")
	}
}

func TestPrometheusUnit(t *testing.T) {
	for _, c := range []struct {
		name, query string
		value       float64
		want        string
	}{
		{"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_USED", 2, `"used_bytes":2097152,`},
		{"gpu_memory_used_bytes", "gpu_memory_used_bytes", 2, `"used_bytes":2,`},
		{"", "sum by (pod) (DCGM_FI_DEV_FB_USED)", 2, `"used_bytes":2097152,`},
		{"", "sum(x)", 2, "--query: sum(x) does not tell its unit"},
	} {
		_, stdout, stderr := asking(t, &fakePrometheus{series: map[string]func(string, float64) (float64, bool){
			fmt.Sprintf(`{"__name__":%q}`, c.name): func(string, float64) (float64, bool) { return c.value, true },
		}}, c.query, "--start=-5m", "--output=json")
		if !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s: %s%s", c.query, stdout, stderr)
		}
	}
}

// TestTooManySamples asks for less at once where a server refuses more, and gives up where
// that is no use.
func TestTooManySamples(t *testing.T) {
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Unix()
	f := &fakePrometheus{most: 500, series: map[string]func(string, float64) (float64, bool){
		`{"__name__":"x_bytes"}`: func(_ string, at float64) (float64, bool) { return at - float64(begin), true },
	}}
	flags := []string{"--start=2026-03-01T00:00:00Z", "--end=2026-03-01T04:00:00Z", "--output=json", "--step=15s"}
	_, stdout, stderr := asking(t, f, "x_bytes", flags...)
	for i, l := range lines(t, stdout) {
		if *l.Used != uint64(15*i) {
			t.Fatalf("line %d: %d bytes", i+1, *l.Used)
		}
	}
	// The whole, then both halves.
	if n := len(lines(t, stdout)); n != 4*60*4+1 || len(f.asked) != 3 {
		t.Errorf("%d lines, asked %q: %s", n, f.asked, stderr)
	}
	f.most, f.asked = 200, nil
	if _, _, stderr := asking(t, f, "x_bytes", "--start=2026-03-01T00:00:00Z", "--end=2026-03-01T01:00:00Z"); len(f.asked) != 3 {
		t.Errorf("a short range: asked %q: %s", f.asked, stderr)
	}
	f.most = 10
	if code, _, stderr := asking(t, f, "x_bytes", flags...); code != exitWrong || !strings.Contains(stderr, "too many samples") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// TestOnlyBounds takes what bounds a memory for no used memory.
func TestOnlyBounds(t *testing.T) {
	for query, series := range map[string]string{
		"DCGM_FI_DEV_FB_USED":   `{"__name__":"DCGM_FI_DEV_FB_FREE","gpu":"0"}`,
		"gpu_memory_used_bytes": `{"__name__":"gpu_info","gpu":"0"}`,
	} {
		code, stdout, stderr := asking(t, &fakePrometheus{series: map[string]func(string, float64) (float64, bool){
			series: func(string, float64) (float64, bool) { return 1, true },
		}}, query, "--start=-1h")
		if code != exitWrong || stdout != "" || !strings.Contains(stderr, "--query: has no result from") {
			t.Errorf("%s: exit code %d, %s%s", query, code, stdout, stderr)
		}
	}
}

func TestPrometheusErrors(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{http.StatusBadRequest, `{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\":\nparse error"}`, "bad_data: invalid parameter \"query\": parse error"},
		{http.StatusUnauthorized, "Unauthorized", ": client_error: client error: 401: Unauthorized"},
		{http.StatusInternalServerError, "oops", ": server_error: server error: 500: oops"},
		{http.StatusServiceUnavailable, `{"status":"error","errorType":"timeout","error":"query timed out"}`, "server error: 503: query timed out"},
		{http.StatusForbidden, "<html>\n\x1b[31m" + strings.Repeat("x", 1000), "client error: 403: <html> \ufffd[31mxxx"},
		{http.StatusOK, `{"status":"success","data":{"resultType":"matrix","result":[]}}`, "--query: has no result from"},
		{http.StatusOK, `{"status":"success","data":{"resultType":"scalar","result":[1700000000,"1"]}}`, "--query: answered with a scalar"},
		{http.StatusOK, "<html>", "--query: "},
		{http.StatusOK, "null", "--query: answered without a result"},
		{http.StatusOK, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1700000000,"NaN"]]}]}}`, "--query: what it found is no amount"},
		{
			http.StatusOK, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"histograms":[[1700000000,{"count":"1","sum":"2","buckets":[[0,"1","2","1"]]}]]}]}}`,
			"--query: what it found is no amount",
		},
	} {
		code, stdout, stderr := asking(t, &fakePrometheus{status: c.status, body: c.body}, "x_bytes", "--start=-1h")
		if code != exitWrong || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("%d %s: exit code %d, %q", c.status, c.body, code, stderr)
		}
	}
	server := httptest.NewServer(nil)
	server.Close()
	if code, _, stderr := tool(t.Context(), "backtest", "--prometheus.url="+server.URL, "--query=x_bytes", "--start=-1h"); code != exitWrong || !strings.Contains(stderr, "connection refused") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}
