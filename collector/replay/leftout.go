// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

type leftOutReason int

const (
	leftOutCut     leftOutReason = iota // the file ends inside the line
	leftOutMessage                      // nvidia-smi says what failed, or it is a comment
	leftOutTime                         // the time of the GPU has not moved on
	leftOutWrong                        // it cannot be read, as where another program writes into the same file
	leftOutTwice                        // the process has another amount at the same time
)

// leftOutError is the error of a line that a log may have.
type leftOutError struct {
	reason leftOutReason
	why    string
	back   bool // its time is before that of the row before it, not the same
}

// Error implements error, for a reader that does not leave the line out.
func (e *leftOutError) Error() string {
	if e.reason == leftOutWrong {
		return e.why + ": remove or repair the line"
	}
	return e.why
}

// logError is the error of a line that makes the whole log unusable.
type logError string

// Error implements error.
func (e logError) Error() string { return string(e) }

// leftOut counts the lines of a log that were left out for one reason.
type leftOut struct {
	leftOutError // of the first of them
	lines, first int
	back         int // how many
}

// String says so in one line.
func (l leftOut) String() string {
	if l.lines == 1 {
		return fmt.Sprintf("left out 1 line, line %d: %s", l.first, l.why)
	}
	return fmt.Sprintf("left out %d lines, the first is line %d: %s", l.lines, l.first, l.why)
}

// LeftOut says, in a line for each reason, what Next has left out so far: a last line that is cut off, messages of nvidia-smi
// and comments, other lines below a first row that cannot be read, rows whose time is not after that of the row before, and
// smaller amounts of a process that stands twice at one time.
func (f *Reader) LeftOut() (lines []string) {
	for _, l := range f.left {
		lines = append(lines, l.String())
	}
	return lines
}

// leaveOut counts a line.
func (f *Reader) leaveOut(e *leftOutError) {
	i := slices.IndexFunc(f.left, func(have leftOut) bool { return have.reason == e.reason })
	if i < 0 {
		i = len(f.left)
		f.left = append(f.left, leftOut{leftOutError: *e, first: f.lines.number})
	}
	f.left[i].lines++
	if e.back {
		f.left[i].back++
	}
}

// checkLeftOut returns an error if too much was left out beside rows. Then the header may not be that of the lines; a row of a
// time to come, from a clock that was wrong, may have cost most of the rows; a second recording of the same time may follow;
// or several GPUs are taken for one.
func (f *Reader) checkLeftOut() error {
	for _, l := range f.left {
		switch {
		case l.reason == leftOutWrong && l.lines > f.rows:
			return fmt.Errorf("%s: has more lines that cannot be read than others: %s", f.lines.name, l)
		case l.reason == leftOutTime && (l.lines > f.rows || 2*l.back > f.rows):
			return fmt.Errorf("%s: has too many rows that cannot be used: %s: take out the row before it, or split the file there", f.lines.name, l)
		}
	}
	return nil
}

// smiMessages are the beginnings of messages that nvidia-smi writes among the rows when it has no driver, or when a GPU has
// failed.
var smiMessages = []string{
	"Failed to initialize NVML: ",
	"NVML library version: ", // the second line of a version mismatch
	"Failed to properly shut down NVML: ",
	"Unable to determine the device handle for ",
	"No devices were found",
	"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
	"NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.",
	"Please also try adding directory that contains libnvidia-ml.so to your system PATH.",
}

// isMessage reports whether a line is a message of nvidia-smi that failed, or a comment.
func isMessage(text string) bool {
	return text[0] == '#' || slices.ContainsFunc(smiMessages, func(begin string) bool { return strings.HasPrefix(text, begin) })
}

// messageOf returns the error of such a line.
func messageOf(text string) *leftOutError {
	return &leftOutError{reason: leftOutMessage, why: "is no part of the log: " + quote(text)}
}

// notAfter returns the error of a row whose time has not moved on.
func (r *csvRow) notAfter(last *stamp) error {
	return &leftOutError{reason: leftOutTime, back: r.stamp.t < last.t, why: fmt.Sprintf("%s%s is not after %s, its row before: the clock was set back, as where daylight saving ends and --timezone is not given, two recordings overlap, or several GPUs are taken for one",
		r.stamp.text, of(&r.info), last.text)}
}

// of names a GPU in an error, "" if its name is not known.
func of(i *gpu.Info) string {
	if !i.Named() {
		return ""
	}
	return fmt.Sprintf(" of GPU %q", strings.TrimPrefix(i.UUID, "index-")) // as the log has it
}

// quote quotes a line for an error, and cuts a long one.
func quote(text string) string {
	const most = 120
	if len(text) <= most {
		return fmt.Sprintf("%q", text)
	}
	end := most
	for !utf8.RuneStart(text[end]) && end > most-utf8.UTFMax {
		end--
	}
	return fmt.Sprintf("%q", text[:end]+"…")
}
