// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// lived is what came of one life of a chain.
type lived struct {
	result
	kind   *fleet.Kind
	number int // from 1 on
}

// withLives are the rules of --lives, and livesJudges makes a judge of each.
var withLives = []string{"ours", "ours, each life as if it were the first"}

func livesJudges() []judge {
	cfg := detector.DefaultConfig()
	return []judge{newOurs(cfg, sees{}), newOurs(cfg, sees{strangers: true})}
}

// benchLives writes what it is worth to know what a program held in its earlier lives.
func benchLives(w *strings.Builder, opt options) error {
	all, err := live(opt)
	if err != nil {
		return err
	}
	writeIntro(w, "lives")
	for _, held := range []bool{false, true} {
		name := map[bool]string{false: "Families for tuning", true: "Families held out"}[held]
		of := slices.DeleteFunc(slices.Clone(all), func(l lived) bool { return l.job.family.Held != held })
		later := results(of, func(l *lived) bool { return l.number > 2 })
		list := slices.Insert(rows(), 1, row{"… lost against the other", func(f *figures) string { return strconv.Itoa(f.lost) }})
		compared(strings.Replace(title(name+", from the third life on", opt, later), "GPUs", "lives", 1), list, withLives, sum(later)).write(w)
		kindTable(name+", by kind", of).write(w)
	}
	return nil
}

// live lives the chains of all kinds. The first lives are not judged: nothing is known of what was before them.
func live(opt options) ([]lived, error) {
	families := opt.chosen()
	type task struct {
		kind fleet.Kind
		job
	}
	var tasks []task
	for seed := opt.seeds.first; seed <= opt.seeds.last; seed++ {
		for _, k := range fleet.Kinds() {
			for i := range families {
				if k.Takes(&families[i]) {
					tasks = append(tasks, task{k, job{&families[i], seed}})
				}
			}
		}
	}
	var all []lived
	for _, list := range parallel(len(tasks), func(i int) []lived { return liveChain(&tasks[i].kind, tasks[i].job) }) {
		all = append(all, list...)
	}
	for i := range all {
		if all[i].err != nil {
			return nil, all[i].err
		}
	}
	return all, nil
}

// liveChain returns what came of the lives of a chain.
func liveChain(k *fleet.Kind, j job) []lived {
	c := k.Chain(j.family, j.seed)
	w, err := watch(&c.Scenario, livesJudges)
	if err != nil {
		return []lived{{result: result{err: fmt.Errorf("%s, %s: %w", k.Name, j, err)}}}
	}
	var list []lived
	for i := range c.Lives[1:] {
		life := &c.Lives[i+1]
		f := *j.family
		if f.Class == fleet.Leak && life.Healthy {
			f.Class = fleet.Healthy
		}
		part := w.during(c.Lives[i].Until, life.Until)
		r := result{job: job{&f, j.seed}, hours: part.length.Hours()}
		for rule := range w.rules() {
			r.outcomes = append(r.outcomes, part.scoreLife(&f, rule))
		}
		if len(r.outcomes) == 2 {
			r.outcomes[0].lose(&r.outcomes[1])
		}
		list = append(list, lived{r, k, life.Number})
	}
	return list
}

// during returns what was recorded in a time. A leak from before keeps its place, but does not count.
func (w *watched) during(from, until time.Duration) *watched {
	in := func(t time.Duration) bool { return from < t && t <= until }
	part := &watched{listed: w.listed, length: until - from, truth: fleet.Truth{Start: from, Length: until - from, Leaks: slices.Clone(w.truth.Leaks)}}
	for i := range part.truth.Leaks {
		l := &part.truth.Leaks[i]
		l.Visible = l.Visible && in(l.From)
	}
	part.truth.OOMs = slices.DeleteFunc(slices.Clone(w.truth.OOMs), func(o fleet.OOM) bool { return !in(o.T) })
	for _, r := range w.records {
		a, _ := slices.BinarySearchFunc(r.minutes, from+1, func(m minute, t time.Duration) int { return int(m.t - t) })
		b, _ := slices.BinarySearchFunc(r.minutes, until+1, func(m minute, t time.Duration) int { return int(m.t - t) })
		own := &record{instance: r.instance, minutes: r.minutes[a:b]}
		for _, said := range r.said {
			own.said = append(own.said, said[a:b])
		}
		part.records = append(part.records, own)
	}
	return part
}

// scoreLife returns how a rule did in a life. An alarm on a leak of the life before may outlast that for a while.
func (w *watched) scoreLife(f *fleet.Family, rule int) outcome {
	o := score(w, rule)
	if f.Class != fleet.Leak {
		o.alarmed = o.episodes > 0
	}
	return o
}

// lose marks the leaks that are found by who knows nothing of earlier lives, and else are not.
func (o *outcome) lose(without *outcome) {
	for i := range o.leaks {
		o.leaks[i].lost = o.leaks[i].found == never && without.leaks[i].found != never
	}
}

// results returns those of the lives that are meant.
func results(of []lived, in func(l *lived) bool) (list []result) {
	for i := range of {
		if in(&of[i]) {
			list = append(list, of[i].result)
		}
	}
	return list
}

// kindTable has a row for each kind of chains, with its lives from the third on, or the second where there are no others.
func kindTable(what string, of []lived) *table {
	t := &table{title: what, header: []string{"kind", "expected", "lives"}}
	for _, name := range []string{"healthy lives alarmed", "leaks found", "delay, median", "false pages", "false tickets"} {
		t.header = append(t.header, name, "… as the first")
	}
	for _, k := range fleet.Kinds() {
		mine := results(of, func(l *lived) bool { return l.kind.Name == k.Name && l.number >= min(k.Count, 3) })
		if len(mine) == 0 {
			continue
		}
		cells := []string{k.Name, k.Expected, strconv.Itoa(len(mine))}
		both := sum(mine)
		for _, cell := range []func(f *figures) string{
			func(f *figures) string {
				return share(f.alarmed[fleet.Healthy]+f.alarmed[fleet.Growing], f.scenarios[fleet.Healthy]+f.scenarios[fleet.Growing])
			},
			func(f *figures) string { return share(f.found, f.leaks) },
			func(f *figures) string { return short(f.delays, 0.5) },
			func(f *figures) string { return strconv.Itoa(f.pages) },
			func(f *figures) string { return strconv.Itoa(f.tickets) },
		} {
			cells = append(cells, cell(&both[0]), cell(&both[1]))
		}
		t.rows = append(t.rows, cells)
	}
	return t
}
