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

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/terminal"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
)

// Screen returns a page of text: that the GPUs are not real, what is said of the node, a line a memory, and the top users, at most
// that many. Names come from other users: they may hold anything.
func Screen(d *verdicts.Data, top int) string {
	var b bytes.Buffer
	if d.Note != "" {
		fmt.Fprintln(&b, sentence(d.Note))
	}
	fmt.Fprintf(&b, "%s: %s\nAs of %s\n", strings.ToUpper(word(d.Severity, len(d.Findings) > 0)), sentence(d.Text), d.Time.UTC().Format("2006-01-02 15:04:05 MST"))
	for i := range d.Findings {
		f := &d.Findings[i]
		if text := sentence(f.Text); !strings.HasPrefix(sentence(d.Text), text) {
			fmt.Fprintf(&b, "  %-9s  %s\n", word(f.Severity, true), text)
		}
	}
	memories(&b, d)
	users(&b, d, top)
	return b.String()
}

// word returns the word for a severity. All is well where nothing is said.
func word(severity string, said bool) string {
	if s := Of(severity); s != Well || !said {
		return s.String()
	}
	return "note"
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

// memories writes a line for each GPU and slice, and why what grows does not leak.
func memories(b *bytes.Buffer, d *verdicts.Data) {
	if len(d.Devices) == 0 {
		return
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	var why []string
	fmt.Fprint(w, "\nMEMORY\tUSED\tVERDICT\tPATTERN\tCONFIDENCE\tTIME LEFT\n")
	row := func(name string, m verdicts.Memory, domain *verdicts.Domain) {
		fmt.Fprintf(w, "%s\t%s\t%s\n", name, used(m), judgement(domain.Verdict))
		if v := domain.Verdict; v != nil && !v.Leak && (v.Withheld != nil || v.Seconds != nil) {
			why = append(why, name+": "+sentence(domain.Text))
		}
	}
	for i := range d.Devices {
		dev := &d.Devices[i]
		name := "GPU " + plain(dev.Labels["gpu"])
		switch {
		case !dev.Up:
			fmt.Fprintf(w, "%s\t-\t"+finding.Unreadable+"\t-\t-\t-\n", name)
		case len(dev.Instances) == 0:
			row(name, dev.Memory, &dev.Domain)
		}
		for i := range dev.Instances {
			in := &dev.Instances[i]
			row(fmt.Sprintf("%s, MIG %s (%s)", name, plain(in.Labels["gpu_instance"]), plain(in.Labels["profile"])), in.Memory, &in.Domain)
		}
	}
	_ = w.Flush() // into memory
	for _, text := range why {
		fmt.Fprintln(b, text)
	}
}

// used writes what is used of a memory.
func used(m verdicts.Memory) string {
	known := func(v *uint64) gpu.Opt[uint64] {
		if v == nil {
			return gpu.Opt[uint64]{}
		}
		return gpu.Some(*v)
	}
	return finding.Used(gpu.Memory{Used: known(m.Used), Total: known(m.Total), Reserved: known(m.Reserved)})
}

// judgement writes verdict, pattern, confidence and time left.
func judgement(v *verdicts.Verdict) string {
	if v == nil {
		return finding.NotJudged + "\t-\t-\t-"
	}
	confidence, left := "-", "-"
	if v.Confidence != nil {
		confidence = finding.Percent(*v.Confidence)
	}
	if v.Seconds != nil {
		if left = humanize.Seconds(*v.Seconds); !v.Leak {
			left += " if it goes on"
		}
	}
	return strings.Join([]string{plain(v.Text), cmp.Or(plain(v.Shape), "-"), confidence, left}, "\t")
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
			humanize.Bytes(float64(*p.Used)), verdict, cmp.Or(place(p), "-"))
	}
	_ = w.Flush() // into memory
	if more := len(all) - top; more > 0 {
		fmt.Fprintf(b, "and %d more\n", more)
	}
}

// place says in which pod or job a process runs, and whose it is.
func place(p *verdicts.Process) string {
	who := finding.Who{Namespace: p.Labels["namespace"], Pod: p.Labels["pod"], Container: p.Labels["container"], SlurmJob: p.Labels["slurm_job"], User: p.User}
	return sentence(who.Place())
}

// plain returns a name that a terminal can show, of 40 characters at most, and sentence a text of 1,000.
func plain(name string) string    { return terminal.Printable(name, 40) }
func sentence(text string) string { return terminal.Printable(text, 1000) }
