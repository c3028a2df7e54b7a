// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
)

// Status is how a node is. Its number is the exit status by which Nagios plugins and Slurm's
// HealthCheckProgram tell it.
type Status int

// The statuses.
const (
	Well Status = iota
	Ticket
	Page
	Unknown
)

// String returns the word for it.
func (s Status) String() string { return [...]string{"well", "ticket", "page", "not known"}[s] }

// Of returns the status that a severity stands for. One that nobody knows is not known.
func Of(severity string) Status {
	if i := slices.Index([]string{"note", "ticket", "page"}, severity); i >= 0 {
		return Status(i)
	}
	return Unknown
}

// Screen returns a page of text for a terminal of that many columns, 0 for none: that the GPUs are not real, what is said of the
// node and of each memory, with the chapter of the runbook, a line a memory, and the top users, at most that many. Names come from
// other users: they may hold anything.
func Screen(d *verdicts.Data, top, columns int) string {
	var b, found bytes.Buffer
	if d.Note != "" {
		fmt.Fprintln(&b, Wrap(sentence(d.Note), columns, ""))
	}
	headline := sentence(d.Text)
	for i := range d.Findings {
		f := &d.Findings[i]
		text := finding.Joined(" Runbook: ", sentence(f.Text), plain(f.Alert))
		if f.Text == d.Text {
			headline = text
		} else {
			fmt.Fprintln(&found, Wrap(fmt.Sprintf("%-9s  %s", strings.Replace(plain(f.Severity), "unknown", Unknown.String(), 1), text), columns, strings.Repeat(" ", 11)))
		}
	}
	fmt.Fprintln(&b, Wrap(strings.ToUpper(Of(d.Severity).String())+": "+headline, columns, ""))
	fmt.Fprint(&b, d.Time.UTC().Format("As of 2006-01-02 15:04:05 MST\n"), &found)
	if i := d.Incident; i != nil {
		fmt.Fprintln(&b, Wrap(i.Time.UTC().Format("Last incident 2006-01-02 15:04: ")+sentence(i.Text), columns, "  "))
	}
	memories(&b, d)
	users(&b, d, top)
	return b.String()
}

// Wrap breaks a text between words into lines of so many columns, all but the first behind an indent. 0 columns break nothing.
func Wrap(text string, columns int, indent string) string {
	var lines []string
	for columns > 0 && utf8.RuneCountInString(text) > columns {
		end := strings.LastIndexByte(string([]rune(text)[:columns+1]), ' ')
		if end <= len(indent) {
			break // a word that is longer
		}
		lines = append(lines, text[:end])
		text = indent + text[end+1:]
	}
	return strings.Join(append(lines, text), "\n")
}

// Fit cuts a page to a terminal of that many columns and lines: the most urgent lines are at the top, and
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

// judged are the words that have a colour, severities at the begin of a line and verdicts in a column, and colours the numbers of these.
var (
	judged  = regexp.MustCompile(`(?m)^(?i:page|ticket|well|not known)\b|  (?:leaks|no leak|` + finding.Broken + `|` + finding.Unreadable + `)(?:  |$)`)
	colours = map[string]int{"page": 31, finding.Leaks: 31, finding.Broken: 31, finding.Unreadable: 31, "ticket": 33, "not known": 33, "well": 32, finding.NoLeak: 32}
)

// Paint gives the words of a page their colours, as a terminal understands them.
func Paint(page string) string {
	return judged.ReplaceAllStringFunc(page, func(word string) string {
		return fmt.Sprintf("\x1b[%dm%s\x1b[m", colours[strings.ToLower(strings.TrimSpace(word))], word)
	})
}

// memories writes a line for each GPU and slice: those that cannot be read, then those that are full first.
func memories(b *bytes.Buffer, d *verdicts.Data) {
	if len(d.Devices) == 0 {
		return
	}
	type line struct {
		left float64
		text string
	}
	var lines []line
	row := func(name string, m verdicts.Memory, v *verdicts.Verdict) {
		seconds, left := math.Inf(1), "-"
		if v != nil && v.Seconds != nil {
			seconds, left = *v.Seconds, humanize.Seconds(*v.Seconds)
		}
		lines = append(lines, line{seconds, fmt.Sprintf("%s\t%s\t%s\t%s\n", name, left, word(v), used(m))})
	}
	for i := range d.Devices {
		dev := &d.Devices[i]
		name := "GPU " + plain(dev.Labels["gpu"])
		switch {
		case !dev.Up:
			lines = append(lines, line{0, name + "\t-\t" + finding.Unreadable + "\t-\n"})
		case len(dev.Instances) == 0:
			row(name, dev.Memory, dev.Verdict)
		}
		for i := range dev.Instances {
			in := &dev.Instances[i]
			row(fmt.Sprintf("%s, MIG %s (%s)", name, plain(in.Labels["gpu_instance"]), plain(in.Labels["profile"])), in.Memory, in.Verdict)
		}
		for i := range dev.Limited {
			x := &dev.Limited[i]
			row(name+", limit of "+plain(cmp.Or(x.Labels["pod"], x.Labels["slurm_job"], x.Labels["process"])), x.Memory, x.Verdict)
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.left, b.left) })
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\nMEMORY\tTIME LEFT\tVERDICT\tUSED\n")
	for _, l := range lines {
		fmt.Fprint(w, l.text)
	}
	_ = w.Flush() // into memory
}

// used writes the used memory.
func used(m verdicts.Memory) string {
	known := func(v *uint64) gpu.Opt[uint64] {
		if v == nil {
			return gpu.Opt[uint64]{}
		}
		return gpu.Some(*v)
	}
	return finding.Used(gpu.Memory{Used: known(m.Used), Total: known(m.Total), Reserved: known(m.Reserved)})
}

// word writes a verdict.
func word(v *verdicts.Verdict) string {
	if v == nil {
		return finding.NotJudged
	}
	return plain(v.Text)
}

// users writes the processes that hold most.
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
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(plain(p.Labels["process"]), "-"), plain(p.Labels["pid"]), plain(p.Labels["gpu"]),
			humanize.Bytes(float64(*p.Used)), word(p.Verdict), cmp.Or(place(p), "-"))
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
func plain(name string) string    { return cli.Printable(name, 40) }
func sentence(text string) string { return cli.Printable(text, 1000) }
