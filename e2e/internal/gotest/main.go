// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Command gotest runs `go test -json`, prints what a reader needs of it and
// fails where `go test` passes: on a test that was skipped. A skip says that
// something was not tested, which nobody sees in a green run. Where the process
// of a package dies, as at a timeout, it says which tests were running, and where.
//
//	gotest [-allow-skip=PREFIX=PATH] [-summary=FILE] -- go test -race ./...
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	allow := flag.String("allow-skip", "", "PREFIX=PATH: a skip whose message starts with PREFIX is no failure while PATH is absent")
	summary := flag.String("summary", "", "file to append the summary to")
	flag.Parse()
	if err := run(os.Stdout, flag.Args(), *allow, *summary); err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
}

// run runs the go test command in args and returns an error unless every test
// ran and passed.
func run(out io.Writer, args []string, allow, summary string) error {
	if len(args) < 2 || args[1] != "test" {
		return errors.New("usage: gotest [flags] -- go test …")
	}
	prefix, err := allowedSkip(allow)
	if err != nil {
		return err
	}
	cmd := exec.Command(args[0], slices.Insert(slices.Clone(args[1:]), 1, "-json")...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	start := time.Now()
	res := newResult(out)
	readErr := res.read(events)
	waitErr := cmd.Wait()
	skipped := res.unexpectedSkips(prefix)
	text := res.summary(strings.Join(args, " "), time.Since(start), skipped)
	fmt.Fprint(out, text)
	if summary != "" {
		if err := appendTo(summary, text); err != nil {
			return err
		}
	}
	if err := errors.Join(readErr, waitErr); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	if len(skipped) > 0 {
		return fmt.Errorf("%d tests were skipped", len(skipped))
	}
	return nil
}

// allowedSkip splits PREFIX=PATH and returns the prefix if nothing is at PATH,
// "" otherwise: what is there has to be tested.
func allowedSkip(flagValue string) (string, error) {
	if flagValue == "" {
		return "", nil
	}
	prefix, path, ok := strings.Cut(flagValue, "=")
	if !ok || prefix == "" || path == "" {
		return "", fmt.Errorf("-allow-skip=%q is not of the form PREFIX=PATH", flagValue)
	}
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return prefix, nil
	}
	return "", err
}

// event is one line of `go test -json`, as `go doc test2json` describes it.
type event struct {
	Time                                      time.Time
	Action, Package, ImportPath, Test, Output string
}

type test struct{ pkg, name string }

// result is what a run of go test reported.
type result struct {
	out    io.Writer
	output map[test][]string
	counts map[string]int // by action, of single tests
	skips  map[test]string
	lines  []string // the line that go test prints for a package, and its tests that did not end
	begun  []begin
	late   map[string][]string // by package: what came after the end of a test
	last   time.Time           // of the last event
}

func newResult(out io.Writer) *result {
	return &result{out: out, output: map[test][]string{}, counts: map[string]int{}, skips: map[test]string{}, late: map[string][]string{}}
}

func (r *result) read(events io.Reader) error {
	in := bufio.NewReader(events)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprintf(r.out, "%s", line) // not an event: a message of go itself
			} else {
				r.add(e)
			}
		}
		if errors.Is(err, io.EOF) {
			for len(r.begun) > 0 { // go test itself died
				r.unended(r.begun[0].pkg, r.last)
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *result) add(e event) {
	id := test{e.Package, e.Test}
	r.last = e.Time
	r.track(e)
	switch e.Action {
	case "output", "build-output":
		switch {
		case e.Test == "" && packageLine.MatchString(e.Output):
			r.lines = append(r.lines, strings.TrimRight(e.Output, "\n"))
			fmt.Fprint(r.out, e.Output)
		case e.Test == "" && e.Output != "PASS\n" && !strings.HasPrefix(e.Output, "testing: warning: no tests"):
			fmt.Fprint(r.out, e.Output)
		case e.Test != "":
			r.output[id] = append(r.output[id], e.Output)
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			if e.Action == "fail" {
				r.unended(e.Package, e.Time)
			}
			return
		}
		r.counts[e.Action]++
		r.output[id] = r.keepLate(id, e.Action, r.output[id])
		if e.Action == "skip" {
			r.skips[id] = skipMessage(r.output[id])
		}
		if e.Action == "fail" {
			fmt.Fprint(r.out, strings.Join(r.output[id], ""))
		}
		delete(r.output, id)
	}
}

var (
	packageLine = regexp.MustCompile(`^(ok  |FAIL|\?   )\t\S+\t`)
	atLine      = regexp.MustCompile(`^\s*[\w.-]+\.go:\d+: (.*)`)
)

// skipMessage finds what a test gave to Skip in its output.
func skipMessage(output []string) string {
	msg := ""
	for _, line := range output {
		if m := atLine.FindStringSubmatch(line); m != nil {
			msg = strings.TrimSpace(m[1])
		}
	}
	return msg
}

// unexpectedSkips lists the tests that were skipped with another message than
// one that starts with prefix; "" allows none.
func (r *result) unexpectedSkips(prefix string) []string {
	var list []string
	for id, msg := range r.skips {
		if prefix == "" || !strings.HasPrefix(msg, prefix) {
			list = append(list, fmt.Sprintf("SKIP %s %s: %s", id.pkg, id.name, cmp.Or(msg, "no reason given")))
		}
	}
	slices.Sort(list)
	return list
}

func (r *result) summary(command string, took time.Duration, skipped []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", command)
	for _, l := range slices.Concat(r.lines, skipped) {
		fmt.Fprintln(&b, "  "+l)
	}
	fmt.Fprintf(&b, "  %d passed, %d failed, %d skipped, %d did not end in %s\n",
		r.counts["pass"], r.counts["fail"], r.counts["skip"], r.counts["unended"], took.Round(100*time.Millisecond))
	return b.String()
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
