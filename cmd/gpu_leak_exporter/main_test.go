// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output collects what the program writes while the test reads it.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// eventually calls cond until it returns nil, and fails the test with its last
// error after a deadline that only matters when the test fails.
func eventually(t *testing.T, cond func() error) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	over := time.After(30 * time.Second)
	for {
		err := cond()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-over:
			t.Fatal(err)
		}
	}
}

// running is the program under test.
type running struct {
	url    string
	stderr *output
	stop   context.CancelFunc
	done   chan struct{} // closed once it has returned code
	code   int
}

var listening = regexp.MustCompile(`msg="Listening on" address=(127\.0\.0\.1:\d+)`)

// start runs what serve does, which is to log like the program, until the end of
// the test.
func start(t *testing.T, serve func(ctx context.Context, stderr io.Writer) int) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{stderr: &output{}, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.code = serve(ctx, r.stderr)
	}()
	t.Cleanup(func() {
		r.stop()
		<-r.done
		if t.Failed() {
			t.Logf("log:\n%s", r.stderr)
		}
	})
	eventually(t, func() error {
		if m := listening.FindStringSubmatch(r.stderr.String()); m != nil {
			r.url = "http://" + m[1]
			return nil
		}
		return fmt.Errorf("does not listen:\n%s", r.stderr)
	})
	return r
}

// startProgram runs the program with these flags on a free port.
func startProgram(t *testing.T, args ...string) *running {
	t.Helper()
	return start(t, func(ctx context.Context, stderr io.Writer) int {
		return run(ctx, append(args, "--web.listen-address=127.0.0.1:0"), io.Discard, stderr)
	})
}

// flagsOf returns what the program takes of these flags.
func flagsOf(t *testing.T, args ...string) *config {
	t.Helper()
	c, err := parseFlags(args, io.Discard)
	testkit.Must(t, err)
	return c
}

// end stops the program and returns its exit code.
func (r *running) end() int {
	r.stop()
	<-r.done
	return r.code
}

// get returns status and body of a page.
func (r *running) get(t *testing.T, path string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(r.url + path)
	testkit.Must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	return resp.StatusCode, string(body)
}

// contains returns an error unless the page holds a line that starts like that.
func (r *running) contains(t *testing.T, path, start string) func() error {
	return func() error {
		if code, body := r.get(t, path); code != http.StatusOK || !strings.Contains("\n"+body, "\n"+start) {
			return fmt.Errorf("%s: status %d, no line %q in\n%.2000s", path, code, start, body)
		}
		return nil
	}
}
