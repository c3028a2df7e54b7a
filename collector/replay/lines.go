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
	"slices"
	"strings"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// maxLine bounds a line of a recording. That of a GPU with 1,000 processes has about 500 kB.
const maxLine = 16 << 20

// lineReader reads lines and counts them.
type lineReader struct {
	name   string
	number int // of the line that next returned last
	in     *bufio.Reader
	gzip   bool
	// partial says that the file may be cut off anywhere: it ends with its last whole line.
	partial bool
}

// errCut is the error of a last line without a line break.
var errCut = errors.New("the file ends inside this line: remove the line, or end it with a line break if it is whole")

// newLineReader returns a reader of the lines of in. It unpacks gzip and turns UTF-16, as PowerShell's > writes it, into
// UTF-8. name stands in errors, and partial is as in lineReader.
func newLineReader(name string, in io.Reader, partial bool) (*lineReader, error) {
	l := &lineReader{name: name, in: bufio.NewReaderSize(in, 64<<10), partial: partial}
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
	if magic, _ := l.in.Peek(3); slices.Contains([]string{"PK\x03", "\xfd7z", "\x28\xb5\x2f", "BZh"}, string(magic)) {
		return nil, fmt.Errorf("%s: is compressed, and not by gzip: unpack it first", name)
	}
	if mark, _ := l.in.Peek(2); slices.Contains([]string{"\xef\xbb", "\xff\xfe", "\xfe\xff"}, string(mark)) {
		l.in = bufio.NewReaderSize(transform.NewReader(l.in, unicode.BOMOverride(transform.Nop)), 64<<10)
	}
	return l, nil
}

// next returns the next line that is not blank, without the line break; io.EOF after the last. With errCut it returns the rest
// of the file.
func (l *lineReader) next() (string, error) {
	for {
		l.number++
		line, err := l.whole()
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if strings.TrimSpace(line) != "" || err != nil {
			return line, err
		}
	}
}

// whole returns the next line with its line break. A full disk or a loss of power may have cut the file off anywhere, and a
// number without its last digits looks like any other. So a line counts only with its line break.
func (l *lineReader) whole() (string, error) {
	var long []byte
	for {
		part, err := l.in.ReadSlice('\n')
		switch {
		case err == nil && long == nil:
			return string(part), nil
		case len(long)+len(part) > maxLine:
			return "", l.errorf("the line is longer than %d bytes: this is no recording", maxLine)
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
