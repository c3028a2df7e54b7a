// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// maxStackLines bounds what is printed of the goroutines of one package.
	maxStackLines = 200
	// maxLogLines bounds what is printed of what a test said before it hung.
	maxLogLines = 20
)

// begin is a test that has begun and has not ended.
type begin struct {
	test
	at     time.Time
	paused bool // in t.Parallel
}

var (
	// dumpLine begins the stacks of all goroutines: the timeout of go test, and
	// what it sends to a process that does not end after that.
	dumpLine  = regexp.MustCompile(`^(panic: test timed out after|SIGQUIT: quit)`)
	endLine   = regexp.MustCompile(`^\s*--- (PASS|SKIP): `)
	goroutine = regexp.MustCompile(`^goroutine \d+ `)
)

// track keeps the list of the tests that have not ended.
func (r *result) track(e event) {
	id := test{e.Package, e.Test}
	i := slices.IndexFunc(r.begun, func(b begin) bool { return b.test == id })
	switch {
	case e.Test == "":
	case e.Action == "run" && i < 0:
		r.begun = append(r.begun, begin{test: id, at: e.Time})
	case i < 0:
	case e.Action == "pause":
		r.begun[i].paused = true
	case e.Action == "cont":
		r.begun[i].paused, r.begun[i].at = false, e.Time
	case e.Action == "pass", e.Action == "fail", e.Action == "skip":
		r.begun = slices.Delete(r.begun, i, i+1)
	}
}

// keepLate keeps what a process said when it died and go test counts to a test that
// has ended, as it is the last one that said something. It returns the test's own part.
func (r *result) keepLate(id test, action string, output []string) []string {
	i := slices.IndexFunc(output, dumpLine.MatchString)
	if action != "fail" && i < 0 {
		i = 1 + slices.IndexFunc(output, endLine.MatchString)
		if i == 0 {
			return output
		}
	}
	if i < 0 {
		return output
	}
	r.late[id.pkg] = append(r.late[id.pkg], output[i:]...)
	return output[:i]
}

// unended prints which tests of a package were running when its process ended at a
// time, what they had said, and the stacks that the process left.
func (r *result) unended(pkg string, at time.Time) {
	dump := lines(r.late[pkg])
	paused := 0
	for _, b := range r.begun {
		switch {
		case b.pkg != pkg:
			continue
		case b.paused:
			paused++
			continue
		}
		text := fmt.Sprintf("DID NOT END: %s %s, after %s", pkg, b.name, at.Sub(b.at).Round(100*time.Millisecond))
		r.lines = append(r.lines, text)
		r.counts["unended"]++
		fmt.Fprintln(r.out, text)
		log := lines(r.output[b.test])
		if i := slices.IndexFunc(log, dumpLine.MatchString); i >= 0 {
			log, dump = log[:i], append(dump, log[i:]...)
		}
		if n := len(log) - maxLogLines; n > 0 {
			log = slices.Insert(slices.Clone(log[n:]), 0, fmt.Sprintf("(%d lines before)", n))
		}
		printLines(r.out, log)
	}
	if paused > 0 {
		fmt.Fprintf(r.out, "%s: %d tests waited for their turn in t.Parallel\n", pkg, paused)
	}
	printLines(r.out, firstOf(testsFirst(dump), maxStackLines))
	r.begun = slices.DeleteFunc(r.begun, func(b begin) bool { return b.pkg == pkg })
	delete(r.late, pkg)
}

// testsFirst puts the goroutines of tests before all others in a dump. A test that
// waits for its subtests, or for its turn, is none of them.
func testsFirst(dump []string) []string {
	i := slices.IndexFunc(dump, goroutine.MatchString)
	if i < 0 || !slices.ContainsFunc(dump, dumpLine.MatchString) {
		return dump
	}
	head, stacks := dump[:i], dump[i:]
	var own, others []string
	for len(stacks) > 0 {
		n := 1 + slices.IndexFunc(stacks[1:], goroutine.MatchString)
		if n == 0 {
			n = len(stacks)
		}
		if ofTest(stacks[:n]) {
			own = append(own, stacks[:n]...)
		} else {
			others = append(others, stacks[:n]...)
		}
		stacks = stacks[n:]
	}
	return slices.Concat(head, own, others)
}

// ofTest tells whether a stack is that of a test's function.
func ofTest(stack []string) bool {
	waits := true // until a frame says what it does
	for _, l := range stack[1:] {
		switch {
		case strings.HasPrefix(l, "testing.tRunner("):
			return !waits
		case strings.Contains(l, "goroutine running on other thread"):
			return true // it computes, so no stack of it can be read
		case strings.HasPrefix(l, "runtime."), strings.HasPrefix(l, "\t"):
		case strings.HasPrefix(l, "testing.(*T).Run("), strings.HasPrefix(l, "testing.(*T).Parallel("),
			strings.HasPrefix(l, "testing.tRunner.func"), strings.HasPrefix(l, "internal/synctest.Run("):
			return false
		default:
			waits = false
		}
	}
	return false
}

// lines splits output, which comes in pieces that need not be lines.
func lines(output []string) []string {
	text := strings.TrimRight(strings.Join(output, ""), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func firstOf(list []string, n int) []string {
	if len(list) <= n {
		return list
	}
	return append(slices.Clone(list[:n]), fmt.Sprintf("(%d more lines)", len(list)-n))
}

func printLines(out io.Writer, list []string) {
	for _, l := range list {
		fmt.Fprintln(out, l)
	}
}
