// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// job is one scenario to be run.
type job struct {
	family *fleet.Family
	seed   uint64
}

func (j job) String() string { return fmt.Sprintf("%s/%d", j.family.Name, j.seed) }

// result is what came of a job: an outcome for each rule.
type result struct {
	job      job
	outcomes []outcome
	hours    float64
	err      error
}

// run runs the scenarios of the families, so that the long families are spread.
func run(opt options, families []fleet.Family, judges func() []judge) ([]result, error) {
	results := parallel(opt.seeds.count()*len(families), func(i int) result {
		r := result{job: job{&families[i%len(families)], opt.seeds.first + uint64(i/len(families))}}
		w, err := watch(r.job.family.Draw(r.job.seed), judges)
		if err != nil {
			r.err = fmt.Errorf("%s: %w", r.job, err)
			return r
		}
		r.hours = w.length.Hours()
		for rule := range w.rules() {
			r.outcomes = append(r.outcomes, score(w, rule))
		}
		return r
	})
	for i := range results {
		if results[i].err != nil {
			return nil, results[i].err
		}
	}
	return results, nil
}

// parallel returns what f makes of 0 to n-1, in this order. It calls f as often at a time as there are processors.
func parallel[T any](n int, f func(i int) T) []T {
	results := make([]T, n)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				results[i] = f(i)
			}
		})
	}
	workers.Wait()
	return results
}

// rules returns how many there are.
func (w *watched) rules() int {
	if len(w.records) == 0 {
		return 0
	}
	return len(w.records[0].said)
}

// benchFleet writes the tables of the simulated fleet.
func benchFleet(w *strings.Builder, opt options) error {
	results, err := run(opt, opt.chosen(), opt.judges)
	if err != nil {
		return err
	}
	writeIntro(w, "fleet")
	for _, p := range []struct {
		title string
		in    func(f *fleet.Family) bool
	}{
		{"Families for tuning", func(f *fleet.Family) bool { return !f.Held }},
		{"Families held out", func(f *fleet.Family) bool { return f.Held }},
		{"All families", func(*fleet.Family) bool { return true }},
	} {
		of := chosen(results, p.in)
		compared(title(p.title, opt, of), rows(), opt.names(), sum(of)).write(w)
	}
	for _, t := range familyTables(results) {
		t.write(w)
	}
	return nil
}

// chosen returns the results of the families that are meant.
func chosen(results []result, in func(f *fleet.Family) bool) []result {
	return slices.DeleteFunc(slices.Clone(results), func(r result) bool { return !in(r.job.family) })
}

// sum returns the figures of each rule.
func sum(results []result) []figures {
	var all []figures
	for i := range results {
		for rule := range results[i].outcomes {
			if rule == len(all) {
				all = append(all, figures{})
			}
			all[rule].add(results[i].job.family.Class, &results[i].outcomes[rule])
		}
	}
	return all
}

// title says what a table is made of.
func title(what string, opt options, of []result) string {
	names, hours := map[string]bool{}, 0.0
	for i := range of {
		names[of[i].job.family.Name] = true
		hours += of[i].hours
	}
	return fmt.Sprintf("%s, seeds %d to %d: %d families, %d GPUs, %.0f node-days", what, opt.seeds.first, opt.seeds.last, len(names), len(of), hours/24)
}

// familyTables returns the tables of ours by family. What is held out is not looked at one by one.
func familyTables(results []result) []*table {
	leaks := table{title: "Leaks by family", header: []string{"family", "GPUs", "found", "named", "in time", "delay, median", "early", "OOMs paged", "10 min ahead", "error at half-life", "covered", "cost of a leak"}}
	healthy := table{title: "Healthy use by family", header: []string{"family", "GPUs", "alarmed", "episodes", "pages", "tickets", "hours", "in alarm"}}
	var order []string
	of := map[string][]result{}
	for _, r := range results {
		name := strings.ReplaceAll(r.job.family.Name, "_", " ")
		if r.job.family.Held {
			name = r.job.family.Class.String() + ", held out"
		}
		if len(of[name]) == 0 {
			order = append(order, name)
		}
		of[name] = append(of[name], r)
	}
	for _, name := range order {
		f := &sum(of[name])[0]
		if of[name][0].job.family.Class == fleet.Leak {
			leaks.rows = append(leaks.rows, f.leakRow(name))
		} else {
			healthy.rows = append(healthy.rows, f.healthyRow(name+map[bool]string{true: " (growing)"}[of[name][0].job.family.Class == fleet.Growing]))
		}
	}
	return []*table{&leaks, &healthy}
}

func (f *figures) leakRow(name string) []string {
	of := func(n, m int) string { return fmt.Sprintf("%d/%d", n, m) }
	return []string{
		name, strconv.Itoa(f.leakScenarios), of(f.found, f.leaks), of(f.named, f.listed), of(f.inTime, f.rated), short(f.delays, 0.5),
		strconv.Itoa(f.early), of(f.paged, f.ooms), of(f.ahead, f.ooms), off(f.forecasts[atHalf].errors, 0.5), of(f.forecasts[atHalf].covered, f.forecasts[atHalf].due),
		number0(mean(f.costs)),
	}
}

func (f *figures) healthyRow(name string) []string {
	n := f.scenarios[fleet.Healthy] + f.scenarios[fleet.Growing]
	return []string{
		name, strconv.Itoa(n), strconv.Itoa(f.alarmed[fleet.Healthy] + f.alarmed[fleet.Growing]), strconv.Itoa(f.episodes),
		strconv.Itoa(f.pages), strconv.Itoa(f.tickets), number0(f.freeHours), percent(f.alarmedHours / f.memoryHours),
	}
}
