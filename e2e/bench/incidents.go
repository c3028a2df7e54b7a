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

TODO
`

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
		if _, err := io.WriteString(w, incidentIntro); err != nil {
			return err
		}
	}
	var lists []*table
	for i, index := range indices {
		lists = addIncident(lists, &all[index], results[i*seeds:(i+1)*seeds])
	}
	return writeTables(w, opt, append(nodeTables("Incidents", results, opt), lists...)...)
}

// addIncident adds an incident to the table of its sort.
func addIncident(lists []*table, one *nodes.Incident, of []nodeResult) []*table {
	sort, header := "What was taken for a leak and was none", []string{"what was told", "lives with an alarm"}
	var row []string
	report := fmt.Sprintf("[%s](%s): %s", one.Kind, one.Thread, one.Told)
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
	switch {
	case gpus.leaks > 0:
		sort, header = "Leaks", []string{"what was told", "lives in which it is found", "after, median", "out-of-memories announced", "before, median"}
		row = []string{report, fmt.Sprintf("%d of %d", gpus.found, gpus.leaks), delay(&gpus, median(gpus.delays)), fmt.Sprintf("%d of %d", warned, ooms), "–"}
		if len(ahead) > 0 {
			row[4] = short(median(ahead))
		}
	case held > 0:
		sort, header = "Memory that was held for nobody", []string{"what was told", "named"}
		row = []string{report, fmt.Sprintf("%d of %d", named, held)}
	default:
		row = []string{report, fmt.Sprintf("%d of %d", gpus.alarmed, gpus.healthy)}
	}
	i := slices.IndexFunc(lists, func(t *table) bool { return t.title == sort })
	if i < 0 {
		i, lists = len(lists), append(lists, &table{title: sort, header: header})
	}
	lists[i].rows = append(lists[i].rows, row)
	return lists
}
