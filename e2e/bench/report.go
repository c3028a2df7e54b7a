// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// table is a title, a header and rows of as many cells.
type table struct {
	title  string
	header []string
	rows   [][]string
}

// write prints the table as markdown; one without rows is left out.
func (t *table) write(w *strings.Builder) {
	if len(t.rows) == 0 {
		return
	}
	fmt.Fprintf(w, "## %s\n\n| %s |\n|---|%s\n", t.title, strings.Join(t.header, " | "), strings.Repeat("---:|", len(t.header)-1))
	for _, row := range t.rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
	w.WriteByte('\n')
}

//go:embed pages
var pages embed.FS

// writeIntro writes the begin of a page.
func writeIntro(w *strings.Builder, name string) {
	text, err := pages.ReadFile("pages/" + name + ".txt")
	if err != nil {
		panic(err) // it is in this program
	}
	w.Write(text)
}

// cells returns the rows of a main table, each with its name.
func cells(f *figures) [][2]string {
	return [][2]string{
		{"leaks found", share(f.found, f.leaks)},
		{"… and the right culprit named", share(f.named, f.listed*min(f.who, 1))},
		{"told before a quarter of the headroom was gone", share(f.inTime, f.rated)},
		{"delay, median", short(f.delays, 0.5)},
		{"delay, 90 %", short(f.delays, 0.9)},
		{"GPUs with an alarm before the leak", share(f.early, f.scenarios[fleet.Leak])},
		{"healthy, ordinary: ever alarmed", share(f.alarmed[fleet.Healthy], f.scenarios[fleet.Healthy])},
		{"healthy, growing: ever alarmed", share(f.alarmed[fleet.Growing], f.scenarios[fleet.Growing])},
		{"healthy: time in alarm", percent(f.alarmedHours / f.memoryHours)},
		{"false episodes in 10,000 h", number2(1e4 * float64(f.episodes) / f.freeHours)},
		{"out-of-memories paged 30 min ahead", share(f.ahead3, f.ooms)},
		{"out-of-memories paged 10 min ahead", share(f.ahead, f.ooms)},
		{"… at all", share(f.paged, f.ooms)},
		{"false pages in 1,000 healthy node-days", number1(f.perDays(f.pages))},
		{"false tickets in 1,000 healthy node-days", number1(f.perDays(f.tickets))},
		{"forecasts at half-life", share(len(f.forecasts[atHalf].errors), f.forecasts[atHalf].due)},
		{"… error, median", off(f.forecasts[atHalf].errors, 0.5)},
		{"… error, 90 %", off(f.forecasts[atHalf].errors, 0.9)},
		{"90 % interval at half-life covers", f.forecasts[atHalf].covers()},
		{"… median width/true", f.forecasts[atHalf].wide()},
		{"90 % interval at the first alarm covers", f.forecasts[atFirst].covers()},
		{"… median width/true", f.forecasts[atFirst].wide()},
		{"**cost of a fleet**", number0(f.cost())},
	}
}

// compared returns a table of all rules.
func compared(title string, names []string, all []figures) *table {
	t := &table{title: title, header: append([]string{""}, names...)}
	for i := range all {
		for n, cell := range cells(&all[i]) {
			if i == 0 {
				t.rows = append(t.rows, []string{cell[0]})
			}
			t.rows[n] = append(t.rows[n], cell[1])
		}
	}
	return t
}

func part(n, m int) string { return fmt.Sprintf("%d/%d", n, m) }

func share(n, m int) string {
	if m == 0 {
		return "–"
	}
	return part(n, m) + " " + percent(float64(n)/float64(m))
}

func percent(x float64) string { return formatted("%.1f %%", 100*x) }
func number0(x float64) string { return formatted("%.0f", x) }
func number1(x float64) string { return formatted("%.1f", x) }
func number2(x float64) string { return formatted("%.2f", x) }

func formatted(format string, x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "–"
	}
	return fmt.Sprintf(format, x)
}

// short returns a quantile in whole seconds.
func short(list []time.Duration, q float64) string {
	if len(list) == 0 {
		return "–"
	}
	return quantile(list, q).Round(time.Second).String()
}

// off returns a quantile of the errors.
func off(errors []float64, q float64) string {
	if len(errors) == 0 {
		return "–"
	}
	return percent(quantile(errors, q))
}

// wide returns the median width, of a rule that tells intervals.
func (f *forecasts) wide() string {
	w := median(f.widths)
	switch {
	case len(f.widths) == 0 || !slices.ContainsFunc(f.widths, func(w float64) bool { return w < math.Inf(1) }):
		return "–"
	case math.IsInf(w, 1):
		return "none"
	}
	return number2(w)
}

// covers returns how many intervals have the true time in them.
func (f *forecasts) covers() string {
	if f.wide() == "–" {
		return "–"
	}
	return share(f.covered, f.due)
}
