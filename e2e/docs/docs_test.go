// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package docs holds what users read against what is there: links and commands.
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

// isFront reports whether a page is for users: the front page, and all that it leads to first.
func isFront(path string) bool {
	return slices.Contains([]string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "probe/README.md"}, path) ||
		strings.HasPrefix(path, "docs/") || strings.HasPrefix(path, "deploy/")
}
