// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"encoding/csv"
	"errors"
	"io"
	"regexp"
	"strings"
)

// stamp is what other programs put before each line: kubectl logs --timestamps, docker logs -t, ts of moreutils, journalctl,
// and container runtimes in their files. Its first group is a time that can be read, which some write without the year.
var stamp = regexp.MustCompile(`^(?:(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)|` +
	`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)(?: std(?:out|err) [FP]| \S+ \S+\[\d+\]:)? `)

// mostBefore is how many lines of another program may stand before the first one of a log, or of its header.
const mostBefore = 20

// Rewrite returns a function that makes the lines of a log that begins with head such as nvidia-smi writes them: another
// program has put its time before each line, or has saved the CSV with quotes, semicolons or tabs. It is nil if there is
// nothing to do.
func Rewrite(head string) func(line string) string {
	n := 0
	for line := range strings.Lines(head) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if m := stamp.FindStringSubmatch(line + " "); m != nil {
			if rewrite := unstamp(line[min(len(m[0]), len(line)):], m[1], head); rewrite != nil {
				return rewrite
			}
		} else if comma := commaOf(line); isSMINames(line, comma) {
			if comma == ',' && !strings.Contains(line, `"`) {
				return nil
			}
			return func(line string) string { return plainRow(line, comma) }
		}
		if n++; n > mostBefore {
			break
		}
	}
	return nil
}

// HasSMIHeader reports whether a log that begins with head has a header of nvidia-smi --query-gpu or --query-compute-apps
// among its first lines.
func HasSMIHeader(head string) bool {
	n := 0
	for line := range strings.Lines(head) {
		if isSMINames(strings.TrimSpace(line), ',') {
			return true
		}
		if n++; n > mostBefore {
			break
		}
	}
	return false
}

// unstamp returns how the times are taken off the lines of a log that has such a line behind one of them. A log of GPUs that
// tells no time of its own keeps them as columns. In one of processes they would tear lists apart.
func unstamp(line, time, head string) func(string) string {
	strip := func(line string) string {
		if m := stamp.FindString(line); m != "" {
			return line[len(m):]
		}
		return line
	}
	if isSMINames(line, ',') {
		if time != "" && !strings.Contains(line, "timestamp") && !strings.Contains(line, "pid") {
			return smiStamped
		}
		return strip
	}
	var stripped strings.Builder
	for line := range strings.Lines(head) {
		stripped.WriteString(strip(line))
	}
	names, isHeader := strings.CutPrefix(line, "#")
	switch f := Recognise(stripped.String()); {
	case f == "" || f == DCGMI: // who reads dcgmi knows what stands before its rows
		return nil
	case f != Dmon:
		return strip
	case !isHeader:
		return nil // another line may be the header
	case time != "" && strings.HasPrefix(strings.TrimSpace(names), "gpu"):
		return dmonStamped
	}
	return strip
}

// smiStamped makes the time before a line of nvidia-smi's CSV its first column.
func smiStamped(line string) string {
	m := stamp.FindStringSubmatch(line)
	if m == nil {
		return line
	}
	rest := line[len(m[0]):]
	if isSMINames(strings.TrimSpace(rest), ',') {
		return "timestamp, " + rest
	}
	return m[1] + ", " + rest
}

// dmonStamped makes the time before a line of dmon its first column, or its first two.
func dmonStamped(line string) string {
	m := stamp.FindStringSubmatch(line)
	if m == nil {
		return line
	}
	rest := line[len(m[0]):]
	switch names, isHeader := strings.CutPrefix(rest, "#"); {
	case isHeader && strings.Contains(m[1], " "):
		return "#date time " + names
	case isHeader:
		return "#time " + names
	}
	return m[1] + " " + rest
}

// commaOf returns what stands between the names of a header.
func commaOf(header string) rune {
	for _, comma := range ",;\t" {
		if strings.ContainsRune(header, comma) {
			return comma
		}
	}
	return ','
}

// smiName is a name of a column as nvidia-smi writes it, with its unit.
var smiName = regexp.MustCompile(`^[a-z][a-z0-9_.]*(?: \[[^\]]*\])?$`)

// isSMINames reports whether a line is a header of nvidia-smi --query-gpu or --query-compute-apps.
func isSMINames(line string, comma rune) bool {
	memory, other := false, false
	for name := range strings.SplitSeq(line, string(comma)) {
		name = strings.Trim(strings.TrimSpace(name), `"`)
		if name != "" && !smiName.MatchString(name) {
			return false
		}
		name, _, _ = strings.Cut(name, " [")
		switch name {
		case "memory.used", "memory.free", "used_gpu_memory", "used_memory":
			memory = true
		case "timestamp", "index", "uuid", "gpu_uuid", "name", "gpu_name", "pci.bus_id", "gpu_bus_id", "memory.total", "pid":
			other = true
		}
	}
	return memory && other
}

// plainRow writes the fields of a row as nvidia-smi does, with commas and without quotes.
func plainRow(line string, comma rune) string {
	r := csv.NewReader(strings.NewReader(line))
	r.Comma, r.LazyQuotes, r.TrimLeadingSpace = comma, true, true
	fields, err := r.Read()
	if err != nil {
		return line
	}
	text := strings.Join(fields, ", ")
	if strings.HasSuffix(line, "\n") {
		text += "\n"
	}
	return text
}

// Rewritten returns a text of which each line was rewritten.
func Rewritten(in io.Reader, rewrite func(line string) string) io.Reader {
	return &rewriter{lines: newLines("", in), rewrite: rewrite}
}

type rewriter struct {
	lines   *lines
	rewrite func(string) string
	ready   string
	err     error
}

// Read implements io.Reader.
func (r *rewriter) Read(b []byte) (int, error) {
	for r.ready == "" && r.err == nil {
		r.next()
	}
	if r.ready == "" {
		return 0, r.err
	}
	n := copy(b, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// next makes the next line ready.
func (r *rewriter) next() {
	line, err := r.lines.next()
	switch {
	case errors.Is(err, io.EOF):
		r.err = io.EOF
	case err != nil:
		r.err = errors.Unwrap(err)
	case r.lines.cut:
		r.ready = r.rewrite(line)
	default:
		r.ready = r.rewrite(line + "\n")
	}
}
