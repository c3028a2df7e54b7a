// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

const (
	mib = 1 << 20
	// traceLeast is how long a log must be for a leak to be put into it, and
	// traceLasts for how long it must be sampled then, until the memory is full: a gap of
	// more than traceGap hides any leak.
	traceLeast = 90 * time.Minute
	traceLasts = 40 * time.Minute
	traceGap   = 10 * time.Minute
)

// injected are the leaks that are put into real logs, from one third of their
// time on.
var injected = []struct {
	name   string
	steady float64                       // bytes a second, 0 for steps
	lost   func(seconds float64) float64 // MiB
}{
	{"0.1 MiB/s", 0.1 * mib, func(s float64) float64 { return 0.1 * s }},
	{"0.5 MiB/s", 0.5 * mib, func(s float64) float64 { return 0.5 * s }},
	{"2 MiB/s", 2 * mib, func(s float64) float64 { return 2 * s }},
	{"500 MiB each 1000 s", 0, func(s float64) float64 { return 500 * (1 + math.Floor(s/1000)) }},
}

// trace is a real log of one GPU or process.
type trace struct {
	name     string
	capacity int64
	samples  []traceSample
}

type traceSample struct {
	t    time.Duration // since the first one
	used int64
}

// replayed is a trace that is replayed, with a leak or without.
type replayed struct {
	*trace
	onset  time.Duration
	steady float64
	lost   func(seconds float64) float64
	n      int
}

// Next implements source.
func (r *replayed) Next() (t time.Duration, used int64, ok bool) {
	if r.n == len(r.samples) {
		return 0, 0, false
	}
	s := r.samples[r.n]
	r.n++
	if r.lost != nil && s.t >= r.onset {
		s.used += 2 * mib * int64(math.Ceil(r.lost((s.t-r.onset).Seconds())/2))
		if s.used > r.capacity {
			return 0, 0, false
		}
	}
	return s.t, s.used, true
}

// truth returns what is true of the replay, found by running a copy of it.
func (r *replayed) truth() truth {
	run := *r
	is := truth{leak: r.lost != nil, onset: r.onset, steadyBig: r.steady >= bigRate}
	for t, _, ok := run.Next(); ok; t, _, ok = run.Next() {
		is.length = t
	}
	is.fine = is.length/time.Duration(max(run.n-1, 1)) <= finely
	if is.leak && is.length < r.end() {
		is.oom = is.length
		is.half = is.onset + (is.oom-is.onset)/2
	}
	return is
}

// sampled returns for how long the leak is sampled, found by running a copy of the replay.
func (r *replayed) sampled() (sum time.Duration) {
	run, last := *r, r.onset
	for t, _, ok := run.Next(); ok; t, _, ok = run.Next() {
		if step := t - last; t > r.onset {
			last = t
			if step <= traceGap {
				sum += step
			}
		}
	}
	return sum
}

func (tr *trace) end() time.Duration { return tr.samples[len(tr.samples)-1].t }

// readTraces reads the logs in a directory: those of nvidia-smi, and histories in
// the text format of OpenMetrics.
func readTraces(dir string) ([]*trace, error) {
	var all []*trace
	for _, kind := range []struct {
		pattern string
		read    func(path string) ([]*trace, error)
	}{{"*.csv", readTrace}, {"*.om", readHistory}} {
		paths, err := filepath.Glob(filepath.Join(dir, kind.pattern))
		if err != nil {
			return nil, fmt.Errorf("list the logs: %w", err)
		}
		for _, path := range paths {
			of, err := kind.read(path)
			if err != nil {
				return nil, fmt.Errorf("read a log: %w", err)
			}
			all = append(all, of...)
		}
	}
	return all, nil
}

// readTrace reads the GPUs of a log of nvidia-smi.
func readTrace(path string) (all []*trace, err error) {
	src, err := gpu.NewReplay(path, gpu.ReplayOptions{Speed: math.Inf(1)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	devices, err := src.Devices(context.Background())
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		tr := &trace{name: filepath.Base(path)}
		if err := tr.read(d); err != nil {
			return nil, err
		}
		if len(tr.samples) > 1 {
			all = append(all, tr)
		}
	}
	return all, nil
}

// read reads a GPU to its end. Samples without a reading are passed over.
func (tr *trace) read(d gpu.Device) error {
	ctx := context.Background()
	var first time.Duration
	for {
		if _, err := d.Wait(ctx); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		s, err := d.Read(ctx)
		if err != nil {
			return err
		}
		if !s.Memory.Used.OK || !s.Memory.Total.OK {
			continue
		}
		if len(tr.samples) == 0 {
			first = s.T
		}
		tr.capacity = int64(s.Memory.Total.V)
		tr.samples = append(tr.samples, traceSample{s.T - first, int64(s.Memory.Used.V)})
	}
}

// benchTraces runs the logs, once as they are and once with each leak.
func benchTraces(w io.Writer, opt options) error {
	traces, err := readTraces(opt.traces)
	if err != nil {
		return err
	}
	if len(traces) == 0 {
		_, err := fmt.Fprintf(w, "No real logs: there are none in the directory of --traces.\n")
		return err
	}
	r := &runner{rivals: opt.rivals, verbose: opt.verbose}
	judgedAll := func(list []namedReplay) []judged {
		return parallel(len(list), func(i int) judged {
			p := list[i]
			return r.judge(p.name, p.replayed, p.capacity, p.truth(), func(w *watch, o *outcome) string { return traceNote(p, w, o) })
		})
	}
	healthy, leaks := judgedAll(replays(traces)), judgedAll(replaysWithLeaks(traces))
	if err := errors.Join(firstError(healthy), firstError(leaks)); err != nil {
		return err
	}
	writeNotes(w, slices.Concat(healthy, leaks))
	return writeTables(w, opt, traceTables(healthy, leaks, opt.rivals)...)
}

// namedReplay is a replay with the name of its leak.
type namedReplay struct {
	name string
	*replayed
}

func replays(traces []*trace) []namedReplay {
	var list []namedReplay
	for _, tr := range traces {
		list = append(list, namedReplay{tr.name, &replayed{trace: tr}})
	}
	return list
}

// replaysWithLeaks returns each leak in each log that is long enough and has as
// much memory free.
func replaysWithLeaks(traces []*trace) []namedReplay {
	var list []namedReplay
	for _, leak := range injected {
		for _, tr := range traces {
			p := namedReplay{leak.name, &replayed{trace: tr, onset: tr.end() / 3, steady: leak.steady, lost: leak.lost}}
			if tr.end() >= traceLeast && p.sampled() >= traceLasts {
				list = append(list, p)
			}
		}
	}
	return list
}

// traceTables returns the tables of the logs as they are and with leaks.
func traceTables(healthy, leaks []judged, withRivals bool) []*table {
	names, all := figuresOf(healthy, withRivals)
	asIs := compared(fmt.Sprintf("Real logs as they are: %d of %.0f h", all[0].healthy, all[0].hours), healthyRows, names, all)
	names, all = figuresOf(leaks, withRivals)
	title := fmt.Sprintf("Real logs of %s and more with a leak from one third on: %d", short(traceLeast), all[0].leaks)
	with := compared(title, slices.Concat(leakRows[1:], forecastRows), names, all)
	byLeak, _ := byKind(leaks)
	byLeak.title = "Real logs by leak"
	return []*table{asIs, with, byLeak}
}

// traceNote returns a line for a log with a false alarm or a leak not found.
func traceNote(p namedReplay, w *watch, o *outcome) string {
	switch {
	case o.leak && !o.early && o.found != never, !o.leak && len(o.begun) == 0:
		return ""
	}
	what := "false"
	if o.leak {
		what = "missed"
	}
	if o.early {
		what = "early"
	}
	line := fmt.Sprintf("%-6s %s of %s", what, p.trace.name, short(o.length))
	if o.leak {
		line += fmt.Sprintf(" with %s from %s", p.name, short(o.onset))
	}
	if o.first() != never {
		line += fmt.Sprintf("; %d alarms for %s, first at %s: %s", len(o.begun), short(o.alarmed), short(o.first()), w.atFirst)
	}
	return line + fmt.Sprintf("; peak %.2f at %s, end %.2f %s", w.peak, short(w.peakT), w.ours.confidence(), w.ours.last.Pattern)
}
