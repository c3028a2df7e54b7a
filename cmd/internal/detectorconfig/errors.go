// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detectorconfig

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Error says what is wrong in a line of a file.
type Error struct {
	File string
	Line int
	Text string
}

// Error returns the error as FILE:LINE: text.
func (e Error) Error() string { return e.File + ":" + strconv.Itoa(e.Line) + ": " + e.Text }

// Errors is all that is wrong in a file, in the order of its lines.
type Errors []Error

// Error returns the errors in one line.
func (e Errors) Error() string { return strings.Join(e.Lines(), "; ") }

// Lines returns the errors, each in a line.
func (e Errors) Lines() []string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return lines
}

// inOrder returns the errors as an error; nil if there is none.
func (e Errors) inOrder() error {
	if len(e) == 0 {
		return nil
	}
	slices.SortStableFunc(e, func(a, b Error) int { return cmp.Compare(a.Line, b.Line) })
	return e
}
