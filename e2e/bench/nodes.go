// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams/nodes"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/rivals"
)

// subject is what a verdict is on: a process, a pod or job, or, with neither, the memory
// that belongs to no process.
type subject struct {
	id    int
	group string
}

// nodeResult is what came of a story.
type nodeResult struct {
	kind string
	err  error
	// GPU is how the rules did on the GPU as a whole: ours, ours without the list of
	// processes, the rivals.
	gpu []outcome
	// Warned tells of each rule, as in gpu, before how many of the ooms an alarm had been on for ten minutes.
	warned []int
	ooms   int
	// Alerts are how those were paged by each rule, in whichever life.
	alerts []alerts
	// Ahead is for how long ours had been on before those of the ooms.
	ahead []time.Duration
	// Leaks are how ours did on each labelled leak by its name; pods says of which the
	// pod or job was named.
	leaks []outcome
	pods  []bool
	// Zombies and unreleased are the delays until they were named, never if they were not.
	zombies, idle, unreleased []time.Duration
	amounts                   []float64 // of unreleased memory, told/true
	// False ones: alarms of subjects that do not leak, processes called zombies by
	// ours and by the rule of idleness, memory called unreleased.
	innocent, falseZombies, falseIdle, falseUnreleased int
	// Foreseen are those of the innocent that leak later, as the next life in a crash loop does.
	foreseen              int
	processes, fragmented int
	changes               int // of patterns of the GPU
	hours                 float64
	notes                 []string
}

// benchNodes writes the tables of the exam of GPUs with their processes.
func benchNodes(w io.Writer, opt options) error {
	var indices []int
	for i := range nodes.Stories {
		if strings.Contains(nodes.Kind(i), opt.kind) {
			indices = append(indices, i)
		}
	}
	n := opt.seeds.count() * len(indices)
	results := parallel(n, func(i int) nodeResult {
		seed, index := opt.seeds.first+uint64(i/len(indices)), indices[i%len(indices)]
		return judgeStory(nodes.New(seed, index), seed, index, opt.rivals)
	})
	if err := told(w, results, opt.verbose); err != nil {
		return err
	}
	return writeTables(w, opt, append(nodeTables("Exam nodes", results, opt), nodesByKind(results))...)
}

// told writes what was noted of the stories, if wanted; the error is the first one's.
func told(w io.Writer, results []nodeResult, verbose bool) error {
	for i := range results {
		if err := results[i].err; err != nil {
			return fmt.Errorf("%s: %w", results[i].kind, err)
		}
		for k := 0; verbose && k < len(results[i].notes); k++ {
			fmt.Fprintln(w, results[i].notes[k])
		}
	}
	return nil
}

// judgeStory runs a story past all rules.
func judgeStory(s *nodes.Story, seed uint64, index int, withRivals bool) nodeResult {
	j := newStoryJudge(s, fmt.Sprintf("%s/%d/%d", s.Kind, seed, index), withRivals)
	if j.out.err != nil {
		return j.out
	}
	var f nodes.Frame
	minute := time.Duration(-1)
	for s.Next(&f) {
		ask := f.T.Truncate(time.Minute) > minute
		minute = f.T.Truncate(time.Minute)
		j.outOfMemory(f.T)
		j.observe(&f)
		if ask {
			j.ask(&f)
		}
		if j.out.err != nil {
			return j.out
		}
	}
	return j.end()
}

// storyJudge follows a story.
type storyJudge struct {
	story  *nodes.Story
	name   string
	out    nodeResult
	ours   *detector.Domain[int]
	frame  detector.Frame[int]
	alone  *ours
	others []rivals.Rule

	gpu []*scorer // in the order of nodeResult.gpu
	// alarms and pages follow the alarm and the page of each rule, in whichever life.
	alarms, pages []alert
	stop          time.Duration
	leaks         []*scorer
	group         map[int]string // by process

	on      map[subject]bool
	zombies map[int]bool
	quiet   map[int]time.Duration // since when a process has not computed
	idle    map[int]bool
	pieces  map[int]bool
	stays   map[int]bool
	pattern detector.Pattern
}

func newStoryJudge(s *nodes.Story, name string, withRivals bool) *storyJudge {
	j := &storyJudge{
		story: s, name: name, group: map[int]string{}, on: map[subject]bool{}, zombies: map[int]bool{}, quiet: map[int]time.Duration{},
		idle: map[int]bool{}, pieces: map[int]bool{}, stays: map[int]bool{},
	}
	j.out.kind, j.out.hours = s.Kind, s.Length.Hours()
	cfg := detector.DefaultConfig()
	if j.ours, j.out.err = detector.NewDomain(func(detector.Subject[int]) detector.Config { return cfg }); j.out.err != nil {
		return j
	}
	if j.alone, j.out.err = newOurs(detector.DefaultConfig()); j.out.err != nil {
		return j
	}
	j.others = []rivals.Rule{j.alone}
	if withRivals {
		for _, r := range rivalRules {
			j.others = append(j.others, r.make())
		}
	}
	is := j.truth()
	for range len(j.others) + 1 {
		j.gpu = append(j.gpu, newScorer(is))
	}
	j.alarms, j.out.warned = slices.Repeat([]alert{newAlert(0)}, len(j.gpu)), make([]int, len(j.gpu))
	j.pages, j.out.alerts = slices.Repeat([]alert{newAlert(pageFor)}, len(j.gpu)), make([]alerts, len(j.gpu))
	for i := range s.Leaks {
		j.leaks = append(j.leaks, newScorer(j.truthOf(&s.Leaks[i])))
		j.out.pods = append(j.out.pods, false)
	}
	j.out.zombies, j.out.idle, j.out.unreleased = nevers(len(s.Zombies)), nevers(len(s.Zombies)), nevers(len(s.Unreleased))
	return j
}

// nevers returns n times never.
func nevers(n int) []time.Duration { return slices.Repeat([]time.Duration{never}, n) }

// truth is what is true of the GPU: the leak that begins first, until memory runs
// out or the leak ends.
func (j *storyJudge) truth() truth {
	s := j.story
	if j.stop = s.Length; len(s.Leaks) == 0 {
		return truth{length: s.Length, fine: s.Interval <= finely}
	}
	first := &s.Leaks[0]
	for i := range s.Leaks {
		if s.Leaks[i].From < first.From {
			first = &s.Leaks[i]
		}
	}
	is := j.truthOf(first)
	if len(s.OOMs) > 0 && s.OOMs[0] <= first.To {
		is.setOOM(s.OOMs[0])
	}
	j.stop = first.To
	return is
}

// truthOf is what is true of a leak.
func (j *storyJudge) truthOf(l *nodes.Leak) truth {
	is := truth{
		leak: true, onset: l.From, length: l.To, steadyBig: l.Steady && l.Rate >= bigRate, fine: j.story.Interval <= finely, fromStart: l.FromStart,
	}
	if slices.ContainsFunc(j.story.OOMs, func(t time.Duration) bool { return t >= l.To-j.story.Interval && t <= l.To+j.story.Interval }) {
		is.setOOM(l.To)
	}
	return is
}

// setOOM notes when memory runs out.
func (t *truth) setOOM(at time.Duration) { t.oom, t.half = at, t.onset+(at-t.onset)/2 }

// observe hands a frame to all rules.
func (j *storyJudge) observe(f *nodes.Frame) {
	d := &j.frame
	d.T, d.Used, d.Capacity = start+f.T, detector.Of(float64(f.Used)), detector.Of(float64(j.story.Capacity))
	d.Complete, d.Members = f.Listed, d.Members[:0]
	for i := range f.Processes {
		p := &f.Processes[i]
		m := detector.Member[int]{
			Key: p.ID, Group: p.Group, Program: p.Name, Used: detector.Of(float64(p.Used)), Started: start + p.Started, CPU: detector.Of(p.CPU), State: stateOf(p.State),
		}
		if p.SM >= 0 {
			m.SM = detector.Of(p.SM)
		}
		d.Members = append(d.Members, m)
		if _, known := j.group[p.ID]; !known {
			j.out.processes++
		}
		j.group[p.ID] = p.Group
		j.rest(f.T, p)
	}
	if err := j.ours.Observe(d); err != nil {
		j.out.err = err
	}
	for _, r := range j.others {
		r.Observe(f.T, f.Used, j.story.Capacity)
	}
}

// stateOf translates a state.
func stateOf(s nodes.State) detector.ProcState {
	switch s {
	case nodes.Unkillable:
		return detector.StateUnkillable
	case nodes.Orphaned:
		return detector.StateOrphaned
	case nodes.Gone:
		return detector.StateGone
	}
	return detector.StateAlive
}

// rest is the rule of idleness: memory that was held for ten minutes without compute is a
// zombie's. It is what platforms offer who name zombies at all.
func (j *storyJudge) rest(t time.Duration, p *nodes.Process) {
	since, known := j.quiet[p.ID]
	switch {
	case p.SM != 0:
		delete(j.quiet, p.ID)
	case !known:
		j.quiet[p.ID] = t
	case t-since >= 10*time.Minute && p.Used >= 64<<20 && !j.idle[p.ID]:
		j.idle[p.ID] = true
		j.found(p.ID, t, j.out.idle, &j.out.falseIdle)
	}
}

// found notes that a process was called a zombie at t.
func (j *storyJudge) found(id int, t time.Duration, delays []time.Duration, wrong *int) {
	i := slices.IndexFunc(j.story.Zombies, func(z nodes.Zombie) bool { return z.ID == id && z.From <= t })
	if i < 0 {
		*wrong++
		return
	}
	delays[i] = t - j.story.Zombies[i].From
}

// ask asks all rules and scores what they say.
func (j *storyJudge) ask(f *nodes.Frame) {
	said := j.ours.Judgement()
	if v := &said.Device; v.Judged && v.Pattern != j.pattern {
		j.pattern = v.Pattern
		j.out.changes++
	}
	j.askGPU(f.T, 0, newAnswer(&said.Device))
	for i, r := range j.others {
		var a answer
		a.leak, a.eta, a.lower, a.upper = r.Verdict()
		j.askGPU(f.T, i+1, a)
	}
	j.askLeaks(f, said)
	for i := range said.Members {
		m := &said.Members[i]
		j.alarm(f.T, subject{id: m.Key}, &m.Verdict)
		switch {
		case !m.Judged:
		case m.Pattern == detector.PatternZombie && !j.zombies[m.Key]:
			j.zombies[m.Key] = true
			before := j.out.falseZombies
			if j.found(m.Key, f.T, j.out.zombies, &j.out.falseZombies); j.out.falseZombies > before {
				j.note("false zombie %d %s", m.Key, short(f.T))
			}
		case m.Pattern == detector.PatternFragmentation && !j.pieces[m.Key]:
			j.pieces[m.Key] = true
			j.out.fragmented++
		}
	}
	for i := range said.Groups {
		j.alarm(f.T, subject{group: said.Groups[i].Group}, &said.Groups[i].Verdict)
	}
	j.alarm(f.T, subject{}, &said.Residual)
	j.askUnreleased(f.T, said)
}

// note keeps a line for --verbose.
func (j *storyJudge) note(format string, args ...any) {
	j.out.notes = append(j.out.notes, j.name+": "+fmt.Sprintf(format, args...))
}

// answer is what a rule says.
type answer struct {
	leak              bool
	eta, lower, upper float64
}

// newAnswer returns what a verdict of ours says.
func newAnswer(v *detector.Verdict) answer {
	if !v.Judged {
		return answer{eta: math.NaN(), lower: math.NaN(), upper: math.NaN()}
	}
	return answer{v.Leak, number(v.SecondsToOOM), number(v.Lower), number(v.Upper)}
}

// observe scores an answer.
func (a answer) observe(s *scorer, t time.Duration) { s.observe(t, a.leak, a.eta, a.lower, a.upper) }

// askGPU scores what a rule says of the GPU.
func (j *storyJudge) askGPU(t time.Duration, rule int, a answer) {
	if t <= j.stop {
		a.observe(j.gpu[rule], t)
	}
	j.alarms[rule].observe(t, a.leak)
	j.pages[rule].observe(t, pages(a.leak, a.eta))
}

// outOfMemory counts who had warned, before what is said at t or later.
func (j *storyJudge) outOfMemory(t time.Duration) {
	for j.out.ooms < len(j.story.OOMs) && j.story.OOMs[j.out.ooms] <= t {
		at := j.story.OOMs[j.out.ooms]
		for i := range j.alarms {
			since := j.alarms[i].on
			count(&j.out.warned[i], since != never && since <= at-held)
			j.out.alerts[i].outOfMemory(j.pages[i].on, at)
		}
		ours := j.alarms[0].on
		if ours != never {
			j.out.ahead = append(j.out.ahead, at-ours)
		}
		if ours == never || ours > at-held {
			j.note("unannounced OOM %d at %s", j.out.ooms, short(at))
		}
		j.out.ooms++
	}
}

// askLeaks scores the verdicts on what is labelled.
func (j *storyJudge) askLeaks(f *nodes.Frame, said *detector.Judgement[int]) {
	for i := range j.story.Leaks {
		l := &j.story.Leaks[i]
		if f.T > l.To {
			continue
		}
		v, pod := &said.Residual, l.Group
		if l.ID != 0 {
			v, pod = nil, j.group[l.ID]
			if k := slices.IndexFunc(said.Members, func(m detector.MemberVerdict[int]) bool { return m.Key == l.ID }); k >= 0 {
				v = &said.Members[k].Verdict
			}
		}
		if k := slices.IndexFunc(said.Groups, func(g detector.GroupVerdict) bool { return g.Group == pod }); k >= 0 {
			g := &said.Groups[k].Verdict
			j.out.pods[i] = j.out.pods[i] || f.T >= l.From && g.Judged && g.Leak
			if l.ID == 0 && l.Group != "" {
				v = g
			}
		} else if l.ID == 0 && l.Group != "" {
			v = nil
		}
		if v != nil {
			newAnswer(v).observe(j.leaks[i], f.T)
		}
	}
}

// alarm counts the begin of an alarm on what does not leak. For ten minutes after its end a leak is still one.
func (j *storyJudge) alarm(t time.Duration, who subject, v *detector.Verdict) {
	leak := v.Judged && v.Leak
	if leak && !j.on[who] && !slices.ContainsFunc(j.story.Leaks, func(l nodes.Leak) bool { return l.From <= t && t <= l.To+held && j.accused(who, &l) }) {
		j.out.innocent++
		count(&j.out.foreseen, slices.ContainsFunc(j.story.Leaks, func(l nodes.Leak) bool { return l.From > t && j.accused(who, &l) }))
		j.note("innocent %+v at %s: %s %.2f", who, short(t), v.Pattern, v.Confidence)
	}
	j.on[who] = leak
}

// accused reports whether an alarm on the subject is one on that leak: it may name the process, its pod, or a
// process of a pod that leaks.
func (j *storyJudge) accused(who subject, l *nodes.Leak) bool {
	switch {
	case l.ID == 0 && l.Group == "":
		return who == subject{}
	case l.ID == 0:
		return who.group == l.Group || who.id != 0 && j.group[who.id] == l.Group
	}
	return who.id == l.ID || who.group != "" && who.group == j.group[l.ID]
}

// askUnreleased scores what is named as unreleased.
func (j *storyJudge) askUnreleased(t time.Duration, said *detector.Judgement[int]) {
	for i := range said.Unreleased {
		u := &said.Unreleased[i]
		if j.stays[u.Key] {
			continue
		}
		j.stays[u.Key] = true
		k := slices.IndexFunc(j.story.Unreleased, func(x nodes.Unreleased) bool { return x.ID == u.Key })
		if k < 0 {
			j.out.falseUnreleased++
			j.note("false unreleased %d at %s: %.0f MiB", u.Key, short(t), u.Used/(1<<20))
			continue
		}
		j.out.unreleased[k] = t - j.story.Unreleased[k].From
		j.out.amounts = append(j.out.amounts, u.Used/float64(j.story.Unreleased[k].Bytes))
	}
}

// end returns the result after the last frame.
func (j *storyJudge) end() nodeResult {
	for _, s := range j.gpu {
		j.out.gpu = append(j.out.gpu, s.end())
	}
	for i, s := range j.leaks {
		o := s.end()
		j.out.leaks = append(j.out.leaks, o)
		if l := &j.story.Leaks[i]; o.found == never {
			j.note("missed leak of %d %q, %.2f MiB/s from %s to %s, pod %v", l.ID, l.Group, l.Rate/(1<<20), short(l.From), short(l.To), j.out.pods[i])
		}
	}
	if o := &j.out.gpu[0]; o.leak {
		j.note("GPU: onset %s oom %s stop %s found %s start %v oft %d", short(o.onset), short(o.oom), short(j.stop), short(o.found), o.fromStart, len(j.story.OOMs))
	}
	if o := &j.out.gpu[0]; !o.leak && len(o.begun) > 0 {
		j.note("false: %d alarms on the GPU, first at %s", len(o.begun), short(o.first()))
	}
	for i, z := range j.story.Zombies {
		if j.out.zombies[i] == never {
			j.note("missed zombie %d from %s to %s", z.ID, short(z.From), short(z.To))
		}
	}
	for i, u := range j.story.Unreleased {
		if j.out.unreleased[i] == never {
			j.note("missed unreleased %d, %d MiB from %s to %s", u.ID, u.Bytes>>20, short(u.From), short(u.To))
		}
	}
	return j.out
}

// nodeTables returns the tables of an exam with processes, but for those by kind.
func nodeTables(exam string, results []nodeResult, opt options) []*table {
	names := []string{"ours", "ours without processes"}
	if opt.rivals {
		for _, r := range rivalRules {
			names = append(names, r.name)
		}
	}
	all := make([]*figures, len(names))
	for i := range all {
		all[i] = &figures{}
		for k := range results {
			all[i].add(&results[k].gpu[i])
		}
		all[i].alerts.deaths(results, i)
	}
	f := all[0]
	title := fmt.Sprintf("%s, seeds %d to %d: %d GPUs with a leak, %d healthy ones of %.0f h", exam, opt.seeds.first, opt.seeds.last, f.leaks, f.healthy, f.hours)
	rules := compared(title, slices.Concat(leakRows, healthyRows, forecastRows, pageRows), names, all)
	row := []string{"out-of-memories with an alarm 10 min before"}
	for i := range names {
		warned, ooms := 0, 0
		for k := range results {
			warned, ooms = warned+results[k].warned[i], ooms+results[k].ooms
		}
		row = append(row, share(warned, ooms))
	}
	rules.rows = append(rules.rows, row)
	return []*table{rules, whoTable(exam, results)}
}

// deaths puts all out-of-memories of the stories in the place of the first of each.
func (a *alerts) deaths(results []nodeResult, rule int) {
	a.ooms, a.ahead, a.leads = 0, 0, nil
	for i := range results {
		of := &results[i].alerts[rule]
		a.ooms, a.ahead, a.leads = a.ooms+of.ooms, a.ahead+of.ahead, append(a.leads, of.leads...)
	}
}

// whoTable tells how well it is named who holds memory.
func whoTable(exam string, results []nodeResult) *table {
	t := &table{title: exam + ": who it is", header: []string{"", "ours"}}
	var sum nodeResult
	var f figures
	either, zombies, idle, unreleased := 0, 0, 0, 0
	for i := range results {
		r := &results[i]
		for k := range r.leaks {
			f.add(&r.leaks[k])
			count(&either, r.pods[k] || r.leaks[k].found != never)
		}
		sum.zombies, sum.idle, sum.unreleased = append(sum.zombies, r.zombies...), append(sum.idle, r.idle...), append(sum.unreleased, r.unreleased...)
		sum.amounts = append(sum.amounts, r.amounts...)
		sum.innocent += r.innocent
		sum.foreseen += r.foreseen
		sum.falseZombies += r.falseZombies
		sum.falseIdle += r.falseIdle
		sum.falseUnreleased += r.falseUnreleased
		sum.processes += r.processes
		sum.fragmented += r.fragmented
		sum.changes += r.changes
		sum.hours += r.hours
	}
	for i := range sum.zombies {
		count(&zombies, sum.zombies[i] != never)
		count(&idle, sum.idle[i] != never)
	}
	for _, d := range sum.unreleased {
		count(&unreleased, d != never)
	}
	row := func(name, value string) { t.rows = append(t.rows, []string{name, value}) }
	row("leaks of processes, pods or nobody that were named", share(f.found, f.leaks))
	row("… or whose pod was", share(either, f.leaks))
	row("… within 15 min", share(f.quick, f.leaks))
	row("alarms on what does not leak", fmt.Sprintf("%d of %d processes in %.0f h", sum.innocent, sum.processes, sum.hours))
	row("… of them on what leaks later", strconv.Itoa(sum.foreseen))
	row("zombies named", share(zombies, len(sum.zombies)))
	row("… by the rule of ten minutes without compute", share(idle, len(sum.idle)))
	row("others called zombies", strconv.Itoa(sum.falseZombies))
	row("… by the rule of ten minutes without compute", strconv.Itoa(sum.falseIdle))
	row("unreleased memory named", share(unreleased, len(sum.unreleased)))
	row("… told/true, median", number2(median(sum.amounts)))
	row("other memory called unreleased", strconv.Itoa(sum.falseUnreleased))
	row("processes called fragmented", strconv.Itoa(sum.fragmented))
	row("changes of a GPU's pattern an hour", number2(float64(sum.changes)/sum.hours))
	return t
}

// nodesByKind returns the table by kind of story.
func nodesByKind(results []nodeResult) *table {
	t := &table{
		title:  "Exam nodes, by kind",
		header: []string{"kind", "n", "GPU found", "in 15 min", "GPU alarms", "leaks named", "innocent", "zombies", "false", "unreleased", "false", "ETA error", "covered", "changes/h", "warned"},
	}
	var kinds []string
	for i := range results {
		if !slices.Contains(kinds, results[i].kind) {
			kinds = append(kinds, results[i].kind)
		}
	}
	for _, kind := range kinds {
		t.rows = append(t.rows, nodeRow(kind, slices.Collect(func(yield func(*nodeResult) bool) {
			for i := range results {
				if results[i].kind == kind && !yield(&results[i]) {
					return
				}
			}
		})))
	}
	return t
}

func nodeRow(kind string, of []*nodeResult) []string {
	var gpus, leaks figures
	var innocent, zombies, falseZombies, unreleased, falseUnreleased, z, u, changes, warned, ooms int
	hours := 0.0
	for _, r := range of {
		gpus.add(&r.gpu[0])
		for i := range r.leaks {
			leaks.add(&r.leaks[i])
		}
		for _, d := range r.zombies {
			count(&zombies, d != never)
		}
		for _, d := range r.unreleased {
			count(&unreleased, d != never)
		}
		z, u = z+len(r.zombies), u+len(r.unreleased)
		innocent += r.innocent
		falseZombies += r.falseZombies
		falseUnreleased += r.falseUnreleased
		changes += r.changes
		hours += r.hours
		warned, ooms = warned+r.warned[0], ooms+r.ooms
	}
	of2 := func(n, m int) string { return fmt.Sprintf("%d/%d", n, m) }
	return []string{
		kind, strconv.Itoa(len(of)), of2(gpus.found, gpus.leaks), strconv.Itoa(gpus.quick), strconv.Itoa(gpus.episodes), of2(leaks.found, leaks.leaks), strconv.Itoa(innocent),
		of2(zombies, z), strconv.Itoa(falseZombies), of2(unreleased, u), strconv.Itoa(falseUnreleased), forecasts(&gpus, median(gpus.errors)),
		share(gpus.covered, len(gpus.errors)), number2(float64(changes) / hours), of2(warned, ooms),
	}
}
