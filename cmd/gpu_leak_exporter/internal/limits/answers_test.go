// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testLimits(most int) *Limits {
	return New(Config{MaxRequests: most, Logger: slog.New(slog.DiscardHandler)})
}

// held returns the bytes of the answers that somebody wants.
func (a *answers) held() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bytes
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
		h := testLimits(1).Metrics(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			made.Add(1)
			time.Sleep(time.Second)
			w.Header().Set("Content-Type", "text/x")
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, r.Method+r.Header.Get("Accept-Encoding"))
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
		testkit.Equal(t, made.Load(), 1, "how often it is made")
	})
}

// TestMakerLeaves has the client leave for whom an answer is made: another one that waits for it gets it.
func TestMakerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := testLimits(1).Pages(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(2 * time.Second)
			if r.Context().Err() == nil {
				_, _ = io.WriteString(w, "whole")
			}
		}))
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		go h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
		synctest.Wait()
		if w := get(h, "/"); w.Code != http.StatusOK || w.Body.String() != "whole" {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	})
}

// TestAnswersWait has more be wanted than can be made at a time: those that wait get theirs in turn.
func TestAnswersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(1)
		h := l.Pages(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(900 * time.Millisecond) }))
		var all sync.WaitGroup
		var codes [600]atomic.Int32
		for n := range 11 {
			all.Go(func() { codes[get(h, fmt.Sprint("/", n)).Code].Add(1) })
		}
		all.Wait()
		if served, busy := codes[http.StatusOK].Load(), codes[http.StatusServiceUnavailable].Load(); served != 9 || busy != 2 || testutil.ToFloat64(l.refused.WithLabelValues(refusedBusy)) != 2 {
			t.Errorf("%d served, %d busy", served, busy)
		}
	})
}

// TestAnswersThatFail has a handler write too much, and one panic while another client waits for it.
func TestAnswersThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(1)
		large := l.Pages(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range maxAnswer>>20 + 1 {
				w.Write(make([]byte, 1<<20))
			}
		}))
		if w := get(large, "/"); w.Code != http.StatusInternalServerError || w.Body.Len() > 100 {
			t.Errorf("too large: %d, %d bytes", w.Code, w.Body.Len())
		}
		panics := l.Pages(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			time.Sleep(time.Second)
			panic("as a defect does")
		}))
		go get(panics, "/")
		synctest.Wait()
		testkit.Equal(t, get(panics, "/").Code, http.StatusInternalServerError, "status while it panics")
		synctest.Wait()
		if a := l.answers; a.held() != 0 || len(a.readers) != 0 {
			t.Errorf("%d bytes and %d readers are left", a.held(), len(a.readers))
		}
		fine := l.Pages(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		testkit.Equal(t, get(fine, "/").Code, http.StatusOK, "status after the panic")
		l.answers.readers = make(chan struct{})
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		fine.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
		if left, _ := ctx.Deadline(); time.Since(left) > 0 {
			t.Errorf("the request of a client waits for %s after it has left", time.Since(left))
		}
	})
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

// crowd is a server of answers of a size, and what its clients connect by.
type crowd struct {
	*Limits
	listener *pipes
	most     int // bytes that were not sent at once
}

func newCrowd(t *testing.T, size int) *crowd {
	t.Helper()
	c := &crowd{Limits: testLimits(1), listener: &pipes{make(chan net.Conn), make(chan struct{})}}
	server := c.Server(c.Metrics(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c.most = max(c.most, c.answers.held())
		w.Write(make([]byte, size))
	})))
	go func() { _ = server.Serve(c.listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return c
}

// ask sends a request on a connection that keeps nothing of the answer.
func (c *crowd) ask(t *testing.T) net.Conn {
	t.Helper()
	conn, end := net.Pipe()
	c.listener.accepted <- end
	if _, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// read reads an answer, a part at a time with a pause behind it, and returns how much it is.
func read(conn net.Conn, part int, pause time.Duration) (body int, err error) {
	defer conn.Close()
	slow := io.TeeReader(conn, writerFunc(func([]byte) { time.Sleep(pause) }))
	answer, err := http.ReadResponse(bufio.NewReaderSize(slow, part), nil)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	for b := make([]byte, part); err == nil; {
		var n int
		n, err = answer.Body.Read(b)
		body += n
	}
	if answer.StatusCode != http.StatusOK || !errors.Is(err, io.EOF) {
		return body, fmt.Errorf("%s: %w", answer.Status, err)
	}
	return body, nil
}

// writerFunc is called with what is written.
type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }

// TestWhoReads has a client read steadily while hundreds ask and read nothing, in a burst or again and again: it is not the one
// that goes, and who comes then gets its answer soon.
func TestWhoReads(t *testing.T) {
	for name, c := range map[string]struct {
		size   int
		others int
		again  bool
	}{
		"many clients, a burst":       {1 << 20, 3 * maxReaders, false},
		"many clients, all the time":  {1 << 20, maxReaders + 44, true},
		"many bytes, a burst":         {8 << 20, 40, false},
		"many bytes, all the time":    {8 << 20, 40, true},
		"answers as large as can be":  {maxAnswer - 1000, 6, true},
		"nobody else":                 {1 << 20, 0, false},
		"few others, who may stay on": {1 << 20, 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				crowd := newCrowd(t, c.size)
				var all sync.WaitGroup
				defer all.Wait()
				const steady = 10 * time.Second
				reads := crowd.ask(t)
				synctest.Wait() // it is served
				ctx, cancel := context.WithTimeout(t.Context(), 2*steady)
				defer cancel()
				for n := range c.others {
					all.Go(func() {
						// Each a bit later, so that each wants an answer of its own.
						for time.Sleep(time.Duration(n) * time.Millisecond); ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
							conn := crowd.ask(t)
							ended := context.AfterFunc(ctx, func() { _ = conn.Close() })
							if !c.again {
								<-ctx.Done()
							}
							for ctx.Err() == nil { // it reads nothing, and notices when it is cut off
								if _, err := io.WriteString(conn, "GET"); err != nil {
									break
								}
								time.Sleep(time.Second)
							}
							ended()
							_ = conn.Close()
						}
					})
				}
				part := min(c.size/1000, sentAtOnce)
				if n, err := read(reads, part, steady/time.Duration(c.size/part)); n != c.size || err != nil {
					t.Errorf("after %d of %d bytes: %v", n, c.size, err)
				}
				began := time.Now()
				if n, err := read(crowd.ask(t), c.size, 0); n != c.size || err != nil {
					t.Errorf("one that comes later: after %d of %d bytes: %v", n, c.size, err)
				}
				if took := time.Since(began); took > 2*stallTime {
					t.Errorf("one that comes later gets its answer after %s", took)
				}
				cancel()
				all.Wait()
				synctest.Wait()
				if crowd.most > maxAnswer || crowd.answers.held() != 0 || len(crowd.answers.readers) != 0 {
					t.Errorf("%d bytes were not sent, %d are left for %d clients", crowd.most, crowd.answers.held(), len(crowd.answers.readers))
				}
			})
		})
	}
}

// TestWhoDoesNotRead has a client stop to read: it may go on as long as nobody wants the room.
func TestWhoDoesNotRead(t *testing.T) {
	for after, want := range map[time.Duration]float64{sendTime - time.Second: 0, sendTime + time.Second: 1} {
		synctest.Test(t, func(t *testing.T) {
			const size = 1 << 20
			c := newCrowd(t, size)
			conn := c.ask(t)
			time.Sleep(after)
			if n, err := read(conn, size, 0); (n == size && err == nil) != (want == 0) {
				t.Errorf("after %s: %d bytes, %v", after, n, err)
			}
			synctest.Wait()
			testkit.Equal(t, testutil.ToFloat64(c.refused.WithLabelValues(refusedSlowReader)), want, "how many are counted after %s", after)
		})
	}
}

// slowWriter takes nothing of an answer before it is told to.
type slowWriter struct {
	*httptest.ResponseRecorder
	takes chan struct{}
}

func (w slowWriter) Write(b []byte) (int, error) { <-w.takes; return w.ResponseRecorder.Write(b) }

// TestSharedAnswer has two clients be sent the same answer, one of them slowly. It is counted once, until both have it, and its
// memory does not serve for other answers.
func TestSharedAnswer(t *testing.T) {
	for _, slowIsFirst := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			const size = 10 * sentAtOnce
			content := byte(0)
			l := testLimits(1)
			h := l.Pages(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(time.Second)
				content++
				w.Write(bytes.Repeat([]byte{content}, size))
			}))
			slow := slowWriter{httptest.NewRecorder(), make(chan struct{})}
			clients := []http.ResponseWriter{httptest.NewRecorder(), slow}
			if slowIsFirst {
				slices.Reverse(clients)
			}
			for _, w := range clients {
				go h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
				synctest.Wait()
			}
			for range 20 {
				get(h, "/")
			}
			if n := l.answers.held(); n < size || n >= 2*size {
				t.Errorf("%d bytes are counted", n)
			}
			close(slow.takes)
			synctest.Wait()
			if got := slow.Body.Bytes(); !bytes.Equal(got, bytes.Repeat([]byte{1}, size)) {
				t.Error("a client is sent another one's answer")
			}
			testkit.Equal(t, l.answers.held(), 0, "bytes that are held")
		})
	}
}

// TestMetricsHaveASlot has pages be made for longer than a scrape waits.
func TestMetricsHaveASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits(2)
		long := l.Pages(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Minute) }))
		var all sync.WaitGroup
		defer all.Wait()
		for _, path := range []string{"/a", "/b", "/c"} {
			all.Go(func() { get(long, path) })
		}
		synctest.Wait()
		metrics := l.Metrics(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		testkit.Equal(t, get(metrics, "/metrics").Code, http.StatusOK, "status")
	})
}

func TestAcceptsGzip(t *testing.T) {
	for header, want := range map[string]bool{
		"": false, "gzip": true, "br, GZIP": true, "deflate;q=1, gzip; q=0.2": true, "gzip;q=0": false, "gzip;q=0.00": false, "identity": false, "gzipped": false,
	} {
		testkit.Equal(t, AcceptsGzip(header), want, "%q", header)
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
