// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the leak detector, and the rules of other systems, on simulated GPUs:
//
//	bench --families | --incidents | --lives | --constants | --summary=NAME,NAME [--seeds=A-B] [--family=SUBSTRING]
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// options are the flags.
type options struct {
	seeds                                 seedRange
	family, summary                       string
	families, incidents, lives, constants bool
	list                                  []fleet.Family // those there are; a test has its own
}

// seedRange are the seeds from the first to the last.
type seedRange struct{ first, last uint64 }

func (r seedRange) count() int { return int(r.last - r.first + 1) }

func parseSeeds(s string) (seedRange, error) {
	from, to, ok := strings.Cut(s, "-")
	if !ok {
		to = from
	}
	first, err := strconv.ParseUint(from, 10, 32)
	last, err2 := strconv.ParseUint(to, 10, 32)
	if err := cmp.Or(err, err2); err != nil || first > last {
		return seedRange{}, fmt.Errorf("seeds %q are not a number, or two with - between them", s)
	}
	return seedRange{first, last}, nil
}

func main() {
	opt, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		began := time.Now()
		var out strings.Builder
		err = bench(&out, opt)
		if _, err2 := os.Stdout.WriteString(out.String()); err2 != nil {
			err = errors.Join(err, fmt.Errorf("write the page: %w", err2))
		}
		fmt.Fprintf(os.Stderr, "bench: took %s\n", time.Since(began).Round(time.Second))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	o := options{list: fleet.Families()}
	var seeds string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&seeds, "seeds", "1-2", "the first and the last seed; 1 to 100 are for tuning, publish from 301 on")
	f.StringVar(&o.family, "family", "", "only families, or reports, whose name contains this")
	f.BoolVar(&o.families, "families", false, "write how all rules do, with a line for each family; those held out are one")
	f.BoolVar(&o.incidents, "incidents", false, "live again what people reported")
	f.BoolVar(&o.lives, "lives", false, "tell what knowledge of the earlier lives of a program is worth")
	f.BoolVar(&o.constants, "constants", false, "print detector/CONSTANTS.md with what each constant costs at half and at double; an hour and a half")
	f.StringVar(&o.summary, "summary", "", "write a line for each of these populations: fleet,probes,reports,lives,limits")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	var err error
	o.seeds, err = parseSeeds(seeds)
	return o, err
}

// bench runs what the options ask for and writes it.
func bench(w *strings.Builder, opt options) error {
	switch {
	case opt.families:
		return benchFleet(w, opt)
	case opt.incidents:
		return benchIncidents(w, opt)
	case opt.lives:
		return benchLives(w, opt)
	case opt.constants:
		return benchConstants(w, opt)
	}
	return benchSummary(w, opt, strings.Split(opt.summary, ","))
}

// chosen returns the families that are asked for. Those that are Fresh are left out of all but some lines of the summary.
func (o *options) chosen(fresh bool) []fleet.Family {
	return slices.DeleteFunc(slices.Clone(o.list), func(f fleet.Family) bool {
		return !strings.Contains(f.Name, o.family) || f.Fresh && !fresh
	})
}
