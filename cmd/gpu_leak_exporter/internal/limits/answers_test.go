// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testLimits(most int) *Limits {
	return New(Config{MaxRequests: most, Logger: slog.New(slog.DiscardHandler)})
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return w
}

// TestAnswersAreShared has ten clients ask for the same in different words while it is made: it is made once.
func TestAnswersAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int32
		h := testLimits(1).answers.ofMetrics(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			made.Add(1)
			time.Sleep(time.Second)
			w.Header().Set("Content-Type", "text/x")
			w.WriteHeader(http.StatusTeapot)
			io.WriteString(w, r.Method+r.Header.Get("Accept-Encoding")) //nolint:errcheck // it cannot fail
		}))
		var all sync.WaitGroup
		for _, accept := range []string{"", "*/*", "text/plain", "text/plain;version=0.0.4", "text/html, */*;q=0.1"} {
			for _, method := range []string{"GET", "HEAD"} {
				all.Go(func() {
					r := httptest.NewRequest(method, "/x?"+method, http.NoBody)
					r.Header.Set("Accept", accept)
					r.Header.Set("Accept-Encoding", "br, gzip;q=0.5")
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					if w.Code != http.StatusTeapot || w.Body.String() != "GETgzip" || w.Header().Get("Content-Type") != "text/x" ||
						w.Header().Get("Content-Length") != "7" {
						t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
					}
				})
			}
		}
		all.Wait()
		if n := made.Load(); n != 1 {
			t.Errorf("made %d times, want 1", n)
		}
	})
}

// TestAnswersWait has more be wanted than can be made at a time: those that wait get theirs in turn.
func TestAnswersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(1)
		h := l.answers.of(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(900 * time.Millisecond) }))
		var all sync.WaitGroup
		var served, busy atomic.Int32
		for _, path := range []string{"/a", "/b", "/c", "/d", "/e"} {
			all.Go(func() {
				switch get(h, path).Code {
				case http.StatusOK:
					served.Add(1)
				case http.StatusServiceUnavailable:
					busy.Add(1)
				}
			})
		}
		all.Wait()
		if served.Load() != 3 || busy.Load() != 2 || testutil.ToFloat64(l.refused.WithLabelValues(refusedBusy)) != 2 {
			t.Errorf("%d served, %d busy", served.Load(), busy.Load())
		}
	})
}

// TestAnswersThatFail has a handler write too much, and one panic while another client waits for it.
func TestAnswersThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(1)
		large := l.answers.of(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range maxAnswer>>20 + 1 {
				w.Write(make([]byte, 1<<20))
			}
		}))
		if w := get(large, "/"); w.Code != http.StatusInternalServerError || w.Body.Len() > 100 {
			t.Errorf("too large: %d, %d bytes", w.Code, w.Body.Len())
		}
		panics := l.answers.of(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			time.Sleep(time.Second)
			panic("as a defect does")
		}))
		go func() {
			defer func() { _ = recover() }()
			get(panics, "/")
		}()
		synctest.Wait()
		if w := get(panics, "/"); w.Code != http.StatusInternalServerError {
			t.Errorf("while it panics: %d", w.Code)
		}
		synctest.Wait()
		if a := l.answers; a.bytes != 0 || a.sending.Len() != 0 || len(a.making) != 0 {
			t.Errorf("%d bytes, %d readers and %d answers are left", a.bytes, a.sending.Len(), len(a.making))
		}
		fine := l.answers.of(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		if w := get(fine, "/"); w.Code != http.StatusOK {
			t.Errorf("after the panic: %d", w.Code)
		}
	})
}

// TestSlowReaders has clients that never read take an answer each: the slots are free at once, and the
// oldest readers are cut off where too much is unsent.
func TestSlowReaders(t *testing.T) {
	l := testLimits(1)
	const size = 8 << 20
	server := httptest.NewUnstartedServer(l.answers.of(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write(make([]byte, size))
	})))
	l.connections.serve(server.Config)
	server.Start()
	defer server.Close()
	const readers = 3 * maxUnsent / size
	for range readers {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 40)); err != nil {
			t.Fatal(err)
		}
		// Its answer was made before the next one asks.
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		l.answers.mu.Lock()
		if l.answers.bytes > maxUnsent {
			t.Errorf("%d bytes are not sent", l.answers.bytes)
		}
		l.answers.mu.Unlock()
	}
	if cut := testutil.ToFloat64(l.refused.WithLabelValues(refusedSlowReader)); cut < readers-maxUnsent/size {
		t.Errorf("%g readers were cut off", cut)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	if n, err := io.Copy(io.Discard, answer.Body); n != size || err != nil {
		t.Errorf("a client that reads got %d bytes, %v", n, err)
	}
}

// pipes are a listener whose connections keep nothing of what they are sent.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepted:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { close(p.closed); return nil }
func (*pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestWhoReads has a client read a bit at a time while others ask and read nothing: it is not the one that goes.
func TestWhoReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(1)
		listener := &pipes{make(chan net.Conn), make(chan struct{})}
		server := &http.Server{Handler: l.answers.of(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Write(make([]byte, map[string]int{"/long": 8 << 20, "/": 1 << 20}[r.URL.Path]))
		})), ReadHeaderTimeout: time.Second}
		l.connections.serve(server)
		go func() { _ = server.Serve(listener) }()
		defer server.Close()
		ask := func(path string) net.Conn {
			conn, end := net.Pipe()
			listener.accepted <- end
			if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // its answer has begun
			return conn
		}
		reads := ask("/long")
		for n := range 2 * maxReaders {
			defer ask("/").Close()
			if n%16 == 0 {
				if _, err := io.ReadFull(reads, make([]byte, 2*sentAtOnce)); err != nil {
					t.Fatalf("cut off with %d that read nothing: %v", n, err)
				}
				synctest.Wait()
			}
		}
		_ = reads.Close()
		synctest.Wait()
		l.answers.mu.Lock()
		defer l.answers.mu.Unlock()
		if n := l.answers.sending.Len(); n > maxReaders || l.answers.bytes > maxUnsent || n < maxUnsent>>21 {
			t.Errorf("%d clients are sent %d bytes", n, l.answers.bytes)
		}
	})
}

// TestBodiesServeAgain has the memory of answers serve for others, but not that of one which a client that was cut off
// may still be sent.
func TestBodiesServeAgain(t *testing.T) {
	const size = 1000
	a := testLimits(1).answers
	join := func(content byte) *reader {
		rd := &reader{cut: func() {}}
		made, _ := a.join(string(content), rd)
		a.makeFor(string(content), made, func() error {
			made.body = append(bodyFor(size), bytes.Repeat([]byte{content}, size)...)
			return nil
		})
		a.begin(rd)
		return rd
	}
	slow := join('s')
	a.mu.Lock()
	a.release(slow) // as begin does where too much is unsent
	slow.gone = true
	a.mu.Unlock()
	for range 20 {
		a.leave(join('o'))
	}
	if !bytes.Equal(slow.made.body, bytes.Repeat([]byte{'s'}, size)) {
		t.Error("a client that was cut off is sent another one's answer")
	}
	a.leave(slow)
	if a.bytes != 0 || a.sending.Len() != 0 {
		t.Errorf("%d bytes are held for %d clients", a.bytes, a.sending.Len())
	}
	if body := bodyFor(size / 100); cap(body) > size/50 {
		t.Errorf("an answer of %d bytes holds %d", size/100, cap(body))
	}
}

// TestOthersAnswers has a stranger ask for no series at all while Prometheus asks for all of them.
func TestOthersAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow"}, func() float64 { time.Sleep(time.Second); return 1 }))
		h := testLimits(1).answers.ofMetrics(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
		var all sync.WaitGroup
		defer all.Wait()
		all.Go(func() { get(h, "/metrics?name[]=nothing") })
		synctest.Wait()
		if body := get(h, "/metrics").Body.String(); !strings.Contains(body, "slow 1") {
			t.Errorf("the answer is %q", body)
		}
	})
}

// TestMetricsHaveASlot has pages be made for longer than a scrape waits.
func TestMetricsHaveASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := testLimits(2).answers
		long := a.of(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Minute) }))
		var all sync.WaitGroup
		defer all.Wait()
		for _, path := range []string{"/a", "/b", "/c"} {
			all.Go(func() { get(long, path) })
		}
		synctest.Wait()
		metrics := a.ofMetrics(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		if w := get(metrics, "/metrics"); w.Code != http.StatusOK {
			t.Errorf("status %d", w.Code)
		}
	})
}

// TestStreams has a client of HTTP/2 want more at a time than a connection may.
func TestStreams(t *testing.T) {
	l := testLimits(0)
	here := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("a request of %s", r.Proto)
		}
		here <- struct{}{}
		<-r.Context().Done()
	}))
	l.connections.serve(server.Config)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 3 * maxStreams {
		all.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			if answer, err := server.Client().Do(r); err == nil {
				_ = answer.Body.Close()
			}
		})
	}
	for range 3 * maxStreams {
		<-here
	}
	if n := l.connections.count(); n < 3 {
		t.Errorf("%g connections have %d requests at a time", n, 3*maxStreams)
	}
	cancel()
	all.Wait()
}

func TestAcceptsGzip(t *testing.T) {
	for header, want := range map[string]bool{
		"": false, "gzip": true, "br, GZIP": true, "deflate;q=1, gzip; q=0.2": true, "gzip;q=0": false, "gzip;q=0.0": false, "*": true,
		"*;q=0": false, "identity": false, "gzip;q=x": false, "gzipped": false, "zstd": false,
	} {
		if got := AcceptsGzip(header); got != want {
			t.Errorf("%q: %t", header, got)
		}
	}
}

// TestCanonical has what clients ask for stay the same in canonical words.
func TestCanonical(t *testing.T) {
	for _, accept := range []string{
		"", "*/*", "text/plain;version=0.0.4", "text/html", "application/openmetrics-text", "application/openmetrics-text;version=0.0.1",
		"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8,text/plain;version=0.0.4;q=0.5",
		"text/plain;version=1.0.0;escaping=allow-utf-8",
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,text/plain;q=0.2",
	} {
		r := httptest.NewRequest(http.MethodHead, "/metrics?x=y", http.NoBody)
		r.Header.Set("Accept", accept)
		once := canonical(r)
		want := expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...)
		got := expfmt.NegotiateAccept(once.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...)
		if got != want || once.Method != http.MethodGet || once.URL.String() != "/metrics" || canonical(once).Header.Get("Accept") != once.Header.Get("Accept") {
			t.Errorf("%q: %s, want %s", accept, got, want)
		}
	}
}
