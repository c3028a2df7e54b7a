// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/replay"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// historyCapacity is what the GPUs of a history of used memory are taken to have, which it does not tell. The pods of the public
// one hold up to 47 GiB.
const historyCapacity = 80 << 30

// benchTraces writes how many of the real logs had an alarm. What of them leaks nobody knows.
func benchTraces(w *strings.Builder, opt options) error {
	logs, err := readTraces(opt.traces)
	if err != nil {
		return err
	}
	if len(logs) == 0 {
		w.WriteString("No real logs: there are none in the directory of --traces.\n")
		return nil
	}
	opt.seeds = seedRange{1, 1}
	opt.unprobed = true
	results, err := run(opt, logs, opt.judges)
	if err != nil {
		return err
	}
	for i := range results {
		if opt.verbose && results[i].outcomes[0].alarmed {
			fmt.Fprintf(w, "alarm on %s\n", logs[i].Name)
		}
	}
	all := sum(opt, results)
	compared(fmt.Sprintf("Real logs: %d, %.0f h", len(logs), all[0].freeHours), []row{
		{"ever alarmed", false, func(f *figures) string { return share(f.alarmed[fleet.Healthy], f.scenarios[fleet.Healthy]) }},
		{"time in alarm", false, func(f *figures) string { return percent(f.alarmedHours / f.memoryHours) }},
		{"pages", false, func(f *figures) string { return strconv.Itoa(f.pages) }},
		{"tickets", false, func(f *figures) string { return strconv.Itoa(f.tickets) }},
	}, opt.names(), all).write(w)
	return nil
}

// trace is a real log of one GPU.
type trace struct {
	name    string
	info    gpu.Info
	samples []gpu.Sample
}

// traces are those of one file.
type traces []*trace

// of returns the log of that name, a new one where there was none.
func (all *traces) of(name string) *trace {
	for _, tr := range *all {
		if tr.name == name {
			return tr
		}
	}
	*all = append(*all, &trace{name: name})
	return (*all)[len(*all)-1]
}

// scenario returns the log as a scenario in which nothing is known to leak.
func (tr *trace) scenario(uint64) *fleet.Scenario {
	n := 0
	return &fleet.Scenario{Info: tr.info, Truth: fleet.Truth{Start: tr.samples[0].T}, Next: func(s *gpu.Sample) bool {
		if n == len(tr.samples) {
			return false
		}
		*s = tr.samples[n]
		n++
		return true
	}}
}

// readTraces reads the logs in a directory that have two samples or more, each a family of its own: those of nvidia-smi, and
// histories of used memory in the text format of OpenMetrics.
func readTraces(dir string) ([]fleet.Family, error) {
	var list []fleet.Family
	for _, kind := range []struct {
		pattern string
		read    func(in *os.File, all *traces) error
	}{{"*.csv", readLog}, {"*.om", readHistory}} {
		paths, err := filepath.Glob(filepath.Join(dir, kind.pattern))
		if err != nil {
			return nil, fmt.Errorf("list the logs: %w", err)
		}
		for _, path := range paths {
			in, err := os.Open(path)
			if err != nil {
				return nil, fmt.Errorf("read a log: %w", err)
			}
			var all traces
			if err = errors.Join(kind.read(in, &all), in.Close()); err != nil {
				return nil, fmt.Errorf("read %s: %w", path, err)
			}
			for _, tr := range all {
				if len(tr.samples) > 1 {
					list = append(list, fleet.Family{Name: filepath.Base(path) + " " + tr.name, Class: fleet.Healthy, Draw: tr.scenario})
				}
			}
		}
	}
	return list, nil
}

// readLog reads the GPUs of a log of nvidia-smi.
func readLog(in *os.File, all *traces) error {
	r, err := replay.NewReader(in.Name(), in, nil)
	if err != nil {
		return err
	}
	for {
		info, s, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		tr := all.of(info.UUID)
		if tr.info = info; s.Memory.Used.OK && s.Memory.Total.OK {
			tr.samples = append(tr.samples, s)
		}
	}
}

// readHistory reads the series of used memory from a file in the text format of OpenMetrics, in which each sample has its time.
func readHistory(in *os.File, all *traces) error {
	text, err := io.ReadAll(in)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		end := strings.LastIndexByte(line, '}') + 1
		fields := strings.Fields(line[end:])
		if len(fields) != 2 {
			return fmt.Errorf("%q is not a sample with its time", line)
		}
		used, err := strconv.ParseFloat(fields[0], 64)
		at, err2 := strconv.ParseFloat(fields[1], 64)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if tr := all.of(line[:end]); !math.IsNaN(used) { // else the series was not there then
			memory := gpu.Memory{Total: gpu.Some[uint64](historyCapacity), Used: gpu.Some(uint64(used))}
			tr.samples = append(tr.samples, gpu.Sample{T: time.Duration(at*1e3) * time.Millisecond, Memory: memory})
		}
	}
	return err
}
