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
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// historyCapacity is what the GPUs of a history of used memory are taken to have, which it does not
// tell. The pods of the public one hold up to 47 GiB.
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
	errs, runs := make([]error, len(logs)), make([]watched, len(logs))
	parallel(len(logs), func(i int) (none struct{}) {
		runs[i], errs[i] = watch(logs[i].scenario(), func(info gpu.Info) ([]judge, error) { return newJudges(info, opt.rivals) })
		return none
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	all := make([]figures, len(opt.names()))
	for i := range runs {
		for rule := range runs[i].rules() {
			o := score(&runs[i], rule)
			all[rule].add(fleet.Healthy, &o, opt.prices)
			if opt.verbose && rule == 0 && o.alarmed {
				fmt.Fprintf(w, "alarm on %s\n", logs[i].name)
			}
		}
	}
	t := compared(fmt.Sprintf("Real logs: %d, %.0f h", len(logs), all[0].freeHours), []row{
		{"ever alarmed", false, func(f *figures) string { return share(f.alarmed[fleet.Healthy], f.scenarios[fleet.Healthy]) }},
		{"time in alarm", false, func(f *figures) string { return percent(f.alarmedHours / f.memoryHours) }},
		{"pages", false, func(f *figures) string { return strconv.Itoa(f.pages) }},
		{"tickets", false, func(f *figures) string { return strconv.Itoa(f.tickets) }},
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
	return &fleet.Scenario{Info: tr.info, Truth: fleet.Truth{Start: tr.samples[0].T}, Next: func(s *gpu.Sample) bool {
		if n == len(tr.samples) {
			return false
		}
		*s = tr.samples[n]
		n++
		return true
	}}
}

// readTraces reads the logs in a directory that have two samples or more: those of nvidia-smi, and
// histories of used memory in the text format of OpenMetrics.
func readTraces(dir string) ([]*trace, error) {
	var all []*trace
	for _, kind := range []struct {
		pattern string
		read    func(in *os.File) (map[string]*trace, []string, error)
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
			of, names, err := kind.read(in)
			if err = errors.Join(err, in.Close()); err != nil {
				return nil, fmt.Errorf("read %s: %w", path, err)
			}
			for _, name := range names {
				if len(of[name].samples) > 1 {
					of[name].name = filepath.Base(path) + " " + name
					all = append(all, of[name])
				}
			}
		}
	}
	return all, nil
}

// readLog reads the GPUs of a log of nvidia-smi.
func readLog(in *os.File) (of map[string]*trace, names []string, err error) {
	r, err := gpu.NewRecordingReader(in.Name(), in, nil)
	if err != nil {
		return nil, nil, err
	}
	of = map[string]*trace{}
	for {
		info, s, err := r.Next()
		if errors.Is(err, io.EOF) {
			return of, names, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if of[info.UUID] == nil {
			of[info.UUID] = &trace{info: info}
			names = append(names, info.UUID)
		}
		if s.Memory.Used.OK && s.Memory.Total.OK {
			of[info.UUID].samples = append(of[info.UUID].samples, s)
		}
	}
}

// readHistory reads the series of used memory from a file in the text format of OpenMetrics, in which
// each sample has its time.
func readHistory(in *os.File) (of map[string]*trace, names []string, err error) {
	text, err := io.ReadAll(in)
	of = map[string]*trace{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		end := strings.LastIndexByte(line, '}') + 1
		fields := strings.Fields(line[end:])
		if len(fields) != 2 {
			return nil, nil, fmt.Errorf("%q is not a sample with its time", line)
		}
		used, err := strconv.ParseFloat(fields[0], 64)
		at, err2 := strconv.ParseFloat(fields[1], 64)
		if err := errors.Join(err, err2); err != nil {
			return nil, nil, err
		}
		name := line[:end]
		if of[name] == nil {
			of[name] = &trace{}
			names = append(names, name)
		}
		if !math.IsNaN(used) { // else the series was not there then
			memory := gpu.Memory{Total: gpu.Some[uint64](historyCapacity), Used: gpu.Some(uint64(used))}
			of[name].samples = append(of[name].samples, gpu.Sample{T: time.Duration(at*1e3) * time.Millisecond, Memory: memory})
		}
	}
	return of, names, err
}
