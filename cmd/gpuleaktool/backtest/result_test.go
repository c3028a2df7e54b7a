// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/history"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/detectorconfig"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

const gib = 1 << 30

// judged is what came of a GPU of 80 GiB with one sample a minute. used is its memory then in GiB; one below 0 could not be read,
// and none is at a minute of which the judge hears nothing.
func judged(t *testing.T, minutes int, used func(minute int) float64) *result {
	t.Helper()
	j := newJudge(detectorconfig.New(detector.DefaultConfig()), time.Minute, outputTable)
	m := &history.Memory{Info: gpu.Info{UUID: "GPU-0"}, Labels: history.Labels{"gpu": "0", "uuid": "GPU-0"}}
	for i := range minutes {
		at := time.Unix(1_772_323_200, 0).Add(time.Duration(i) * time.Minute).UTC()
		s := gpu.Sample{T: time.Duration(at.UnixNano()), Time: at, Memory: gpu.Memory{Total: gpu.Some(uint64(80 * gib))}}
		u := used(i)
		s.Memory.Used = gpu.Some(uint64(u * gib)).If(u >= 0)
		if u == silent {
			continue
		}
		g, err := j.of(m)
		testkit.Must(t, err)
		j.add(g, &s)
	}
	return j.end()[0]
}

// silent is the used memory of a minute without a sample.
const silent = -2

// TestEvents follows a leak of an hour, which began at minute 60, over readings that fail and gaps.
func TestEvents(t *testing.T) {
	leak := func(i int) float64 { return 20 + float64(max(0, i-60))/5 } // 205 MiB a minute: full after 5 hours
	for _, c := range []struct {
		name string
		used func(int) float64
		want []string // level, minutes from and to; - where it is open
	}{
		{"nothing", func(int) float64 { return 20 }, nil},
		{"a leak", leak, []string{"leak 68 -", "ticket 98 300", "page 303 -"}},
		{"a reading that fails ends nothing", func(i int) float64 {
			if i%50 == 0 {
				return -1
			}
			return leak(i)
		}, []string{"leak 68 -", "ticket 98 301", "page 304 -"}},
		{"nor do nine minutes without a sample", func(i int) float64 {
			if i > 150 && i < 159 {
				return silent
			}
			return leak(i)
		}, []string{"leak 68 -", "ticket 98 300", "page 303 -"}},
		{"after ten, the alert waits again", func(i int) float64 {
			if i > 150 && i < 160 {
				return silent
			}
			return leak(i)
		}, []string{"leak 68 -", "ticket 98 154", "ticket 190 300", "page 303 -"}},
		{"what is given back is over", func(i int) float64 {
			if i > 200 {
				return 20
			}
			return leak(i)
		}, []string{"leak 68 201", "ticket 98 201"}},
	} {
		r := judged(t, 350, c.used)
		var got []string
		for _, e := range r.events {
			minute := func(t time.Duration) int { return int((t - r.first).Minutes()) }
			to := strconv.Itoa(minute(e.To))
			if e.Open {
				to = "-"
			}
			got = append(got, fmt.Sprint(e.level, " ", minute(e.From), " ", to))
		}
		testkit.Equal(t, got, c.want, "%s", c.name)
	}
}

// TestWatched says of a memory that was never judged that this takes time, over a last reading that fails.
func TestWatched(t *testing.T) {
	r := judged(t, 4, func(minute int) float64 { return []float64{20, 20, 20, -1}[minute] })
	testkit.Equal(t, r.text, "A verdict takes some minutes.", "text")
}

// TestFires has an alert fire for as long as the mixin's does after its condition.
func TestFires(t *testing.T) {
	r := &result{current: map[eventKey]*event{{level: levelPage}: {held: time.Hour}}}
	if now := time.Hour + alertLasts; !r.fires(levelPage, now-1) || r.fires(levelPage, now) || r.fires(levelTicket, now-1) {
		t.Error("a page fires too long, not long enough or as a ticket")
	}
}

// TestMutedMemory has a process that leaks on a memory that a rule mutes: it is a leak all the same.
func TestMutedMemory(t *testing.T) {
	v := detector.Verdict{Judged: true, Leak: true}
	d := &sampler.DeviceState{Processes: []sampler.ProcessState{{Process: gpu.Process{Owner: &gpu.Owner{}}, Verdict: v}}}
	d.Judgement.Device.Muted = true
	m := &sampler.Domain{MemoryState: &d.MemoryState, Device: d}
	if !leaks(m) {
		t.Error("it is none")
	}
	if d.Processes[0].Verdict.Leak = false; leaks(m) {
		t.Error("a memory leaks on which nothing does")
	}
}

// readings are the samples of a memory.
type readings []gpu.Sample

func (list readings) Each(_ context.Context, take func(*history.Memory, *gpu.Sample) error) error {
	m := &history.Memory{}
	for i := range list {
		if err := take(m, &list[i]); err != nil {
			return err
		}
	}
	return nil
}

// TestSumOfProcesses has processes stand for the memory only where nothing tells it: not for a reading that failed.
func TestSumOfProcesses(t *testing.T) {
	for _, c := range []struct {
		used []gpu.Opt[uint64]
		want uint64 // samples
	}{
		{[]gpu.Opt[uint64]{{}, {}}, 2},
		{[]gpu.Opt[uint64]{gpu.Some(uint64(2 * gib)), {}}, 1},
	} {
		var list readings
		for i, used := range c.used {
			list = append(list, gpu.Sample{
				T: time.Duration(i+1) * time.Minute, Memory: gpu.Memory{Used: used},
				ProcessesKnown: true, Processes: []gpu.Process{{ID: gpu.ProcessID{PID: 1}, Used: gpu.Some(uint64(gib))}},
			})
		}
		b := &backtest{rules: detectorconfig.New(detector.DefaultConfig()), step: time.Minute}
		f, err := b.judge(t.Context(), list)
		if err != nil || f.results[0].samples != c.want {
			t.Errorf("%v: %d samples, want %d, %v", c.used, f.results[0].samples, c.want, err)
		}
	}
}

// TestDistinguish names each memory so that you can tell it from the others.
func TestDistinguish(t *testing.T) {
	list := []*result{
		{name: "GPU 0", labels: history.Labels{"gpu": "0", "UUID": "GPU-a"}},
		{name: "GPU 0", labels: history.Labels{"gpu": "0", "UUID": "GPU-b"}},
		{name: "GPU 1", labels: history.Labels{"UUID": "GPU-c", "GPU_I_ID": "1"}},
		{name: "GPU 1", labels: history.Labels{"UUID": "GPU-c", "GPU_I_ID": "2"}},
		{name: "GPU 2", labels: history.Labels{"gpu": "2", "cluster": "a"}},
		{name: "GPU 2", labels: history.Labels{"gpu": "2", "cluster": "b"}},
		{name: "GPU 3", labels: history.Labels{"UUID": "GPU-d"}},
	}
	distinguish(list)
	want := []string{
		"GPU 0 [UUID=GPU-a]", "GPU 0 [UUID=GPU-b]", "GPU 1 [GPU_I_ID=1]", "GPU 1 [GPU_I_ID=2]",
		"GPU 2 [cluster=a]", "GPU 2 [cluster=b]", "GPU 3",
	}
	for i, r := range list {
		testkit.Equal(t, r.name, want[i], "name")
	}
}

func TestHeadline(t *testing.T) {
	const hour = time.Hour
	r := func(set func(*result)) *result {
		r := &result{name: "GPU 0", last: hour, samples: 60, judged: true, capacity: detector.Of(80 * gib), current: map[eventKey]*event{}}
		set(r)
		return r
	}
	at := func(l level, minutes int) func(*result) {
		return func(r *result) {
			e := &event{eventKey: eventKey{level: l, alert: finding.Leak}}
			e.From, e.Open, e.since = time.Duration(minutes)*time.Minute, true, 0
			r.events, r.current[eventKey{level: levelLeak}] = append(r.events, e), e
		}
	}
	fine, young := r(func(*result) {}), r(func(r *result) { r.judged = false })
	for _, c := range []struct {
		list []*result
		want string
	}{
		{[]*result{fine}, "Would not have alerted. Judged: 1 of 1."},
		{[]*result{fine, young, fine}, "Would not have alerted. Judged: 2 of 3."},
		{
			[]*result{r(func(r *result) {
				r.events = []*event{{eventKey: eventKey{levelTicket, "GPUMemoryNearlyFull"}}}
			})}, "Would have ticketed at 1970-01-01 00:00 UTC for GPU 0: GPUMemoryNearlyFull.",
		},
		{
			[]*result{r(func(r *result) {
				r.events = []*event{{eventKey: eventKey{levelTicket, "GPUMemoryNearlyFull"}}}
				at(levelTicket, 10)(r)
			})}, "Would have ticketed at 1970-01-01 00:10 UTC for a leak on GPU 0, 50 min before the record ends.",
		},
		{[]*result{young}, "Would not have alerted. Judged: 0 of 1."},
		{[]*result{fine, r(at(levelLeak, 50))}, "Would not have alerted, only called it a leak at 1970-01-01 00:50 UTC for GPU 0, 10 min before the record ends."},
		{[]*result{r(at(levelTicket, 10)), r(at(levelPage, 40))}, "Would have paged at 1970-01-01 00:40 UTC for GPU 0, 20 min before the record ends."},
		{
			[]*result{r(func(r *result) { at(levelTicket, 30)(r); r.capacity, r.from = detector.Value{}, "a.csv" })},
			"Would have ticketed at 1970-01-01 00:30 UTC for a leak on a.csv: GPU 0, 30 min before the record ends. Without its capacity there is no forecast and no page: give --capacity.",
		},
	} {
		testkit.Equal(t, headline(c.list, time.UTC), c.want, "headline")
	}
}

// TestMostEvents lists no more than a reader wants to see.
func TestMostEvents(t *testing.T) {
	r := &result{}
	for range 25 {
		r.events = append(r.events, &event{eventKey: eventKey{level: levelTicket, alert: "A"}, text: "It \x1b[2J grows."})
	}
	list := r.lines(time.UTC)
	if len(list) != mostEvents+1 || list[mostEvents] != "… and 5 more" || list[0] != "1970-01-01 00:00 UTC  ticket  A: It \ufffd[2J grows. It lasted 0 s." {
		t.Errorf("%q", list)
	}
}

// endless is a text that has no end.
type endless string

func (e endless) Read(b []byte) (int, error) {
	return copy(b, strings.Repeat(string(e), 1+len(b)/len(e))), nil
}

// TestEndlessInput ends to read an input of which no line is of use.
func TestEndlessInput(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := &backtest{}
	if _, err := b.logs.Open("log", &ctxReader{ctx, endless("\n")}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// renderedRule is a rule of dashboards/alerts.yaml.
type renderedRule struct {
	Alert, Expr string
	For         model.Duration
	Keep        model.Duration `yaml:"keep_firing_for"`
	Labels      struct{ Severity string }
}

// TestAlertsAreTheMixins holds the thresholds here against the rendered rules.
func TestAlertsAreTheMixins(t *testing.T) {
	var file struct {
		Groups []struct{ Rules []renderedRule }
	}
	testkit.Must(t, yaml.Unmarshal([]byte(testkit.Read(t, "../../../dashboards/alerts.yaml")), &file))
	for _, c := range []struct {
		alert, severity string
		holds           string // in the expression
	}{
		{"GPUOutOfMemoryPredicted", "critical", fmt.Sprintf("[2m]) < %g or", detector.DefaultConfig().PageWithin.Seconds())},
		{"GPUOutOfMemoryPredicted", "critical", fmt.Sprintf("} < %g", detector.DefaultConfig().FillsWithin.Seconds())},
		{"GPUOutOfMemoryPredicted", "warning", fmt.Sprintf("[2m]) < %g", finding.TicketWithin.Seconds())},
		{"GPUMemoryLeakDetected", "warning", "[2m]) > 0"},
		{"GPUMemoryHeldByNobody", "warning", fmt.Sprintf("[2m]) > %d", finding.HeldTicket)},
	} {
		found := false
		for _, g := range file.Groups {
			for _, r := range g.Rules {
				found = found || r.Alert == c.alert && r.Labels.Severity == c.severity && strings.Contains(r.Expr, c.holds) &&
					r.For == 0 && 2*time.Minute+time.Duration(r.Keep) == alertLasts
			}
		}
		if !found {
			t.Errorf("the mixin has no %+v that fires at once and goes on for as long as the tool's", c)
		}
	}
}
