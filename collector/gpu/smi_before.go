// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import "strings"

// smiBefore is the row before. Most columns of a log hardly ever change: only what differs from that row is read anew, with
// the same outcome in half of the time.
type smiBefore struct {
	known  bool
	fields []string // as they stood there
	row    smiRow   // as it was read
}

// noteDistinct finds out whether each column tells something else. Of two that tell the same the last one counts, whichever has
// changed.
func (h *smiHeader) noteDistinct() {
	seen := map[string]bool{}
	h.distinct = true
	for _, c := range h.columns {
		name := strings.TrimPrefix(strings.TrimPrefix(c.name, "gpu_"), "pci.") // --query-compute-apps has other names of the same
		h.distinct = h.distinct && !seen[name]
		seen[name] = true
	}
}

// remember keeps the row that read has read.
func (h *smiHeader) remember(r *smiRow) {
	b := &h.before
	b.known = h.distinct && len(h.fields) == len(h.columns) // the name of a process may have commas in it
	b.fields = append(b.fields[:0], h.fields...)
	b.row = *r
}

// again reads a line by the row before; ok is false where that does not do: read then tells what the line says, or what
// is wrong with it. Rows share lists, so a row is used up when the next is read.
func (h *smiHeader) again(line string, r *smiRow) (ok bool) {
	b := &h.before
	if !b.known {
		return false
	}
	b.known = false // until the whole line is read
	h.split(line)
	if len(h.fields) != len(h.columns) {
		return false
	}
	for i, field := range h.fields {
		c := &h.columns[i]
		if field == b.fields[i] || c.parse == nil {
			continue
		}
		if !h.change(c, field, b.fields[i]) {
			return false
		}
		b.fields[i] = field
	}
	b.known = true
	*r = b.row
	return true
}

// change puts another value of a column into the row before. One that was or becomes absent leaves something else of it behind.
func (h *smiHeader) change(c *smiField, field, before string) bool {
	text := strings.TrimSpace(field)
	if c.name == "timestamp" {
		stamp, err := h.zone.read(text)
		h.before.row.stamp = stamp
		return err == nil
	}
	return !smiAbsent(text) && !smiAbsent(strings.TrimSpace(before)) && c.parse(&h.before.row, text, c.unit) == nil
}
