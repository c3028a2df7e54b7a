// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet is a source of GPUs that a Prometheus already knows: it asks for their used memory
// again and again, so that one exporter without any rights judges a whole fleet on which DCGM exporter
// or nvidia_gpu_exporter runs.
//
// One goroutine asks and spreads the answer over queues, one a GPU; a reader of a GPU waits for its queue
// and for nobody else. The time of a sample is the one that Prometheus has for it.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/prometheus/common/config"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

const (
	// MaxGPUs bounds the GPUs of one source. Each takes 50 KB; more are for another shard.
	MaxGPUs = 20_000
	// forgetAfter is how long a GPU is waited for of which there are no samples. As long as that the
	// Sampler remembers one of a driver.
	forgetAfter = 24 * time.Hour
	// ReasonDown is the reason of a gpu.DriverError while the Prometheus has no answer of use.
	ReasonDown = "prometheus_tells_of_no_gpu"
)

// Shard is a part of a fleet: those GPUs whose name has a hash that is Index modulo Of.
type Shard struct{ Index, Of int }

// Set sets the part of a fleet from INDEX/NUMBER, such as 0/3.
func (s *Shard) Set(text string) error {
	i, n, ok := strings.Cut(text, "/")
	index, err := strconv.Atoi(i)
	of, err2 := strconv.Atoi(n)
	if !ok || err != nil || err2 != nil || index < 0 || index >= of {
		return errors.New("must be INDEX/NUMBER, such as 0/3, 1/3 and 2/3 for three exporters")
	}
	*s = Shard{Index: index, Of: of}
	return nil
}

// has reports whether a GPU is in the shard.
func (s Shard) has(key string) bool {
	if s.Of <= 1 {
		return true
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // it never fails
	return h.Sum64()%uint64(s.Of) == uint64(s.Index)
}

// Config says what to ask for. Load returns one.
type Config struct {
	Client *promapi.Client
	// HTTP says how Open asks.
	HTTP config.HTTPClientConfig
	// Query is PromQL for the used memory, and Capacity for the memory that there is; "" where the metric of Query
	// is known.
	Query, Capacity string
	// Unit is how many bytes one is of either; 0 is to find out.
	Unit float64
	// Interval is the time between two requests.
	Interval time.Duration
	// History is how far back the first requests go; 0 is no history.
	History time.Duration
	// MaxAge is how old the last sample of a GPU may be before its verdict is withheld.
	MaxAge time.Duration
	// Labels are those that tell where a GPU is, such as instance. Info.Place has their values.
	Labels []string
	Shard  Shard
	// Logger takes what an operator should know, once each.
	Logger log.Logger

	file string // which --source.config named
}

// Source implements gpu.Source. It is also a prometheus.Collector that tells how it fares.
type Source struct {
	*metrics

	cfg      Config
	selector promapi.Selector // where known
	known    bool             // the metric, and so what bounds it
	plain    bool             // the query is of one metric: its samples have times of their own
	unit     float64
	calls    gpu.Calls // of a driver that is not there: always empty
	cancel   context.CancelFunc
	done     chan struct{}

	// queued are the rows in all queues, and drained is told when there are none.
	queued  atomic.Int64
	drained chan struct{}
	// learning is whether a history is being read: what comes of it is worth no verdict yet.
	learning atomic.Bool

	// listed are the GPUs; nil before the first answer. down is why there is none.
	listed atomic.Pointer[[]gpu.Device]
	down   atomic.Pointer[gpu.DriverError]

	// What follows belongs to the goroutine that asks.
	feeds    map[string]*feed
	newest   time.Duration // the time of the newest sample
	advanced time.Time     // when that was seen
	answered time.Time     // when the last answer came; zero before the first
	owed     *history      // the unread past; nil: none
	bounded  time.Time     // when the capacities were asked for
	wide     time.Time     // when samples as late as Config.MaxAge were looked for
	exported bool          // labels such as exported_pod have been seen
	changed  bool          // the GPUs are others than those that are listed
}

// Open returns a source of the GPUs that the Prometheus of an address knows.
func Open(address string, cfg Config) (*Source, error) {
	var err error
	cfg.Client, err = promapi.NewClient(promapi.ClientConfig{
		URL: address, HTTP: cfg.HTTP, HTTPFlag: "--source.config=" + cfg.file, Program: "gpu_leak_exporter",
	})
	if err != nil {
		return nil, err
	}
	return New(cfg)
}

// New returns a source that begins to ask at once. That nobody answers is no error.
func New(cfg Config) (*Source, error) {
	s := &Source{
		cfg: cfg, metrics: newMetrics(cfg.Logger), done: make(chan struct{}), drained: make(chan struct{}, 1),
		feeds: map[string]*feed{}, unit: cfg.Unit, advanced: time.Now(),
	}
	if err := s.understand(); err != nil {
		return nil, err
	}
	s.down.Store(&gpu.DriverError{Reason: "starting", Err: errors.New("the Prometheus has not answered yet")})
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go s.run(ctx)
	return s, nil
}

// understand finds out what the query asks for.
func (s *Source) understand() error {
	s.selector, s.known = promapi.ParseSelector(s.cfg.Query)
	name, plain := promapi.PlainMetric(s.cfg.Query)
	s.plain = plain
	if m := promapi.MemoryMetrics[name]; plain && (m.Scope == promapi.ScopeProcess || m.Scope == promapi.ScopeWorkload) {
		return fmt.Errorf("%s is a part of a memory: ask for that of a GPU, such as DCGM_FI_DEV_FB_USED", name)
	}
	if s.cfg.Capacity != "" {
		s.known = false
	}
	if s.unit == 0 {
		var names []string
		if plain {
			names = []string{name}
		}
		var err error
		if s.unit, err = promapi.UnitOfAll(0, names, s.cfg.Query); err != nil {
			return fmt.Errorf("%s does not tell its unit: give unit: B or unit: MiB in --source.config", s.cfg.Query)
		}
	}
	return nil
}

// Devices implements gpu.Source. It never blocks.
func (s *Source) Devices(ctx context.Context) ([]gpu.Device, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if why := s.down.Load(); why != nil {
		return nil, why
	}
	return slices.Clone(*s.listed.Load()), nil
}

// Watch implements gpu.Source: a Prometheus reports no events.
func (*Source) Watch(context.Context, func(gpu.Event)) error { return gpu.ErrNoEvents }

// Calls implements gpu.Source. There are none.
func (s *Source) Calls() *gpu.Calls { return &s.calls }

// Close implements gpu.Source. It ends the request that is under way.
func (s *Source) Close() error {
	s.cancel()
	<-s.done
	return nil
}

// run asks until ctx is done: first for the present, then for the history, then again and again.
func (s *Source) run(ctx context.Context) {
	defer close(s.done)
	ticker := time.NewTicker(s.cfg.Interval)
	defer ticker.Stop()
	for {
		began := time.Now()
		err := s.poll(ctx, began)
		if ctx.Err() != nil {
			return
		}
		s.asked(time.Since(began), err)
		if err != nil {
			s.note(reasonOf(err), 1, "The Prometheus cannot be asked, will try again", "err", err)
			if s.answered.IsZero() || time.Since(s.answered) > s.cfg.MaxAge {
				s.lose(err)
			}
		} else {
			s.answered = time.Now()
			s.review()
			s.down.Store(nil)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// lose notes that nothing is known of any GPU.
func (s *Source) lose(err error) {
	s.down.Store(&gpu.DriverError{Reason: ReasonDown, Err: err})
	for _, f := range s.feeds {
		f.turn(silent, gpu.ErrSilent)
	}
	s.count(s.feeds)
}

// now is the time of the newest sample, and what has passed since it came: a clock of this host that is off is none of
// a sample's age.
func (s *Source) now() time.Duration { return s.newest + time.Since(s.advanced) }

// review finds the GPUs that are silent. One whose neighbours have samples is lost. Of one that has none, or
// whose neighbours are silent, too, nothing is known: a node was taken away, or its exporter.
func (s *Source) review() {
	newest := map[string]time.Duration{} // by place
	for _, f := range s.feeds {
		newest[f.place] = max(newest[f.place], f.last)
	}
	now := s.now()
	for key, f := range s.feeds {
		switch age := now - f.last; {
		case age <= s.cfg.MaxAge:
			f.state = fresh
		case age > forgetAfter:
			f.empty()
			delete(s.feeds, key)
			s.changed = true
		case now-newest[f.place] > s.cfg.MaxAge:
			f.turn(silent, gpu.ErrSilent)
		default:
			f.turn(lost, fmt.Errorf("the Prometheus has no sample of it since %s, though it has of others there", wall(f.last).UTC().Format(time.RFC3339)))
		}
		f.forgetInstances(now - s.cfg.MaxAge)
	}
	silent := s.count(s.feeds)
	if silent > 0 {
		s.note(reasonSilent, 0, "GPUs have no new samples", "gpus", silent)
	}
	if s.changed || s.listed.Load() == nil {
		s.list()
	}
}

// list publishes the GPUs in order.
func (s *Source) list() {
	s.changed = false
	list := make([]gpu.Device, 0, len(s.feeds))
	for _, f := range s.feeds {
		if f.device != nil { // it had a sample
			list = append(list, f.device)
		}
	}
	slices.SortFunc(list, func(a, b gpu.Device) int {
		x, y := a.Info(), b.Info()
		return cmp.Or(cmp.Compare(x.Index, y.Index), cmp.Compare(x.UUID, y.UUID), slices.Compare(x.Place[:], y.Place[:]))
	})
	if before := s.listed.Swap(&list); before == nil || len(*before) != len(list) {
		level.Info(s.cfg.Logger).Log("msg", "GPUs of the Prometheus", "gpus", len(list))
	}
}

func wall(t time.Duration) time.Time { return time.Unix(0, int64(t)) }
