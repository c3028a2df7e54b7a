// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
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
	// maxAnswer bounds the size of an answer, maxUnsent that of all that are not sent yet,
	// and maxReaders how many clients wait for or read one: the system keeps up to 128 KiB for
	// each.
	maxAnswer  = 32 << 20
	maxUnsent  = 64 << 20
	maxReaders = 256
)

// answers makes what is served. An answer is made whole, then sent, so that who reads slowly
// holds nothing but bytes; who asks for what is being made gets the same bytes; and what is
// made at a time and waits to be sent is bounded. Its methods may be called from any
// goroutine.
type answers struct {
	slots   chan struct{} // one for each that is made; nil: no limit
	refused *prometheus.CounterVec
	logger  *slog.Logger

	mu     sync.Mutex
	making map[string]*answer // by key
	unsent []*answer          // the oldest first
	bytes  int                // of unsent
	count  int                // of readers
	sizes  map[string]int     // of the last answer, by path
}

// answer is what all who asked for it at that time get.
type answer struct {
	done chan struct{} // closed once the following is there
	err  error
	code int
	head http.Header
	body []byte

	readers map[*reader]struct{} // who waits for it, or is being sent it; under answers.mu
}

// reader is one request for an answer.
type reader struct{ cut func() }

var (
	errBusy     = errors.New("too many requests at a time: try again later")
	errTooLarge = errors.New("the answer is too large")
)

// newAnswers returns answers of which most are made at a time, any number if that is 0.
func newAnswers(most int, refused *prometheus.CounterVec, logger *slog.Logger) *answers {
	a := &answers{refused: refused, logger: logger, making: map[string]*answer{}, sizes: map[string]int{}}
	if most > 0 {
		a.slots = make(chan struct{}, most)
	}
	return a
}

// of serves the answers of a handler that looks at nothing of a request but its method, its path and
// what it accepts.
func (a *answers) of(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rd := &reader{cut: func() { cutConnection(r.Context()) }}
		made := a.get(r, next, rd)
		defer a.leave(made, rd)
		if made.err != nil {
			a.refuse(w, made.err)
			return
		}
		maps.Copy(w.Header(), made.head)
		w.Header().Set("Content-Length", strconv.Itoa(len(made.body)))
		w.WriteHeader(made.code)
		_, _ = w.Write(made.body) // the client has gone, or was cut; the server notices by itself
	})
}

// refuse says why there is no answer.
func (a *answers) refuse(w http.ResponseWriter, err error) {
	if errors.Is(err, errBusy) {
		a.refused.WithLabelValues(refusedBusy).Inc()
		w.Header().Set("Retry-After", "1")
		plain(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	plain(w, http.StatusInternalServerError, err.Error()+"; the log says more")
}

// get returns the answer to a request: one that is being made, or a new one.
func (a *answers) get(r *http.Request, next http.Handler, rd *reader) *answer {
	r = canonical(r)
	key := strings.Join([]string{r.URL.Path, r.Header.Get("Accept"), r.Header.Get("Accept-Encoding")}, "\x00")
	a.mu.Lock()
	made, shared := a.making[key]
	if !shared {
		made = &answer{done: make(chan struct{}), readers: map[*reader]struct{}{}}
		a.making[key] = made
	}
	made.readers[rd] = struct{}{}
	a.count++
	a.mu.Unlock()
	if shared {
		<-made.done
		return made
	}
	made.err = errors.New("the answer could not be made") // if next panics
	defer a.finish(key, made)
	made.err = a.make(r, next, made)
	return made
}

// make has next fill the answer, once there is a slot.
func (a *answers) make(r *http.Request, next http.Handler, made *answer) error {
	if a.slots != nil {
		patience := time.NewTimer(slotPatience)
		defer patience.Stop()
		select {
		case a.slots <- struct{}{}:
			defer func() { <-a.slots }()
		case <-patience.C:
			return errBusy
		}
	}
	a.mu.Lock()
	size := a.sizes[r.URL.Path]
	a.mu.Unlock()
	w := &answerWriter{head: http.Header{}, body: make([]byte, 0, size+size/8)}
	next.ServeHTTP(w, r)
	if w.tooLarge {
		a.refused.WithLabelValues(refusedTooLarge).Inc()
		a.logger.Error("An answer is too large to be sent", "path", r.URL.Path, "bytes", maxAnswer)
		return errTooLarge
	}
	w.WriteHeader(http.StatusOK) // where nothing was written
	made.code, made.head, made.body = w.code, w.head, w.body
	return nil
}

// finish hands an answer to all who wait for it. The oldest ones that were not read are given up where
// there is too much.
func (a *answers) finish(key string, made *answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.making, key)
	path, _, _ := strings.Cut(key, "\x00")
	a.sizes[path] = len(made.body)
	a.unsent = append(a.unsent, made)
	a.bytes += len(made.body)
	close(made.done)
	for left := a.count; (a.bytes > maxUnsent || left > maxReaders) && len(a.unsent) > 1; {
		oldest := a.unsent[0]
		a.drop(oldest)
		left -= len(oldest.readers)
		a.refused.WithLabelValues(refusedSlowReader).Add(float64(len(oldest.readers)))
		for rd := range oldest.readers {
			rd.cut()
		}
	}
}

// leave notes that a request is over.
func (a *answers) leave(made *answer, rd *reader) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(made.readers, rd)
	a.count--
	if len(made.readers) == 0 {
		a.drop(made)
	}
}

// drop forgets an answer; mu is held.
func (a *answers) drop(made *answer) {
	if i := slices.Index(a.unsent, made); i >= 0 {
		a.unsent = slices.Delete(a.unsent, i, i+1)
		a.bytes -= len(made.body)
	}
}

// canonical returns a request for the same with one of few wordings, so that whoever asks for the same gets
// the same.
func canonical(r *http.Request) *http.Request {
	head := http.Header{}
	head.Set("Accept", string(expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...)))
	if acceptsGzip(r.Header.Get("Accept-Encoding")) {
		head.Set("Accept-Encoding", "gzip")
	}
	c := r.WithContext(context.WithoutCancel(r.Context())) // it is made for others, too
	c.Method, c.Header = http.MethodGet, head
	return c
}

// acceptsGzip reports whether a client accepts gzip, of an Accept-Encoding.
func acceptsGzip(header string) bool {
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
	if w.tooLarge = w.tooLarge || len(w.body)+len(b) > maxAnswer; w.tooLarge {
		return 0, errTooLarge
	}
	w.body = append(w.body, b...)
	return len(b), nil
}
