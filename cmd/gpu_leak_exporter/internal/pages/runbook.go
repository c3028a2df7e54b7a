// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"log/slog"
	"net/http"
	"path"
	"regexp"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/mixin"
)

// NewRunbook serves the runbook of the alerts at RunbookPath.
func NewRunbook(logger *slog.Logger) http.Handler { return newRunbook(mixin.Runbook, logger) }

// newRunbook serves a text in the part of Markdown that the runbook is written in: headings, paragraphs, lists, tables and
// code, each between empty lines. In a line it knows code, links and emphasis, none within another.
func newRunbook(text string, logger *slog.Logger) http.Handler {
	var blocks []block
	for _, m := range blockIn.FindAllStringSubmatch(text, -1) {
		b := block{Code: m[1]}
		if b.Code == "" {
			b = blockOf(strings.TrimSpace(m[0]))
		}
		blocks = append(blocks, b)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		render(w, "runbook.html", blocks, logger)
	})
}

var (
	blockIn = regexp.MustCompile("(?s)```[a-z]*\n(.*?)```|\\S.*?(?:\n\n|$)")
	markIn  = regexp.MustCompile(`(?m)^(?:(?:#+|-|\d+\.) |\|)`)
	spanIn  = regexp.MustCompile("`([^`]+)`|\\*\\*([^*]+)\\*\\*|\\*([^*]+)\\*|\\[([^]]+)\\]\\(([^)]+)\\)|([^`*[]+|.)")
)

// block is an element of the page: Code alone, or what a mark at the begin of its lines makes of its rows.
type block struct {
	Code string
	Mark string // such as "##", "|" or "1."; "" is a paragraph
	ID   string // the anchor of a heading, as GitHub names it
	Rows [][][]span
}

// span is a part of a line: all but one of its texts are "". Address is that of Link.
type span struct{ Code, Strong, Emphasis, Link, Address, Plain string }

func blockOf(text string) block {
	b := block{Mark: strings.TrimSpace(markIn.FindString(text))}
	for i, row := range markIn.Split(text, -1) {
		row = strings.TrimSpace(row)
		cells := []string{row}
		switch {
		case row == "" || b.Mark == "|" && i == 2: // before the first mark; the line below the head
			continue
		case b.Mark == "|":
			cells = strings.Split(strings.TrimSuffix(row, "|"), "|")
		case strings.HasPrefix(b.Mark, "#"):
			b.ID = strings.NewReplacer(" ", "-", ",", "").Replace(strings.ToLower(row))
		}
		var spans [][]span
		for _, c := range cells {
			spans = append(spans, spansOf(strings.TrimSpace(c)))
		}
		b.Rows = append(b.Rows, spans)
	}
	return b
}

func spansOf(line string) []span {
	var list []span
	for _, m := range spanIn.FindAllStringSubmatch(line, -1) {
		if m[5] != "" && m[5][0] != '#' && !strings.Contains(m[5], "://") {
			m[5] = "https://github.com/gpuleak/gpu_leak_exporter/blob/main/" + path.Join("mixin", m[5])
		}
		list = append(list, span{m[1], m[2], m[3], m[4], m[5], m[6]})
	}
	return list
}
