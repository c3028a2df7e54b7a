// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// The detector and its tests start no goroutine and share nothing with one: `make test`
// runs them without the race detector.
func TestDetectorStartsNoGoroutine(t *testing.T) {
	var files []string
	for _, dir := range []string{"detector", "detector/internal/series"} {
		found, err := filepath.Glob(filepath.Join(harness.Root(), dir, "*.go"))
		if err != nil || len(found) == 0 {
			t.Fatal(dir, found, err)
		}
		files = append(files, found...)
	}
	for _, path := range files {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if found := concurrent(t, filepath.Base(path), src); len(found) > 0 {
			t.Errorf("run %s with -race in the Makefile, or do without: %s", filepath.Dir(path), found)
		}
	}
	const all = "package p\nimport \"sync\"\nfunc f(t *testing.T) { go f(t); t.Parallel() }"
	if found := concurrent(t, "all", []byte(all)); len(found) != 3 {
		t.Errorf("found only %s", found)
	}
}

// concurrent lists where a file has a go statement, a test beside others or what
// goroutines need.
func concurrent(t *testing.T, name string, src []byte) (found []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		is := false
		switch n := n.(type) {
		case *ast.GoStmt:
			is = true
		case *ast.ImportSpec:
			is = strings.HasPrefix(n.Path.Value, `"sync`)
		case *ast.SelectorExpr:
			is = n.Sel.Name == "Parallel"
		}
		if is {
			found = append(found, files.Position(n.Pos()).String())
		}
		return true
	})
	return found
}
