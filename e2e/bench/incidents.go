// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/incidents"
)

// incidentIntro is the begin of the page of incidents that --markdown writes.
const incidentIntro = `# Would it have told?

Written by ` + "`make bench-detect`" + `. What people reported in public about the memory of their GPUs, lived again: a program makes
a GPU and its processes from what each report tells, in its figures, and the detector and the rules of other systems
watch. What a report does not tell (how often requests come, who else is on the GPU, how often it is looked at) is
assumed, each time otherwise: a report is lived with several seeds. ` + "`e2e/bench/incidents/incidents.jsonl`" + ` has each report, and
says what was assumed.

- The authors of the reports' stories had not seen the detector.
- **Announced** is an out-of-memory before which an alarm on the GPU had been on for 10 minutes; a program that dies is
  started again, mostly within minutes. The first deaths of a program that lives for minutes cannot be announced by anybody
  who does not alarm on each load of a model.
- **Found** is a leak if an alarm begins after its first byte, and is on 10 minutes later or when memory runs out: for each
  life of a GPU the first leak counts. The other rows are those of [BENCHMARK.md](BENCHMARK.md).
- The rules for programs that die again and again were made with the first reports in view. Those under *never tuned on*
  were collected after that.

`

// life is what came of a report that was lived again.
type life struct {
	incident *incidents.Incident
	outcomes []outcome
	hours    float64
	ooms     int
	warned   []int           // of the ooms, by rule
	ahead    []time.Duration // for how long ours had been on before them
	// Processes that never computed again, and memory that stayed; what of them ours named, and what else.
	zombies, zombiesNamed, zombiesWrong int
	stayed, stayedNamed, stayedWrong    int
	err                                 error
}

// holder is ours, and what it says of memory that is held for nobody.
type holder struct {
	*ours
	zombies, stayed map[gpu.ProcessID]time.Duration
}

func (h *holder) ask() answer {
	said := h.domain.Judgement()
	for i := range said.Members {
		if m := &said.Members[i]; m.Judged && m.Pattern == detector.PatternZombie && h.zombies[m.Key] == 0 {
			h.zombies[m.Key] = said.T
		}
	}
	for i := range said.Unreleased {
		if u := &said.Unreleased[i]; h.stayed[u.Key] == 0 {
			h.stayed[u.Key] = said.T
		}
	}
	return h.ours.ask()
}

// benchIncidents lives what was reported in public again and writes how it was judged.
func benchIncidents(w io.Writer, opt options) error {
	all, err := incidents.All()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(i incidents.Incident) bool { return !strings.Contains(i.Kind, opt.family) })
	if len(all) == 0 {
		return fmt.Errorf("no report has a name that contains %q", opt.family)
	}
	seeds := opt.seeds.count()
	lives := parallel(seeds*len(all), func(i int) life { return live(&all[i/seeds], opt.seeds.first+uint64(i%seeds), opt) })
	for i := range lives {
		if lives[i].err != nil {
			return fmt.Errorf("%s: %w", lives[i].incident.Kind, lives[i].err)
		}
	}
	if opt.marked {
		if _, err := io.WriteString(w, incidentIntro); err != nil {
			return fmt.Errorf("write the page: %w", err)
		}
	}
	later := slices.IndexFunc(lives, func(l life) bool { return l.incident.Later })
	if later < 0 {
		later = len(lives)
	}
	for _, part := range []struct {
		title string
		of    []life
	}{{"Reports that were tuned on", lives[:later]}, {"Reports never tuned on", lives[later:]}} {
		for _, t := range incidentTables(part.title, part.of, opt) {
			if err := t.write(w, opt.marked); err != nil {
				return err
			}
		}
	}
	return nil
}

// live lives a report again.
func live(one *incidents.Incident, seed uint64, opt options) life {
	s := incidents.New(one, seed)
	l := life{incident: one, hours: one.Hours}
	h := &holder{zombies: map[gpu.ProcessID]time.Duration{}, stayed: map[gpu.ProcessID]time.Duration{}}
	w, err := watch(&s.Scenario, func(info gpu.Info) ([]judge, error) {
		list, err := newJudges(info, opt.rivals)
		if err != nil {
			return nil, err
		}
		h.ours, _ = list[0].(*ours)
		list[0] = h
		return list, nil
	})
	if l.err = err; err != nil {
		return l
	}
	if l.err = s.Err; s.Err != nil {
		return l
	}
	for rule := range w.rules() {
		o := score(&w, rule)
		o.leaks = o.leaks[:min(len(o.leaks), 1)]
		l.outcomes = append(l.outcomes, o)
		l.warned = append(l.warned, l.announced(&w, rule))
	}
	l.ooms = len(w.truth.OOMs)
	l.zombies, l.zombiesNamed, l.zombiesWrong = matched(s.Zombies, h.zombies)
	l.stayed, l.stayedNamed, l.stayedWrong = matched(s.Unreleased, h.stayed)
	return l
}

// announced returns before how many of the out-of-memories an alarm had been on for ten minutes.
func (l *life) announced(w *watched, rule int) int {
	n := 0
	for _, r := range w.records {
		s := newScorer(w, r, rule, nil)
		for _, oom := range w.truth.OOMs {
			for _, a := range s.alarms {
				if a.from > oom.T || oom.T > a.to {
					continue
				}
				count(&n, oom.T-a.from >= held)
				if rule == 0 {
					l.ahead = append(l.ahead, oom.T-a.from)
				}
				break
			}
		}
	}
	return n
}

// matched returns how many there are, how many of them were named, and how many others.
func matched(is []incidents.Held, said map[gpu.ProcessID]time.Duration) (all, named, wrong int) {
	wrong = len(said)
	for _, h := range is {
		if t, ok := said[h.ID]; ok && t >= h.From {
			named++
			wrong--
		}
	}
	return len(is), named, wrong
}

// leaks reports whether memory was lost.
func leaks(i *incidents.Incident) bool { return i.Ending == "fills" || i.Ending == "goes on" }

// incidentTables returns the tables of some reports: all together, and each one.
func incidentTables(title string, of []life, opt options) []*table {
	if len(of) == 0 {
		return nil
	}
	all := make([]figures, len(of[0].outcomes))
	warned, ooms, gpus, hours := make([]int, len(all)), 0, 0, 0.0
	for i := range of {
		l := &of[i]
		class := fleet.Healthy
		if leaks(l.incident) {
			class = fleet.Leak
			gpus++
		}
		for rule := range all {
			all[rule].add(class, &l.outcomes[rule], opt.prices)
			warned[rule] += l.warned[rule]
		}
		ooms, hours = ooms+l.ooms, hours+l.hours
	}
	name := fmt.Sprintf("%s, seeds %d to %d: %d GPUs with a leak, %d healthy ones, %.0f h", title, opt.seeds.first, opt.seeds.last, gpus, len(of)-gpus, hours)
	main := compared(name, slices.DeleteFunc(rows(opt.prices), func(r row) bool {
		return strings.Contains(r.name, "growing") || strings.Contains(r.name, "cost") || strings.Contains(r.name, "oracle")
	}), opt.names(), all)
	announced := []string{"out-of-memories with an alarm 10 min before"}
	for rule := range all {
		announced = append(announced, share(warned[rule], ooms))
	}
	main.rows = append(main.rows, announced)
	return append([]*table{main, whoTable(title, of)}, reportTables(title, of)...)
}

// whoTable tells how well it is named who holds memory for nobody.
func whoTable(title string, of []life) *table {
	var sum life
	for _, l := range of {
		sum.zombies, sum.zombiesNamed, sum.zombiesWrong = sum.zombies+l.zombies, sum.zombiesNamed+l.zombiesNamed, sum.zombiesWrong+l.zombiesWrong
		sum.stayed, sum.stayedNamed, sum.stayedWrong = sum.stayed+l.stayed, sum.stayedNamed+l.stayedNamed, sum.stayedWrong+l.stayedWrong
	}
	return &table{title: title + ": who it is", header: []string{"", "ours"}, rows: [][]string{
		{"zombies named", share(sum.zombiesNamed, sum.zombies)},
		{"others called zombies", strconv.Itoa(sum.zombiesWrong)},
		{"unreleased memory named", share(sum.stayedNamed, sum.stayed)},
		{"other memory called unreleased", strconv.Itoa(sum.stayedWrong)},
	}}
}

// reportTables returns a table for each sort of reports, with a row for each.
func reportTables(title string, of []life) []*table {
	lost := table{title: title + ": leaks", header: []string{"what was told", "found", "after", "announced", "before"}}
	kept := table{title: title + ": memory that was held for nobody", header: []string{"what was told", "named"}}
	none := table{title: title + ": what was taken for a leak and was none", header: []string{"what was told", "with an alarm"}}
	for len(of) > 0 {
		one := of[0].incident
		n := slices.IndexFunc(of, func(l life) bool { return l.incident != one })
		if n < 0 {
			n = len(of)
		}
		switch {
		case leaks(one):
			lost.rows = append(lost.rows, reportRow(of[:n]))
		case one.Ending == "holds":
			kept.rows = append(kept.rows, reportRow(of[:n]))
		default:
			none.rows = append(none.rows, reportRow(of[:n]))
		}
		of = of[n:]
	}
	return slices.DeleteFunc([]*table{&lost, &kept, &none}, func(t *table) bool { return len(t.rows) == 0 })
}

// reportRow returns the row of one report.
func reportRow(of []life) []string {
	one := of[0].incident
	var f figures
	warned, ooms, held, named := 0, 0, 0, 0
	var ahead []time.Duration
	for i := range of {
		l := &of[i]
		class := fleet.Healthy
		if leaks(one) {
			class = fleet.Leak
		}
		f.add(class, &l.outcomes[0], defaultPrices)
		warned, ooms, ahead = warned+l.warned[0], ooms+l.ooms, append(ahead, l.ahead...)
		held, named = held+l.zombies+l.stayed, named+l.zombiesNamed+l.stayedNamed
	}
	of2 := func(n, m int) string { return fmt.Sprintf("%d of %d", n, m) }
	told := fmt.Sprintf("[%s](%s): %s", one.Kind, one.Thread, one.Told)
	switch {
	case one.Ending == "holds":
		return []string{told, of2(named, held)}
	case !leaks(one):
		return []string{told, of2(f.alarmed[fleet.Healthy], f.scenarios[fleet.Healthy])}
	}
	announced := "–"
	if ooms > 0 {
		announced = of2(warned, ooms)
	}
	return []string{told, of2(f.found, f.leaks), short(f.delays, 0.5), announced, short(ahead, 0.5)}
}
