// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// record is what the rules said of one memory, asked once a minute.
type record struct {
	instance gpu.Opt[uint32] // absent for the GPU itself
	minutes  []minute
	said     [][]answer // by rule, then as minutes
}

// minute is when the rules were asked, and the memory then in bytes.
type minute struct {
	t              time.Duration // on the clock of the samples
	used, capacity float64       // 0 where not known
}

// watched is all that was recorded of a scenario. It is scored afterwards, since what is true is known at the end alone.
type watched struct {
	truth   fleet.Truth
	length  time.Duration // from the first sample to the last
	listed  bool          // whose memory it is could be told: the list of processes was complete at some time
	records []*record
}

// watcher runs the rules on one scenario.
type watcher struct {
	info    gpu.Info
	judges  func(gpu.Info) ([]judge, error)
	of      map[gpu.Opt[uint32]]*judged
	records []*record
}

// judged is one memory with its judges.
type judged struct {
	judges []judge
	record *record
}

// watch runs a scenario to its end. Each memory, the GPU or a GPU instance, has judges of its own.
func watch(s *fleet.Scenario, judges func(gpu.Info) ([]judge, error)) (watched, error) {
	w := &watcher{info: s.Info, judges: judges, of: map[gpu.Opt[uint32]]*judged{}}
	var sample gpu.Sample
	var out watched
	var first time.Duration
	last := time.Duration(-1)
	for s.Next(&sample) {
		if last < 0 {
			first = sample.T
		}
		ask := last >= 0 && sample.T.Truncate(time.Minute) > last.Truncate(time.Minute)
		last = sample.T
		out.listed = out.listed || sample.ProcessesComplete
		if err := w.observe(&sample, ask); err != nil {
			return watched{}, err
		}
	}
	out.truth, out.length, out.records = s.Truth, last-first, w.records
	return out, nil
}

func (w *watcher) observe(s *gpu.Sample, ask bool) error {
	if len(s.Instances) == 0 {
		return w.memory(s, nil, ask)
	}
	for i := range s.Instances {
		if err := w.memory(s, &s.Instances[i], ask); err != nil {
			return err
		}
	}
	return nil
}

// memory hands a sample to the judges of one memory, and asks them.
func (w *watcher) memory(s *gpu.Sample, in *gpu.Instance, ask bool) error {
	var key gpu.Opt[uint32]
	m := s.Memory
	if in != nil {
		key, m = gpu.Some(in.ID), in.Memory
	}
	j := w.of[key]
	if j == nil {
		list, err := w.judges(w.info)
		if err != nil {
			return err
		}
		j = &judged{judges: list, record: &record{instance: key, said: make([][]answer, len(list))}}
		w.of[key], w.records = j, append(w.records, j.record)
	}
	for _, judge := range j.judges {
		if err := judge.observe(s, in); err != nil {
			return err
		}
	}
	if !ask {
		return nil
	}
	j.record.minutes = append(j.record.minutes, minute{s.T, float64(m.Used.V), float64(m.Capacity().V)})
	for i, judge := range j.judges {
		j.record.said[i] = append(j.record.said[i], judge.ask())
	}
	return nil
}

// job is one scenario to be run.
type job struct {
	family *fleet.Family
	seed   uint64
}

// jobsOf returns the scenarios of the families with the seeds, so that the long families are spread.
func jobsOf(families []fleet.Family, seeds seedRange) []job {
	var jobs []job
	for seed := seeds.first; seed <= seeds.last; seed++ {
		for i := range families {
			jobs = append(jobs, job{&families[i], seed})
		}
	}
	return jobs
}

// draw returns the scenario: it depends on the family's name and the seed alone.
func (j job) draw() *fleet.Scenario {
	h := fnv.New64a()
	h.Write([]byte(j.family.Name))
	return j.family.Draw(rand.New(rand.NewPCG(j.seed, h.Sum64())))
}

func (j job) String() string { return fmt.Sprintf("%s/%d", j.family.Name, j.seed) }

// parallel returns what f makes of 0 to n-1, in this order. It calls f as often at a time as there are processors.
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
