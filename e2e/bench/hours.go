// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/workloads"
)

// benchHours runs healthy series of 1 to 3 days, of each kind in turn but the
// straight fills, until they are so many hours together, and tells how many false
// episodes there are.
func benchHours(w io.Writer, opt options, kinds []workloads.Kind) error {
	jobs := hoursJobs(opt, kinds)
	if len(jobs) == 0 {
		return nil
	}
	r := &runner{set: opt.set, verbose: opt.verbose}
	results, err := r.run(jobs)
	if err != nil {
		return err
	}
	writeNotes(w, results)
	var f figures
	for i := range results {
		f.add(&results[i].ours)
	}
	_, healthy := byKind(results)
	healthy.title = fmt.Sprintf("Healthy series of 1 to 3 days, set %s: %d false episodes in %d of %d series and %.0f series-hours",
		opt.set, f.episodes, f.alarmed, f.healthy, f.hours)
	rate := 1e4 / f.hours
	healthy.rows = append(healthy.rows, []string{
		"all", strconv.Itoa(f.healthy), strconv.Itoa(f.alarmed), strconv.Itoa(f.episodes), fmt.Sprintf("%.0f", f.hours), percent(f.alarmedHours / f.hours),
	})
	if err := writeTables(w, opt, healthy, byAge(results)); err != nil {
		return err
	}
	apart := f.episodes - onFills(jobs, results, opt.set)
	var text strings.Builder
	for _, c := range []struct {
		name string
		n    int
	}{
		{"False episodes per 10,000 series-hours", f.episodes},
		{"Without those that begin in a straight fill of more than 15 minutes", apart},
		{"False tickets", f.alerts.falseTickets},
		{"False pages", f.alerts.falsePages},
	} {
		fmt.Fprintf(&text, "%s: %.2f, with 95 %% confidence at most %.2f. ", c.name, rate*float64(c.n), rate*poissonUpper(c.n, 0.95))
	}
	_, err = fmt.Fprintf(w, "%s\n\n", strings.TrimSpace(text.String()))
	return err
}

// onFills returns how many of the episodes began in a straight fill, such as the first tooth of a sawtooth of half
// an hour: what no label of a whole series tells.
func onFills(jobs []job, results []judged, set workloads.Set) int {
	n := 0
	for i, j := range jobs {
		begun := results[i].ours.begun
		s := j.kind.New(set, j.index, j.length)
		for len(begun) > 0 {
			t, _, ok := s.Next()
			if !ok {
				break
			}
			if t == begun[0] {
				count(&n, s.Fills())
				begun = begun[1:]
			}
		}
	}
	return n
}

// byAge returns the table of the false episodes by how long the memory was known when they
// began.
func byAge(results []judged) *table {
	t := &table{
		title:  "False episodes by how long the memory was watched before",
		header: []string{"from", "to", "episodes", "hours", "in 10,000 h", "at most, with 95 % confidence"},
	}
	ages := []time.Duration{0, 30 * time.Minute, 2 * time.Hour, 12 * time.Hour, math.MaxInt64}
	for i, from := range ages[:len(ages)-1] {
		to, name, episodes, hours := ages[i+1], short(ages[i+1]), 0, 0.0
		if i == len(ages)-2 {
			name = "the end"
		}
		for j := range results {
			o := &results[j].ours
			hours += max(0, min(o.length, to)-from).Hours()
			for _, at := range o.begun {
				if at >= from && at < to {
					episodes++
				}
			}
		}
		rate := 1e4 / hours
		t.rows = append(t.rows, []string{
			short(from), name, strconv.Itoa(episodes), fmt.Sprintf("%.0f", hours), number2(rate * float64(episodes)), number2(rate * poissonUpper(episodes, 0.95)),
		})
	}
	return t
}

// hoursJobs returns long series of each healthy kind in turn.
func hoursJobs(opt options, kinds []workloads.Kind) []job {
	var jobs []job
	hours := 0.0
	for i := 0; hours < opt.hours; i++ {
		before := hours
		for _, k := range kinds {
			if k.Leak || k.Straight || hours >= opt.hours {
				continue
			}
			jobs = append(jobs, job{k, i, workloads.Long})
			hours += k.New(opt.set, i, workloads.Long).Length.Hours()
		}
		if hours == before {
			break // only leaks were asked for
		}
	}
	return jobs
}

// poissonUpper returns the exact one-sided upper bound of the mean of a Poisson
// variable of which n were seen: the mean at which n or fewer have the
// probability 1 - confidence (Garwood 1936).
func poissonUpper(n int, confidence float64) float64 {
	lo, hi := 0.0, float64(n)+10*math.Sqrt(float64(n)+1)+10
	for range 100 {
		mid := (lo + hi) / 2
		if poissonCDF(n, mid) > 1-confidence {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// poissonCDF returns P(X <= n) for the mean.
func poissonCDF(n int, mean float64) float64 {
	sum, log := 0.0, -mean
	for k := 0; k <= n; k++ {
		if k > 0 {
			log += math.Log(mean / float64(k))
		}
		sum += math.Exp(log)
	}
	return sum
}
