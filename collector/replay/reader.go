// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

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
	// line takes a line. more is false if no reading has become whole by it.
	line(text string) (r reading, more bool, err error)
	// end returns the readings that were not whole before the file ended.
	end() []reading
}

// logFormat is a format of another program. A bad line of it may be left out, as a leftOutError says.
type logFormat interface {
	format
	// isWhole reports whether a last line without a line break is complete.
	isWhole(text string) bool
}

// Reader reads the samples of a recording once, in the order of its rows. The time of each GPU increases. One goroutine may
// use it.
type Reader struct {
	file   *os.File // nil if it reads something else
	size   int64    // how much of file is read
	lines  *lineReader
	format format
	names  programNames
	left   leftOutLines
	strict bool      // a line that cannot be read is an error: nobody reads what was left out
	rows   int       // that have become readings
	rest   []reading // after the last line
	ended  bool
}

// Kind is the program that wrote a recording.
type Kind string

// The kinds of recordings that New and NewReader read.
const (
	KindGPUs      Kind = "nvidia-smi"   // nvidia-smi --query-gpu
	KindApps      Kind = "compute-apps" // nvidia-smi --query-compute-apps
	KindRecording Kind = "recording"    // a Writer
)

// NewReader returns a reader of a recording in any format that New takes; name stands in its errors. Time stamps without a
// zone are in loc; nil is UTC.
//
// The end of a file that is cut off is an error, unless its name ends in .partial: then the reader leaves it out.
func NewReader(name string, in io.Reader, loc *time.Location) (*Reader, error) {
	return NewHeaderlessReader(name, in, loc, "")
}

// NewHeaderlessReader returns a reader of a log of nvidia-smi that was recorded with --format=csv,noheader. header is the line
// that it lacks, with the names of --query-gpu or --query-compute-apps in their order.
func NewHeaderlessReader(name string, in io.Reader, loc *time.Location, header string) (*Reader, error) {
	r, err := newReader(name, in, loc, header, false)
	if err != nil {
		return nil, err
	}
	switch log := r.format.(type) {
	case *smiGPUs:
		log.reuse = true // of a row, what stays is its sample
		log.indices = nil
	case *smiApps:
		log.indices = nil
	}
	return r, nil
}

// Kind returns what the recording was written by.
func (f *Reader) Kind() Kind {
	switch f.format.(type) {
	case *smiGPUs:
		return KindGPUs
	case *smiApps:
		return KindApps
	default:
		return KindRecording
	}
}

// HasMemory reports whether it has a column of used memory, be it that of GPUs or of processes.
func (f *Reader) HasMemory() bool {
	log, ok := f.format.(*smiGPUs)
	return !ok || log.header.known["memory.used"] || log.header.known["memory.free"]
}

// Next returns the next sample and its GPU, which is known by Info.UUID as in New. Info.Index is -1 if the log does not tell
// it, and Info.Named tells whether Info.UUID is a name. The error is io.EOF at the end, or names file and line.
func (f *Reader) Next() (gpu.Info, gpu.Sample, error) {
	r, err := f.next()
	return r.info, r.sample, err
}

// openRecording opens a file and finds out its format. It reads the first size bytes only; -1 is all there are now.
func openRecording(path string, size int64, loc *time.Location) (*Reader, error) {
	// To open a pipe would wait for its writer, so look first.
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is no regular file: a recording is read more than once, so write a pipe to a file first", path)
	}
	if size < 0 {
		size = info.Size()
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	f, err := newReader(path, io.LimitReader(file, size), loc, "", true)
	if err != nil {
		file.Close()
		return nil, err
	}
	f.file, f.size = file, size
	return f, nil
}

// newReader returns a reader of in. name stands in errors. header is that of a log of nvidia-smi without one, or empty. strict
// is as in Reader.
func newReader(name string, in io.Reader, loc *time.Location, header string, strict bool) (*Reader, error) {
	loc = cmp.Or(loc, time.UTC)
	lines, err := newLineReader(name, in, !strict && strings.HasSuffix(name, ".partial"))
	if err != nil {
		return nil, err
	}
	f := &Reader{lines: lines, strict: strict, names: programNames{}}
	if header == "" {
		return f, f.detect(loc)
	}
	if f.format, err = newSMIFormat(header, loc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// detect finds out the format from the first line. nvidia-smi may have failed before it wrote its header.
func (f *Reader) detect(loc *time.Location) error {
	first, err := f.lines.next()
	for err == nil && IsSMIMessage(first) {
		f.left.add(f.lines.number, smiMessage(first))
		first, err = f.lines.next()
	}
	switch {
	case errors.Is(err, io.EOF) && len(f.left) > 0:
		return fmt.Errorf("%s: holds only messages of nvidia-smi, such as %s", f.lines.name, f.left[0].Why)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: is empty", f.lines.name)
	case errors.Is(err, errCut):
		return f.lines.errorf("%w", err)
	case err != nil:
		return err
	}
	if strings.HasPrefix(first, "{") {
		f.format, err = newRecordingFormat(first)
	} else {
		f.format, err = newSMIFormat(first, loc)
	}
	if err == nil {
		return nil
	}
	err = f.lines.errorf("%w", err)
	if errors.Is(err, ErrNoHeader) && !f.strict && f.headerBelow(first, loc) {
		return nil
	}
	return err
}

// mostBefore is how many lines of another program may stand before the header.
const mostBefore = 1000

// headerBelow looks for the header of a log of nvidia-smi below a first line that is none. ok is false without one.
func (f *Reader) headerBelow(first string, loc *time.Location) (ok bool) {
	before := leftOutLines{}
	before.add(f.lines.number, &leftOutError{reason: leftOutWrong, why: "no header of nvidia-smi: " + QuoteLine(first)})
	for range mostBefore {
		text, err := f.lines.next()
		if err != nil {
			return false
		}
		if isSMIHeader(text) {
			if f.format, err = newSMIFormat(text, loc); err == nil {
				f.left = append(f.left, before...)
				return true
			}
		}
		before.add(f.lines.number, &leftOutError{reason: leftOutWrong, why: ""})
	}
	return false
}

// next returns the next reading, in which each process with a known program runs something that has a name. The error is
// io.EOF at the end, or names file and line.
func (f *Reader) next() (reading, error) {
	r, err := f.row()
	if err == nil {
		f.names.complete(&r.sample)
	}
	return r, err
}

// row returns the next reading as it is recorded.
func (f *Reader) row() (reading, error) {
	for !f.ended {
		text, err := f.lines.next()
		if errors.Is(err, io.EOF) {
			f.ended, f.rest = true, f.format.end()
			f.rows += len(f.rest)
			break
		}
		var r reading
		whole := false
		switch {
		case err == nil:
			r, whole, err = f.format.line(text)
		case errors.Is(err, errCut):
			r, whole, err = f.cutLine(text)
		default:
			return reading{}, err
		}
		if err != nil && !f.leaveOut(err) {
			return reading{}, f.lines.errorf("%w", err)
		}
		if whole {
			f.rows++
			return r, nil
		}
	}
	if err := f.left.tooWrong(f.rows); err != nil && !f.strict {
		return reading{}, fmt.Errorf("%s: %w", f.lines.name, err)
	}
	if len(f.rest) == 0 {
		return reading{}, io.EOF
	}
	r := f.rest[0]
	f.rest = f.rest[1:]
	return r, nil
}

// leaveOut reports whether the line of an error is left out, and counts it.
func (f *Reader) leaveOut(err error) bool {
	left, ok := errors.AsType[*leftOutError](err)
	ok = ok && !(f.strict && left.reason == leftOutWrong)
	if ok {
		f.left.add(f.lines.number, left)
	}
	return ok
}

// cutLine takes a last line that has no line break. That of a log is used only if it is complete for certain.
func (f *Reader) cutLine(text string) (reading, bool, error) {
	log, ok := f.format.(logFormat)
	if !ok {
		return reading{}, false, errCut
	}
	if log.isWhole(text) {
		r, whole, err := log.line(text)
		if left, ok := errors.AsType[*leftOutError](err); err == nil || ok && left.reason != leftOutWrong {
			return r, whole, err
		}
	}
	return reading{}, false, &leftOutError{reason: leftOutCut, why: "the file ends inside it: " + QuoteLine(text)}
}

// close closes the file. It may be called again, and during next, which then fails.
func (f *Reader) close() { f.file.Close() }

// maxNamed bounds the programs whose names are kept.
const maxNamed = 1024

// programNames gives names to processes of a recording that does not tell what they run, as logs of nvidia-smi: by the program
// alone. There is no secret, because the recording has the program's name, too. They are kept, because a hash takes as long as
// a row.
type programNames map[string]uint64

// complete names the processes of a new sample, whose owners are not shared yet.
func (n programNames) complete(s *gpu.Sample) {
	for i := range s.Processes {
		o := s.Processes[i].Owner
		if o == nil || o.Runs != 0 {
			continue
		}
		if _, known := n[o.Process]; !known {
			if len(n) == maxNamed {
				clear(n)
			}
			n[o.Process] = (&gpu.Program{Name: o.Process}).Hash(nil)
		}
		o.Runs = n[o.Process]
	}
}
