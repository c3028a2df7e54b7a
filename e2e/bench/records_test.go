// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/replay"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// pace is by how much the recordings are stretched: their programs leak in minutes what others do in hours.
const pace = 30

// foretold is what was said of a recording at a moment, in seconds of the recording.
type foretold struct{ at, eta, lower, upper float64 }

// shift is what is known of a recording, and what was said. Times are in seconds of the Unix epoch, rates in bytes a second.
type shift struct {
	truth     map[string]float64 // the rate of each program that leaks
	healthy   map[string]bool
	rates     map[string]float64 // the last rate that was said of each program
	oom       float64            // the first out-of-memory, 0 for none
	forecasts []foretold         // of the device, while it leaks
}

// TestRecordings holds rates and forecasts against what programs on real GPUs say that they leak.
func TestRecordings(t *testing.T) {
	for _, c := range []struct {
		name     string
		forecast bool // it is held against the first out-of-memory
	}{
		{"h200/shift-a", true},
		{"h200/shift-b", false}, // the allocators of its programs take large steps near the end
		{"h100/shift-a", false}, // no program says when it was out of memory
	} {
		t.Run(c.name, func(t *testing.T) {
			r := replayed(t, filepath.Join("..", "hardware", "records", filepath.FromSlash(c.name)))
			for name, want := range r.truth {
				got := r.rates[name]
				if math.Abs(got/want-1) > 0.02 {
					t.Errorf("%s leaks %.0f bytes a second, %.3f of them were told", name, want, got/want)
				}
			}
			for name := range r.rates {
				if r.healthy[name] {
					t.Errorf("%s is healthy, and was told to leak", name)
				}
			}
			if len(r.truth) < 4 || len(r.forecasts) == 0 {
				t.Fatalf("%d programs leak, and %d forecasts were told", len(r.truth), len(r.forecasts))
			}
			if !c.forecast {
				return
			}
			half := (r.forecasts[0].at + r.oom) / 2
			for _, f := range r.forecasts {
				if f.at < half {
					continue
				}
				left := r.oom - f.at
				if math.Abs(f.eta/left-1) > 0.05 || f.lower > left || f.upper < left || f.upper-f.lower > 2*left {
					t.Errorf("%.1f s before the end: %.1f (%.1f to %.1f) were told", left, f.eta, f.lower, f.upper)
				}
				break
			}
		})
	}
}

// replayed shows a recording to the detector.
func replayed(t *testing.T, path string) *shift {
	t.Helper()
	r := &shift{truth: map[string]float64{}, healthy: map[string]bool{}, rates: map[string]float64{}}
	r.read(t, path+".truth.json")
	file, err := os.Open(path + ".rec.gz")
	must(t, err)
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	must(t, err)
	from, err := replay.NewReader(path, unpacked, nil)
	must(t, err)
	d, err := detector.NewDomain(func(detector.Subject[gpu.ProcessID]) detector.Config { return detector.DefaultConfig() })
	must(t, err)
	var frames finding.Frames
	var first time.Duration
	began := 0.0
	for {
		info, s, err := from.Next()
		if errors.Is(err, io.EOF) {
			return r
		}
		must(t, err)
		if first == 0 {
			first, began = s.T, float64(s.Time.UnixNano())/1e9
		}
		now := began + (s.T - first).Seconds()
		s.T = first + pace*(s.T-first)
		frame, _ := frames.Device(*info, s)
		must(t, d.Observe(frame))
		r.note(now, s, d.Judgement())
	}
}

// note notes what was said after a sample.
func (r *shift) note(now float64, s *gpu.Sample, j *detector.Judgement[gpu.ProcessID]) {
	for i := range j.Members {
		m := &j.Members[i]
		for _, p := range s.Processes {
			if m.Leak && p.ID == m.Key && p.Owner != nil {
				r.rates[p.Owner.Process] = m.Rate.V * pace
			}
		}
	}
	if v := &j.Device; v.Leak && j.Evidence != detector.EvidenceNone {
		r.forecasts = append(r.forecasts, foretold{now, v.SecondsToOOM.V / pace, v.Lower.V / pace, v.Upper.V / pace})
	}
}

// read reads what the programs say.
func (r *shift) read(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	var programs map[string][]struct {
		Time  float64
		Event string
		Leaks bool
		Rate  float64
	}
	must(t, json.Unmarshal(text, &programs))
	for name, events := range programs {
		for _, e := range events {
			switch {
			case e.Event == "start" && e.Leaks:
				r.truth[name+".py"] = e.Rate
			case e.Event == "start":
				r.healthy[name+".py"] = true
			case e.Event == "child":
				// It leaks by processes that it starts and forgets. None of them grows, and no pod or job here
				// holds them together: as of today nobody tells of them by name.
				delete(r.truth, name+".py")
			case e.Event == "oom" && (r.oom == 0 || e.Time < r.oom):
				r.oom = e.Time
			}
		}
	}
}
