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

// stamp is what kubectl logs --timestamps, docker logs -t, ts of moreutils and journalctl write before each line. Its first
// group is the time, which the last two write without the year.
var stamp = regexp.MustCompile(`^(?:(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: \S+ \S+\[\d+\]:)?) `)

// Rewrite returns a function that makes the lines of a log that begins with head such as nvidia-smi writes them: another
// program has put its time before each line, or has saved the CSV with quotes, semicolons or tabs. It is nil if there is
// nothing to do.
func Rewrite(head string) func(line string) string {
	first, _, _ := strings.Cut(strings.TrimLeft(head, " \t\r\n"), "\n")
	first = strings.TrimSpace(first)
	if m := stamp.FindStringSubmatch(first + " "); m != nil {
		return unstamp(first[min(len(m[0]), len(first)):], m[1], head)
	}
	if comma := commaOf(first); isSMINames(first, comma) && (comma != ',' || strings.Contains(first, `"`)) {
		return func(line string) string { return plainRow(line, comma) }
	}
	return nil
}

// unstamp returns how the times are taken off the lines of a log whose first one is known. A log that tells no time of its
// own keeps them as columns.
func unstamp(first, time, head string) func(string) string {
	strip := func(line string) string {
		if m := stamp.FindString(line); m != "" {
			return line[len(m):]
		}
		return line
	}
	var stripped strings.Builder
	for line := range strings.Lines(head) {
		stripped.WriteString(strip(line))
	}
	names := strings.Fields(strings.ToLower(strings.TrimPrefix(first, "#")))
	switch f := Recognise(stripped.String()); {
	case f == DCGMI, f == "" && !isSMINames(first, ','):
		return nil // who reads dcgmi knows what stands before its rows
	case (f == Dmon || f == Pmon) && time != "" && len(names) > 0 && names[0] == "gpu":
		columns := "#time "
		if strings.Contains(time, " ") {
			columns = "#date time "
		}
		return func(line string) string {
			if rest := strip(line); strings.HasPrefix(rest, "#") {
				return columns + rest[1:]
			}
			return line
		}
	case f == "" && time != "" && !strings.Contains(first, "timestamp"):
		return func(line string) string {
			m := stamp.FindStringSubmatch(line)
			switch {
			case m == nil:
				return line
			case isSMINames(line[len(m[0]):], ','):
				return "timestamp, " + line[len(m[0]):]
			}
			return m[1] + ", " + line[len(m[0]):]
		}
	}
	return strip
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

// isSMINames reports whether a line is a header of nvidia-smi --query-gpu or --query-compute-apps.
func isSMINames(line string, comma rune) bool {
	memory, other := false, false
	for name := range strings.SplitSeq(line, string(comma)) {
		name, _, _ = strings.Cut(strings.Trim(strings.TrimSpace(name), `"`), " [")
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
