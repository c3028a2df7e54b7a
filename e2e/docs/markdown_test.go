// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// root is the root of the repository.
const root = "../.."

// page is a file of the documentation.
type page struct {
	path    string // from the root
	source  []byte
	tree    ast.Node
	anchors map[string]bool
}

// read returns the page at a path from the root.
func read(t *testing.T, path string) *page {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	p := &page{path: path, source: source, anchors: map[string]bool{}}
	p.tree = goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(source))
	p.walk(func(n ast.Node) {
		if h, ok := n.(*ast.Heading); ok {
			p.anchors[anchor(p.text(h))] = true
		}
	})
	return p
}

// pages returns all pages of the repository: what a user may read.
func pages(t *testing.T) []*page {
	t.Helper()
	var list []*page
	for _, pattern := range []string{"*.md", "*/*.md", "*/*/*.md", "*/*/*/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(rel, "bin/") && !strings.HasPrefix(rel, ".") && !strings.Contains(rel, "node_modules") {
				list = append(list, read(t, rel))
			}
		}
	}
	if len(list) < 15 {
		t.Fatalf("only %d pages", len(list))
	}
	return list
}

// walk calls f for every node, in the order of the text.
func (p *page) walk(f func(ast.Node)) {
	_ = ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			f(n)
		}
		return ast.WalkContinue, nil
	})
}

// text returns what a reader reads of a node. What is set as code is one word.
func (p *page) text(n ast.Node) string {
	var b bytes.Buffer
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.CodeSpan:
			for c := n.FirstChild(); c != nil; c = c.NextSibling() {
				if s, ok := c.(*ast.Text); ok {
					b.WriteString(strings.ReplaceAll(string(s.Segment.Value(p.source)), " ", "\u00a0"))
				}
			}
			return ast.WalkSkipChildren, nil
		case *ast.Text:
			b.Write(n.Segment.Value(p.source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchor returns the name by which GitHub links to a heading.
func anchor(heading string) string {
	heading = strings.ReplaceAll(heading, "\u00a0", " ")
	return strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// commands returns the lines of the page's code that are commands of a shell.
func (p *page) commands() []string {
	var list []string
	p.walk(func(n ast.Node) {
		var shell, console bool
		switch n := n.(type) {
		case *ast.CodeBlock:
			shell, console = true, true
		case *ast.FencedCodeBlock:
			language := string(n.Language(p.source))
			shell, console = language == "sh", language == "console"
		}
		if !shell && !console {
			return
		}
		var block []string
		lines := n.Lines()
		for i := range lines.Len() {
			segment := lines.At(i)
			block = append(block, strings.TrimRight(string(segment.Value(p.source)), "\n"))
		}
		list = append(list, commandsOf(block)...)
	})
	return list
}

// commandsOf returns the commands of a block. Where a prompt is in it, the other lines are what
// the command prints.
func commandsOf(block []string) []string {
	prompted := slices.ContainsFunc(block, func(l string) bool { return strings.HasPrefix(l, "$ ") })
	var list []string
	for _, line := range block {
		command, isPrompt := strings.CutPrefix(line, "$ ")
		if prompted && !isPrompt {
			continue
		}
		command, _, _ = strings.Cut(command, " # ")
		if command = strings.TrimSpace(command); command != "" && !strings.HasPrefix(command, "#") {
			list = append(list, command)
		}
	}
	return list
}
