// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// maxGPUs bounds the GPUs of a log: what has more has no column of GPUs.
const maxGPUs = 4096

// log is a log that is being read.
type log struct {
	ctx     context.Context
	name    string
	text    io.Reader
	lines   *lines // of text
	clock   clock
	options Options
	take    Take

	last    map[string]time.Duration // of each GPU's samples, by UUID
	samples int
	back    int  // samples left out because their time is before that of the one before
	begun   bool // a row was read
	left    []gpu.LeftOut
	reasons []reason // of left, in its order
}

func newLog(ctx context.Context, name string, in io.Reader, o Options, take Take) *log {
	if o.Location == nil {
		o.Location = time.UTC
	}
	return &log{
		ctx: ctx, name: name, text: in, lines: newLines(name, in), options: o, take: take,
		clock: clock{loc: o.Location, start: o.Start, interval: o.Interval},
		last:  map[string]time.Duration{},
	}
}

// reason is why something was left out. Each is told of once.
type reason string

const (
	leftCut     reason = "cut"     // the log ends inside it
	leftTime    reason = "time"    // the time has not moved on
	leftForeign reason = "foreign" // it is of no such log
	leftWrong   reason = "wrong"   // it cannot be read
	leftTwice   reason = "twice"   // the process has another amount at the same time
)

// leaveOut counts a line that cannot be used. why says what is wrong with the first one.
func (l *log) leaveOut(r reason, line int, why string) {
	for i := range l.reasons {
		if l.reasons[i] == r {
			l.left[i].Lines++
			return
		}
	}
	l.reasons = append(l.reasons, r)
	l.left = append(l.left, gpu.LeftOut{Lines: 1, First: line, Why: why})
}

// emit hands a sample over, or leaves it out if the time of its GPU has not moved on. line is
// where it stands.
func (l *log) emit(info gpu.Info, s gpu.Sample, line int) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	s.Time = time.Unix(0, int64(s.T)).UTC()
	last, known := l.last[info.UUID]
	switch {
	case known && s.T <= last:
		if s.T < last {
			l.back++
		}
		const form = "2006-01-02 15:04:05.000"
		l.leaveOut(leftTime, line, fmt.Sprintf("%s%s is not after its row before: rows come faster than the clock ticks, the clock was set back, or several GPUs are taken for one",
			s.Time.In(l.options.Location).Format(form), of(&info)))
		return nil
	case !known && len(l.last) >= maxGPUs:
		return fmt.Errorf("%s:%d: names more than %d GPUs: check which column names the GPU", l.name, line, maxGPUs)
	}
	l.last[info.UUID] = s.T
	l.samples++
	l.begun = true
	return l.take(info, &s)
}

// useless returns an error where most of a log could not be used: nothing would be said of it.
func (l *log) useless() error {
	for i, r := range l.reasons {
		if (r == leftTime || r == leftWrong) && l.left[i].Lines > l.samples || r == leftTime && 2*l.back > l.samples {
			return fmt.Errorf("%s: has too many rows that cannot be used: %s", l.name, l.left[i])
		}
	}
	return nil
}

// lineError is the error of a single line, below which the log may go on.
type lineError struct{ error }

func (e lineError) Unwrap() error { return e.error }

// wrongf returns a lineError.
func wrongf(form string, args ...any) error { return lineError{fmt.Errorf(form, args...)} }

// wrong takes the error of the line that was read last. Below a first row the line is left out: the log ends inside it,
// another program wrote into it, or it was damaged. Else the error is returned, with its place.
func (l *log) wrong(err error, text string) error {
	_, ofLine := errors.AsType[lineError](err)
	switch {
	case err == nil:
		return nil
	case l.begun && l.lines.cut:
		l.cutOff(text)
		return nil
	case l.begun && ofLine:
		l.leaveOut(leftWrong, l.lines.number, err.Error()+": "+quote(text))
		return nil
	case ofLine:
		return l.lines.errorf("%w: %s", err, quote(text))
	}
	return l.lines.errorf("%w", err)
}

// nextLine returns the next line, or an error that is io.EOF at the end.
func (l *log) nextLine() (string, error) {
	if err := l.ctx.Err(); err != nil {
		return "", err
	}
	return l.lines.next()
}

// foreign leaves the line out that was read last because it belongs to no such log.
func (l *log) foreign(text string) {
	l.leaveOut(leftForeign, l.lines.number, "is no part of the log: "+quote(text))
}

// cutOff leaves the line out that was read last because the log ends inside it.
func (l *log) cutOff(text string) {
	l.leaveOut(leftCut, l.lines.number, "the file ends inside it: "+quote(text))
}

// of says in a message which GPU something is of, "" if the log does not tell.
func of(info *gpu.Info) string {
	if !info.Named() {
		return ""
	}
	return fmt.Sprintf(" of GPU %q", info.UUID)
}

// parseIndex reads the index of a GPU.
func parseIndex(text string) (int, error) {
	v, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, wrongf("cannot read %q as the index of a GPU", text)
	}
	return int(v), nil
}

// parsePID reads a process id.
func parsePID(text string) (uint32, error) {
	v, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, wrongf("cannot read %q as a process id", text)
	}
	return uint32(v), nil
}
