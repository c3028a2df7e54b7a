// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package docs holds what users read against what is there: links, length of sentences, commands.
package docs

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark/ast"
)

// TestLinks follows every link inside of the repository, to the heading.
func TestLinks(t *testing.T) {
	t.Parallel()
	links := 0
	for _, p := range pages(t) {
		p.walk(func(n ast.Node) {
			var destination []byte
			switch n := n.(type) {
			case *ast.Link:
				destination = n.Destination
			case *ast.Image:
				destination = n.Destination
			default:
				return
			}
			u, err := url.Parse(string(destination))
			if err != nil {
				t.Errorf("%s: %v", p.path, err)
				return
			}
			if u.Scheme != "" {
				return
			}
			links++
			target := p
			if u.Path != "" {
				path := filepath.Join(filepath.Dir(p.path), u.Path)
				if _, err := os.Stat(filepath.Join(root, path)); err != nil {
					t.Errorf("%s: %s leads nowhere", p.path, destination)
					return
				}
				if u.Fragment == "" {
					return
				}
				target = read(t, path)
			}
			if !target.anchors[u.Fragment] {
				t.Errorf("%s: %s has no such heading", p.path, destination)
			}
		})
	}
	if links < 100 {
		t.Errorf("only %d links", links)
	}
}

// longest is the number of words that a sentence has at most: a tired reader loses the thread then.
const longest = 30

// TestSentences counts the words of the sentences of all pages. The change log is a list of what changed, for who looks a
// thing up.
func TestSentences(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		if p.path == "CHANGELOG.md" {
			continue
		}
		for _, text := range p.prose() {
			for _, s := range sentences(text) {
				if n := words(s); n > longest {
					t.Errorf("%s: %d words in %q", p.path, n, s)
				}
			}
		}
	}
}

// isFront reports whether a page is for users: the front page, and all that it leads to first.
func isFront(path string) bool {
	return slices.Contains([]string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "probe/README.md"}, path) ||
		strings.HasPrefix(path, "docs/") || strings.HasPrefix(path, "deploy/")
}

// TestFrontPageIsShort keeps the front page to what a newcomer reads in a few minutes.
func TestFrontPageIsShort(t *testing.T) {
	t.Parallel()
	const most = 1200
	if n := words(string(read(t, "README.md").source)); n > most {
		t.Errorf("README.md has %d words, want at most %d: move something into docs/", n, most)
	}
}
