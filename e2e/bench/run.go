// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/rivals"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/workloads"
)

// job is a series to be judged.
type job struct {
	kind   workloads.Kind
	index  int
	length workloads.Length
}

// judged is what came of a job.
type judged struct {
	name   string
	ours   outcome
	rivals []outcome // in the order of rivalRules
	note   string    // for --verbose
	err    error
}

// runner runs jobs.
type runner struct {
	set             workloads.Set
	rivals, verbose bool
	minutely        bool // ours is asked as seldom as the rivals
}

// jobsFor returns n jobs of each kind.
func jobsFor(kinds []workloads.Kind, n int) []job {
	var jobs []job
	for _, k := range kinds {
		for i := range n {
			jobs = append(jobs, job{kind: k, index: i})
		}
	}
	return jobs
}

// parallel returns what f makes of 0 to n-1, in this order. It calls f as often
// at a time as there are processors.
func parallel[T any](n int, f func(i int) T) []T {
	results := make([]T, n)
	next := make(chan int)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := range next {
				results[i] = f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
	return results
}

// run runs the jobs and returns what came of each, in their order.
func (r *runner) run(jobs []job) ([]judged, error) {
	results := parallel(len(jobs), func(i int) judged {
		j := jobs[i]
		s := j.kind.New(r.set, j.index, j.length)
		return r.judge(s.Name, s, s.Capacity, truthOf(s), func(w *watch, o *outcome) string {
			return w.note(noted{fmt.Sprintf("%s/%d", s.Name, s.Index), s.Interval, s.Capacity, s.Rate}, o)
		})
	})
	return results, firstError(results)
}

// firstError returns the first error of the results.
func firstError(results []judged) error {
	for i := range results {
		if err := results[i].err; err != nil {
			return fmt.Errorf("%s: %w", results[i].name, err)
		}
	}
	return nil
}

// source gives samples: their time since the start and the used memory in bytes.
type source interface {
	Next() (t time.Duration, used int64, ok bool)
}

// judge runs one series past all rules.
func (r *runner) judge(name string, s source, capacity int64, is truth, note func(*watch, *outcome) string) judged {
	o, err := newOurs(detector.DefaultConfig())
	if err != nil {
		return judged{name: name, err: err}
	}
	w := &watch{ours: o, score: newScorer(is), minutely: r.minutely}
	if r.rivals {
		for _, rule := range rivalRules {
			w.others = append(w.others, &contender{rule: rule.make(), score: newScorer(is)})
		}
	}
	for t, used, ok := s.Next(); ok; t, used, ok = s.Next() {
		w.observe(t, used, capacity)
	}
	out := w.end()
	out.name = name
	if r.verbose {
		out.note = note(w, &out.ours)
	}
	return out
}

// contender is a rival on one series.
type contender struct {
	rule  rivals.Rule
	score *scorer
}

// watch is all rules on one series.
type watch struct {
	ours   *ours
	score  *scorer
	others []*contender
	minute time.Duration // the last one at which the rivals were asked

	minutely bool // ours is asked then only, too

	atFirst string // confidence and pattern at the first alarm
	peak    float64
	peakT   time.Duration
}

// observe takes a sample. Ours is asked after each one unless it is minutely, the
// rivals each minute.
func (w *watch) observe(t time.Duration, used, capacity int64) {
	minute := t.Truncate(time.Minute)
	ask := minute > w.minute
	w.minute = minute
	w.ours.Observe(t, used, capacity)
	if ask || !w.minutely {
		w.ask(t)
	}
	for _, c := range w.others {
		c.rule.Observe(t, used, capacity)
		if ask {
			leak, eta, lower, upper := c.rule.Verdict()
			c.score.observe(t, leak, eta, lower, upper)
		}
	}
}

// ask asks ours.
func (w *watch) ask(t time.Duration) {
	leak, eta, lower, upper := w.ours.Verdict()
	w.score.observe(t, leak, eta, lower, upper)
	confidence := w.ours.confidence()
	if w.atFirst == "" && leak {
		w.atFirst = fmt.Sprintf("%.2f %s", confidence, w.ours.last.Pattern)
	}
	// Before the onset it is no merit.
	if confidence > w.peak && t >= w.score.out.onset {
		w.peak, w.peakT = confidence, t
	}
}

func (w *watch) end() judged {
	out := judged{ours: w.score.end(), err: w.ours.err}
	for _, c := range w.others {
		out.rivals = append(out.rivals, c.score.end())
	}
	return out
}

// noted is what a note tells of a series besides its truth.
type noted struct {
	name     string
	interval time.Duration
	capacity int64
	rate     float64
}

// note returns a line for a leak that was missed or found early, and for a
// healthy series with an alarm; "" for another.
func (w *watch) note(s noted, o *outcome) string {
	var what string
	switch {
	case o.leak && o.early:
		what = "early"
	case o.leak && o.found == never:
		what = "missed"
	case !o.leak && len(o.begun) > 0:
		what = "false"
	default:
		return ""
	}
	v := &w.ours.last
	line := fmt.Sprintf("%-6s %s every %s of %s on %.0f GiB", what, s.name, s.interval, short(o.length), float64(s.capacity)/(1<<30))
	if o.leak {
		line += fmt.Sprintf(", %.2f MiB/s from %s", s.rate/(1<<20), short(o.onset))
		if o.oom > 0 {
			line += " to out-of-memory at " + short(o.oom)
		}
	}
	if o.first() != never {
		line += fmt.Sprintf("; %d alarms for %s, first at %s: %s", len(o.begun), short(o.alarmed), short(o.first()), w.atFirst)
	}
	return line + fmt.Sprintf("; peak %.2f at %s, end %.2f %s", w.peak, short(w.peakT), w.ours.confidence(), v.Pattern)
}

// short returns a duration in whole seconds.
func short(d time.Duration) string { return d.Round(time.Second).String() }
