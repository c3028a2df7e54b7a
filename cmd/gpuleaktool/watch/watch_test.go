// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// recorded is an answer of the exporter: its own golden file.
func recorded(t testing.TB) []byte {
	t.Helper()
	return []byte(testkit.Read(t, "../../gpu_leak_exporter/internal/pages/testdata/verdicts.json"))
}

func TestScreen(t *testing.T) {
	d, err := decode(bytes.NewReader(recorded(t)))
	testkit.Must(t, err)
	testkit.Golden(t, "testdata/screen.txt", Screen(d, 3, 0, ""))
}

// TestScreenAndPageSayTheSame holds what the terminal says of each memory against the page of the exporter,
// of the same state: amounts, verdict and time left, and whose the processes are that leak.
func TestScreenAndPageSayTheSame(t *testing.T) {
	d, err := decode(bytes.NewReader(recorded(t)))
	testkit.Must(t, err)
	source := testkit.Read(t, "../../gpu_leak_exporter/internal/pages/testdata/predict.html")
	page := strings.ReplaceAll(source, "\u00a0", " ")
	_, tables, _ := strings.Cut(Screen(d, 100, 0, ""), "USED\n")
	memories, processes, _ := strings.Cut(tables, "\n\n")
	var said []string
	for line := range strings.SplitSeq(memories, "\n") {
		for _, cell := range columns.Split(line, -1) {
			said = append(said, strings.Split(strings.TrimSuffix(cell, ")"), " (")...)
		}
	}
	for line := range strings.SplitSeq(processes, "\n") {
		if cells := columns.Split(line, -1); len(cells) == 6 && cells[4] == "leaks" { // the page draws no others
			said = append(said, cells[5])
		}
	}
	said = slices.DeleteFunc(said, func(s string) bool { return s == "-" })
	for _, s := range said {
		if !strings.Contains(page, s) {
			t.Errorf("the page does not say %q", s)
		}
	}
	if len(said) < 19 {
		t.Errorf("only %q", said)
	}
}

// columns are what is between the cells of a table.
var columns = regexp.MustCompile(` {2,}`)

// The statuses are exit statuses: what a later exporter says, and nobody here knows, is not known.
func TestStatus(t *testing.T) {
	for severity, want := range map[string]Status{"": Unknown, "note": Well, "ticket": Ticket, "page": Page, "unknown": Unknown, "worse": Unknown} {
		testkit.Equal(t, Of(severity), want, "status of %q", severity)
	}
}

// On a small terminal the headline and its time stay, and what is below it has a line each.
func TestFit(t *testing.T) {
	const page = "PAGE: GPU 0 runs out of memory\n  ticket\n\nMEMORY\nGPU 0\n"
	const long = "PAGE: GPU 0\nleaks\nAs of 2026\nticket     GPU 1\n           leaks\n           by far\nticket     GPU 2\n\nMEMORY\nGPU 0\n"
	const chosen = "PAGE: GPU 0\nAs of 2026\nticket     GPU 1\n\nMEMORY\n  GPU 0\n  GPU 1\n> GPU 2\n  GPU 3\n"
	for _, c := range []struct {
		page          string
		columns, rows int
		want          string
	}{
		{page, 80, 24, page},
		{page, 80, 6, page},
		{page, 80, 5, "PAGE: GPU 0 runs out of memory\n  ticket\n\n… and 2 more lines\n"},
		{page, 12, 3, "PAGE: GPU 0…\n… and 4 mor…\n"},
		{page, 0, 0, page},
		{long, 80, 11, long},
		{long, 80, 9, "PAGE: GPU 0\nleaks\nAs of 2026\nticket     GPU 1 …\nticket     GPU 2\n\nMEMORY\nGPU 0\n"},
		{long, 80, 8, "PAGE: GPU 0\nleaks\nAs of 2026\nticket     GPU 1 …\nticket     GPU 2\n\n… and 2 more lines\n"},
		{long, 16, 9, "PAGE: GPU 0\nleaks\nAs of 2026\nticket     GPU …\nticket     GPU 2\n\nMEMORY\nGPU 0\n"},
		{chosen, 80, 8, "PAGE: GPU 0\nAs of 2026\nMEMORY\n  GPU 0\n  GPU 1\n> GPU 2\n  GPU 3\n"},
		{chosen, 80, 5, "PAGE: GPU 0\n  GPU 1\n> GPU 2\n  GPU 3\n"},
	} {
		testkit.Equal(t, Fit(c.page, c.columns, c.rows), c.want, "%d × %d", c.columns, c.rows)
	}
}

// A long text goes on below its begin, and only words that judge have a colour.
func TestWrapAndPaint(t *testing.T) {
	const want = "\x1b[33mticket\x1b[m  a page\n        日本\n        longer-than-that\n"
	testkit.Equal(t, Paint(Wrap("ticket  a page 日本 longer-than-that", 14, "        ")+"\n"), want, "the text")
}

func TestExporter(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/verdicts", "/gpu/api/v1/verdicts":
			_, _ = w.Write(recorded(t))
		case "/other/api/v1/verdicts":
			_, _ = w.Write([]byte(`{"status":"success"}`))
		case "/locked/api/v1/verdicts":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for address, want := range map[string]string{
		server.URL: "", host: "", server.URL + "/": "", server.URL + "/gpu/": "", host + "/api/v1/verdicts": "",
		server.URL + "/metrics": "", host + "/predict?x=1": "", host + "/predict/gpu-1-mig-3": "", server.URL + "/gpu/predict/": "", host + "/-/ready": "", host + "//": "", host + "/incidents#a": "", host + "/api/v1/incidents": "", host + "/runbook": "",
		server.URL + "/nometrics": "404 Not Found", server.URL + "/locked": "401 Unauthorized; it needs the right user and password in the file of --http.config.file",
		server.URL + "/other": "the answer is none of an exporter", server.URL + "/nothing": "404 Not Found",
		"http://a:b@" + host: "the address has a user", "ftp://x": "is none of an exporter", "http://": "is none of an exporter", "http://a b": "is none of an exporter",
	} {
		now, _, err := lookThere(address, server.Client())
		if err == nil {
			_, err = now(t.Context())
		}
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}

// FuzzScreen has an exporter that answers what it likes: the terminal gets text, and nothing that it acts on.
func FuzzScreen(f *testing.F) {
	f.Add(recorded(f))
	f.Add([]byte(`{"status":"success","data":{"time":"2026-01-01T00:00:00Z","note":"\u001b[2J","driver":{"reason":"\u001b[2J"},"devices":[{"up":true,"labels":{"gpu":"\u001b"},"processes":[{}]}]}}`))
	f.Add([]byte(`{"status":"success","data":{"time":"2026-01-01T00:00:00Z","devices":null}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := decode(bytes.NewReader(text))
		if err != nil {
			return
		}
		for _, r := range Screen(d, 5, 80, "") {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%q reaches the terminal", r)
			}
		}
	})
}
