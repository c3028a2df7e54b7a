// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// constants matches the rows of detector/CONSTANTS.md, with name and value.
var constants = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| `([^`]+)` .*")

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
	fmt.Fprint(w, "| constant | value | meaning | source | as it is | at half | at double |\n|---|---|---|---|---|---|---|\n")
	for _, row := range constants.FindAllStringSubmatch(string(text), -1) {
		fmt.Fprint(w, row[0])
		for _, change := range []string{"%s", "(%s) / 2", "(%s) * 2"} {
			cost, err := costWith(dir, row[1], row[2], change, seeds)
			if err != nil {
				return fmt.Errorf("%s: %w", row[1], err)
			}
			fmt.Fprintf(w, " %s |", cost)
		}
		fmt.Fprintln(w)
	}
	return nil
}

// constantAt returns the file of the detector in which a constant, or a default threshold, has the value of the table, and the text
// before and after that value.
func constantAt(name, value string) (path, before, after string, err error) {
	line := regexp.MustCompile(`(?m)^(?:const |\t+)(?:\w+, )*` + name + `\b[^=:/\n]*[=:] *(?:.*, )?(` + regexp.QuoteMeta(value) + `)(?:,| //|$)`)
	err = filepath.WalkDir("../../detector", func(p string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(p) != ".go" || strings.HasSuffix(p, "_test.go") {
			return err
		}
		text, err := os.ReadFile(p)
		if at := line.FindSubmatchIndex(text); at != nil {
			path, before, after = p, string(text[:at[2]]), string(text[at[3]:])
		}
		return err
	})
	if err == nil && path == "" {
		err = fmt.Errorf("the detector has no constant %s of %s", name, value)
	}
	return path, before, after, err
}

// costWith returns what the families cost, for tuning and held out, with a changed constant.
func costWith(dir, name, value, change, seeds string) (string, error) {
	path, before, after, err := constantAt(name, value)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(value, "0.") && value > "0.5" && strings.Contains(change, "*") {
		change = "(1 + %s) / 2"
	}
	changed := fmt.Appendf(nil, "%s"+change+"%s", before, value, after)
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
