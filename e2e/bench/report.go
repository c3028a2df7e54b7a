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
	"text/tabwriter"
	"time"
)

// table is a title, a header and rows of as many cells.
type table struct {
	title  string
	header []string
	rows   [][]string
}

// write prints the table, aligned or as markdown.
func (t *table) write(w io.Writer, markdown bool) error {
	if markdown {
		return t.markdown(w)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "%s\n", t.title)
	for _, row := range slices.Insert(slices.Clone(t.rows), 0, t.header) {
		fmt.Fprintf(tw, "%s\n", strings.Join(row, "\t"))
	}
	fmt.Fprintln(tw)
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write a table: %w", err)
	}
	return nil
}

func (t *table) markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n| %s |\n|---|%s\n", t.title, strings.Join(t.header, " | "), strings.Repeat("---:|", len(t.header)-1))
	for _, row := range t.rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	b.WriteByte('\n')
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write a table: %w", err)
	}
	return nil
}

// figureRow is a row of a table of all rules.
type figureRow struct {
	name string
	of   func(f *figures) string
}

// The rows of the table of labelled series.
var (
	leakRows = []figureRow{
		{"precision (series)", func(f *figures) string { return percent(f.precision()) }},
		{"recall", func(f *figures) string { return share(f.found, f.leaks) }},
		{"found within 15 min", func(f *figures) string { return share(f.quick, f.leaks) }},
		{"… sampled at 15 s or finer", func(f *figures) string { return share(f.fineQuick, f.fine) }},
		{"steady ≥ 50 MB/min within 15 min", func(f *figures) string { return share(f.bigQuick, f.big) }},
		{"… sampled at 15 s or finer", func(f *figures) string { return share(f.bigFineQuick, f.bigFine) }},
		{"delay, median", func(f *figures) string { return delay(f, median(f.delays)) }},
		{"delay, 90 %", func(f *figures) string { return delay(f, quantile(f.delays, 0.9)) }},
		{"early alarms", func(f *figures) string { return share(f.early, f.leaks) }},
	}
	healthyRows = []figureRow{
		{"false episodes per 100 series-hours", func(f *figures) string { return number2(100 * float64(f.episodes) / f.hours) }},
		{"healthy series ever alarmed", func(f *figures) string { return share(f.alarmed, f.healthy) }},
		{"healthy time in alarm", func(f *figures) string { return percent(f.alarmedHours / f.hours) }},
		{"healthy series with a ticket", func(f *figures) string { return share(f.alerts.ticketed, f.healthy) }},
		{"healthy series ever paged", func(f *figures) string { return share(f.alerts.paged, f.healthy) }},
	}
	pageRows = []figureRow{
		{"out-of-memories with a page 10 min before", func(f *figures) string { return share(f.alerts.ahead, f.alerts.ooms) }},
		{"page to out-of-memory, median", func(f *figures) string { return lead(f, 0.5) }},
		{"page to out-of-memory, 10 % to 90 %", leadRange},
		{"leaks with a ticket or a page", func(f *figures) string { return share(f.alerts.told, f.leaks) }},
		{"leaks with a page before the onset", func(f *figures) string { return share(f.alerts.early, f.leaks) }},
	}
	forecastRows = []figureRow{
		{"ETA error at half-life, median", func(f *figures) string { return forecasts(f, median(f.errors)) }},
		{"ETA error at half-life, 90 %", func(f *figures) string { return forecasts(f, quantile(f.errors, 0.9)) }},
		{"90 % interval covers", func(f *figures) string { return share(f.covered, len(f.errors)) }},
		{"90 % interval, median width/true", width},
	}
)

// compared returns a table of all rules.
func compared(title string, rows []figureRow, names []string, all []*figures) *table {
	t := &table{title: title, header: append([]string{""}, names...)}
	for _, r := range rows {
		row := []string{r.name}
		for _, f := range all {
			row = append(row, r.of(f))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func share(n, m int) string {
	if m == 0 {
		return "–"
	}
	return fmt.Sprintf("%d/%d %s", n, m, percent(ratio(n, m)))
}

func percent(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*x)
}

func number2(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	return fmt.Sprintf("%.2f", x)
}

func delay(f *figures, d time.Duration) string {
	if len(f.delays) == 0 {
		return "–"
	}
	return short(d)
}

// lead returns a quantile of the times from a page to the out-of-memory.
func lead(f *figures, q float64) string {
	if len(f.alerts.leads) == 0 {
		return "–"
	}
	return short(quantile(f.alerts.leads, q))
}

// leadRange returns between which four fifths of the times from a page to the out-of-memory are.
func leadRange(f *figures) string {
	if len(f.alerts.leads) == 0 {
		return "–"
	}
	return lead(f, 0.1) + " to " + lead(f, 0.9)
}

func forecasts(f *figures, x float64) string {
	if len(f.errors) == 0 {
		return "–"
	}
	return percent(x)
}

func width(f *figures) string {
	w := median(f.widths)
	switch {
	case len(f.widths) == 0:
		return "–"
	case math.IsInf(w, 1):
		return "none"
	}
	return number2(w)
}

// byKind returns the tables of ours by kind of leak and of healthy series.
func byKind(results []judged) (leaks, healthy *table) {
	leaks = &table{
		title:  "Leaks by kind",
		header: []string{"kind", "n", "found", "in 15 min", "median delay", "90 % delay", "early", "ETA error", "covered"},
	}
	healthy = &table{
		title:  "Healthy series by kind (straight fills are counted in no other table)",
		header: []string{"kind", "n", "alarmed", "episodes", "hours", "in alarm"},
	}
	for _, of := range grouped(results) {
		if name := of[0].name; of[0].ours.leak {
			leaks.rows = append(leaks.rows, leakRow(name, of))
		} else {
			healthy.rows = append(healthy.rows, healthyRow(name, of))
		}
	}
	return leaks, healthy
}

// grouped returns the results by name, in the order of their first.
func grouped(results []judged) [][]judged {
	var groups [][]judged
	at := map[string]int{}
	for _, j := range results {
		i, ok := at[j.name]
		if !ok {
			i = len(groups)
			at[j.name] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], j)
	}
	return groups
}

func leakRow(name string, of []judged) []string {
	var f figures
	for i := range of {
		f.add(&of[i].ours)
	}
	return []string{
		strings.TrimPrefix(name, "leak-"), strconv.Itoa(f.leaks), strconv.Itoa(f.found), strconv.Itoa(f.quick), delay(&f, median(f.delays)),
		delay(&f, quantile(f.delays, 0.9)), strconv.Itoa(f.early), forecasts(&f, median(f.errors)), share(f.covered, len(f.errors)),
	}
}

func healthyRow(name string, of []judged) []string {
	var f figures
	for i := range of {
		f.addHealthy(&of[i].ours)
	}
	return []string{
		name, strconv.Itoa(f.healthy), strconv.Itoa(f.alarmed), strconv.Itoa(f.episodes), fmt.Sprintf("%.0f", f.hours),
		percent(f.alarmedHours / f.hours),
	}
}
