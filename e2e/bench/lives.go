// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// livesJudges makes the judges of --lives: ours, and ours as if each life were the first.
func livesJudges() []judge { return []judge{newOurs(sees{}), newOurs(sees{strangers: true})} }

// benchLives writes what it is worth to know what a program held in its earlier lives.
func benchLives(w *strings.Builder, opt options) error {
	results, err := live(opt)
	if err != nil {
		return err
	}
	writeIntro(w, "lives")
	kindTable("Families for tuning, by kind", heldOut(results, false)).write(w)
	kindTable("Families held out, by kind", heldOut(results, true)).write(w)
	return nil
}

// live lives the chains of all kinds. The first lives are not judged: nothing is known of what was before them.
func live(opt options) ([]result, error) {
	families, kinds := opt.chosen(false), fleet.Kinds()
	var tasks []task
	for seed := opt.seeds.first; seed <= opt.seeds.last; seed++ {
		for k := range kinds {
			for i := range families {
				if kinds[k].Takes(&families[i]) {
					tasks = append(tasks, func() ([]result, error) { return liveChain(&kinds[k], &families[i], seed) })
				}
			}
		}
	}
	return parallel(tasks)
}

// liveChain returns what came of the lives of a chain.
func liveChain(k *fleet.Kind, family *fleet.Family, seed uint64) ([]result, error) {
	c := k.Chain(family, seed)
	w, err := watch(&c.Scenario, livesJudges)
	if err != nil {
		return nil, fmt.Errorf("%s, %s/%d: %w", k.Name, family.Name, seed, err)
	}
	var list []result
	for i := range c.Lives[1:] {
		life := &c.Lives[i+1]
		f := *family
		if f.Class == fleet.Leak && life.Healthy {
			f.Class = fleet.Healthy
		}
		part := w.during(c.Lives[i].Until, life.Until)
		r := result{family: &f, kind: k, life: life.Number, hours: part.length.Hours(), outcomes: part.scores()}
		for i := range r.outcomes {
			if o := &r.outcomes[i]; f.Class != fleet.Leak { // an alarm on a leak of the life before may outlast that for a while
				o.alarmed = o.episodes > 0
			}
		}
		list = append(list, r)
	}
	return list, nil
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

// kindTable has a row for each kind of chains, with its lives from the third on, or the second where there are no others.
func kindTable(what string, of []result) *table {
	t := &table{title: what, header: []string{"kind", "expected", "lives"}}
	for _, name := range []string{"healthy lives alarmed", "leaks found", "delay, median", "false pages", "false tickets"} {
		t.header = append(t.header, name, "… as the first")
	}
	for _, k := range fleet.Kinds() {
		mine := chosen(of, func(r *result) bool { return r.kind.Name == k.Name && r.life >= min(k.Count, 3) })
		if len(mine) == 0 {
			continue
		}
		row := []string{k.Name, k.Expected, strconv.Itoa(len(mine))}
		both := sum(mine)
		first := both[1].lifeCells()
		for i, cell := range both[0].lifeCells() {
			row = append(row, cell, first[i])
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// lifeCells returns the cells of kindTable.
func (f *figures) lifeCells() []string {
	return []string{
		share(f.alarmed[fleet.Healthy]+f.alarmed[fleet.Growing], f.scenarios[fleet.Healthy]+f.scenarios[fleet.Growing]),
		share(f.found, f.leaks), short(f.delays, 0.5), strconv.Itoa(f.pages), strconv.Itoa(f.tickets),
	}
}
