// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// reading is one sample of a recording. Its GPU is known by info.UUID.
type reading struct {
	info   gpu.Info
	sample gpu.Sample
	status *gpu.Status // nil if none was recorded with it
}

// format turns the lines of a recording into readings.
type format interface {
	// line takes a line. It returns the reading that has become whole by it, until the next call; nil if none has.
	line(text string) (*reading, error)
	// end returns the readings that were not whole before the file ended.
	end() []*reading
}

// Reader reads the samples of a recording once, in the order of its rows. The time of each GPU increases. One goroutine may
// use it.
type Reader struct {
	lines  *lineReader
	format format
	left   []leftOut
	strict bool       // a line that cannot be read is an error: nobody reads what was left out
	rows   int        // that have become readings
	rest   []*reading // after the last line
	ended  bool
}

// NewReader returns a reader of a recording in any format that New takes; name stands in its errors. log is what a CSV does not
// tell by itself, and may be nil.
//
// The end of a file that is cut off is an error, unless its name ends in .partial: then the reader leaves it out, as it does
// a last line of a log without a line break.
func NewReader(name string, in io.Reader, log *Log) (*Reader, error) {
	return newReader(name, in, log, false)
}

// Next returns the next sample and its GPU, which is known by Info.UUID as in New. Info.Index is -1 if the log does not tell
// it, and Info.Named tells whether Info.UUID is a name. Both are there until the next call, and may be changed. The error is io.EOF
// at the end, or names file and line.
func (f *Reader) Next() (*gpu.Info, *gpu.Sample, error) {
	r, err := f.next()
	if err != nil {
		return nil, nil, err
	}
	return &r.info, &r.sample, nil
}

// newReader is NewReader. strict is as in Reader.
func newReader(name string, in io.Reader, log *Log, strict bool) (*Reader, error) {
	if log == nil {
		log = &Log{}
	}
	lines, err := newLineReader(name, in, !strict && strings.HasSuffix(name, ".partial"))
	if err != nil {
		return nil, err
	}
	f := &Reader{lines: lines, strict: strict}
	if log.Columns == nil {
		return f, f.detect(log)
	}
	if f.format, err = newCSV("", log); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// mostBefore is how many lines may stand before the header of a log.
const mostBefore = 1000

// detect finds out the format from the first line. nvidia-smi may have failed before it wrote its header, and other programs
// may write into its log.
func (f *Reader) detect(log *Log) (wrong error) {
	for range mostBefore {
		text, err := f.lines.next()
		switch {
		case err != nil && wrong != nil:
			return wrong
		case errors.Is(err, io.EOF) && len(f.left) > 0:
			return fmt.Errorf("%s: holds only messages of nvidia-smi and comments: %s", f.lines.name, f.left[0])
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%s: is empty", f.lines.name)
		case errors.Is(err, errCut):
			return f.lines.errorf("%w", err)
		case err != nil:
			return err
		case isMessage(text):
			f.leaveOut(messageOf(text))
			continue
		case strings.HasPrefix(text, `{"format"`):
			f.format, err = newRecordingFormat(text)
		default:
			f.format, err = newCSV(text, log)
		}
		if err == nil {
			return nil
		}
		if wrong == nil {
			wrong = f.lines.errorf("%w", err)
		}
		if header, ok := errors.AsType[*HeaderError](wrong); f.strict || !ok || header.Why != noHeader {
			return wrong
		}
		f.leaveOut(&leftOutError{reason: leftOutWrong, why: "no header of nvidia-smi: " + quote(text)})
	}
	return wrong
}

// next returns the next reading, which is valid until it is called again. The error is io.EOF at the end, or names file and line.
func (f *Reader) next() (*reading, error) {
	for !f.ended {
		text, err := f.lines.next()
		if errors.Is(err, io.EOF) {
			f.ended, f.rest = true, f.format.end()
			f.rows += len(f.rest)
			break
		}
		var r *reading
		switch {
		case err == nil:
			r, err = f.format.line(text)
		case errors.Is(err, errCut):
			if _, log := f.format.(*csvLog); log { // that of a log which is still written
				err = &leftOutError{reason: leftOutCut, why: "the file ends inside it: " + quote(text)}
			}
		default:
			return nil, err
		}
		if left, ok := errors.AsType[*leftOutError](err); ok && !(f.strict && left.reason >= leftOutWrong) {
			f.leaveOut(left)
		} else if err != nil {
			return nil, f.lines.errorf("%w", err)
		}
		if r != nil {
			f.rows++
			return r, nil
		}
	}
	if err := f.checkLeftOut(); err != nil && !f.strict {
		return nil, err
	}
	if len(f.rest) == 0 {
		return nil, io.EOF
	}
	r := f.rest[0]
	f.rest = f.rest[1:]
	return r, nil
}
