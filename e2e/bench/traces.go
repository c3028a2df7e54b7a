// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
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
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// historyCapacity is what the GPUs of a history of used memory are taken to have, which it does not tell. The pods of the public
// one hold up to 47 GiB.
const historyCapacity = 80 << 30

// benchTraces writes how many of the real logs had an alarm. What of them leaks nobody knows.
func benchTraces(w io.Writer, opt options) error {
	logs, err := readTraces(opt.traces)
	if err != nil {
		return err
	}
	if len(logs) == 0 {
		_, err := fmt.Fprintf(w, "No real logs: there are none in the directory of --traces.\n")
		return err
	}
	type ran struct {
		watched
		err error
	}
	results := parallel(len(logs), func(i int) ran {
		out, err := watch(logs[i].scenario(), func(info gpu.Info) ([]judge, error) { return newJudges(info, opt.rivals) })
		return ran{out, err}
	})
	all := make([]figures, len(opt.names()))
	for i := range results {
		if results[i].err != nil {
			return fmt.Errorf("%s: %w", logs[i].name, results[i].err)
		}
		for rule := range results[i].rules() {
			o := score(&results[i].watched, rule)
			all[rule].add(fleet.Healthy, &o, opt.prices)
			if opt.verbose && rule == 0 && o.alarmed {
				fmt.Fprintf(w, "alarm on %s\n", logs[i].name)
			}
		}
	}
	t := compared(fmt.Sprintf("Real logs: %d, %.0f h", len(logs), all[0].freeHours), []row{
		{"ever alarmed", func(f *figures) string { return share(f.alarmed[fleet.Healthy], f.scenarios[fleet.Healthy]) }},
		{"time in alarm", func(f *figures) string { return percent(f.alarmedHours / f.memoryHours) }},
		{"pages", func(f *figures) string { return strconv.Itoa(f.pages) }},
		{"tickets", func(f *figures) string { return strconv.Itoa(f.tickets) }},
	}, opt.names(), all)
	return t.write(w, opt.marked)
}

// trace is a real log of one GPU.
type trace struct {
	name    string
	info    gpu.Info
	samples []gpu.Sample
}

// scenario returns the log as a scenario in which nothing is known to leak.
func (tr *trace) scenario() *fleet.Scenario {
	n := 0
	return &fleet.Scenario{
		Info: tr.info, Truth: fleet.Truth{Start: tr.samples[0].T},
		Next: func(s *gpu.Sample) bool {
			if n == len(tr.samples) {
				return false
			}
			*s = tr.samples[n]
			n++
			return true
		},
	}
}

// readTraces reads the logs in a directory: those of nvidia-smi, and histories of used memory in the text format of OpenMetrics.
func readTraces(dir string) ([]*trace, error) {
	var all []*trace
	for _, kind := range []struct {
		pattern string
		read    func(path string) ([]*trace, error)
	}{{"*.csv", readLog}, {"*.om", readHistory}} {
		paths, err := filepath.Glob(filepath.Join(dir, kind.pattern))
		if err != nil {
			return nil, fmt.Errorf("list the logs: %w", err)
		}
		for _, path := range paths {
			of, err := kind.read(path)
			if err != nil {
				return nil, fmt.Errorf("read a log: %w", err)
			}
			for _, tr := range of {
				if len(tr.samples) > 1 {
					all = append(all, tr)
				}
			}
		}
	}
	return all, nil
}

// readLog reads the GPUs of a log of nvidia-smi.
func readLog(path string) (all []*trace, err error) {
	src, err := gpu.NewReplay(path, gpu.ReplayOptions{Speed: math.Inf(1)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	ctx := context.Background()
	devices, err := src.Devices(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		tr := &trace{name: filepath.Base(path), info: d.Info()}
		all = append(all, tr)
		for {
			if _, err := d.Wait(ctx); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			s, err := d.Read(ctx)
			if err != nil {
				return nil, err
			}
			if s.Memory.Used.OK && s.Memory.Total.OK {
				tr.samples = append(tr.samples, s)
			}
		}
	}
	return all, nil
}

// readHistory reads the series of used memory from a file in the text format of OpenMetrics, in which each sample has its time.
func readHistory(path string) ([]*trace, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []*trace
	of := map[string]*trace{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		end := strings.LastIndexByte(line, '}') + 1
		fields := strings.Fields(line[end:])
		if len(fields) != 2 {
			return nil, fmt.Errorf("%s: %q is not a sample with its time", path, line)
		}
		used, err := strconv.ParseFloat(fields[0], 64)
		at, err2 := strconv.ParseFloat(fields[1], 64)
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		tr := of[line[:end]]
		if tr == nil {
			tr = &trace{name: line[:end]}
			of[tr.name], all = tr, append(all, tr)
		}
		if !math.IsNaN(used) { // else the series was not there then
			memory := gpu.Memory{Total: gpu.Some[uint64](historyCapacity), Used: gpu.Some(uint64(used))}
			tr.samples = append(tr.samples, gpu.Sample{T: time.Duration(at*1e3) * time.Millisecond, Memory: memory})
		}
	}
	return all, nil
}
