// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bytes"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts"
)

var update = flag.Bool("update", false, "rewrite testdata/screen.txt")

// mixin are the thresholds of the shipped alerts.
var mixin = Thresholds{OOMTicket: 86400, Held: 512 << 20}

// recorded is an answer of the exporter: its own golden file.
func recorded(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile("../../gpu_leak_exporter/internal/pages/testdata/verdicts.json")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestScreen(t *testing.T) {
	d, err := Decode(bytes.NewReader(recorded(t)))
	if err != nil {
		t.Fatal(err)
	}
	got := Screen(d, Findings(d, mixin), 3)
	const golden = "testdata/screen.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || got != string(want) {
		t.Errorf("%v\ngot:\n%s\nwant:\n%s", err, got, want)
	}
}

// TestScreenAndPageSayTheSame holds what the terminal says of each memory against the page of the exporter,
// of the same state: amounts, verdict, pattern, confidence and time left, and whose the processes are that leak.
func TestScreenAndPageSayTheSame(t *testing.T) {
	d, err := Decode(bytes.NewReader(recorded(t)))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../../gpu_leak_exporter/internal/pages/testdata/predict.html")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(source), "\u00a0", " ")
	_, tables, _ := strings.Cut(Screen(d, nil, 100), "TIME LEFT\n")
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
	if len(said) < 20 {
		t.Errorf("only %q", said)
	}
}

// columns are what is between the cells of a table.
var columns = regexp.MustCompile(` {2,}`)

// healthy is a GPU that was judged and does not leak.
func healthy() verdicts.Device {
	used, total := uint64(1<<30), uint64(80<<30)
	return verdicts.Device{
		Labels: map[string]string{"gpu": "0", "uuid": "GPU-a"}, Name: "H200", Up: true,
		Memory: verdicts.Memory{Used: &used, Total: &total}, Domain: verdicts.Domain{Verdict: &verdicts.Verdict{Judged: true, Pattern: "stable"}},
		Processes: []verdicts.Process{{
			Labels: map[string]string{"gpu": "0", "pid": "7", "process": "train.py", "gpu_instance": ""}, Used: &used,
			Verdict: &verdicts.Verdict{Judged: true},
		}},
	}
}

func TestFindings(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	for name, c := range map[string]struct {
		change func(*verdicts.Data, *verdicts.Device)
		want   Status
		text   string
	}{
		"well": {func(*verdicts.Data, *verdicts.Device) {}, Well, ""},
		"out in an hour": {func(_ *verdicts.Data, d *verdicts.Device) {
			d.Page, d.Verdict.Leak, d.Verdict.Seconds = true, true, number(3599)
		}, Page, "GPU 0 runs out of memory in 59 min."},
		"out in a day": {func(_ *verdicts.Data, d *verdicts.Device) { d.Verdict.Leak, d.Verdict.Seconds = true, number(3600) }, Ticket, "GPU 0 runs out of memory in 1 h."},
		"named": {func(_ *verdicts.Data, d *verdicts.Device) {
			d.Page, d.Verdict.Leak, d.Verdict.Seconds, d.Verdict.Lower, d.Verdict.Upper = true, true, number(600), number(300), number(900)
			d.Processes[0].Share, d.Processes[0].User, d.Processes[0].Verdict.Rate = number(1), "alice", number(1<<20)
			d.Processes[0].Labels["namespace"], d.Processes[0].Labels["pod"] = "ml", "train-0"
		}, Page, "GPU 0 runs out of memory in 10 min (5 min to 15 min): train.py (pid 7, pod ml/train-0, user alice) grows by 60.0 MiB/min."},
		"a leak for weeks": {func(_ *verdicts.Data, d *verdicts.Device) { d.Verdict.Leak, d.Verdict.Seconds = true, number(1e6) }, Ticket, "GPU 0 leaks."},
		"no leak yet": {func(_ *verdicts.Data, d *verdicts.Device) {
			d.Page, d.Verdict.Judged, d.Verdict.Seconds, d.Verdict.Lower, d.Verdict.Upper = true, false, number(899), number(60), number(1000)
		}, Page, "GPU 0 runs out of memory in 14 min (1 min to 16 min)."},
		"may end before": {func(_ *verdicts.Data, d *verdicts.Device) {
			d.Verdict.Seconds, d.Verdict.Lower = number(899), number(60)
		}, Well, ""},
		"a small zombie": {func(_ *verdicts.Data, d *verdicts.Device) {
			*d.Processes[0].Used, d.Processes[0].Verdict.Pattern = 512<<20, "zombie"
		}, Well, ""},
		"little unreleased": {func(_ *verdicts.Data, d *verdicts.Device) {
			d.Unreleased = []verdicts.Unreleased{{Labels: map[string]string{"pid": "9", "process": "a.py"}, Used: 2 << 20}}
		}, Well, ""},
		"a node without a GPU": {func(d *verdicts.Data, _ *verdicts.Device) {
			d.Devices, d.Driver = nil, verdicts.Driver{Reason: "library_not_found", PCIDevices: new(int)}
		}, Unknown, "The driver does not answer (library_not_found): libnvidia-ml.so.1 was not found. Install the driver; in a container, NVIDIA_DRIVER_CAPABILITIES must hold utility; --nvml.library-path names the file elsewhere. The PCI bus shows no NVIDIA GPU."},
		"a GPU without a driver": {func(d *verdicts.Data, _ *verdicts.Device) {
			d.Devices, d.Driver = nil, verdicts.Driver{Reason: "library_not_found", PCIDevices: new(1)}
		}, Page, "The driver does not answer (library_not_found): libnvidia-ml.so.1 was not found. Install the driver; in a container, NVIDIA_DRIVER_CAPABILITIES must hold utility; --nvml.library-path names the file elsewhere."},
		"muted":           {func(_ *verdicts.Data, d *verdicts.Device) { *d.Verdict = verdicts.Verdict{Muted: true} }, Well, ""},
		"not judged":      {func(_ *verdicts.Data, d *verdicts.Device) { d.Verdict.Judged = false }, Unknown, "1 memory is not judged yet."},
		"no frame":        {func(_ *verdicts.Data, d *verdicts.Device) { d.Verdict = nil }, Unknown, "1 memory is not judged yet."},
		"lost":            {func(_ *verdicts.Data, d *verdicts.Device) { *d = verdicts.Device{Labels: d.Labels, Name: "H200"} }, Page, "GPU 0 (H200) cannot be read."},
		"zombie":          {func(_ *verdicts.Data, d *verdicts.Device) { d.Processes[0].Verdict.Pattern = "zombie" }, Ticket, "GPU 0: train.py (pid 7) holds 1.00 GiB, and shows no sign of going on."},
		"a process leaks": {func(_ *verdicts.Data, d *verdicts.Device) { d.Processes[0].Verdict.Leak = true }, Ticket, "GPU 0: train.py (pid 7) leaks."},
		"unreleased": {func(_ *verdicts.Data, d *verdicts.Device) {
			d.Unreleased = []verdicts.Unreleased{{Labels: map[string]string{"pid": "9", "process": "a.py"}, Used: 1 << 30}}
		}, Ticket, "GPU 0: 1.00 GiB of a.py (pid 9) stay in use after its end."},
		"no GPU": {func(d *verdicts.Data, _ *verdicts.Device) { d.Devices = nil }, Unknown, "The driver answers, and lists no GPU."},
		"no driver": {func(d *verdicts.Data, _ *verdicts.Device) {
			d.Devices, d.Driver = nil, verdicts.Driver{Reason: "driver_not_loaded"}
		}, Page, "The driver does not answer (driver_not_loaded): the kernel module is not loaded. Load it with modprobe nvidia, or see dmesg for why it cannot be."},
		"starting": {func(d *verdicts.Data, _ *verdicts.Device) {
			d.Devices, d.Driver = nil, verdicts.Driver{Reason: "starting"}
		}, Unknown, "The exporter has just started, and waits for the driver."},
		"a slice": {func(_ *verdicts.Data, d *verdicts.Device) {
			*d.Verdict = verdicts.Verdict{}
			d.Instances = []verdicts.Instance{{
				Labels: map[string]string{"gpu_instance": "3", "profile": "2g.20gb"}, Domain: verdicts.Domain{Page: true, Verdict: &verdicts.Verdict{Judged: true, Leak: true, Seconds: number(60)}},
			}}
		}, Page, "GPU 0, MIG 3 (2g.20gb) runs out of memory in 1 min."},
	} {
		dev := healthy()
		d := &verdicts.Data{Time: time.Unix(1e9, 0), Driver: verdicts.Driver{Up: true}}
		d.Devices = []verdicts.Device{dev}
		c.change(d, &d.Devices[:1:1][0])
		list := Findings(d, mixin)
		if got := Overall(list); got != c.want || (c.text != "" && list[0].Text != c.text) || (c.text == "" && len(list) > 0) {
			t.Errorf("%s: %v, %+v; want %v: %s", name, got, list, c.want, c.text)
		}
	}
}

// On a small terminal the headline stays.
func TestFit(t *testing.T) {
	const page = "PAGE: GPU 0 runs out of memory\n  ticket\n\nMEMORY\nGPU 0\n"
	for _, c := range []struct {
		columns, rows int
		want          string
	}{
		{80, 24, page},
		{80, 6, page},
		{80, 5, "PAGE: GPU 0 runs out of memory\n  ticket\n\n… and 2 more lines\n"},
		{12, 3, "PAGE: GPU 0…\n… and 4 mor…\n"},
		{0, 0, page},
	} {
		if got := Fit(page, c.columns, c.rows); got != c.want {
			t.Errorf("%d × %d: %q, want %q", c.columns, c.rows, got, c.want)
		}
	}
}

// What is worst comes first, and what is not known hides nothing.
func TestOrder(t *testing.T) {
	leak, lost, young := healthy(), healthy(), healthy()
	leak.Verdict.Leak = true
	lost.Up = false
	young.Verdict.Judged = false
	d := &verdicts.Data{Driver: verdicts.Driver{Up: true}, Devices: []verdicts.Device{young, leak, lost}}
	var got []string
	for _, f := range Findings(d, mixin) {
		got = append(got, f.Status.String())
	}
	if want := "page ticket not known"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestExporter(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/verdicts", "/gpu/api/v1/verdicts":
			_, _ = w.Write(recorded(t))
		case "/other/api/v1/verdicts":
			_, _ = w.Write([]byte(`{"status":"success"}`))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for address, want := range map[string]string{
		server.URL: "", host: "", server.URL + "/": "", server.URL + "/gpu/": "", host + "/api/v1/verdicts": "",
		server.URL + "/metrics": "", host + "/predict?x=1": "", host + "/predict/gpu-1-mig-3": "", server.URL + "/gpu/predict/": "", host + "/-/ready": "", host + "//": "",
		server.URL + "/nometrics": "404 Not Found",
		server.URL + "/other":     "the answer is none of an exporter", server.URL + "/nothing": "404 Not Found",
		"http://a:b@" + host: "the address has a user", "ftp://x": "is none of an exporter", "http://": "is none of an exporter", "http://a b": "is none of an exporter",
	} {
		e, err := NewExporter(address, server.Client())
		if err == nil {
			_, err = e.Verdicts(t.Context())
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
		d, err := Decode(bytes.NewReader(text))
		if err != nil {
			return
		}
		for _, r := range Screen(d, Findings(d, mixin), 5) {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%q reaches the terminal", r)
			}
		}
	})
}
