// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/history"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/detectorconfig"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// TestQuietSteps has the table say the same whether steps that tell nothing are kept or not, over a day of a GPU that
// rests, leaks, is as good as full, is silent or does not tell its memory, in turn. And what rests for long takes no memory.
func TestQuietSteps(t *testing.T) {
	for seed := range uint64(2) {
		table := func(output string) string {
			j := newJudge(detectorconfig.New(detector.DefaultConfig()), time.Minute, output)
			for _, s := range randomDay(rand.New(rand.NewPCG(seed, 1))) {
				if err := j.add(restless, &s); err != nil {
					t.Fatal(err)
				}
			}
			var b strings.Builder
			if err := writeTable(&b, resultsOf(j.end()), time.UTC); err != nil {
				t.Fatal(err)
			}
			return b.String()
		}
		if all, few := table(outputJSON), table(outputTable); all != few {
			t.Errorf("seed %d: with all steps\n%s\nwithout those that tell nothing\n%s", seed, all, few)
		}
	}
	j := newJudge(detectorconfig.New(detector.DefaultConfig()), time.Minute, outputTable)
	for i := range 24 * 240 {
		at := time.Duration(1_772_323_200+15*i) * time.Second
		if err := j.add(restless, &gpu.Sample{T: at, Time: history.Wall(at), Memory: gpu.Memory{Used: gpu.Some(uint64(20 * gib)), Total: gpu.Some(uint64(80 * gib))}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(j.end()[0].steps); n > 10 {
		t.Errorf("a day of rest has %d steps", n)
	}
}

var restless = &history.Memory{Labels: history.Labels{"gpu": "0", "uuid": "GPU-0"}}

// randomDay returns a day of a GPU with one process at a time, a sample every 15 s.
func randomDay(r *rand.Rand) (samples []gpu.Sample) {
	const total = 80 * gib
	at, pid := time.Duration(1_772_323_200)*time.Second, uint32(1)
	used := 10.0 * gib
	for len(samples) < 24*240 {
		kind, rate := r.IntN(6), r.Float64()*(20<<20)
		for n := 60 + r.IntN(900); n > 0; n-- {
			at += 15 * time.Second
			s := gpu.Sample{T: at, Time: history.Wall(at), ProcessesKnown: true, ProcessesComplete: true, Memory: gpu.Memory{Total: gpu.Some(uint64(total))}}
			switch kind {
			case 0: // it rests
			case 1, 2: // it leaks
				used += rate
			case 3: // load
				used = 10*gib + r.Float64()*8*gib
			case 4: // it is as good as full, and that is given back
				used = 0.97*total - float64(n%2)*4*gib
			case 5: // it is silent for long
				at, n = at+time.Duration(n)*15*time.Second, 0
			}
			if used > 0.99*total { // the process dies, and begins anew
				used, pid = 10*gib, pid+1
			}
			if r.IntN(50) > 0 {
				s.Memory.Used = gpu.Some(uint64(used))
			}
			s.Processes = []gpu.Process{{ID: gpu.ProcessID{PID: pid, Start: uint64(pid)}, Used: gpu.Some(uint64(used - gib)), Owner: &gpu.Owner{Process: "train", Namespace: "ml", Pod: "a"}}}
			samples = append(samples, s)
		}
	}
	return samples
}

// The longest whole part of a step that is a minute at most.
func TestWithin(t *testing.T) {
	for step, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 100 * time.Millisecond, time.Minute: time.Minute, 61 * time.Second: 30500 * time.Millisecond,
		90 * time.Second: 45 * time.Second, 24 * time.Hour: time.Minute, 2*time.Minute + 3*time.Millisecond: 40*time.Second + time.Millisecond,
	} {
		if got := within(step); got != want {
			t.Errorf("%s: %s, want %s", step, got, want)
		}
	}
}

const gib = 1 << 30

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
