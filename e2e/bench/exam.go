// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams/jobs"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams/layers"
)

// exam is a generator of labelled sets, one a seed.
type exam struct {
	name string
	kind func(index int) string
	make func(seed uint64, index int) *exams.Series
}

// allExams are the exams that --exam knows.
var allExams = []exam{
	{"jobs", jobs.Kind, jobs.New},
	{"layers", layers.Kind, layers.New},
}

// examNames returns the names of all exams as --exam takes them.
func examNames() string {
	var names []string
	for _, e := range allExams {
		names = append(names, e.name)
	}
	return strings.Join(names, ",")
}

// examsNamed returns the exams of a list of names.
func examsNamed(list string) ([]exam, error) {
	if list == "" {
		return nil, nil
	}
	var found []exam
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(allExams, func(e exam) bool { return e.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no exam is named %q; there are %s", name, examNames())
		}
		found = append(found, allExams[i])
	}
	return found, nil
}

// seedRange is the seeds from first to last.
type seedRange struct{ first, last uint64 }

// count returns how many they are.
func (r seedRange) count() int { return int(r.last - r.first + 1) }

// parseSeeds reads the value of --seeds.
func parseSeeds(text string) (seedRange, error) {
	first, last, _ := strings.Cut(text, "-")
	a, errA := strconv.ParseUint(first, 10, 32)
	b, errB := strconv.ParseUint(last, 10, 32)
	if errA != nil || errB != nil || a > b {
		return seedRange{}, fmt.Errorf("seeds %q are not A-B with A <= B, such as 1-10", text)
	}
	return seedRange{a, b}, nil
}

// indices returns which series of a set are of a kind that contains the text.
func (e exam) indices(kind string) []int {
	var list []int
	for i := range exams.Leaks + exams.Healthy {
		if strings.Contains(e.kind(i), kind) {
			list = append(list, i)
		}
	}
	return list
}

// benchExam writes the tables of an exam.
func benchExam(w io.Writer, opt options, e exam) error {
	indices := e.indices(opt.kind)
	if len(indices) == 0 {
		return nil // another exam or the sets have that kind
	}
	r := &runner{rivals: opt.rivals, verbose: opt.verbose, minutely: true}
	results := parallel(opt.seeds.count()*len(indices), func(i int) judged {
		return r.examine(e, opt.seeds.first+uint64(i/len(indices)), indices[i%len(indices)])
	})
	if err := firstError(results); err != nil {
		return err
	}
	writeNotes(w, results)
	return writeTables(w, opt, examTables(results, opt, e)...)
}

// examine runs one series of an exam past all rules. A straight fill counts as any
// other healthy series: no label tells it from them.
func (r *runner) examine(e exam, seed uint64, index int) judged {
	s := e.make(seed, index)
	return r.judge(s.Kind, s, s.Capacity, examTruth(s), func(w *watch, o *outcome) string {
		return w.note(noted{fmt.Sprintf("%s/%d/%d", s.Kind, seed, index), s.Interval, s.Capacity, s.Rate}, o)
	})
}

// examTruth returns what is true of a series of an exam.
func examTruth(s *exams.Series) truth {
	return truth{
		leak: s.Leak, onset: s.Onset, half: s.HalfLife(), oom: s.OOM, halfLost: s.HalfLost, length: s.Length, fromStart: s.FromStart,
		steadyBig: s.Steady && s.Rate >= bigRate, fine: s.Interval <= finely,
	}
}

// laterRows are rows of exams alone: the labels of the sets do not say which leaks
// begin with their program.
var laterRows = []figureRow{
	{"found within 15 min, without leaks that begin with their program", func(f *figures) string {
		return share(f.laterQuick, f.later)
	}},
	{"steady ≥ 50 MB/min within 15 min, without leaks that begin with their program", func(f *figures) string {
		return share(f.bigLaterQuick, f.bigLater)
	}},
}

// examTables returns the table of all rules and those of ours by kind.
func examTables(results []judged, opt options, e exam) []*table {
	names, all := figuresOf(results, opt.rivals)
	f := all[0]
	title := fmt.Sprintf("Exam %s, seeds %d to %d: %d leaks, %d healthy series of %.0f h",
		e.name, opt.seeds.first, opt.seeds.last, f.leaks, f.healthy, f.hours)
	rules := compared(title, slices.Concat(leakRows, laterRows, healthyRows, forecastRows, pageRows), names, all)
	leaks, healthy := byKind(results)
	leaks.title = "Leaks by kind, exam " + e.name
	healthy.title = "Healthy series by kind, exam " + e.name
	return []*table{rules, leaks, healthy, calibration(results, e.name)}
}
