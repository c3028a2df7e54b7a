// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/watch"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// node answers as an exporter does whose only GPU has that verdict, with a note if it has one.
func node(t *testing.T, said, note string) *httptest.Server {
	t.Helper()
	return answering(t, `{"status":"success","data":{"time":"2026-03-01T12:00:00Z","note":"`+note+`",`+said+`,"driver":{"up":true,"reason":""},"devices":[
		{"labels":{"gpu":"0","uuid":"GPU-a"},"name":"H200","up":true}]}}`)
}

func answering(t *testing.T, answer string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }))
	t.Cleanup(server.Close)
	return server
}

const (
	well    = `"severity":"note","text":"No leak found on 1 GPU."`
	ticket  = `"severity":"ticket","text":"GPU 0 leaks."`
	page    = `"severity":"page","text":"GPU 0 runs out of memory in 10 min."`
	unknown = `"severity":"unknown","text":"Watching 1 GPU."`
)

// A monitor reads the exit status: those of Nagios. A prolog fails for what it asked for alone. GPUs that are not real are the first
// thing that is said, but in the silence of a prolog.
func TestWatchOnce(t *testing.T) {
	const note = "These GPUs are simulated: scenario node."
	for _, c := range []struct {
		verdict, note string
		flags         []string
		code          int
		says          string
	}{
		{well, "", nil, 0, "WELL: No leak found on 1 GPU"},
		{ticket, "", nil, 1, "TICKET: GPU 0 leaks"},
		{page, "", nil, 2, "PAGE: GPU 0 runs out of memory in 10 min"},
		{unknown, "", nil, 3, "NOT KNOWN: Watching 1 GPU"},
		{page, note, nil, 2, note + "\nPAGE: "},
		{well, note, []string{"--fail-on=page"}, 0, ""},
		{ticket, "", []string{"--fail-on=page"}, 0, ""},
		{unknown, "", []string{"--fail-on=page"}, 0, ""},
		{page, note, []string{"--fail-on=page"}, 2, note + "\nPAGE: "},
		{unknown, "", []string{"--fail-on=ticket"}, 0, ""},
		{ticket, "", []string{"--fail-on=ticket"}, 1, "TICKET: "},
		{page, "", []string{"--fail-on=ticket"}, 2, "PAGE: "},
	} {
		code, stdout, stderr := tool(t.Context(), append([]string{"watch", "--once", node(t, c.verdict, c.note).URL}, c.flags...)...)
		if code != c.code || !strings.HasPrefix(stdout, c.says) || (c.says == "" && stdout != "") || stderr != "" {
			t.Errorf("%s %v: exit status %d, want %d and %q\n%s%s", c.verdict, c.flags, code, c.code, c.says, stdout, stderr)
		}
	}
}

// Who cannot be asked is not known. A prolog goes on, and its log says why.
func TestWatchNobody(t *testing.T) {
	server := node(t, well, "")
	server.Close()
	if code, stdout, stderr := tool(t.Context(), "watch", "--once", server.URL); code != 3 || !strings.HasPrefix(stdout, "NOT KNOWN: asking the exporter: ") || !strings.HasSuffix(stdout, "; does an exporter run there? its port is 9844\n") || stderr != "" {
		t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := tool(t.Context(), "watch", "--once", "--fail-on=page", server.URL); code != 0 || stdout != "" || !strings.Contains(stderr, "asking the exporter: ") {
		t.Errorf("with --fail-on: exit status %d\n%s%s", code, stdout, stderr)
	}
}

// Without an address it looks at this machine. One without a GPU has nothing to show.
func TestWatchHereWithoutGPU(t *testing.T) {
	sysfs := t.TempDir()
	testkit.Must(t, os.MkdirAll(filepath.Join(sysfs, "bus/pci/devices"), 0o700))
	code, stdout, stderr := tool(t.Context(), "watch", "--once", "--nvml.library-path=/none/libnvidia-ml.so.1", "--path.sysfs="+sysfs)
	const want = "NOT KNOWN: This node has no NVIDIA GPU: give the address of an exporter, such as http://node7:9844.\nAs of "
	const why = "\nnot known  No GPU found. The driver does not answer (library_not_found). Runbook: GPUDriverDown\n"
	if code != 3 || !strings.HasPrefix(stdout, want) || !strings.HasSuffix(stdout, why) || stderr != "" {
		t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
	}
}

func TestWatchWrongCalls(t *testing.T) {
	secret := write(t, "http.yml", "basic_auth: {user: a}")
	for call, want := range map[string]string{
		"--fail-on=page http://x":                           "--fail-on needs --once",
		"--once --fail-on=verdict http://x":                 "--fail-on",
		"--http.config.file=x":                              "--http.config.file needs the address of an exporter",
		"--http.config.file=" + secret + " http://x":        "--http.config.file=" + secret,
		"--interval=1ms http://x":                           "--interval",
		"--once --http.config.file=" + secret + " http://x": "--http.config.file=" + secret,
		"--once ftp://x":                                    "the address is none of an exporter",
		"--once http://user:password@localhost:9844/":       "the address has a user",
	} {
		code, stdout, stderr := tool(t.Context(), append([]string{"watch"}, strings.Fields(call)...)...)
		says, wrong := stdout+stderr, exitWrong
		if strings.Contains(call, "--once") {
			wrong = 3 // 2 would be a page
		}
		if code != wrong || !strings.Contains(says, want) || strings.Count(says, "\n") != 1 || strings.Contains(says, "password@") {
			t.Errorf("%s: exit status %d, want %d and %q: %s", call, code, wrong, want, says)
		}
	}
	// A prolog goes on.
	if code, stdout, stderr := tool(t.Context(), "watch", "--once", "--fail-on=page", "--http.config.file="+secret, "http://x"); code != 0 || stdout != "" || stderr == "" {
		t.Errorf("a secret that cannot be read: exit status %d\n%s%s", code, stdout, stderr)
	}
}

// An exporter that goes away for a while leaves the last screen, and the line above says so.
func TestWatchFollows(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch asked.Add(1) {
		case 1:
			_, _ = w.Write([]byte(`{"status":"success","data":{"time":"2026-03-01T12:00:00Z","note":"These GPUs are replayed.","severity":"unknown","text":"No GPU found.","driver":{"up":true},"devices":[]}}`))
		case 2:
			http.Error(w, "busy", http.StatusServiceUnavailable)
		default:
			cancel()
		}
	}))
	defer server.Close()
	code, stdout, stderr := tool(ctx, "watch", "--interval=1s", server.URL)
	screens := strings.Split(stdout, watch.Home)
	if code != exitOK || stderr != "" || len(screens) != 3 {
		t.Fatalf("exit status %d, %d screens\n%s%s", code, len(screens)-1, stdout, stderr)
	}
	const first = "These GPUs are replayed.\nNOT KNOWN: No GPU found."
	if !strings.HasPrefix(screens[1], first) {
		t.Errorf("first screen: %s", screens[1])
	}
	if !strings.HasPrefix(screens[2], "NOT KNOWN: asking the exporter: ") || !strings.Contains(screens[2], "503") || !strings.Contains(screens[2], first) {
		t.Errorf("second screen: %s", screens[2])
	}
}
