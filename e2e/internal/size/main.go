// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Command size counts what a reader has to read, and holds it against the limits of a file:
//
//	size -exporter=./gpu_leak_exporter .ci/size.txt
//
// The product is Go outside of e2e without tests. The file has a name and a limit a line; # begins a comment.
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

func main() {
	exporter := flag.String("exporter", "./gpu_leak_exporter", "the program whose flags are counted")
	flag.Parse()
	sizes, err := measure(".", *exporter)
	if err == nil {
		err = hold(sizes, flag.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

// measure counts below root.
func measure(root, exporter string) (map[string]int, error) {
	sizes := map[string]int{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin"):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		return count(sizes, path)
	})
	if err != nil {
		return nil, err
	}
	help, err := exec.Command(exporter, "--help").Output()
	if err != nil {
		return nil, fmt.Errorf("the flags of %s: %w", exporter, err)
	}
	sizes["flags"] = len(flags.FindAll(help, -1)) - len(uncounted.FindAll(help, -1))
	return sizes, nil
}

var (
	flags = regexp.MustCompile(`(?m)^      --`)
	// One for each family of series, and what each program has.
	uncounted = regexp.MustCompile(`(?m)^      --\[no-\](collector\.[a-z-]+|version) `)
)

// count adds a file.
func count(sizes map[string]int, path string) error {
	name := filepath.Base(path)
	if name != "go.mod" && filepath.Ext(name) != ".go" && filepath.Ext(name) != ".md" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Count(string(text), "\n")
	ofE2E := strings.HasPrefix(filepath.ToSlash(path), "e2e/")
	switch {
	case name == "go.mod":
		sizes["modules"]++
	case filepath.Ext(name) == ".md":
		sizes["document_words"] += len(strings.Fields(string(text)))
		if name == "CHANGELOG.md" {
			sizes["changelog_words"] += len(strings.Fields(string(text)))
		}
	case strings.HasSuffix(name, "_test.go"), filepath.Base(filepath.Dir(path)) == "testkit": // only tests use that
		sizes["test_lines"] += lines
	case ofE2E:
		sizes["e2e_lines"] += lines
	default:
		sizes["product_lines"] += lines
		if strings.HasPrefix(filepath.ToSlash(path), "cmd/gpuleaktool/") {
			sizes["gpuleaktool_lines"] += lines
		}
		code, tokens := scan(path, text)
		sizes["product_code_lines"] += code
		sizes["product_tokens"] += tokens
	}
	return nil
}

// scan returns how many lines hold code, and how many tokens a file has. Semicolons that nobody wrote are none.
func scan(path string, text []byte) (code, tokens int) {
	file := token.NewFileSet().AddFile(path, -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, literal := s.Scan()
		switch {
		case tok == token.EOF:
			return len(lines), tokens
		case tok == token.SEMICOLON && literal == "\n":
			continue
		}
		tokens++
		for n := range 1 + strings.Count(literal, "\n") {
			lines[file.Line(pos)+n] = true
		}
	}
}

// hold prints the sizes beside the limits of a file. The error says which are above.
func hold(sizes map[string]int, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		is, known := sizes[fields[0]]
		most, err := strconv.Atoi(fields[len(fields)-1])
		switch {
		case !known || len(fields) != 2 || err != nil:
			return fmt.Errorf("%s: %q is not a name and a limit", file, line)
		case is > most:
			errs = append(errs, fmt.Errorf("%s is %d, the limit in %s is %d: take something away", fields[0], is, file, most))
		}
		fmt.Printf("%-20s %7d of %7d\n", fields[0], is, most)
	}
	return errors.Join(errs...)
}
