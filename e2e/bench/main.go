// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the leak detector, and the rules of other systems, on
// labelled series of used GPU memory.
//
//	bench [--set=tune|test] [--series=N] [--kind=SUBSTRING] [--rivals=false] [--curve] [--hours=H]
//	      [--hard=N] [--exam=NAME,NAME] [--nodes] [--incidents] [--trade] [--seeds=A-B] [--traces=DIR] [--markdown] [--verbose]
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/workloads"
)

// intro is the begin of the page that --markdown writes.
const intro = `# How well leaks are detected

Written by ` + "`make bench-detect`" + ` from generated series, the used memory of a GPU and nothing else. The seeds
are not those that the detector was tuned on.

- A leak is **found** by an alarm that begins after the onset and is still on 10 min later, or when memory runs out.
- **Precision** counts series: those found, of those with an alarm that were found, that are healthy or that had an
  alarm before the onset (an **early** one).
- The **ETA** is judged in the middle between onset and out-of-memory, where that comes within 48 h; no forecast is
  an error of 100 % and does not cover.
- The rules of other systems, and the prototype of the study that this project began with, are built from their
  documents and asked once a minute; those that tell no interval or no ETA have none here. Ours is asked after each
  sample, but once a minute in the exams.
- An **exam** is sets of 80 leaks and 120 healthy series by an author who had seen neither the detector nor the other
  series. The ranges of its parameters were set so that the prototype and the rules of other systems fare about as on
  the unseen set of the study; no series was chosen by what a rule says of it.
- The exam **nodes** has GPUs with their processes instead: pods that share one, pools, crash loops, processes that hang, lists with gaps. The rules of other systems see
  the used memory, as ever. Most of its leaks begin with their program, or before the first sample, and many are slow: what counts there is before how many out-of-memories
  an alarm was on, and who is named.

`

// options are the flags.
type options struct {
	set    workloads.Set
	series int
	hours  float64
	kind   string
	exams  []exam
	seeds  seedRange
	nodes  bool
	// incidents are lived again, and then nothing else is measured.
	incidents bool
	hard      int
	traces    string
	rivals    bool
	curve     bool
	trade     bool
	verbose   bool
	markdown  bool
}

func main() {
	opt, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		out := bufio.NewWriter(os.Stdout)
		err = errors.Join(bench(out, opt), out.Flush())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	var set, names, seeds string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&set, "set", "tune", "the seeds: tune or test")
	f.IntVar(&o.series, "series", 6, "series of each kind; 0 for none")
	f.Float64Var(&o.hours, "hours", 0, "also run healthy series of 1 to 3 days for so many series-hours")
	f.StringVar(&o.kind, "kind", "", "only kinds whose name contains this")
	f.StringVar(&names, "exam", "", "also run these exams: "+examNames())
	f.BoolVar(&o.nodes, "nodes", false, "also run the exam of GPUs with their processes")
	f.BoolVar(&o.incidents, "incidents", false, "run what was reported in public, with nothing else")
	f.IntVar(&o.hard, "hard", 0, "also run so many series of each kind of healthy growth that only its end tells from a leak, with noise on it and without")
	f.StringVar(&seeds, "seeds", "1-10", "the sets of an exam: the first and the last seed; 1-10 were looked at in tuning, publish from 301 on")
	f.StringVar(&o.traces, "traces", "", "also run the real histories in this directory: logs of nvidia-smi (*.csv), and OpenMetrics text (*.om)")
	f.BoolVar(&o.rivals, "rivals", true, "measure the rules of other systems and the prototype too")
	f.BoolVar(&o.curve, "curve", false, "also tell what other leak thresholds would give")
	f.BoolVar(&o.trade, "trade", false, "tell what other thresholds would give in the exams and hours that are asked for, and nothing else")
	f.BoolVar(&o.verbose, "verbose", false, "a line for each leak that is missed and each healthy series with an alarm")
	f.BoolVar(&o.markdown, "markdown", false, "write markdown")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	var err error
	if o.set, err = workloads.SetNamed(set); err != nil {
		return o, err
	}
	if o.exams, err = examsNamed(names); err != nil {
		return o, err
	}
	o.seeds, err = parseSeeds(seeds)
	return o, err
}

// bench runs what the options ask for and writes the tables.
func bench(w io.Writer, opt options) error {
	if opt.incidents {
		return benchIncidents(w, opt)
	}
	var kinds []workloads.Kind
	for _, k := range workloads.Kinds() {
		if strings.Contains(k.Name, opt.kind) {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 0 && !opt.nodes && !slices.ContainsFunc(opt.exams, func(e exam) bool { return len(e.indices(opt.kind)) > 0 }) {
		return fmt.Errorf("no kind has a name that contains %q", opt.kind)
	}
	if opt.trade {
		return benchTrade(w, opt, kinds)
	}
	if opt.markdown {
		if _, err := io.WriteString(w, intro); err != nil {
			return err
		}
	}
	if opt.series > 0 && len(kinds) > 0 {
		if err := benchSeries(w, opt, kinds); err != nil {
			return err
		}
	}
	if opt.hours > 0 {
		if err := benchHours(w, opt, kinds); err != nil {
			return err
		}
	}
	if opt.hard > 0 {
		if err := benchHard(w, opt); err != nil {
			return err
		}
	}
	for _, e := range opt.exams {
		if err := benchExam(w, opt, e); err != nil {
			return err
		}
	}
	if opt.nodes {
		if err := benchNodes(w, opt); err != nil {
			return err
		}
	}
	if opt.traces != "" {
		return benchTraces(w, opt)
	}
	return nil
}

// writeNotes writes the lines of --verbose.
func writeNotes(w io.Writer, results []judged) {
	for i := range results {
		if results[i].note != "" {
			fmt.Fprintln(w, results[i].note)
		}
	}
}

// writeTables writes the tables that have rows.
func writeTables(w io.Writer, opt options, tables ...*table) error {
	for _, t := range tables {
		if len(t.rows) == 0 {
			continue
		}
		if err := t.write(w, opt.markdown); err != nil {
			return err
		}
	}
	return nil
}

// benchSeries writes the tables of the labelled series.
func benchSeries(w io.Writer, opt options, kinds []workloads.Kind) error {
	r := &runner{set: opt.set, rivals: opt.rivals, verbose: opt.verbose}
	jobs := jobsFor(kinds, opt.series)
	results, err := r.run(jobs)
	if err != nil {
		return err
	}
	writeNotes(w, results)
	leaks, healthy := byKind(results)
	if err := writeTables(w, opt, allRules(results, opt), leaks, healthy); err != nil || !opt.curve {
		return err
	}
	return benchCurve(w, opt, jobs)
}

// allRules returns the table of ours and the rivals.
func allRules(results []judged, opt options) *table {
	names, all := figuresOf(results, opt.rivals)
	f := all[0]
	title := fmt.Sprintf("Set %s: %d leaks, %d healthy series of %.0f h", opt.set, f.leaks, f.healthy, f.hours)
	return compared(title, slices.Concat(leakRows, healthyRows, forecastRows, pageRows), names, all)
}

// figuresOf returns the names and figures of ours and the rivals.
func figuresOf(results []judged, withRivals bool) (names []string, all []*figures) {
	names, all = []string{"ours"}, []*figures{{}}
	if withRivals {
		for _, rule := range rivalRules {
			names, all = append(names, rule.name), append(all, &figures{})
		}
	}
	for i := range results {
		all[0].add(&results[i].ours)
		for j := range results[i].rivals {
			all[j+1].add(&results[i].rivals[j])
		}
	}
	return names, all
}
