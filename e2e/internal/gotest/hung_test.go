// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

const hangs = `package m

import (
	"os"
	"testing"
	"testing/synctest"
)

func TestEnds(t *testing.T) {}

func TestWaits(t *testing.T) { t.Parallel() }

func TestOuter(t *testing.T) {
	t.Run("inner", func(t *testing.T) {
		t.Log("said before")
		%s
	})
}

func stuck() { <-make(chan int) }

func die() {
	p, _ := os.FindProcess(os.Getpid())
	p.Kill()
	stuck()
}

func inBubble(t *testing.T) {
	never := make(chan int)
	synctest.Test(t, func(*testing.T) { stuckOn(never) })
}

func stuckOn(never chan int) { <-never }
`

// A process that dies says which tests were running, what they said and, where go
// test ends it, where they hung.
func TestUnended(t *testing.T) {
	for name, tc := range map[string]struct {
		body  string
		frame string // of the goroutine that comes first
	}{
		"hangs":              {"stuck()", "m.stuck"},
		"hangs in a bubble":  {"inBubble(t)", "m.stuckOn"},
		"many goroutines":    {"for range 300 { go stuck() }; inBubble(t)", "m.stuckOn"},
		"is killed":          {"die()", ""},
		"exits":              {"os.Exit(3)", ""},
		"panics on the side": {"go panic(1); stuck()", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "go.mod"), "module m\n\ngo 1.26\n")
			write(t, filepath.Join(dir, "a_test.go"), fmt.Sprintf(hangs, tc.body))
			t.Chdir(dir)
			var out strings.Builder
			if err := run(&out, []string{"go", "test", "-timeout=2s", "./..."}, "", ""); err == nil {
				t.Error("no error")
			}
			said := out.String()
			for _, want := range []string{
				"DID NOT END: m TestOuter, after ", "DID NOT END: m TestOuter/inner, after ", "said before\n",
				"m: 1 tests waited for their turn", "FAIL\tm\t", "1 passed, 0 failed, 0 skipped, 2 did not end in ",
			} {
				if !strings.Contains(said, want) {
					t.Errorf("no %q in\n%s", want, said)
				}
			}
			if strings.Contains(said, "TestEnds") || strings.Count(said, "\n") > maxStackLines+2*maxLogLines+20 {
				t.Errorf("it said too much:\n%s", said)
			}
			if first := firstFrame(said); !strings.HasPrefix(first, tc.frame) {
				t.Errorf("the first goroutine is in %q, want %s:\n%s", first, tc.frame, said)
			}
			switch {
			case tc.frame != "" && !strings.Contains(said, "panic: test timed out after 2s"):
				t.Errorf("no timeout:\n%s", said)
			case name == "is killed" && !strings.Contains(said, "signal: killed"), name == "panics on the side" && !strings.Contains(said, "panic: 1"):
				t.Errorf("not how it died:\n%s", said)
			}
		})
	}
}

// firstFrame returns the function in which the first goroutine is.
func firstFrame(text string) string {
	all := strings.Split(text, "\n")
	for i, l := range all[:len(all)-1] {
		if goroutine.MatchString(l) {
			return all[i+1]
		}
	}
	return ""
}

// A test that computes without an end may have no stack, and comes first all the same.
func TestStackOfATestThatComputes(t *testing.T) {
	dump := []string{
		"panic: test timed out after 1s", "goroutine 1 [chan receive]:", "testing.(*T).Run(0x1)",
		"goroutine 2 [running]:", "\tgoroutine running on other thread; stack unavailable", "created by testing.(*T).Run in goroutine 1",
	}
	if got := strings.Join(testsFirst(dump), "\n"); !strings.Contains(got, "after 1s\ngoroutine 2") {
		t.Error(got)
	}
}

// What a process says when it dies counts to the test that spoke last, which may
// have passed or failed; and go test may die before it says that a package has ended.
func TestLateOutput(t *testing.T) {
	const begin = `{"Action":"run","Package":"p","Test":"TestHangs"}
{"Action":"pause","Package":"p","Test":"TestHangs"}
{"Action":"run","Package":"p","Test":"TestDone"}
{"Action":"cont","Package":"p","Test":"TestHangs"}
{"Action":"output","Package":"p","Test":"TestDone","Output":"--- %[1]s: TestDone (0.00s)\n"}
`
	const dump = `{"Action":"output","Package":"p","Test":"TestDone","Output":"panic: test timed out after 1s\n"}
{"Action":"output","Package":"p","Test":"TestDone","Output":"goroutine 1 [chan receive]:\n"}
{"Action":"output","Package":"p","Test":"TestDone","Output":"testing.(*T).Run(0x1)\n"}
{"Action":"output","Package":"p","Test":"TestDone","Output":"goroutine 2 [chan "}
{"Action":"output","Package":"p","Test":"TestDone","Output":"receive]:\np.hangs()\ntesting.tRunner(0x1)\n"}
`
	const other = `{"Action":"output","Package":"p","Test":"TestDone","Output":"panic: on the side\n"}
`
	const end = `{"Action":"%[2]s","Package":"p","Test":"TestDone"}
{"Action":"fail","Package":"p"}
`
	stacks := "panic: test timed out after 1s\ngoroutine 2 [chan receive]:\np.hangs()\ntesting.tRunner(0x1)\ngoroutine 1 "
	for name, tc := range map[string]struct{ events, status, action, want string }{
		"passed":            {begin + dump + end, "PASS", "pass", "TestHangs, after 0s\n" + stacks},
		"failed":            {begin + dump + end, "FAIL", "fail", "--- FAIL: TestDone (0.00s)\nDID NOT END: p TestHangs, after 0s\n" + stacks},
		"another panic":     {begin + other + end, "PASS", "pass", "TestHangs, after 0s\npanic: on the side\n"},
		"go test was ended": {begin + "%.0[1]s%.0[2]s", "PASS", "pass", "DID NOT END: p TestDone, after 0s\n--- PASS"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			r := newResult(&out)
			if err := r.read(strings.NewReader(fmt.Sprintf(tc.events, tc.status, tc.action))); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), "DID NOT END: p TestHangs, after 0s\n") || !strings.Contains(out.String(), tc.want) {
				t.Errorf("%s\nwant %s", out.String(), tc.want)
			}
		})
	}
}
