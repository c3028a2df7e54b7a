// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package docs holds the documentation against the repository and the programs: links lead somewhere, flags exist, and what is
// said to run does.
package docs

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// root is the root of the repository.
const root = "../.."

// page is a file of the documentation in Markdown.
type page struct {
	path    string // from the root
	blocks  []block
	spans   []string // what is set as code inside of the text
	links   []string
	anchors map[string]bool // the names by which GitHub links to headings
}

// block is a fenced block of code.
type block struct{ language, text string }

var (
	span         = regexp.MustCompile("`([^`]+)`")
	link         = regexp.MustCompile(`\]\(([^)\s]+)[^)]*\)`)
	heading      = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// read returns the page at a path from the root.
func read(t *testing.T, path string) *page {
	t.Helper()
	source := harness.ReadFile(t, filepath.Join(root, path))
	p := &page{path: path, anchors: map[string]bool{}}
	var outside strings.Builder // of blocks
	for i, part := range strings.Split(source, "```") {
		if i%2 == 0 {
			outside.WriteString(part)
			continue
		}
		language, code, _ := strings.Cut(part, "\n")
		p.blocks = append(p.blocks, block{language, code})
	}
	text := outside.String()
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		name := notInAnchors.ReplaceAllString(strings.ToLower(link.ReplaceAllString(m[1], "")), "")
		p.anchors[strings.ReplaceAll(name, " ", "-")] = true
	}
	for _, m := range span.FindAllStringSubmatch(text, -1) {
		p.spans = append(p.spans, strings.ReplaceAll(m[1], "\n", " "))
	}
	for _, m := range link.FindAllStringSubmatch(span.ReplaceAllString(text, ""), -1) {
		p.links = append(p.links, m[1])
	}
	return p
}

// pages returns all pages of the repository: what a user may read.
func pages(t *testing.T) []*page {
	t.Helper()
	var list []*page
	for _, pattern := range []string{"*.md", "*/*.md", "*/*/*.md", "*/*/*/*.md"} {
		paths, _ := filepath.Glob(filepath.Join(root, pattern)) // fails only if the pattern is wrong
		for _, path := range paths {
			if rel, _ := filepath.Rel(root, path); !strings.HasPrefix(rel, "bin/") && !strings.HasPrefix(rel, ".") {
				list = append(list, read(t, rel))
			}
		}
	}
	if len(list) < 15 {
		t.Fatalf("only %d pages", len(list))
	}
	return list
}

// commands returns the lines of the page's code that are commands of a shell. In a block with prompts the other lines are what the
// command prints.
func (p *page) commands() (list []string) {
	for _, b := range p.blocks {
		if b.language != "sh" && b.language != "console" {
			continue
		}
		prompted := strings.Contains("\n"+b.text, "\n$ ")
		for line := range strings.Lines(b.text) {
			command, prompt := strings.CutPrefix(line, "$ ")
			command, _, _ = strings.Cut(command, " # ")
			if command = strings.TrimSpace(command); prompt == prompted && command != "" && command[0] != '#' {
				list = append(list, command)
			}
		}
	}
	return list
}

// TestLinks follows every link inside of the repository, to the heading.
func TestLinks(t *testing.T) {
	t.Parallel()
	links := 0
	for _, p := range pages(t) {
		for _, destination := range p.links {
			u, err := url.Parse(destination)
			if err != nil || u.Scheme != "" {
				if err != nil {
					t.Errorf("%s: %v", p.path, err)
				}
				continue
			}
			links++
			target := p
			if u.Path != "" {
				path := filepath.Join(filepath.Dir(p.path), u.Path)
				if _, err := os.Stat(filepath.Join(root, path)); err != nil {
					t.Errorf("%s: %s leads nowhere", p.path, destination)
					continue
				}
				if u.Fragment == "" {
					continue
				}
				target = read(t, path)
			}
			if !target.anchors[u.Fragment] {
				t.Errorf("%s: %s has no such heading", p.path, destination)
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links", links)
	}
}
