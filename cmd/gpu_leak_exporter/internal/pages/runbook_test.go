// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"html"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/mixin"
)

// TestRunbookMarkdown has each element that the runbook may use, and what must not become one.
func TestRunbookMarkdown(t *testing.T) {
	const text = "# The title\n\nOne `code *span*` and **two**,\n*three* <script>alert(1)</script> 2 * 3.\n\n" +
		"## First, second\n\n- a [link](#first-second)\n  goes on\n- [away](../docs/faq.md#why), [far](https://example.org), [bad](javascript://x)\n\n" +
		"1. one\n2. two\n\n### GPULost\n\n```sh\n# no heading\n\nls | wc -l    # <b>\n```\n\n| | head |\n|---|---|\n| `a` | b |\n| 1 | |\n"
	testkit.Golden(t, "testdata/runbook.html", get(newRunbook(text, slog.New(slog.DiscardHandler)), RunbookPath).Body.String())
}

// TestRunbook follows the links to the runbook, and those within it.
func TestRunbook(t *testing.T) {
	page := get(NewRunbook(slog.New(slog.DiscardHandler)), RunbookPath).Body.String()
	ids := map[string]int{}
	for _, m := range regexp.MustCompile(`<h\d id="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		ids["#"+m[1]]++
	}
	code := regexp.MustCompile("(?s)```.*?```")
	headings := regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(code.ReplaceAllString(mixin.Runbook, ""), -1)
	for _, m := range headings {
		if id := "#" + strings.ReplaceAll(regexp.MustCompile(`[^a-z ]`).ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"); ids[id] != 1 {
			t.Errorf("%d headings %s", ids[id], id)
		}
	}
	if len(headings) != len(ids) {
		t.Errorf("%d headings of the page, %d of the text", len(ids), len(headings))
	}
	for _, m := range regexp.MustCompile(`href="(#[^"]*)"`).FindAllStringSubmatch(page, -1) {
		if ids[m[1]] == 0 {
			t.Errorf("%s leads nowhere", m[1])
		}
	}
	text := html.UnescapeString(words(regexp.MustCompile(`(?s)<(pre|code)>.*?</(pre|code)>`).ReplaceAllString(page, "")))
	if left := regexp.MustCompile("[`*|#]|\\]\\(| - ").FindAllString(text, -1); left != nil {
		t.Errorf("left of Markdown: %q", left)
	}

	full := &sampler.State{Time: epoch, Devices: []*sampler.DeviceState{filling(60)}}
	for _, state := range []*sampler.State{fixture(), full} {
		f := findingsOf(found(state).Report(), mostFindings)
		for _, said := range append(f.Others, f.First) {
			if heading, is := strings.CutPrefix(said.Runbook, RunbookPath); !is || ids[heading] == 0 {
				t.Errorf("%q of %q is no heading", said.Runbook, said.Summary)
			}
		}
	}
}
