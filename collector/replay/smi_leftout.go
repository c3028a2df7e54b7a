// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// LeftOut counts the lines of a CSV that were left out for one reason.
type LeftOut struct {
	Lines int    // how many
	First int    // number of the first of them
	Why   string // what is wrong with the first of them

	reason leftOutReason
	back   int
}

// String says so in one line.
func (l LeftOut) String() string {
	if l.Lines == 1 {
		return fmt.Sprintf("left out 1 line, line %d: %s", l.First, l.Why)
	}
	return fmt.Sprintf("left out %d lines, the first is line %d: %s", l.Lines, l.First, l.Why)
}

// SetBack returns how many of them have a time before that of the row before them, not the same.
func (l LeftOut) SetBack() int { return l.back }

type leftOutReason int

const (
	leftOutCut     leftOutReason = iota // the file ends inside the line
	leftOutMessage                      // nvidia-smi says what failed, or it is a comment
	leftOutTime                         // the time of the GPU has not moved on
	leftOutWrong                        // it cannot be read, as where another program writes into the same file
	leftOutTwice                        // the process has another amount at the same time
)

// LeftOut returns the lines that Next has left out so far, by reason: a last line that is cut off, messages of nvidia-smi and
// comments, other lines below a first row that cannot be read, rows whose time is not after that of the row before, and
// smaller amounts of a process that stands twice at one time.
func (f *Reader) LeftOut() []LeftOut { return slices.Clone(f.left) }

// leftOutError is the error of a line that a log may have.
type leftOutError struct {
	reason leftOutReason
	why    string
	back   bool // as in LeftOut
}

// Error implements error, for a reader that does not leave the line out.
func (e *leftOutError) Error() string {
	if e.reason == leftOutWrong {
		return e.why + repair
	}
	return e.why
}

// leftOutLines are the lines of a log that were left out, by reason.
type leftOutLines []LeftOut

// add counts a line.
func (l *leftOutLines) add(number int, e *leftOutError) {
	i := slices.IndexFunc(*l, func(have LeftOut) bool { return have.reason == e.reason })
	if i < 0 {
		i = len(*l)
		*l = append(*l, LeftOut{First: number, Why: e.why, reason: e.reason})
	}
	(*l)[i].Lines++
	if e.back {
		(*l)[i].back++
	}
}

// String says in one line what was left out.
func (l leftOutLines) String() string {
	var parts []string
	for _, o := range l {
		parts = append(parts, o.String())
	}
	return strings.Join(parts, "; ")
}

// tooWrong returns an error if too much was left out beside rows. Then the header may not be that of the lines; a row of a
// time to come, from a clock that was wrong, may have cost most of the rows; a second recording of the same time may follow;
// or several GPUs are taken for one.
func (l leftOutLines) tooWrong(rows int) error {
	for _, o := range l {
		switch {
		case o.reason == leftOutWrong && o.Lines > rows:
			return fmt.Errorf("has more lines that cannot be read than others: %s", o)
		case o.reason == leftOutTime && (o.Lines > rows || 2*o.back > rows):
			return fmt.Errorf("has too many rows that cannot be used: %s: take out the row before it, or split the file there", o)
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

// IsSMIMessage reports whether a line is a message of nvidia-smi that failed.
func IsSMIMessage(text string) bool {
	return slices.ContainsFunc(smiMessages, func(begin string) bool { return strings.HasPrefix(text, begin) })
}

// smiMessage returns the error of a line that is a message of nvidia-smi.
func smiMessage(text string) *leftOutError {
	return &leftOutError{reason: leftOutMessage, why: QuoteLine(text)}
}

// repair ends the error of a line that is not left out.
const repair = ": remove or repair the line"

// wrong returns the error of a line that cannot be read because of err. Below a first row it is left out: another program may
// write into the same file, or the row was damaged.
func (h *smiHeader) wrong(err error, text string) error {
	left, leave := errors.AsType[*leftOutError](err)
	_, whole := errors.AsType[LogError](err)
	switch {
	case errors.Is(err, ErrNoRow):
		return nil
	case leave:
		return left
	case whole:
		return err
	case IsSMIMessage(text):
		return smiMessage(text)
	case h.rows > 0:
		return &leftOutError{reason: leftOutWrong, why: strings.TrimSuffix(err.Error(), repair) + ": " + QuoteLine(text)}
	}
	return fmt.Errorf("%w: %s", err, QuoteLine(text))
}

// headerInside returns the header at the end of a line, nil without one: nvidia-smi was killed inside a row, and started
// again.
func (h *smiHeader) headerInside(text string) *smiHeader {
	if h.other != nil {
		return nil
	}
	at := strings.LastIndex(text, h.columns[0].name)
	if at <= 0 || !isSMIHeader(text[at:]) {
		return nil
	}
	next, err := parseSMIHeader(text[at:], h.zone.loc)
	if err != nil || next.known["pid"] != h.known["pid"] {
		return nil
	}
	return next
}

// notAfterRow returns the error of a row whose time has not moved on.
func (h *smiHeader) notAfterRow(r *Row, last *smiStamp) error {
	why := "the clock was set back, as where daylight saving ends and the time zone is not known, or two recordings overlap"
	if h.other != nil {
		why = "rows come faster than the clock ticks, the clock was set back, or several GPUs are taken for one"
	}
	return &leftOutError{reason: leftOutTime, back: r.stamp.t < last.t, why: fmt.Sprintf("%s%s is not after %s, its row before: %s",
		r.stamp.text, of(&r.Info), last.text, why)}
}

// of names a GPU in an error, "" if its name is not known.
func of(i *gpu.Info) string {
	if !i.Named() {
		return ""
	}
	return fmt.Sprintf(" of GPU %q", i.UUID)
}

// QuoteLine quotes a line for an error, and cuts a long one.
func QuoteLine(text string) string {
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

// isWhole reports whether a line without a line break is complete. One that ends with its unit is, while 10 may have been
// 10000.
func (h *smiHeader) isWhole(text string) bool {
	if h.other != nil {
		return h.other.IsWhole(text)
	}
	unit := h.columns[len(h.columns)-1].unit
	return unit != "" && strings.HasSuffix(text, " "+unit)
}
