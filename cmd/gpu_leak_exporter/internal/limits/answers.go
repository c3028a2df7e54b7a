// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"golang.org/x/sync/singleflight"
)

const (
	// patience is how long a request waits for its answer to be begun: a Prometheus that waits for ten seconds has lost nothing then.
	patience = 8 * time.Second
	// maxAnswer bounds the size of an answer in bytes. Once those that are not sent yet have as many, no other one is begun.
	// maxReaders bounds how many clients are served: the system keeps up to 128 KiB for each.
	maxAnswer  = 32 << 20
	maxReaders = 256
	// Of a fleet the page is as large as there are GPUs: 2.6 KB for each, if it is not compressed.
	maxFleetAnswer = 128 << 20
	// sentAtOnce is how much the system has to take of an answer, in bytes, within sendTime of all of it, and within
	// stallTime where others may want the room: a client that reads makes it do so far more often, however busy the machine is.
	sentAtOnce = 16 << 10
	sendTime   = 15 * time.Second
	stallTime  = 2 * time.Second
	// roomInterval is how often it is looked whether there is room for another answer.
	roomInterval = 10 * time.Millisecond
)

// answers makes the answers to requests. An answer is made whole, then sent: a slow reader holds nothing but its bytes. A request
// for an answer that is being made gets the same bytes. The answers in the making, and those not sent yet, are bounded: a request waits
// for room, and a client has to go only if it does not read. Its methods may be called from any goroutine.
type answers struct {
	readers chan struct{} // one for each request
	slots   chan struct{} // one for each answer that is made
	pages   chan struct{} // as slots, for what people look at: one slot is left to the metrics
	refused *prometheus.CounterVec
	logger  *slog.Logger
	largest int // bytes
	making  singleflight.Group

	mu    sync.Mutex
	bytes int // of the answers that somebody wants
}

// answer is shared by all requests for it that come while it is made. A handler writes into it.
type answer struct {
	code    int
	head    http.Header
	body    []byte
	most    int // bytes of body
	err     error
	readers int // guarded by answers.mu
}

// Header implements http.ResponseWriter.
func (w *answer) Header() http.Header { return w.head }

// WriteHeader implements http.ResponseWriter.
func (w *answer) WriteHeader(code int) { w.code = cmp.Or(w.code, code) }

// Write implements http.ResponseWriter.
func (w *answer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.err != nil || len(w.body)+len(b) > w.most {
		w.err = errTooLarge
		return 0, w.err
	}
	w.body = append(w.body, b...)
	return len(b), nil
}

var (
	errBusy     = errors.New("too many requests at a time: try again later")
	errTooLarge = errors.New("the answer is too large")
	errNotMade  = errors.New("the answer could not be made")
)

// newAnswers returns answers that nobody has asked for yet.
func newAnswers(c Config, refused *prometheus.CounterVec) *answers {
	slots := cmp.Or(c.MaxRequests, math.MaxInt32)
	a := &answers{
		readers: make(chan struct{}, maxReaders), slots: make(chan struct{}, slots), pages: make(chan struct{}, max(1, slots-1)),
		refused: refused, logger: c.Logger, largest: maxAnswer,
	}
	if c.Fleet {
		a.largest = maxFleetAnswer
	}
	return a
}

// serve serves the answers of next to requests as clean leaves them. Each is made in one of each of the places.
func (a *answers) serve(next http.Handler, clean func(*http.Request) *http.Request, places ...chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		over := time.Now().Add(patience)
		ctx, cancel := context.WithDeadline(r.Context(), over)
		defer cancel()
		if !take(ctx, a.readers) {
			a.refuse(w, errBusy)
			return
		}
		defer func() { <-a.readers }()
		asked := clean(r)
		key := strings.Join([]string{asked.URL.Path, asked.Header.Get("Accept"), asked.Header.Get("Accept-Encoding")}, "\x00")
		shared, _, _ := a.making.Do(key, func() (any, error) { return a.make(next, asked, over, places), nil })
		made := shared.(*answer)
		a.count(made, 1)
		defer a.count(made, -1)
		if made.err != nil {
			a.refuse(w, made.err)
			return
		}
		a.send(w, made)
	})
}

// take takes one of the places, and reports whether there was one before ctx was done.
func take(ctx context.Context, places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// refuse says why there is no answer.
func (a *answers) refuse(w http.ResponseWriter, err error) {
	if errors.Is(err, errBusy) {
		a.refused.WithLabelValues(refusedBusy).Inc()
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	http.Error(w, err.Error()+"; the log says more", http.StatusInternalServerError)
}

// count counts the clients that want an answer, and the bytes of all answers that somebody wants.
func (a *answers) count(made *answer, clients int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if made.readers == 0 {
		a.bytes += cap(made.body)
	}
	if made.readers += clients; made.readers == 0 {
		a.bytes -= cap(made.body)
	}
}

// crowded reports whether there is no room for another answer.
func (a *answers) crowded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bytes > a.largest
}

// make has next write an answer in one of each of the places, once there is room for it. The request that it answers may end
// meanwhile: others may wait for the answer.
func (a *answers) make(next http.Handler, asked *http.Request, over time.Time, places []chan struct{}) (made *answer) {
	made = &answer{head: http.Header{}, most: a.largest}
	defer func() {
		if p := recover(); p != nil {
			a.logger.Error("An answer could not be made", "path", asked.URL.Path, "panic", p, "stack", string(debug.Stack()))
			made.err = errNotMade
		}
	}()
	ctx, cancel := context.WithDeadline(context.Background(), over)
	defer cancel()
	for _, slots := range places {
		if !take(ctx, slots) {
			made.err = errBusy
			return made
		}
		defer func() { <-slots }()
	}
	for look := time.Tick(roomInterval); a.crowded(); <-look {
		if ctx.Err() != nil {
			made.err = errBusy
			return made
		}
	}
	next.ServeHTTP(made, asked)
	if made.WriteHeader(http.StatusOK); made.err != nil {
		a.refused.WithLabelValues(refusedTooLarge).Inc()
		a.logger.Error("An answer is too large to be sent", "path", asked.URL.Path, "bytes", made.most)
	}
	return made
}

// send sends an answer. A client that does not read it has to go, and soon where others may have to wait for that.
func (a *answers) send(w http.ResponseWriter, made *answer) {
	maps.Copy(w.Header(), made.head)
	w.Header().Set("Content-Length", strconv.Itoa(len(made.body)))
	w.WriteHeader(made.code)
	control, over := http.NewResponseController(w), time.Now().Add(sendTime)
	for part := range slices.Chunk(made.body, sentAtOnce) {
		_ = control.SetWriteDeadline(a.deadline(over)) // without it that of the server holds
		if _, err := w.Write(part); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				a.refused.WithLabelValues(refusedSlowReader).Inc()
			}
			return // the client has gone, or has to; the server notices by itself
		}
	}
}

// deadline returns when the next part of an answer has to be taken, all of which has to be sent before over.
func (a *answers) deadline(over time.Time) time.Time {
	scarce := a.crowded() || 2*len(a.readers) > cap(a.readers)
	if soon := time.Now().Add(stallTime); scarce && soon.Before(over) {
		return soon
	}
	return over
}

// canonical returns a request for the same with one of few wordings, so that requests for the same get
// the same.
func canonical(r *http.Request) *http.Request {
	head := http.Header{}
	head.Set("Accept", string(expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...)))
	if AcceptsGzip(r.Header.Get("Accept-Encoding")) {
		head.Set("Accept-Encoding", "gzip")
	}
	return withHeader(r, head)
}

// bare returns a request for the same path, and nothing else.
func bare(r *http.Request) *http.Request { return withHeader(r, http.Header{}) }

// withHeader returns a request for the same path that says nothing else: others get its answer, too. promhttp would
// leave out all series but those of ?name[]=.
func withHeader(r *http.Request, head http.Header) *http.Request {
	c := r.WithContext(context.WithoutCancel(r.Context()))
	c.Method, c.Header, c.URL = http.MethodGet, head, &url.URL{Path: r.URL.Path}
	c.RequestURI, c.Form, c.PostForm = c.URL.RequestURI(), nil, nil
	return c
}

// AcceptsGzip reports whether a client accepts gzip, of the header Accept-Encoding of its request.
func AcceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		if name, weight, _ := strings.Cut(strings.ReplaceAll(part, " ", ""), ";"); strings.EqualFold(name, "gzip") {
			return strings.TrimRight(weight, ".0") != "q="
		}
	}
	return false
}
