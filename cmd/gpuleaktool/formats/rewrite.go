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

// mostBefore is how many lines of another program may stand before the first one of a log, or of its header.
const mostBefore = 20

// Rewrite returns a function that makes the lines of a log that begins with head such as nvidia-smi writes them: the CSV was
// saved again with quotes, semicolons or tabs. It is nil if there is nothing to do.
func Rewrite(head string) func(line string) string {
	n := 0
	for line := range strings.Lines(head) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if comma := commaOf(line); isSMINames(line, comma) {
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
