// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
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
	ooms     int
	warned   []int           // of the ooms, by rule
	ahead    []time.Duration // for how long ours had been on before them
	// Processes that never computed again, and memory that stayed after one.
	zombies, stayed matched
	err             error
}

// matched is how many there were of what is held for nobody, how many of them were named, and how many others.
type matched struct{ all, named, wrong int }

func (m *matched) add(o matched) {
	m.all, m.named, m.wrong = m.all+o.all, m.named+o.named, m.wrong+o.wrong
}

func match(is []incidents.Held, said map[gpu.ProcessID]time.Duration) matched {
	m := matched{all: len(is), wrong: len(said)}
	for _, h := range is {
		if t, ok := said[h.ID]; ok && t >= h.From {
			m.named++
			m.wrong--
		}
	}
	return m
}

// holder is ours, and when it named memory that is held for nobody.
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
	later := len(lives)
	for i := range lives {
		if lives[i].err != nil {
			return fmt.Errorf("%s: %w", lives[i].incident.Kind, lives[i].err)
		}
		if lives[i].incident.Later {
			later = min(later, i)
		}
	}
	if opt.marked {
		if _, err := io.WriteString(w, incidentIntro); err != nil {
			return fmt.Errorf("write the page: %w", err)
		}
	}
	tables := append(incidentTables("Reports that were tuned on", lives[:later], opt), incidentTables("Reports never tuned on", lives[later:], opt)...)
	return writeAll(w, opt, tables...)
}

// live lives a report again.
func live(one *incidents.Incident, seed uint64, opt options) life {
	s := incidents.New(one, seed)
	l := life{incident: one}
	h := &holder{zombies: map[gpu.ProcessID]time.Duration{}, stayed: map[gpu.ProcessID]time.Duration{}}
	w, err := watch(&s.Scenario, func(info gpu.Info) ([]judge, error) {
		list, err := newJudges(info, opt.rivals)
		if err == nil {
			h.ours, _ = list[0].(*ours)
			list[0] = h
		}
		return list, err
	})
	if l.err = errors.Join(err, s.Err); l.err != nil {
		return l
	}
	for rule := range w.rules() {
		o := score(&w, rule)
		o.leaks = o.leaks[:min(len(o.leaks), 1)]
		l.outcomes = append(l.outcomes, o)
		l.warned = append(l.warned, l.announced(&w, rule))
	}
	l.ooms, l.zombies, l.stayed = len(w.truth.OOMs), match(s.Zombies, h.zombies), match(s.Unreleased, h.stayed)
	return l
}

// announced returns before how many of the out-of-memories an alarm had been on for ten minutes.
func (l *life) announced(w *watched, rule int) int {
	n := 0
	for _, a := range newScorer(w, w.records[0], rule, nil).alarms {
		for _, oom := range w.truth.OOMs {
			if a.from > oom.T || oom.T > a.to {
				continue
			}
			count(&n, oom.T-a.from >= held)
			if rule == 0 {
				l.ahead = append(l.ahead, oom.T-a.from)
			}
		}
	}
	return n
}

// class returns whether memory was lost.
func class(i *incidents.Incident) fleet.Class {
	if i.Ending == "fills" || i.Ending == "goes on" {
		return fleet.Leak
	}
	return fleet.Healthy
}

// incidentTables returns the tables of some reports: all together, and each one.
func incidentTables(title string, of []life, opt options) []*table {
	if len(of) == 0 {
		return nil
	}
	all := make([]figures, len(of[0].outcomes))
	warned, ooms, hours := make([]int, len(all)), 0, 0.0
	var zombies, stayed matched
	for i := range of {
		for rule := range all {
			all[rule].add(class(of[i].incident), &of[i].outcomes[rule], opt.prices)
			warned[rule] += of[i].warned[rule]
		}
		ooms, hours = ooms+of[i].ooms, hours+of[i].incident.Hours
		zombies.add(of[i].zombies)
		stayed.add(of[i].stayed)
	}
	name := fmt.Sprintf("%s, seeds %d to %d: %d GPUs with a leak, %d healthy ones, %.0f h",
		title, opt.seeds.first, opt.seeds.last, all[0].scenarios[fleet.Leak], all[0].scenarios[fleet.Healthy], hours)
	main := compared(name, slices.DeleteFunc(rows(opt.prices), func(r row) bool {
		return strings.Contains(r.name, "growing") || strings.Contains(r.name, "cost") || strings.Contains(r.name, "oracle")
	}), opt.names(), all)
	announced := []string{"out-of-memories with an alarm 10 min before"}
	for rule := range all {
		announced = append(announced, share(warned[rule], ooms))
	}
	main.rows = append(main.rows, announced)
	who := &table{title: title + ": who it is", header: []string{"", "ours"}, rows: [][]string{
		{"zombies named", share(zombies.named, zombies.all)},
		{"others called zombies", strconv.Itoa(zombies.wrong)},
		{"unreleased memory named", share(stayed.named, stayed.all)},
		{"other memory called unreleased", strconv.Itoa(stayed.wrong)},
	}}
	return append([]*table{main, who}, reportTables(title, of)...)
}

// reportTables returns a table for each sort of reports, with a row for each.
func reportTables(title string, of []life) []*table {
	lost := &table{title: title + ": leaks", header: []string{"what was told", "found", "after", "announced", "before"}}
	kept := &table{title: title + ": memory that was held for nobody", header: []string{"what was told", "named"}}
	none := &table{title: title + ": what was taken for a leak and was none", header: []string{"what was told", "with an alarm"}}
	of2 := func(n, m int) string { return fmt.Sprintf("%d of %d", n, m) }
	for len(of) > 0 {
		one := of[0].incident
		told := fmt.Sprintf("[%s](%s): %s", one.Kind, one.Thread, one.Told)
		var f figures
		var named matched
		warned, ooms, announced := 0, 0, "–"
		var ahead []time.Duration
		for ; len(of) > 0 && of[0].incident == one; of = of[1:] {
			l := &of[0]
			f.add(class(one), &l.outcomes[0], defaultPrices)
			warned, ooms, ahead = warned+l.warned[0], ooms+l.ooms, append(ahead, l.ahead...)
			named.add(l.zombies)
			named.add(l.stayed)
		}
		if ooms > 0 {
			announced = of2(warned, ooms)
		}
		switch {
		case class(one) == fleet.Leak:
			lost.rows = append(lost.rows, []string{told, of2(f.found, f.leaks), short(f.delays, 0.5), announced, short(ahead, 0.5)})
		case one.Ending == "holds":
			kept.rows = append(kept.rows, []string{told, of2(named.named, named.all)})
		default:
			none.rows = append(none.rows, []string{told, of2(f.alarmed[fleet.Healthy], f.scenarios[fleet.Healthy])})
		}
	}
	return []*table{lost, kept, none}
}
