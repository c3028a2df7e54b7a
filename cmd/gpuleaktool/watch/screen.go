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
// node and of each memory, with the chapter of the runbook, a line a memory, and the top users, at most that many. On a terminal
// the row with the chosen ID is marked. Names come from other users: they may hold anything.
func Screen(d *verdicts.Data, top, columns int, chosen string) string {
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
			fmt.Fprintln(&found, Wrap(fmt.Sprintf("%-9s  %s", strings.Replace(plain(f.Severity), "unknown", Unknown.String(), 1), text), columns, indent))
		}
	}
	fmt.Fprintln(&b, Wrap(strings.ToUpper(Of(d.Severity).String())+": "+headline, columns, ""))
	fmt.Fprint(&b, d.Time.UTC().Format("As of 2006-01-02 15:04:05 MST\n"), &found)
	if i := d.Incident; i != nil {
		fmt.Fprintln(&b, Wrap(i.Time.UTC().Format("Last incident 2006-01-02 15:04: ")+sentence(i.Text), columns, indent))
	}
	table(&b, "MEMORY\tTIME LEFT\tVERDICT\tUSED", memories(d), columns, chosen)
	processes, more := users(d, top)
	table(&b, "PROCESS\tPID\tGPU\tHOLDS\tVERDICT\tOWNER", processes, columns, chosen)
	if more > 0 && top > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
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

// indent is before the lines on which a finding or an incident goes on, and goesOn is all of these.
const indent = "           "

var goesOn = regexp.MustCompile(`(?:\n` + indent + `.*)+`)

// Fit cuts a page to a terminal of that many columns and lines. Where it is too long, what is below the headline has a line each, and
// what is at the top stays: the headline and its time, as far as a row that is chosen leaves room for them.
func Fit(page string, columns, rows int) string {
	rows = max(rows, 3) // an answer below may leave no room
	if strings.Count(page, "\n") > rows-1 && columns > 0 {
		page = goesOn.ReplaceAllString(page, " …")
	}
	lines := strings.Split(strings.TrimSuffix(page, "\n"), "\n")
	if more := len(lines) - (rows - 1); more > 0 && columns > 0 {
		chosen := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, mark) })
		above := min(more, max(0, chosen-(rows-3)/2))
		head := min((rows-3)/2, 1+slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "As of ") }))
		if lines = slices.Delete(lines, head, head+above); more > above {
			lines = append(lines[:rows-2], fmt.Sprintf("… and %d more lines", more-above+1))
		}
	}
	for i, l := range lines {
		if r := []rune(l); len(r) > columns && columns > 1 {
			lines[i] = string(r[:columns-1]) + "…"
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// judged are the words that have a colour, severities at the begin of a line and verdicts in a column, and colours the numbers of
// these. A row that is chosen is reversed.
var (
	judged  = regexp.MustCompile(`(?m)^` + mark + `.*$|^(?i:page|ticket|well|not known)\b|  (?:leaks|no leak|` + finding.Broken + `|` + finding.Unreadable + `)(?:  |$)`)
	colours = map[string]int{"page": 31, finding.Leaks: 31, finding.Broken: 31, finding.Unreadable: 31, "ticket": 33, "not known": 33, "well": 32, finding.NoLeak: 32}
)

// Paint gives the words of a page their colours, as a terminal understands them.
func Paint(page string) string {
	return judged.ReplaceAllStringFunc(page, func(word string) string {
		const reversed = 7
		return fmt.Sprintf("\x1b[%dm%s\x1b[m", cmp.Or(colours[strings.ToLower(strings.TrimSpace(word))], reversed), word)
	})
}

// row is a line of a table: a memory or a process.
type row struct {
	id      string // the same on each screen
	anchor  string // of its memory, for links to the page that has all
	cells   string
	order   float64
	about   string            // what the finding on it has, if there is one
	process *verdicts.Process // nil of a memory
}

func rowOf(labels map[string]string, order float64, cells ...string) row {
	anchor := labels["uuid"]
	if instance := labels["gpu_instance"]; instance != "" {
		anchor += "-mig-" + instance
	}
	return row{id: fmt.Sprint(labels), anchor: anchor, order: order, cells: strings.Join(cells, "\t")}
}

// mark is before the row that is chosen.
const mark = "> "

// table writes rows below a heading. A terminal has room for the mark.
func table(b *bytes.Buffer, heading string, rows []row, columns int, chosen string) {
	if len(rows) == 0 {
		return
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	room := strings.Repeat(" ", min(columns, len(mark)))
	fmt.Fprint(w, "\n", room, heading, "\n")
	for _, r := range rows {
		begin := room
		if r.id == chosen {
			begin = mark
		}
		fmt.Fprint(w, begin, r.cells, "\n")
	}
	_ = w.Flush() // into memory
}

// memories returns a row for each GPU and slice: those that cannot be read, then those that are full first.
func memories(d *verdicts.Data) (rows []row) {
	add := func(name string, labels map[string]string, m verdicts.Memory, domain *verdicts.Domain) {
		seconds, left, v := math.Inf(1), "-", domain.Verdict
		if v != nil && v.Seconds != nil {
			seconds, left = *v.Seconds, humanize.Seconds(*v.Seconds)
		}
		r := rowOf(labels, seconds, name, left, word(v), used(m))
		r.about = domain.Text
		rows = append(rows, r)
	}
	for i := range d.Devices {
		dev := &d.Devices[i]
		name := sentence(dev.Title)
		switch {
		case !dev.Up:
			r := rowOf(dev.Labels, 0, name, "-", finding.Unreadable, "-")
			r.about = r.anchor // its finding has the UUID
			rows = append(rows, r)
		case len(dev.Instances) == 0:
			add(name, dev.Labels, dev.Memory, &dev.Domain)
		}
		for i := range dev.Instances {
			in := &dev.Instances[i]
			add(fmt.Sprintf("%s, MIG %s (%s)", name, plain(in.Labels["gpu_instance"]), plain(in.Labels["profile"])), in.Labels, in.Memory, &in.Domain)
		}
		for i := range dev.Limited {
			x := &dev.Limited[i]
			add(name+", limit of "+plain(cmp.Or(x.Labels["pod"], x.Labels["slurm_job"], x.Labels["process"])), x.Labels, x.Memory, &x.Domain)
			rows[len(rows)-1].id, rows[len(rows)-1].anchor = x.Path, x.Path // two may have the same labels
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.order, b.order) })
	return rows
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

// users returns a row for each of the processes that hold most, and how many more there are.
func users(d *verdicts.Data, top int) (rows []row, more int) {
	for i := range d.Devices {
		for j := range d.Devices[i].Processes {
			p := &d.Devices[i].Processes[j]
			if p.Used == nil {
				continue
			}
			r := rowOf(p.Labels, -float64(*p.Used), cmp.Or(plain(p.Labels["process"]), "-"), plain(p.Labels["pid"]), plain(p.Labels["gpu"]),
				humanize.Bytes(float64(*p.Used)), word(p.Verdict), cmp.Or(place(p), "-"))
			r.process, r.about = p, title(p)
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.order, b.order) })
	top = min(top, len(rows))
	return rows[:top], len(rows) - top
}

// place says in which pod or job a process runs, and whose it is.
func place(p *verdicts.Process) string {
	who := finding.Who{Namespace: p.Labels["namespace"], Pod: p.Labels["pod"], Container: p.Labels["container"], SlurmJob: p.Labels["slurm_job"], User: p.User}
	return sentence(who.Place())
}

// plain returns a name that a terminal can show, of 40 characters at most, and sentence a text of 1,000.
func plain(name string) string    { return cli.Printable(name, 40) }
func sentence(text string) string { return cli.Printable(text, 1000) }
