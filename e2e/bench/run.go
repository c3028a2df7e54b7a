// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// result is what came of a scenario, or of a life of a chain: an outcome for each rule.
type result struct {
	family   *fleet.Family
	kind     *fleet.Kind // of the chain; nil without one
	life     int         // its number in that, from 1 on
	outcomes []outcome
	hours    float64
}

// task runs a scenario or a chain.
type task func() ([]result, error)

// run runs the scenarios of the families, so that the long families are spread.
func run(opt options, families []fleet.Family, judges func() []judge) ([]result, error) {
	var tasks []task
	for seed := opt.seeds.first; seed <= opt.seeds.last; seed++ {
		for i := range families {
			f := &families[i]
			tasks = append(tasks, func() ([]result, error) {
				w, err := watch(f.Draw(seed), judges)
				if err != nil {
					return nil, fmt.Errorf("%s/%d: %w", f.Name, seed, err)
				}
				return []result{{family: f, hours: w.length.Hours(), outcomes: w.scores()}}, nil
			})
		}
	}
	return parallel(tasks)
}

// parallel returns the results of all tasks in their order. It runs as many at a time as there are processors.
func parallel(tasks []task) ([]result, error) {
	results, errs := make([][]result, len(tasks)), make([]error, len(tasks))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(tasks); i = int(next.Add(1)) - 1 {
				results[i], errs[i] = tasks[i]()
			}
		})
	}
	workers.Wait()
	return slices.Concat(results...), errors.Join(errs...)
}

// benchFleet writes the tables of the simulated fleet.
func benchFleet(w *strings.Builder, opt options) error {
	names, _ := columns()
	results, err := run(opt, opt.chosen(false), func() []judge {
		_, list := columns()
		return list
	})
	if err != nil {
		return err
	}
	writeIntro(w, "fleet")
	for i, what := range []string{"Families for tuning", "Families held out", "All families"} {
		of := [][]result{heldOut(results, false), heldOut(results, true), results}[i]
		compared(title(what, opt, of), names, sum(of)).write(w)
	}
	for _, t := range familyTables(results) {
		t.write(w)
	}
	return nil
}

// chosen returns the results that are meant.
func chosen(results []result, in func(r *result) bool) []result {
	return slices.DeleteFunc(slices.Clone(results), func(r result) bool { return !in(&r) })
}

// heldOut returns the results of the families that are held out, or those of the others.
func heldOut(results []result, held bool) []result {
	return chosen(results, func(r *result) bool { return r.family.Held == held })
}

// sum returns the figures of each rule.
func sum(results []result) []figures {
	var all []figures
	for i := range results {
		for rule := range results[i].outcomes {
			if rule == len(all) {
				all = append(all, figures{})
			}
			all[rule].add(results[i].family.Class, &results[i].outcomes[rule])
		}
	}
	return all
}

// title says what a table is made of.
func title(what string, opt options, of []result) string {
	names, hours := map[string]bool{}, 0.0
	for i := range of {
		names[of[i].family.Name] = true
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
		name := strings.ReplaceAll(r.family.Name, "_", " ")
		if r.family.Held {
			name = r.family.Class.String() + ", held out"
		}
		if len(of[name]) == 0 {
			order = append(order, name)
		}
		of[name] = append(of[name], r)
	}
	for _, name := range order {
		f := &sum(of[name])[0]
		if of[name][0].family.Class == fleet.Leak {
			leaks.rows = append(leaks.rows, f.leakRow(name))
		} else {
			healthy.rows = append(healthy.rows, f.healthyRow(name+map[bool]string{true: " (growing)"}[of[name][0].family.Class == fleet.Growing]))
		}
	}
	return []*table{&leaks, &healthy}
}

func (f *figures) leakRow(name string) []string {
	return []string{
		name, strconv.Itoa(f.scenarios[fleet.Leak]), part(f.found, f.leaks), part(f.named, f.listed), part(f.inTime, f.rated), short(f.delays, 0.5),
		strconv.Itoa(f.early), part(f.paged, f.ooms), part(f.ahead, f.ooms), off(f.forecasts[atHalf].errors, 0.5), part(f.forecasts[atHalf].covered, f.forecasts[atHalf].due),
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
