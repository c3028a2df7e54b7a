// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// reading is what a recording holds of a GPU at one moment. Its GPU is known by
// info.UUID.
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

// logFormat is a format that another program writes: what is wrong in it may be left
// out, as a leftOutError says. The time of each of its GPUs increases.
type logFormat interface {
	format
	// isWhole reports whether nothing is missing of a last line without a line break.
	isWhole(text string) bool
}

// recordingFile reads the readings of a file in its order. It sees to it that the
// time of each GPU increases.
type recordingFile struct {
	file   *os.File // nil if it reads something else
	size   int64    // how much of file is read
	lines  *lineReader
	format format
	last   map[string]time.Duration // by UUID
	names  programNames
	left   leftOutLines
	strict bool      // a line that cannot be read is an error: nobody reads what was left out
	rows   int       // that have become readings
	rest   []reading // after the last line
	ended  bool
}

// openRecording opens a file and finds out its format. Only the first size bytes
// are read; -1 is all there are now.
func openRecording(path string, size int64, loc *time.Location) (*recordingFile, error) {
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
	f, err := newRecordingFile(path, io.LimitReader(file, size), loc, "", true)
	if err != nil {
		file.Close()
		return nil, err
	}
	f.file, f.size = file, size
	return f, nil
}

// newRecordingFile reads a recording from in. name stands in errors. header is that of a log of nvidia-smi that has none, or
// empty. strict is as in recordingFile.
func newRecordingFile(name string, in io.Reader, loc *time.Location, header string, strict bool) (*recordingFile, error) {
	lines, err := newLineReader(name, in, !strict && strings.HasSuffix(name, ".partial"))
	if err != nil {
		return nil, err
	}
	f := &recordingFile{lines: lines, strict: strict, last: map[string]time.Duration{}, names: programNames{}}
	if header == "" {
		return f, f.detect(loc)
	}
	if f.format, err = newSMIFormat(header, loc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// detect takes the first line and finds out the format that it heads. nvidia-smi may
// have failed before it wrote its header.
func (f *recordingFile) detect(loc *time.Location) error {
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

// headerBelow looks for the header of a log of nvidia-smi below a first line that is none. ok is false if there is none.
func (f *recordingFile) headerBelow(first string, loc *time.Location) (ok bool) {
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

// next returns the next reading, with a name for what each process runs whose program is known.
// The error is io.EOF at the end, or names file and line.
func (f *recordingFile) next() (reading, error) {
	r, err := f.row()
	if err == nil {
		f.names.complete(&r.sample)
	}
	return r, err
}

// row returns the next reading as it is recorded.
func (f *recordingFile) row() (reading, error) {
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
			return r, f.check(&r)
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
	return r, f.check(&r)
}

// leaveOut reports whether the line of an error is left out, and counts it.
func (f *recordingFile) leaveOut(err error) bool {
	left, ok := errors.AsType[*leftOutError](err)
	ok = ok && !(f.strict && left.reason == leftOutWrong)
	if ok {
		f.left.add(f.lines.number, left)
	}
	return ok
}

// cutLine takes a last line that has no line break. That of a log is of use only if it
// is certain that nothing of it is missing.
func (f *recordingFile) cutLine(text string) (reading, bool, error) {
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

// check returns an error if the time of a GPU has not moved on. The logs of other
// programs see to that themselves.
func (f *recordingFile) check(r *reading) error {
	if _, ok := f.format.(logFormat); ok {
		return nil
	}
	t := r.sample.T
	if last, known := f.last[r.info.UUID]; known && t <= last {
		return f.lines.errorf("%w", notAfter(r.info.UUID, t, last))
	}
	f.last[r.info.UUID] = t
	return nil
}

// notAfter returns the error of a sample whose time has not moved on.
func notAfter(uuid string, t, last time.Duration) error {
	const form = "2006-01-02 15:04:05.000"
	return fmt.Errorf("timestamp: %s of GPU %q is not after %s, its row before: split the file where the clock was set back or two recordings overlap, and record with the uuid if rows of several GPUs are mixed",
		time.Unix(0, int64(t)).UTC().Format(form), uuid, time.Unix(0, int64(last)).UTC().Format(form))
}

// close closes the file. It may be called again, and while next is under way,
// which then fails.
func (f *recordingFile) close() { f.file.Close() }

// maxLine bounds a line of a recording. One of a GPU with 1,000 processes has
// about 500 kB.
const maxLine = 16 << 20

// lineReader reads lines and counts them.
type lineReader struct {
	name   string
	number int // of the line that next returned last
	in     *bufio.Reader
	gzip   bool
	// partial says that the file may be cut off anywhere: it ends with its last whole line.
	partial bool
	most    int  // bytes of a line
	exact   bool // the blanks around a line are of it
}

// errCut is the error of a last line without a line break.
var errCut = errors.New("the file ends inside this line: remove the line, or end it with a line break if it is whole")

// newLineReader returns a reader of the lines of in, which is unpacked first if
// it is compressed, and becomes UTF-8 if it is UTF-16, as PowerShell's > writes it. name stands in errors, and
// partial is as in lineReader.
func newLineReader(name string, in io.Reader, partial bool) (*lineReader, error) {
	const peeked = 512
	l := &lineReader{name: name, most: maxLine, in: bufio.NewReaderSize(in, 64<<10), partial: partial}
	if magic, _ := l.in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(l.in)
		if partial && errors.Is(err, io.ErrUnexpectedEOF) {
			return l, nil // not even the header of gzip is whole, and nothing follows
		}
		if err != nil {
			return nil, fmt.Errorf("%s: gzip: %w", name, err)
		}
		l.in, l.gzip = bufio.NewReaderSize(z, 64<<10), true
	}
	if mark, _ := l.in.Peek(2); slices.Contains([]string{"\xef\xbb", "\xff\xfe", "\xfe\xff"}, string(mark)) {
		l.in = bufio.NewReaderSize(transform.NewReader(l.in, unicode.BOMOverride(transform.Nop)), 64<<10)
	}
	head, _ := l.in.Peek(peeked) // what is wrong comes up again when it is read
	if why := Unreadable(head); why != "" {
		return nil, fmt.Errorf("%s: %s", name, why)
	}
	return l, nil
}

// next returns the next line that is not blank, without the line break and, unless
// exact, the blanks around it; io.EOF after the last. With errCut it returns what is there.
func (l *lineReader) next() (string, error) {
	for {
		l.number++
		line, err := l.whole()
		text := strings.TrimSpace(line)
		if text == "" && err == nil {
			continue
		}
		if l.exact {
			text = strings.TrimRight(line, "\r\n")
		}
		return text, err
	}
}

// whole returns the next line with its line break. A file may have been cut off
// anywhere, by a full disk or a loss of power, and a number that has lost its
// last digits looks like any other: a line counts only with its line break.
func (l *lineReader) whole() (string, error) {
	var long []byte
	for {
		part, err := l.in.ReadSlice('\n')
		switch {
		case err == nil && long == nil:
			return string(part), nil
		case len(long)+len(part) > l.most:
			return "", l.errorf("the line is longer than %d bytes: this is no recording", l.most)
		}
		long = append(long, part...)
		switch {
		case err == nil:
			return string(long), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && (l.partial || len(bytes.TrimSpace(long)) == 0), l.partial && errors.Is(err, io.ErrUnexpectedEOF):
			return "", io.EOF
		case err == io.EOF:
			return string(long), errCut
		case l.gzip && errors.Is(err, io.ErrUnexpectedEOF):
			return "", l.errorf("the compressed file is cut off: save its whole lines with zcat FILE | head -n -1 > NEW")
		default:
			return "", l.errorf("%w", err)
		}
	}
}

// errorf returns an error that names the file and the line that was read last.
func (l *lineReader) errorf(form string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", l.name, l.number, fmt.Errorf(form, args...))
}

// maxNamed bounds the programs whose names are kept.
const maxNamed = 1024

// programNames name what a process of a recording runs that does not tell it, by its program alone. That is what
// nvidia-smi writes, and of a container what was recorded before its runtime had answered.
// There is no secret: the recording has the program's name, too. They are kept, because a hash takes as long as a row.
type programNames map[string]uint64

// complete names the processes of a sample that was just read: nobody else has its owners.
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
