// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
)

// briefRows is how many processes without a verdict have rows: on a GPU there may be
// thousands of them, each of which lives for seconds.
const (
	briefRows  = 10
	briefWords = "processes that ended before a verdict"
)

// brief reports whether it is a process, pod or job that was not judged.
func (f *result) brief() bool { return f.kind != kindMemory && !f.judged() && !f.final().muted }

// writeTable writes a row for each series, those that leak first, and the headline
// below it.
func writeTable(w io.Writer, list []result, loc *time.Location) error {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	leaks := slices.ContainsFunc(list, func(f result) bool { return f.level > levelNone })
	head := []string{"SERIES", "SPAN", "SAMPLES", "PEAK", "VERDICT", "PATTERN"}
	if leaks {
		head = append(head, "GROWTH", "LEAKED", "FORECAST", "ALERT")
	}
	shown, brief := rows(list)
	row := func(cells []string) { fmt.Fprintln(t, strings.Join(cells, "\t")) }
	row(head)
	for i := range shown {
		f := &shown[i]
		cells := []string{f.title(), humanize.Duration(f.span()), strconv.FormatUint(f.samples, 10), f.peakText(), f.verdict(loc), cmp.Or(f.pattern(), "-")}
		if leaks {
			for _, cell := range []string{f.growth(), f.retained(), f.forecast(), f.told(loc)} {
				cells = append(cells, cmp.Or(cell, "-"))
			}
		}
		row(cells)
	}
	t.Flush() // into a buffer
	if brief > 0 {
		fmt.Fprintf(&b, "... and %d more %s\n", brief, briefWords)
	}
	fmt.Fprintf(&b, "\n%s\n", headline(list, loc))
	_, err := b.WriteTo(w)
	return err
}

// rows returns what has a row, in the order of compare, and how many processes without a verdict
// have none.
func rows(list []result) (shown []result, brief int) {
	for _, f := range slices.SortedStableFunc(slices.Values(list), compare) {
		if f.brief() {
			if brief++; brief > briefRows {
				continue
			}
		}
		shown = append(shown, f)
	}
	return shown, max(0, brief-briefRows)
}
