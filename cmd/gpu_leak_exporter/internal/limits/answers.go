// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"golang.org/x/sync/singleflight"
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

// answers makes what is served. An answer is made whole, then sent, so that who reads slowly
// holds nothing but bytes; who asks for what is being made gets the same bytes; and what is
// made at a time and waits to be sent is bounded. Who comes waits for room. Who is sent an answer has to go
// only if it does not read. Its methods may be called from any goroutine.
type answers struct {
	readers chan struct{} // one for each request
	slots   chan struct{} // one for each that is made; nil: no limit
	pages   chan struct{} // as slots, for what people look at: one slot is left to the metrics
	refused *prometheus.CounterVec
	logger  *slog.Logger
	largest int   // bytes of one
	unsent  int64 // bytes of all

	making singleflight.Group
	bytes  atomic.Int64 // of the answers that somebody wants
	sizes  sync.Map     // of the last answer in bytes, an int64 by key
}

// answer is what all who asked for it at that time get.
type answer struct {
	code int
	head http.Header
	body []byte

	bytes  int64        // that are counted for it, while it has readers
	wanted atomic.Int64 // by how many requests
}

// bodies are kept for their memory, which most of the time of sending a scrape would go into.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// bodyFor returns an empty body that has room for so many bytes, and not for many more: all of it counts as unsent.
func bodyFor(size int) []byte {
	if body := *bodies.Get().(*[]byte); size <= cap(body) && cap(body) <= 2*size {
		return body[:0]
	}
	return make([]byte, 0, size+size/8)
}

var (
	errBusy     = errors.New("too many requests at a time: try again later")
	errTooLarge = errors.New("the answer is too large")
	errNotMade  = errors.New("the answer could not be made")
)

// newAnswers returns answers that nobody has asked for yet.
func newAnswers(c Config, refused *prometheus.CounterVec) *answers {
	a := &answers{readers: make(chan struct{}, maxReaders), refused: refused, logger: c.Logger, largest: maxAnswer, unsent: maxUnsent}
	if c.Fleet {
		a.largest, a.unsent = maxFleetAnswer, maxFleetUnsent
	}
	if c.MaxRequests > 0 {
		a.slots = make(chan struct{}, c.MaxRequests)
		a.pages = make(chan struct{}, max(1, c.MaxRequests-1))
	}
	return a
}

// serve serves the answers of next to requests as clean leaves them. An answer is made in one of the places, too, if they
// are not nil.
func (a *answers) serve(next http.Handler, clean func(*http.Request) *http.Request, places chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		patience := time.After(roomPatience) // in all
		if !take(a.readers, patience, r.Context().Done()) {
			a.refuse(w, errBusy)
			return
		}
		defer func() { <-a.readers }()
		asked := clean(r)
		key := strings.Join([]string{asked.URL.Path, asked.Header.Get("Accept"), asked.Header.Get("Accept-Encoding")}, "\x00")
		first := false
		result, err, shared := a.making.Do(key, func() (any, error) {
			first = true
			return a.make(asked, key, next, places, patience)
		})
		if err != nil {
			a.refuse(w, err)
			return
		}
		made := result.(*answer)
		if !first && made.wanted.Add(1) == 1 { // the others have theirs already
			a.bytes.Add(made.bytes)
		}
		whole := false
		defer func() { a.leave(made, shared || !whole) }()
		whole = a.send(w, made)
	})
}

// take takes one of the places, and reports whether there was one before that was over.
func take(places chan struct{}, over <-chan time.Time, gone <-chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	case <-over:
	case <-gone:
	}
	return false
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

// make has next fill an answer, once there is room for it and a slot. The request that it is made for wants it.
func (a *answers) make(r *http.Request, key string, next http.Handler, places chan struct{}, room <-chan time.Time) (made *answer, err error) {
	last, _ := a.sizes.Load(key)
	size, _ := last.(int64)
	if !a.reserve(size, room) {
		return nil, errBusy
	}
	defer func() {
		if p := recover(); p != nil {
			a.logger.Error("An answer could not be made", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			err = errNotMade
		}
		if err != nil {
			a.bytes.Add(-size)
		}
	}()
	patience := time.After(slotPatience)
	for _, slots := range []chan struct{}{places, a.slots} {
		if slots == nil {
			continue
		}
		if !take(slots, patience, nil) {
			return nil, errBusy
		}
		defer func() { <-slots }()
	}
	w := &answerWriter{head: http.Header{}, most: a.largest, body: bodyFor(int(size))}
	next.ServeHTTP(w, r)
	if w.tooLarge {
		a.refused.WithLabelValues(refusedTooLarge).Inc()
		a.logger.Error("An answer is too large to be sent", "path", r.URL.Path, "bytes", a.largest)
		return nil, errTooLarge
	}
	w.WriteHeader(http.StatusOK) // where nothing was written
	made = &answer{code: w.code, head: w.head, body: w.body, bytes: int64(cap(w.body))}
	made.wanted.Store(1)
	a.bytes.Add(made.bytes - size)
	a.sizes.Store(key, int64(len(w.body)))
	return made, nil
}

// reserve waits until there is room for so many bytes, and counts them.
func (a *answers) reserve(bytes int64, over <-chan time.Time) bool {
	look := time.NewTicker(roomInterval)
	defer look.Stop()
	for {
		all := a.bytes.Load()
		for all == 0 || all+bytes <= a.unsent {
			if a.bytes.CompareAndSwap(all, all+bytes) {
				return true
			}
			all = a.bytes.Load()
		}
		select {
		case <-look.C:
		case <-over:
			return false
		}
	}
}

// send sends an answer, and reports whether all of it was written. Who does not read it has to go, and soon where
// others may have to wait for that.
func (a *answers) send(w http.ResponseWriter, made *answer) bool {
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
			return false // the client has gone, or has to; the server notices by itself
		}
	}
	return true
}

// deadline returns when the next part of an answer has to be taken, all of which has to be sent before over.
func (a *answers) deadline(over time.Time) time.Time {
	scarce := 2*a.bytes.Load() > a.unsent || 2*len(a.readers) > cap(a.readers)
	if soon := time.Now().Add(stallTime); scarce && soon.Before(over) {
		return soon
	}
	return over
}

// leave notes that a request is over. The memory of an answer that was shared may be what another client is sent, and a
// writing of HTTP/2 that has failed may still read its part: such memory is not used again.
func (a *answers) leave(made *answer, inUse bool) {
	if made.wanted.Add(-1) == 0 {
		a.bytes.Add(-made.bytes)
	}
	if !inUse {
		bodies.Put(&made.body)
	}
}

// canonical returns a request for the same with one of few wordings, so that whoever asks for the same gets
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
		name, weight, _ := strings.Cut(part, ";")
		if name = strings.TrimSpace(name); !strings.EqualFold(name, "gzip") && name != "*" {
			continue
		}
		_, weight, weighted := strings.Cut(strings.ReplaceAll(weight, " ", ""), "q=")
		q, err := strconv.ParseFloat(weight, 64)
		return !weighted || (err == nil && q > 0)
	}
	return false
}

// answerWriter keeps what a handler writes.
type answerWriter struct {
	head     http.Header
	code     int
	body     []byte
	most     int // bytes
	tooLarge bool
}

func (w *answerWriter) Header() http.Header { return w.head }

func (w *answerWriter) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
}

func (w *answerWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.tooLarge = w.tooLarge || len(w.body)+len(b) > w.most; w.tooLarge {
		return 0, errTooLarge
	}
	w.body = append(w.body, b...)
	return len(b), nil
}
