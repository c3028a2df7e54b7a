// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the leak detector, and the rules of other systems, on simulated GPUs:
//
//	bench --families | --incidents | --lives | --constants | --summary=NAME,NAME [--seeds=A-B] [--family=SUBSTRING]
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// options are the flags.
type options struct {
	run             func(w *strings.Builder, opt options) error // what is asked for
	seeds           seedRange
	family, summary string
	list            []fleet.Family // those there are; a test has its own
}

// seedRange are the seeds from the first to the last.
type seedRange struct{ first, last uint64 }

func (r seedRange) count() int { return int(r.last - r.first + 1) }

func main() {
	opt, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		began := time.Now()
		var out strings.Builder
		err = opt.run(&out, opt)
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
	o := options{run: benchSummary, list: fleet.Families()}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	seeds := f.String("seeds", "1-2", "the first and the last seed; 1 to 100 are for tuning, publish from 301 on")
	f.StringVar(&o.family, "family", "", "only families, or reports, whose name contains this")
	f.StringVar(&o.summary, "summary", "", "write a line for each of these populations: fleet,probes,reports,lives,limits")
	mode := func(name, usage string, run func(w *strings.Builder, opt options) error) {
		f.BoolFunc(name, usage, func(string) error {
			o.run = run
			return nil
		})
	}
	mode("families", "write how all rules do, with a line for each family; those held out are one", benchFleet)
	mode("incidents", "live again what people reported", benchIncidents)
	mode("lives", "tell what knowledge of the earlier lives of a program is worth", benchLives)
	mode("constants", "print detector/CONSTANTS.md with what each constant costs at half and at double; an hour and a half", benchConstants)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if _, err := fmt.Sscanf(*seeds, "%d-%d", &o.seeds.first, &o.seeds.last); err != nil || o.seeds.first > o.seeds.last {
		return o, fmt.Errorf("seeds %q are not two numbers with - between them", *seeds)
	}
	return o, nil
}

// chosen returns the families that are asked for. Those that are Fresh are left out of all but some lines of the summary.
func (o *options) chosen(fresh bool) []fleet.Family {
	return slices.DeleteFunc(slices.Clone(o.list), func(f fleet.Family) bool {
		return !strings.Contains(f.Name, o.family) || f.Fresh && !fresh
	})
}
