// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package throttle

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// checkTime is how long bcrypt takes for one password.
const checkTime = 100 * time.Millisecond

// slowCheck checks passwords one after the other, as exporter-toolkit does. It has forgotten all that it knew.
func slowCheck(next http.Handler) http.Handler {
	one := make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, ok := r.BasicAuth(); ok {
			one <- struct{}{}
			time.Sleep(checkTime)
			<-one
			if password == "right" {
				next.ServeHTTP(w, r)
				return
			}
		}
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
	})
}

// ask sends a request, and returns the status of the answer.
func ask(h http.Handler, from, password string) int {
	r := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
	r.RemoteAddr = from
	if password != "" {
		r.SetBasicAuth("prometheus", password)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// guarded returns a handler that checks passwords behind a Throttle, and the Throttle.
func guarded() (http.Handler, *Throttle, *atomic.Int64) {
	var refused atomic.Int64
	t := New(func() { refused.Add(1) })
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return t.outer(slowCheck(passing(ok))), t, &refused
}

// TestAKnownPasswordGoesAhead has 64 clients guess all the time, from one address each, while a Prometheus scrapes from
// yet another one, and while it shares the address of one of them. It waits for one check beside its own at most.
func TestAKnownPasswordGoesAhead(t *testing.T) {
	for _, from := range []string{"10.0.0.1:1", "10.1.0.7:1"} {
		synctest.Test(t, func(t *testing.T) {
			h, _, _ := guarded()
			if code := ask(h, from, "right"); code != http.StatusOK {
				t.Fatalf("%d before the attack, want 200", code)
			}
			stop := make(chan struct{})
			var all sync.WaitGroup
			for n := range 64 {
				all.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						case <-time.After(checkTime):
							ask(h, fmt.Sprintf("10.1.0.%d:%d", n, i), fmt.Sprintf("wrong %d", i))
						}
					}
				})
			}
			for range 20 {
				began := time.Now()
				if code := ask(h, from, "right"); code != http.StatusOK {
					t.Errorf("%d, want 200", code)
				}
				if took := time.Since(began); took > 2*checkTime {
					t.Errorf("a scrape took %v", took)
				}
				time.Sleep(time.Second)
			}
			close(stop)
			all.Wait()
		})
	}
}

// TestWrongPasswords has an address send passwords, and tells what it gets for each.
func TestWrongPasswords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, refused := guarded()
		const wrong, none = http.StatusUnauthorized, http.StatusTooManyRequests
		for i, step := range []struct {
			after    time.Duration
			from     string
			password string
			want     int
		}{
			{0, "10.0.0.1:1", "", wrong}, // who says nothing guesses nothing
			{0, "10.0.0.1:1", "", wrong},
			{0, "10.0.0.1:1", "a", wrong},
			{0, "10.0.0.1:2", "b", none},
			{0, "10.0.0.1:2", "", wrong},
			{0, "10.0.0.2:1", "b", wrong}, // another address
			{time.Second, "10.0.0.1:3", "b", wrong},
			{time.Second, "10.0.0.1:3", "c", none}, // two seconds now
			{time.Second, "10.0.0.1:3", "right", http.StatusOK},
			{0, "10.0.0.1:3", "d", wrong}, // it has a new start
			{time.Second, "10.0.0.1:3", "e", wrong},
			{time.Hour, "10.0.0.1:3", "f", wrong},
			{time.Second, "10.0.0.1:3", "g", wrong}, // as if it were the first one
			{0, "[2001:db8::1]:1", "a", wrong},
			{0, "[2001:db8::2]:1", "b", none}, // the same subscriber
			{0, "[2001:db8:0:1::1]:1", "b", wrong},
			{0, "@", "a", wrong}, // an address without a number
			{0, "@", "b", none},
		} {
			time.Sleep(step.after)
			if got := ask(h, step.from, step.password); got != step.want {
				t.Errorf("step %d, %q from %s: %d, want %d", i, step.password, step.from, got, step.want)
			}
		}
		if refused.Load() != 4 {
			t.Errorf("%d were refused, want 4", refused.Load())
		}
	})
}

// TestAPasswordThatIsChanged is known until it is wrong once.
func TestAPasswordThatIsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, th, _ := guarded()
		digest := th.digest("x")
		th.right(digest, addressOf("10.0.0.1:1"))
		th.wrong(digest, addressOf("10.0.0.1:1"))
		if th.isKnown(digest) {
			t.Error("it is known still")
		}
		if code := ask(h, "10.0.0.1:1", "right"); code != http.StatusTooManyRequests {
			t.Errorf("%d, want 429", code)
		}
	})
}

// TestMemoryOfTheThrottle has more addresses and passwords than are remembered.
func TestMemoryOfTheThrottle(t *testing.T) {
	th := New(func() {})
	for i := range 5000 {
		th.wrong(th.digest(strconv.Itoa(i)), addressOf(fmt.Sprintf("10.0.%d.%d:1", i/256, i%256)))
		th.right(th.digest(strconv.Itoa(i)), addressOf("10.0.0.1:1"))
	}
	if len(th.failed.all) != maxAddresses || th.failed.order.Len() != maxAddresses || len(th.known.all) != maxKnown {
		t.Errorf("%d addresses and %d passwords", len(th.failed.all), len(th.known.all))
	}
	if !th.isKnown(th.digest("4999")) || th.isKnown(th.digest("1")) {
		t.Error("not the newest ones are remembered")
	}
}
