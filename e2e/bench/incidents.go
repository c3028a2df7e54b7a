// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams/nodes"
)

// incidentIntro is the begin of the page of incidents that --markdown writes.
const incidentIntro = `# Would it have told?

Written by ` + "`make bench-detect`" + `. What people reported in public about the memory of their GPUs, lived again: a program makes a GPU and its processes from what each report
tells, in its figures, and the detector and the rules of other systems watch. What a report does not tell (how often requests come, who else is on the GPU, how often it is looked at)
is assumed, each time otherwise: a report is lived with ten seeds. The code in ` + "`e2e/bench/exams/nodes`" + ` says of each report what was assumed.

- The authors of the reports' stories had not seen the detector.
- **Announced** is an out-of-memory before which an alarm on the GPU had been on for 10 minutes; a program that dies is started again, mostly within minutes. The first deaths of a program that
  lives for minutes cannot be announced by anybody who does not alarm on each load of a model.
- **Found** is a leak if an alarm begins after its first byte, and is on 10 minutes later or when memory runs out: for each life of a GPU the first leak counts.
- At the first run, before any rule was made with reports in view, %s. What they taught, rules for programs that die again and again, was tuned on the same reports with other seeds: the figures of the
  first tables are no longer those of reports that were never seen.%s

`

// The first run, and what is said of the reports that came later.
const (
	firstRun  = "549 of 1517 out-of-memories were announced (36.2 %), with an alarm on 45 of 550 healthy GPUs (8.2 %)"
	laterOnes = " The reports under *never tuned on* were collected after that, and were run; a last rule was refused by them, none was made."
)

// benchIncidents lives what was reported in public again and writes how it was judged.
func benchIncidents(w io.Writer, opt options) error {
	all := nodes.Incidents()
	var indices []int
	for i := range all {
		if strings.Contains(all[i].Kind, opt.kind) {
			indices = append(indices, i)
		}
	}
	seeds := int(opt.seeds.last - opt.seeds.first + 1)
	results := parallel(seeds*len(indices), func(i int) nodeResult {
		seed, index := opt.seeds.first+uint64(i%seeds), indices[i/seeds]
		return judgeStory(nodes.NewIncident(seed, index), seed, index, opt.rivals)
	})
	if err := told(w, results, opt.verbose); err != nil {
		return err
	}
	if opt.markdown {
		if _, err := fmt.Fprintf(w, incidentIntro, firstRun, laterOnes); err != nil {
			return err
		}
	}
	later, ok := slices.BinarySearch(indices, nodes.Later())
	if !ok && later == len(indices) {
		return writeTables(w, opt, incidentTables("Reports", all, indices, results, opt)...)
	}
	tables := incidentTables("Reports that were tuned on", all, indices[:later], results[:later*seeds], opt)
	return writeTables(w, opt, append(tables, incidentTables("Reports never tuned on", all, indices[later:], results[later*seeds:], opt)...)...)
}

// incidentTables returns the tables of some incidents: all together, and each one.
func incidentTables(title string, all []nodes.Incident, indices []int, results []nodeResult, opt options) []*table {
	if len(indices) == 0 {
		return nil
	}
	tables := nodeTables(title, results, opt)
	seeds := len(results) / len(indices)
	var lists [3]table
	for i, index := range indices {
		addIncident(&lists, &all[index], results[i*seeds:(i+1)*seeds])
	}
	for i := range lists {
		if lists[i].title = title + ": " + incidentSorts[i].title; len(lists[i].rows) > 0 {
			lists[i].header = incidentSorts[i].header
			tables = append(tables, &lists[i])
		}
	}
	return tables
}

// incidentSorts are the sorts of incidents, each of which has a table.
var incidentSorts = [3]table{
	{title: "leaks", header: []string{"what was told", "found", "after", "announced", "before"}},
	{title: "memory that was held for nobody", header: []string{"what was told", "named"}},
	{title: "what was taken for a leak and was none", header: []string{"what was told", "with an alarm"}},
}

// addIncident adds an incident to the table of its sort.
func addIncident(lists *[3]table, one *nodes.Incident, of []nodeResult) {
	row := []string{fmt.Sprintf("[%s](%s): %s", one.Kind, one.Thread, one.Told)}
	var gpus figures
	held, named, warned, ooms := 0, 0, 0, 0
	var ahead []time.Duration
	for i := range of {
		r := &of[i]
		gpus.add(&r.gpu[0])
		warned, ooms = warned+r.warned[0], ooms+r.ooms
		ahead = append(ahead, r.ahead...)
		for _, d := range slices.Concat(r.zombies, r.unreleased) {
			held++
			count(&named, d != never)
		}
	}
	of2 := func(n, m int) string { return fmt.Sprintf("%d of %d", n, m) }
	before, announced := "–", "–"
	if len(ahead) > 0 {
		before = short(median(ahead))
	}
	if ooms > 0 {
		announced = of2(warned, ooms)
	}
	switch one.Ending {
	case nodes.Fills, nodes.GoesOn:
		row = append(row, of2(gpus.found, gpus.leaks), delay(&gpus, median(gpus.delays)), announced, before)
		lists[0].rows = append(lists[0].rows, row)
	case nodes.Holds:
		lists[1].rows = append(lists[1].rows, append(row, of2(named, held)))
	case nodes.WasNone:
		lists[2].rows = append(lists[2].rows, append(row, of2(gpus.alarmed, gpus.healthy)))
	}
}
