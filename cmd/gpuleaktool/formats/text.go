// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// maxLine bounds a line, in bytes.
const maxLine = 1 << 20

// Text returns a text as UTF-8 without a byte order mark. One in UTF-16, as PowerShell's >
// writes it, tells by its mark that it is.
func Text(in io.Reader) io.Reader {
	return transform.NewReader(in, unicode.BOMOverride(transform.Nop))
}

// lines reads the lines of a text.
type lines struct {
	name   string
	number int // of the line that next returned last
	in     *bufio.Reader
	cut    bool // that line has no line break: the text may end inside it
}

func newLines(name string, in io.Reader) *lines {
	return &lines{name: name, in: bufio.NewReaderSize(in, maxLine)}
}

// next returns the next line without its line break. The error is io.EOF at the end, or names
// file and line.
func (l *lines) next() (string, error) {
	line, err := l.in.ReadSlice('\n')
	if len(line) == 0 && errors.Is(err, io.EOF) {
		return "", io.EOF
	}
	l.number++
	l.cut = errors.Is(err, io.EOF)
	switch {
	case err == nil, l.cut:
		return strings.TrimRight(string(line), "\r\n"), nil
	case errors.Is(err, bufio.ErrBufferFull):
		return "", l.errorf("the line is longer than %d bytes: this is no log", maxLine)
	}
	return "", l.errorf("%w", err)
}

// errorf returns an error at the line.
func (l *lines) errorf(form string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", l.name, l.number, fmt.Errorf(form, args...))
}

// quote returns a line to be shown, without its end if it is long.
func quote(text string) string {
	const most = 100
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return fmt.Sprintf("%q", text)
}
