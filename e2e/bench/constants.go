// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// benchConstants writes the table of the detector's constants, with the cost of the families for tuning, and of those held out, as it is
// and if a constant is halved or doubled. Each time a bench is built over a changed copy of its file. A share above one half is doubled
// half way to 1.
func benchConstants(w *strings.Builder, opt options) error {
	text, err := os.ReadFile("../../detector/CONSTANTS.md")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "constants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	seeds := fmt.Sprintf("--seeds=%d-%d", opt.seeds.first, opt.seeds.last)
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` .*").FindAllStringSubmatch(string(text), -1)
	fmt.Fprint(w, "| constant | value | meaning | source | as it is | at half | at double |\n|---|---|---|---|---|---|---|\n")
	for _, row := range rows {
		fmt.Fprint(w, row[0])
		for _, change := range []string{"%s", "(%s) / 2", "(%s) * 2"} {
			cost, err := costWith(dir, row[1], change, seeds)
			if err != nil {
				return fmt.Errorf("%s: %w", row[1], err)
			}
			fmt.Fprintf(w, " %s |", cost)
		}
		fmt.Fprintln(w)
	}
	return nil
}

// constantAt returns the file of the detector in which a constant of that name stands, and where in it its value does.
func constantAt(name string) (path string, from, to int, err error) {
	err = filepath.WalkDir("../../detector", func(p string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(p) != ".go" || strings.HasSuffix(p, "_test.go") {
			return err
		}
		text, err := os.ReadFile(p)
		if first, last := valueOf(text, name); last > first {
			path, from, to = p, first, last
		}
		return err
	})
	if err == nil && path == "" {
		err = errors.New("the detector has no such constant")
	}
	return path, from, to, err
}

// costWith returns what the families cost, for tuning and held out, with a changed constant.
func costWith(dir, name, change, seeds string) (string, error) {
	path, from, to, err := constantAt(name)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	v := string(text[from:to])
	if strings.HasPrefix(v, "0.") && v > "0.5" && strings.Contains(change, "*") {
		change = "(1 + %s) / 2"
	}
	changed := fmt.Appendf(nil, "%s"+change+"%s", text[:from], v, text[to:])
	file, binary := filepath.Join(dir, "changed.go"), filepath.Join(dir, "bench")
	path, err = filepath.Abs(path)
	if err != nil {
		return "", err
	}
	overlay, _ := json.Marshal(map[string]map[string]string{"Replace": {path: file}}) // of strings
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w: %s", err, out)
	}
	out, err := exec.Command(binary, "--summary=fleet", seeds).Output()
	if err != nil {
		return "", err
	}
	var costs []string
	for _, m := range regexp.MustCompile(`(?m)^\| fleet, (?:tuning|held out) .* (\d+) \|$`).FindAllStringSubmatch(string(out), 2) {
		costs = append(costs, m[1])
	}
	return strings.Join(costs, ", "), nil
}

// valueOf returns where the value of a constant, or of a default threshold of that name, stands in a file; 0 and 0 where it does not.
func valueOf(text []byte, name string) (from, to int) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", text, 0)
	if err != nil {
		return 0, 0
	}
	at := func(e ast.Expr) { from, to = set.Position(e.Pos()).Offset, set.Position(e.End()).Offset }
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			for _, spec := range n.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && n.Tok == token.CONST {
					if i := slices.IndexFunc(v.Names, func(id *ast.Ident) bool { return id.Name == name }); i >= 0 && i < len(v.Values) {
						at(v.Values[i])
					}
				}
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == name && file.Name.Name == "series" {
				at(n.Value)
			}
		}
		return true
	})
	return from, to
}
