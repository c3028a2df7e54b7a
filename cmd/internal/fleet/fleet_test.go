// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakePrometheus answers from series, at the time of the test.
type fakePrometheus struct {
	v1.API
	series   map[string]func(t int64) (float64, bool) // by name and labels, in PromQL; t is in seconds
	every    int64                                    // seconds between two scrapes
	err      error
	value    model.Value
	more     model.Matrix // besides the series
	warnings v1.Warnings
	infos    v1.Infos
	// before may refuse a question about a span of time up to an end, which is zero for now; after may change an answer.
	before func(ctx context.Context, span time.Duration, end time.Time) error
	after  func(model.Matrix) model.Matrix

	mu sync.Mutex
}

// change changes what is answered.
func (f *fakePrometheus) change(how func(*fakePrometheus)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(f)
}

// fails returns why there is no answer about the time up to end.
func (f *fakePrometheus) fails(ctx context.Context, span time.Duration, end time.Time) error {
	f.mu.Lock()
	before, err := f.before, f.err
	f.mu.Unlock()
	if err == nil && before != nil {
		err = before(ctx, span, end)
	}
	return err
}

func (f *fakePrometheus) Query(ctx context.Context, query string, ts time.Time, _ ...v1.Option) (model.Value, v1.Warnings, v1.Infos, error) {
	var span time.Duration
	i := strings.LastIndexByte(query, '[')
	if i >= 0 {
		span, _ = time.ParseDuration(strings.TrimSuffix(query[i+1:], "]"))
	}
	if err := f.fails(ctx, span, ts); err != nil {
		return nil, nil, nil, err
	}
	now := time.Now()
	if ts.IsZero() {
		ts = now
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.value != nil {
		return f.value, f.warnings, f.infos, nil
	}
	if span == 0 {
		return model.Vector{{Value: 1}}, nil, nil, nil
	}
	var matrix model.Matrix
	for text, value := range f.series {
		metric, name := metricOf(text)
		if !strings.Contains(query[:i], name) {
			continue
		}
		s := &model.SampleStream{Metric: metric}
		for t := (ts.Add(-span).Unix()/f.every + 1) * f.every; t <= ts.Unix() && t <= now.Unix(); t += f.every {
			if v, ok := value(t); ok {
				s.Values = append(s.Values, model.SamplePair{Timestamp: model.TimeFromUnix(t), Value: model.SampleValue(v)})
			}
		}
		if len(s.Values) > 0 {
			matrix = append(matrix, s)
		}
	}
	if f.after != nil {
		matrix = f.after(matrix)
	}
	return append(matrix, f.more...), f.warnings, f.infos, nil
}

// QueryRange evaluates a query at each step, as if it were max by (UUID, instance).
func (f *fakePrometheus) QueryRange(ctx context.Context, _ string, r v1.Range, _ ...v1.Option) (model.Value, v1.Warnings, v1.Infos, error) {
	if err := f.fails(ctx, r.End.Sub(r.Start), r.End); err != nil {
		return nil, nil, nil, err
	}
	if r.End.Sub(r.Start)/r.Step > 11_000 { // web/api/v1/api.go of Prometheus
		return nil, nil, nil, &v1.Error{Type: v1.ErrBadData, Msg: "exceeded maximum resolution of 11,000 points per timeseries"}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var matrix model.Matrix
	for text, value := range f.series {
		metric, name := metricOf(text)
		if name != used {
			continue
		}
		s := &model.SampleStream{Metric: model.Metric{"UUID": metric["UUID"], "instance": metric["instance"]}}
		for t := r.Start; !t.After(r.End); t = t.Add(r.Step) {
			if v, ok := value(t.Unix()); ok {
				s.Values = append(s.Values, model.SamplePair{Timestamp: model.TimeFromUnix(t.Unix()), Value: model.SampleValue(v)})
			}
		}
		matrix = append(matrix, s)
	}
	return matrix, nil, nil, nil
}

// TestExpression evaluates a query that is no plain metric at each interval, and asks for the capacity by another one. It asks for no
// more steps at once than a Prometheus evaluates.
func TestExpression(t *testing.T) {
	for _, tt := range []struct {
		capacity model.Value
		history  time.Duration
	}{
		{&model.Scalar{Value: 90}, time.Hour},
		{model.Vector{{Value: 90}}, time.Hour},
		{model.Vector{{Metric: model.Metric{"UUID": "GPU-1"}, Value: 90}}, time.Hour},
		{&model.Scalar{Value: 90}, longestHistory},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := oneGPU()
			f.value = tt.capacity
			w := newWatch(t, f, func(c *Config) {
				c.Query, c.Capacity, c.History = "max by (UUID, instance) ("+used+")", "max by (UUID) (x)", tt.history
			})
			w.follow(t, 5*time.Minute)
			r := w.read["GPU-1"]
			r.inOrder(t, 15)
			last := r.samples[len(r.samples)-1]
			if n, want := len(r.samples), int(tt.history/(15*time.Second)); n < want+10 || n > want+21 || last.Memory.Total != gpu.Some(uint64(90<<20)) || last.Memory.Used.V != 5<<20 {
				t.Errorf("%d samples, want %d and a few; the last %+v", n, want, last.Memory)
			}
		})
	}
}

// metricOf reads name{a="b",c="d"}.
func metricOf(text string) (model.Metric, string) {
	name, rest, _ := strings.Cut(strings.TrimSuffix(text, "}"), "{")
	m := model.Metric{model.MetricNameLabel: model.LabelValue(name)}
	for pair := range strings.SplitSeq(rest, ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			m[model.LabelName(k)] = model.LabelValue(strings.Trim(v, `"`))
		}
	}
	return m, name
}

const used = "DCGM_FI_DEV_FB_USED"

func dcgm(name, instance, uuid, more string) string {
	return fmt.Sprintf(`%s{gpu="3",UUID="%s",instance="%s",modelName="NVIDIA H100"%s}`, name, uuid, instance, more)
}

func constant(v float64) func(int64) (float64, bool) {
	return func(int64) (float64, bool) { return v, true }
}

// watch runs a source on a fake Prometheus, and reads each GPU as the Sampler does.
type watch struct {
	source *Source
	log    bytes.Buffer
	read   map[string]*watched
	ctx    context.Context
}

// watched is what was read of one GPU.
type watched struct {
	samples []gpu.Sample
	info    gpu.Info
	errs    []error
}

func newWatch(t *testing.T, f *fakePrometheus, change func(*Config)) *watch {
	t.Helper()
	w := &watch{read: map[string]*watched{}, ctx: t.Context()}
	cfg := Config{
		Client: &promapi.Client{API: f}, Query: used, Interval: 15 * time.Second, MaxAge: 5 * time.Minute,
		Labels: []string{"instance"}, Logger: log.NewLogfmtLogger(log.NewSyncWriter(&w.log)),
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	w.source, err = New(cfg)
	testkit.Must(t, err)
	t.Cleanup(func() {
		if err := w.source.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
	return w
}

// follow reads for so long, and asks for the GPUs each second.
func (w *watch) follow(t *testing.T, d time.Duration) {
	t.Helper()
	for range int(d / time.Second) {
		devices, err := w.source.Devices(w.ctx)
		if err == nil {
			for _, d := range devices {
				info := d.Info()
				r := w.read[info.UUID]
				if r == nil {
					r = &watched{}
					w.read[info.UUID] = r
					go w.loop(d, r)
				}
				r.info = info
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
	}
}

func (w *watch) loop(d gpu.Device, r *watched) {
	for {
		if _, err := d.Wait(w.ctx); err != nil {
			return
		}
		s, err := d.Read(w.ctx)
		if err != nil {
			r.errs = append(r.errs, err)
			continue
		}
		r.samples = append(r.samples, s)
	}
}

// metric returns the value of one of the source's own series.
func (w *watch) metric(t *testing.T, name, label string) float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(w.source)
	families, err := r.Gather()
	testkit.Must(t, err)
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "gpu_leak_exporter_source_"+name && (label == "" || m.Label[0].GetValue() == label) {
				return m.Gauge.GetValue() + m.Counter.GetValue()
			}
		}
	}
	t.Fatalf("no series %s of %s", name, label)
	return 0
}

func (r *watched) times() (times []int64) {
	for _, s := range r.samples {
		times = append(times, int64(s.T/time.Second))
	}
	return times
}

// inOrder fails unless the samples of a GPU are one scrape apart and none is missing.
func (r *watched) inOrder(t *testing.T, every int64) {
	t.Helper()
	times := r.times()
	for i := 1; i < len(times); i++ {
		if times[i]-times[i-1] != every {
			t.Fatalf("sample %d at %d follows %d", i, times[i], times[i-1])
		}
	}
}

// TestHistoryThenLive reads the past at once, and goes on without a gap: each sample has the time
// of its scrape. The instance is an address, and becomes the node that a newer DCGM exporter names.
func TestHistoryThenLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now().Unix()
		f := &fakePrometheus{every: 15, series: map[string]func(int64) (float64, bool){
			dcgm(used, "10.0.0.1:9400", "GPU-1", `,hostname="node1",namespace="ml",pod="train-0",container="main"`): func(t int64) (float64, bool) { return 1000 + float64(t-begin)/15, true },
			dcgm("DCGM_FI_DEV_FB_FREE", "10.0.0.1:9400", "GPU-1", `,pod="train-0"`):                                 func(t int64) (float64, bool) { return 80000 - float64(t-begin)/15, true },
		}}
		w := newWatch(t, f, func(c *Config) { c.History, c.Labels = 2*time.Hour, []string{"instance", "node", "Hostname"} })
		w.follow(t, 10*time.Minute)
		r := w.read["GPU-1"]
		r.inOrder(t, 15)
		if n, want := len(r.samples), (2*60+10)*4; n < want-4 || n > want {
			t.Errorf("%d samples, want about %d", n, want)
		}
		last := r.samples[len(r.samples)-1]
		if last.More || !r.samples[0].More {
			t.Errorf("more follow: %t, %t", r.samples[0].More, last.More)
		}
		if last.Memory.Total != gpu.Some(uint64(81000<<20)) || last.Memory.Used.V+last.Memory.Free.V != 81000<<20 {
			t.Errorf("memory %+v", last.Memory)
		}
		testkit.Equal(t, *last.Owner, gpu.Owner{Namespace: "ml", Pod: "train-0", Container: "main"}, "owner")
		testkit.Equal(t, r.info, gpu.Info{Index: 3, UUID: "GPU-1", Name: "NVIDIA H100", Place: [gpu.MaxPlaceLabels]string{"node1", "", "node1"}}, "GPU")
	})
}

// TestOutage has a Prometheus that refuses to answer for a while, or takes each request and answers none: nothing is lost, and no GPU
// is called lost. GPUs that go away meanwhile, one with its node and one alone, are told silent and lost again after it, as there were
// samples of them meanwhile.
func TestOutage(t *testing.T) {
	refuses := func(context.Context, time.Duration, time.Time) error { return errUnavailable }
	hangs := func(ctx context.Context, _ time.Duration, _ time.Time) error { <-ctx.Done(); return ctx.Err() }
	for _, tt := range []struct {
		long   time.Duration
		fails  func(context.Context, time.Duration, time.Time) error
		reason string
	}{
		{2 * time.Minute, refuses, reasonQuery}, {10 * time.Minute, refuses, reasonQuery}, {time.Hour, refuses, reasonQuery}, {time.Hour, hangs, reasonTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			until := time.Now().Unix() + 7*60
			ends := func(t int64) (float64, bool) { return 5, t < until }
			f := oneGPU()
			f.series[dcgm(used, "b", "GPU-2", "")], f.series[dcgm(used, "a", "GPU-3", "")] = ends, ends
			w := newWatch(t, f, nil)
			w.follow(t, 5*time.Minute)
			f.change(func(f *fakePrometheus) { f.before = tt.fails })
			for past := time.Minute; past <= tt.long; past += time.Minute {
				w.follow(t, time.Minute)
				if _, err := w.source.Devices(w.ctx); past <= 4*time.Minute && err != nil || past > 8*time.Minute && err == nil {
					t.Fatalf("%s after its last answer: %v", past, err)
				}
			}
			if w.metric(t, "up", "") != 0 || w.metric(t, "problems_total", tt.reason) < 7 {
				t.Errorf("%s: %g", tt.long, w.metric(t, "problems_total", tt.reason))
			}
			testkit.Equal(t, strings.Count(w.log.String(), tt.reason), 1, "how often it is logged in %s", w.log.String())
			f.change(func(f *fakePrometheus) { f.before = nil })
			w.follow(t, time.Hour)
			r := w.read["GPU-1"]
			r.inOrder(t, 15)
			for _, err := range r.errs {
				if !errors.Is(err, gpu.ErrSilent) {
					t.Error(err)
				}
			}
			for uuid, silent := range map[string]bool{"GPU-2": true, "GPU-3": false} {
				if errs := w.read[uuid].errs; tt.long > 5*time.Minute && (len(errs) != 2 || errors.Is(errs[1], gpu.ErrSilent) != silent) {
					t.Errorf("%s, %s: %v", tt.long, uuid, errs)
				}
			}
			if w.metric(t, "up", "") != 1 || w.metric(t, "gpus", "fresh") != 1 {
				t.Error("it is not up again")
			}
		})
	}
}

// TestHistoryFails has a Prometheus that cannot tell of the past for a while: it is asked again, and nothing is lost,
// or told twice. What it never tells is left out.
func TestHistoryFails(t *testing.T) {
	for name, tt := range map[string]struct {
		fails   func(ago, passed time.Duration, failed int) bool
		refused time.Duration // how much of the past is never told
	}{
		"once":            {fails: func(ago, _ time.Duration, failed int) bool { return ago > time.Hour && failed < 1 }},
		"twice":           {fails: func(ago, _ time.Duration, failed int) bool { return ago > time.Hour && failed < 2 }},
		"for ten minutes": {fails: func(_, passed time.Duration, _ int) bool { return passed > 2*time.Second && passed < 10*time.Minute }},
		"after the past": {fails: func(ago, passed time.Duration, _ int) bool {
			return ago == 0 && passed > 4*time.Second && passed < 2*time.Minute
		}},
		"for ever": {refused: 2 * time.Hour, fails: func(ago, passed time.Duration, _ int) bool { return ago > 2*time.Hour+passed }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, failed := time.Now(), 0
				f := oneGPU()
				f.before = func(_ context.Context, _ time.Duration, end time.Time) error {
					passed, ago := time.Since(began), time.Duration(0)
					if !end.IsZero() {
						ago = time.Since(end)
					}
					// A request takes a second of the simulated time of synctest.
					if time.Sleep(time.Second); tt.fails(ago, passed, failed) {
						failed++
						return errUnavailable
					}
					return nil
				}
				w := newWatch(t, f, func(c *Config) { c.History = 4 * time.Hour })
				w.follow(t, 20*time.Minute)
				r := w.read["GPU-1"]
				r.inOrder(t, 15)
				if n, want := len(r.samples), int((4*time.Hour+20*time.Minute-tt.refused)/(15*time.Second)); n < want-12 || n > want+1 {
					t.Errorf("%d samples, want about %d", n, want)
				}
				testkit.Equal(t, w.metric(t, "problems_total", reasonHistory) > 0, tt.refused > 0, "whether parts are left out")
			})
		})
	}
}

// TestSilence tells a GPU that is missing among its neighbours from a node that is.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Unix() + 600
		ends := func(t int64) (float64, bool) { return 5, t < until }
		f := &fakePrometheus{every: 15, series: map[string]func(int64) (float64, bool){
			dcgm(used, "a", "GPU-1", ""): constant(5), dcgm(used, "a", "GPU-2", ""): ends, dcgm(used, "b", "GPU-3", ""): ends,
		}}
		w := newWatch(t, f, nil)
		w.follow(t, 20*time.Minute)
		testkit.Equal(t, len(w.read["GPU-1"].errs), 0, "errors of GPU-1, %v", w.read["GPU-1"].errs)
		if e := w.read["GPU-2"].errs; len(e) != 1 || errors.Is(e[0], gpu.ErrSilent) || !strings.Contains(e[0].Error(), "though it has of others there") {
			t.Errorf("GPU-2: %v", e)
		}
		if e := w.read["GPU-3"].errs; len(e) != 1 || !errors.Is(e[0], gpu.ErrSilent) {
			t.Errorf("GPU-3: %v", e)
		}
		if w.metric(t, "gpus", "lost") != 1 || w.metric(t, "gpus", "silent") != 1 {
			t.Error("they are not counted")
		}
		w.follow(t, 25*time.Hour)
		if devices, err := w.source.Devices(w.ctx); err != nil || len(devices) != 1 {
			t.Errorf("%d GPUs after a day: %v", len(devices), err)
		}
	})
}

// TestWrongAnswers has answers that are of no use, or in part: the rest is read, each is counted, and the log has the
// first of each kind.
func TestWrongAnswers(t *testing.T) {
	good := dcgm(used, "a", "GPU-1", "")
	for name, tt := range map[string]struct {
		reason string
		lost   bool // the whole answer
		change func(f *fakePrometheus)
	}{
		"NaN":      {reason: reasonValue, change: func(f *fakePrometheus) { f.series[dcgm(used, "a", "GPU-2", "")] = constant(math.NaN()) }},
		"infinite": {reason: reasonValue, change: func(f *fakePrometheus) { f.series[dcgm(used, "a", "GPU-2", "")] = constant(math.Inf(1)) }},
		"negative": {reason: reasonValue, change: func(f *fakePrometheus) { f.series[dcgm(used, "a", "GPU-2", "")] = constant(-1) }},
		"above capacity": {reason: reasonAbove, change: func(f *fakePrometheus) {
			f.series[dcgm(used, "a", "GPU-2", "")] = func(t int64) (float64, bool) { return float64(5 + t%60), true }
			f.series[dcgm("DCGM_FI_DEV_FB_TOTAL", "a", "GPU-2", "")] = constant(10)
		}},
		"duplicate":     {reason: reasonDuplicate, change: func(f *fakePrometheus) { f.series[dcgm(used, "a", "GPU-1", `,job="again"`)] = constant(6) }},
		"no uuid":       {reason: reasonLabels, change: func(f *fakePrometheus) { f.series[used+`{a="b"}`] = constant(5) }},
		"endless label": {reason: reasonLabels, change: func(f *fakePrometheus) { f.series[dcgm(used, "a", strings.Repeat("x", 129), "")] = constant(5) }},
		"no MIG ID":     {reason: reasonLabels, change: func(f *fakePrometheus) { f.series[dcgm(used, "a", "GPU-2", `,GPU_I_ID="x"`)] = constant(5) }},
		"warning":       {reason: reasonWarning, change: func(f *fakePrometheus) { f.warnings = v1.Warnings{"a store\nis down"} }},
		"info":          {reason: reasonInfo, change: func(f *fakePrometheus) { f.infos = v1.Infos{"this is no counter"} }},
		"scalar":        {reason: reasonType, lost: true, change: func(f *fakePrometheus) { f.value = &model.Scalar{} }},
		"null":          {reason: reasonType, lost: true, change: func(f *fakePrometheus) { f.value = model.Matrix{nil} }},
		"empty":         {reason: reasonNoResult, lost: true, change: func(f *fakePrometheus) { f.value = model.Matrix{} }},
		"too large":     {reason: reasonTooLarge, lost: true, change: func(f *fakePrometheus) { f.err = promapi.ErrAnswerTooLarge }},
		"slow":          {reason: reasonTimeout, lost: true, change: func(f *fakePrometheus) { f.err = context.DeadlineExceeded }},
		"back in time": {reason: reasonType, change: func(f *fakePrometheus) {
			f.more = model.Matrix{{Metric: model.Metric{"UUID": "GPU-2"}, Values: []model.SamplePair{{Timestamp: 5}, {Timestamp: 4}}}}
		}},
		"many instances": {reason: reasonTooMany, change: func(f *fakePrometheus) {
			for i := range 2 * maxInstances {
				f.series[dcgm(used, "a", "GPU-2", fmt.Sprintf(`,GPU_I_ID="%d"`, i))] = constant(5)
			}
		}},
		"histogram": {reason: reasonValue, lost: true, change: func(f *fakePrometheus) {
			f.value = model.Matrix{{Metric: model.Metric{"UUID": "GPU-2"}, Histograms: []model.SampleHistogramPair{{}}}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakePrometheus{every: 15, series: map[string]func(int64) (float64, bool){good: constant(5)}}
				w := newWatch(t, f, nil)
				w.follow(t, time.Minute)
				f.change(tt.change)
				w.follow(t, 3*time.Minute)
				if n := w.metric(t, "problems_total", tt.reason); n < 2 {
					t.Errorf("%g are counted", n)
				}
				if n := strings.Count(w.log.String(), "reason="+tt.reason+" "); n != 1 && !strings.Contains(w.log.String(), "reason="+tt.reason+"\n") {
					t.Errorf("logged %d times: %s", n, w.log.String())
				}
				testkit.Equal(t, w.metric(t, "up", "") != 1, tt.lost, "whether it is down")
				f.change(func(f *fakePrometheus) { f.value, f.err = nil, nil })
				w.follow(t, time.Minute)
				r := w.read["GPU-1"]
				r.inOrder(t, 15)
				for _, s := range r.samples {
					if s.Memory.Used.V != 5<<20 {
						t.Fatalf("%+v", s.Memory)
					}
				}
			})
		})
	}
}

// TestShards has each GPU in one of three shards.
func TestShards(t *testing.T) {
	seen := map[string]int{}
	for i := range 3 {
		synctest.Test(t, func(t *testing.T) {
			f := &fakePrometheus{every: 15, series: map[string]func(int64) (float64, bool){}}
			for k := range 60 {
				f.series[dcgm(used, "a", fmt.Sprintf("GPU-%d", k), "")] = constant(5)
			}
			w := newWatch(t, f, func(c *Config) { c.Shard = Shard{i, 3} })
			w.follow(t, 5*time.Second)
			if len(w.read) < 10 || len(w.read) > 30 {
				t.Errorf("shard %d has %d of 60", i, len(w.read))
			}
			for uuid := range w.read {
				seen[uuid]++
			}
		})
	}
	for uuid, n := range seen {
		testkit.Equal(t, n, 1, "how many shards have %s", uuid)
	}
	testkit.Equal(t, len(seen), 60, "GPUs")
}

// TestMIG joins the instances of one scrape to a sample. One has the number of another that is gone.
func TestMIG(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		change := time.Now().Unix() + 60
		f := &fakePrometheus{every: 15, series: map[string]func(int64) (float64, bool){
			dcgm(used, "a", "GPU-1", `,GPU_I_ID="2",GPU_I_PROFILE="1g.10gb",pod="x",namespace="n"`): constant(2),
			dcgm(used, "a", "GPU-1", `,GPU_I_ID="1",GPU_I_PROFILE="3g.40gb"`):                       func(at int64) (float64, bool) { return 1, at >= change },
			dcgm(used, "a", "GPU-1", `,GPU_I_ID="1",GPU_I_PROFILE="4g.40gb"`):                       func(at int64) (float64, bool) { return 4, at < change },
			dcgm("DCGM_FI_DEV_FB_FREE", "a", "GPU-1", `,GPU_I_ID="1",GPU_I_PROFILE="3g.40gb"`):      constant(9),
		}}
		w := newWatch(t, f, nil)
		w.follow(t, 3*time.Minute)
		r := w.read["GPU-1"]
		r.inOrder(t, 15)
		s := r.samples[len(r.samples)-1]
		if in := s.Instances; len(in) != 2 || s.Memory.Used.OK || s.Owner != nil || in[0].ID != 1 || in[0].Memory.Total != gpu.Some(uint64(10<<20)) ||
			in[0].Owner != nil || in[1].Memory.Used.V != 2<<20 || in[1].Profile != "1g.10gb" || in[1].Owner.Pod != "x" {
			t.Errorf("%+v", s)
		}
	})
}

// TestNvidiaGPUExporter has UUIDs without their prefix and no index.
func TestNvidiaGPUExporter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const uuid = "df6e7a7c-7314-46f8-abc4-b88b36dcf3ef"
		f := &fakePrometheus{every: 15, series: map[string]func(int64) (float64, bool){
			`nvidia_smi_memory_used_bytes{uuid="` + uuid + `",instance="a"}`:  constant(5),
			`nvidia_smi_memory_total_bytes{uuid="` + uuid + `",instance="a"}`: constant(50),
		}}
		w := newWatch(t, f, func(c *Config) { c.Query = `nvidia_smi_memory_used_bytes{instance!="b"}` })
		w.follow(t, time.Minute)
		r := w.read["GPU-"+uuid]
		if r == nil || r.info.IndexLabel() != "" || r.samples[0].Memory.Used.V != 5 || r.samples[0].Memory.Total.V != 50 {
			t.Errorf("%+v", r)
		}
	})
}
