// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// attack is what strangers do to the exporter, until ctx is done.
type attack struct {
	name    string
	clients int
	each    func(ctx context.Context, conn net.Conn, n int)
}

// hold waits for the end without reading.
func hold(ctx context.Context, _ net.Conn) { <-ctx.Done() }

func get(path, more string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: x\r\n" + more + "\r\n"
}

var paths = []string{"/metrics", "/predict", "/api/v1/verdicts", "/"}

var attacks = []attack{
	{"4,096 idle connections", 4096, func(ctx context.Context, conn net.Conn, _ int) { hold(ctx, conn) }},
	{"600 connections with half a request", 600, func(ctx context.Context, conn net.Conn, _ int) {
		io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\nX: ") //nolint:errcheck // it may be cut off
		hold(ctx, conn)
	}},
	{"60 readers of a byte a second", 60, func(ctx context.Context, conn net.Conn, n int) {
		io.WriteString(conn, get(paths[n%len(paths)], "")) //nolint:errcheck // it may be cut off
		for ctx.Err() == nil {
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}},
	{"300 connections, 40 requests each, nothing read", 300, func(ctx context.Context, conn net.Conn, n int) {
		io.WriteString(conn, strings.Repeat(get(paths[n%len(paths)], ""), 40)) //nolint:errcheck // it may be cut off
		hold(ctx, conn)
	}},
	{"64 clients that ask all the time, in many words", 64, func(ctx context.Context, conn net.Conn, n int) {
		go io.Copy(io.Discard, conn) //nolint:errcheck // it ends with the connection
		for i := 0; ctx.Err() == nil; i++ {
			accept := []string{"text/plain", "application/openmetrics-text;version=1.0.0", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"}[i%3]
			encoding := []string{"gzip", "identity"}[i%2]
			text := get(paths[(n+i)%len(paths)]+"?"+strconv.Itoa(i), "Accept: "+accept+"\r\nAccept-Encoding: "+encoding+"\r\n")
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
		}
	}},
	{"scrapes that are broken off", 32, func(_ context.Context, conn net.Conn, _ int) {
		io.WriteString(conn, get("/metrics", "")) //nolint:errcheck // it may be cut off
		conn.Read(make([]byte, 1))                //nolint:errcheck // it only waits
	}},
}

// run attacks an address until ctx is done: whoever is cut off comes again.
func (a *attack) run(ctx context.Context, address string) {
	var all sync.WaitGroup
	// More at once would starve the client that scrapes, which is in the same process.
	dialing := make(chan struct{}, 32)
	for n := range a.clients {
		all.Go(func() {
			for ctx.Err() == nil {
				// From many addresses.
				from := &net.TCPAddr{IP: net.IPv4(127, 1, byte(n>>8), byte(n))}
				dialing <- struct{}{}
				conn, err := (&net.Dialer{LocalAddr: from, Timeout: time.Second}).DialContext(ctx, "tcp", address)
				<-dialing
				if err != nil {
					continue
				}
				stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
				a.each(ctx, conn, n)
				stop()
				_ = conn.Close()
			}
		})
	}
	all.Wait()
}

// TestFaultsOfTheNetwork attacks an exporter of 8 GPUs with 64 processes each.
func TestFaultsOfTheNetwork(t *testing.T) {
	m := newMachine(t, 8)
	for i := range m.GPUs {
		for n := range 64 {
			m.GPUs[i].Processes = append(m.GPUs[i].Processes, fakenvml.Process{PID: uint32(1000*(i+1) + n), Memory: fakenvml.Ramp{Base: gib}})
		}
	}
	p := m.start(t, "--collector.nvlink")
	var gpus []int
	for i := range m.GPUs {
		gpus = append(gpus, i)
	}
	during := 3 * time.Second
	if *faultsAll {
		during = 30 * time.Second
	}
	for i := range attacks {
		a := &attacks[i]
		k := &faultKind{Name: "network: " + a.name, faults: 1}
		before := len(p.Output())
		healthy := m.follow(t, p, eventually(t, p, m.allUp), gpus)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { a.run(ctx, strings.TrimPrefix(p.URL, "http://")); close(ended) }()
		k.watch(t, p, during, nil)
		cancel()
		<-ended
		healthy.note(t, eventually(t, p, m.allUp), k)
		faultRows.add(k)
		k.judge(t, a.name)
		if lines := strings.Count(p.Output()[before:], "\n"); lines > 30 {
			t.Errorf("%s: %d lines in the log", a.name, lines)
		}
	}
	peak := peakMemory(t, p)
	t.Logf("at most %d MiB were resident", peak>>20)
	if peak > 256<<20 && os.Getenv("E2E_RACE") == "" {
		t.Errorf("%d MiB were resident", peak>>20)
	}
}

// TestFaultsOfTheNetworkWithTLS has clients with the password ask for much over HTTP/2 and read nothing. A Prometheus has
// scraped before.
func TestFaultsOfTheNetworkWithTLS(t *testing.T) {
	a := newAuthority(t)
	a.sign(t, "server")
	harness.WriteFile(t, filepath.Join(a.dir, "web.yml"), harness.ReadExample(t, "web/basic-auth.yml"))
	p := harness.LaunchExporter(t, harness.Options{Args: []string{"--source=sim:healthy", "--web.config.file=" + filepath.Join(a.dir, "web.yml")}})
	address := p.Listening(t)
	client := func(from net.IP, http2 bool) *http.Client {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
		return &http.Client{Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: a.pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: http2,
		}}
	}
	url := "https://prometheus:change%20me@" + address
	// Each request of HTTP/2 beyond four needs a connection of its own: a build with the race detector has enough to do with
	// those of a few clients.
	during, clients := 3*time.Second, 8
	if *faultsAll {
		during, clients = 30*time.Second, 64
	}
	name := fmt.Sprintf("network: %d clients with 100 streams of HTTP/2 each, nothing read", clients)
	k := &faultKind{Name: name, faults: 1}
	good := client(net.IPv4(127, 0, 0, 1), false)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	k.watchBy(t, good, url, during, func() {
		for n := range clients {
			all.Go(func() {
				c := client(net.IPv4(127, 1, 0, byte(n)), true)
				defer c.CloseIdleConnections()
				for i := range 100 {
					r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+paths[i%len(paths)], http.NoBody)
					if err == nil {
						_, err = c.Do(r) //nolint:bodyclose // it is not read on purpose
					}
					if err != nil {
						return
					}
				}
				<-ctx.Done()
			})
		}
	})
	cancel()
	all.Wait()
	good.CloseIdleConnections()
	faultRows.add(k)
	k.judge(t, name)
	t.Logf("at most %d MiB were resident", peakMemory(t, p)>>20)
	if err := p.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	p.Wait(t, patience)
}
