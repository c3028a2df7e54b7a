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
)

const (
	// slotPatience is how long a request waits for its answer to be begun: a Prometheus that
	// waits for ten seconds has lost nothing then.
	slotPatience = 2 * time.Second
	// roomPatience is how long one waits for those to go before it that do not read.
	roomPatience = 8 * time.Second
	// maxAnswer bounds the size of an answer, maxUnsent that of all that are not sent yet,
	// and maxReaders how many clients are served one: the system keeps up to 128 KiB for
	// each. All but the last are in bytes.
	maxAnswer  = 32 << 20
	maxUnsent  = 64 << 20
	maxReaders = 256
	// Of a fleet the page is as large as there are GPUs: 2.6 KB for each, if it is not compressed.
	maxFleetAnswer = 128 << 20
	maxFleetUnsent = 256 << 20
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
	largest int // bytes of one
	unsent  int // bytes of all

	mu     sync.Mutex
	making map[string]*answer
	sizes  map[string]int // bytes of the last one, by key
	bytes  int            // of the answers that somebody wants
}

// answer is shared by all requests for it that come while it is made. A handler writes into it.
type answer struct {
	key  string
	code int
	head http.Header
	body []byte
	most int // bytes of body
	err  error
	made chan struct{} // closed once all of that is there

	// answers.mu guards what follows.
	readers int
	counted int // bytes in answers.bytes
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
		refused: refused, logger: c.Logger, largest: maxAnswer, unsent: maxUnsent, making: map[string]*answer{}, sizes: map[string]int{},
	}
	if c.Fleet {
		a.largest, a.unsent = maxFleetAnswer, maxFleetUnsent
	}
	return a
}

// serve serves the answers of next to requests as clean leaves them. Each is made in one of each of the places.
func (a *answers) serve(next http.Handler, clean func(*http.Request) *http.Request, places ...chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), roomPatience)
		defer cancel()
		stays := context.AfterFunc(r.Context(), cancel)
		if !take(ctx, a.readers) {
			a.refuse(w, errBusy)
			return
		}
		stays() // the request may end now: others may wait for its answer
		defer func() { <-a.readers }()
		asked := clean(r)
		key := strings.Join([]string{asked.URL.Path, asked.Header.Get("Accept"), asked.Header.Get("Accept-Encoding")}, "\x00")
		wanted, first := a.join(key)
		defer a.leave(wanted)
		if first {
			a.make(ctx, wanted, places, func() { next.ServeHTTP(wanted, asked) })
		}
		if <-wanted.made; wanted.err != nil {
			a.refuse(w, wanted.err)
			return
		}
		a.send(w, wanted)
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

// join returns the answer that is being made; first is whether the caller has to make it.
func (a *answers) join(key string) (wanted *answer, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	wanted = a.making[key]
	if first = wanted == nil; first {
		wanted = &answer{key: key, head: http.Header{}, most: a.largest, counted: a.sizes[key], made: make(chan struct{})}
		a.making[key] = wanted
	}
	wanted.readers++
	return wanted, first
}

// leave notes that a request is over.
func (a *answers) leave(wanted *answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if wanted.readers--; wanted.readers == 0 {
		a.bytes -= wanted.counted
	}
}

// make has fill write an answer, once there is room for one as large as the last.
func (a *answers) make(ctx context.Context, wanted *answer, places []chan struct{}, fill func()) {
	if a.reserve(ctx, wanted) {
		wanted.body = make([]byte, 0, wanted.counted)
		a.fill(wanted, places, fill)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes += cap(wanted.body) - wanted.counted
	wanted.counted = cap(wanted.body)
	if wanted.err == nil {
		a.sizes[wanted.key] = len(wanted.body)
	}
	delete(a.making, wanted.key)
	close(wanted.made)
}

// reserve waits until there is room for an answer, and counts it.
func (a *answers) reserve(ctx context.Context, wanted *answer) bool {
	for look := time.Tick(roomInterval); ; {
		a.mu.Lock()
		fits := a.bytes == 0 || a.bytes+wanted.counted <= a.unsent
		if fits {
			a.bytes += wanted.counted
		}
		a.mu.Unlock()
		if fits {
			return true
		}
		select {
		case <-look:
		case <-ctx.Done():
			wanted.err, wanted.counted = errBusy, 0
			return false
		}
	}
}

// fill has fill write an answer in one of each of the places.
func (a *answers) fill(wanted *answer, places []chan struct{}, fill func()) {
	path, _, _ := strings.Cut(wanted.key, "\x00")
	defer func() {
		if p := recover(); p != nil {
			a.logger.Error("An answer could not be made", "path", path, "panic", p, "stack", string(debug.Stack()))
			wanted.err = errNotMade
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), slotPatience)
	defer cancel()
	for _, slots := range places {
		if !take(ctx, slots) {
			wanted.err = errBusy
			return
		}
		defer func() { <-slots }()
	}
	fill()
	if wanted.WriteHeader(http.StatusOK); wanted.err != nil {
		a.refused.WithLabelValues(refusedTooLarge).Inc()
		a.logger.Error("An answer is too large to be sent", "path", path, "bytes", wanted.most)
	}
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
	a.mu.Lock()
	scarce := 2*a.bytes > a.unsent || 2*len(a.readers) > cap(a.readers)
	a.mu.Unlock()
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
