// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/withheld"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/wording"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Screen returns a page of text: that the GPUs are not real, the findings, a line a memory, and the top users, at
// most that many.
func Screen(d *verdicts.Data, findings []Finding, top int) string {
	var b bytes.Buffer
	if d.Note != "" {
		fmt.Fprintln(&b, humanize.Printable(d.Note, 500))
	}
	fmt.Fprintf(&b, "%s, as of %s\n", headline(d, findings), d.Time.UTC().Format("2006-01-02 15:04:05 MST"))
	for i, f := range findings {
		if i > 0 { // the first is the headline
			fmt.Fprintf(&b, "  %-9s  %s\n", f.Status, f.Text)
		}
	}
	memories(&b, d)
	users(&b, d, top)
	return b.String()
}

// Fit cuts a page to a terminal of that many columns and lines: what is most urgent stands at the top, and
// must not scroll away.
func Fit(page string, columns, rows int) string {
	lines := strings.Split(strings.TrimSuffix(page, "\n"), "\n")
	if more := len(lines) - (rows - 1); more > 0 && rows > 2 {
		lines = append(lines[:rows-2], fmt.Sprintf("… and %d more lines", more+1))
	}
	for i, l := range lines {
		if r := []rune(l); len(r) > columns && columns > 1 {
			lines[i] = string(r[:columns-1]) + "…"
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// headline sums up in one line.
func headline(d *verdicts.Data, findings []Finding) string {
	if len(findings) > 0 {
		return strings.ToUpper(findings[0].Status.String()) + ": " + strings.TrimSuffix(findings[0].Text, ".")
	}
	if len(d.Devices) == 1 {
		return "WELL: no leak found on 1 GPU"
	}
	return fmt.Sprintf("WELL: no leak found on %d GPUs", len(d.Devices))
}

// memories writes a line for each GPU and slice.
func memories(b *bytes.Buffer, d *verdicts.Data) {
	if len(d.Devices) == 0 {
		return
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\nMEMORY\tUSED\tVERDICT\tPATTERN\tCONFIDENCE\tTIME LEFT\n")
	for i := range d.Devices {
		dev := &d.Devices[i]
		if !dev.Up {
			fmt.Fprintf(w, "%s\t-\t"+wording.Unreadable+"\t-\t-\t-\n", gpuName(dev))
			continue
		}
		for _, m := range domainsOf(dev) {
			fmt.Fprintf(w, "%s\t%s\t%s\n", m.name, wording.Memory(m.memory), judgement(m.verdict))
		}
	}
	_ = w.Flush() // into memory
	for i := range d.Devices {
		for _, m := range domainsOf(&d.Devices[i]) {
			if text := reason(m.verdict); text != "" {
				fmt.Fprintf(b, "%s: %s\n", m.name, text)
			}
		}
	}
}

// reason says why growth is not called a leak yet; "" where nothing is suspected.
func reason(v *verdicts.Verdict) string {
	if !isJudged(v) || v.Leak || v.Withheld == nil {
		return ""
	}
	text := withheld.WordsOf(plain(*v.Withheld))
	if v.WithheldS != nil {
		const most = 10 * 365 * 24 * 60 * 60 // seconds; an exporter elsewhere may say anything
		text = withheld.Sentence(text, time.Duration(max(0, min(*v.WithheldS, most))*float64(time.Second)))
	}
	return "no leak yet: it " + text + "."
}

// clearFrom is the confidence from which on a leak is not ruled out, as the exporter has it by default.
var clearFrom = func() float64 { c := detector.DefaultConfig(); return c.ClearThreshold() }()

// judgement writes verdict, pattern, confidence and time left.
func judgement(v *verdicts.Verdict) string {
	word, remains := wording.Verdict(v, clearFrom), "-"
	if v == nil {
		return word + "\t-\t-\t-"
	}
	if v.Seconds != nil {
		remains = left(v.Seconds, v.Lower, v.Upper)
		if !v.Leak {
			remains += " if it goes on"
		}
	}
	confidence := "-"
	if v.Confidence != nil {
		confidence = wording.Percent(*v.Confidence)
	}
	return strings.Join([]string{word, cmp.Or(wording.Pattern(plain(v.Pattern), v.Leaked), "-"), confidence, remains}, "\t")
}

// users writes who holds most.
func users(b *bytes.Buffer, d *verdicts.Data, top int) {
	var all []*verdicts.Process
	for i := range d.Devices {
		for j := range d.Devices[i].Processes {
			if p := &d.Devices[i].Processes[j]; p.Used != nil {
				all = append(all, p)
			}
		}
	}
	if len(all) == 0 || top == 0 {
		return
	}
	slices.SortStableFunc(all, func(a, b *verdicts.Process) int { return cmp.Compare(*b.Used, *a.Used) })
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\nPROCESS\tPID\tGPU\tHOLDS\tVERDICT\tOWNER\n")
	for _, p := range all[:min(top, len(all))] {
		verdict, _, _ := strings.Cut(judgement(p.Verdict), "\t")
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(plain(p.Labels["process"]), "-"), plain(p.Labels["pid"]), plain(p.Labels["gpu"]),
			humanize.Bytes(float64(*p.Used)), verdict, cmp.Or(place(p.Labels, p.User), "-"))
	}
	_ = w.Flush() // into memory
	if more := len(all) - top; more > 0 {
		fmt.Fprintf(b, "and %d more\n", more)
	}
}
