// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// The choices of --format beside those of gpu.RecordingKind.
const (
	formatAuto        = "auto"
	formatOpenMetrics = "openmetrics"
)

// peeked is how much of a file is looked at to find out its format.
const peeked = 64 << 10

// standardInput stands for the name of a file: in errors, and in the list of files as -.
const standardInput = "standard input"

// openFile opens a file, or takes the standard input for -, and returns its name for
// messages. kingpin hands - over as an empty name, as which an empty variable of a
// shell comes, too: who waits for neither is told.
func openFile(name string) (file *os.File, shown string, err error) {
	if isNamed(name) {
		file, err = os.Open(name)
		return file, name, err
	}
	if isTerminal(os.Stdin) {
		return nil, "", errors.New(standardInput + ": nothing is piped into it: name a file, or pipe the output of nvidia-smi into it")
	}
	return os.Stdin, standardInput, nil
}

// isNamed reports whether a name is that of a file, not the standard input.
func isNamed(name string) bool { return name != "-" && name != "" }

// open returns the history that a file holds. name stands in errors.
func (b *backtest) open(ctx context.Context, name string, in io.Reader) (history, error) {
	buffered := bufio.NewReaderSize(in, peeked)
	head, packed := peek(buffered)
	if why := gpu.Unreadable([]byte(head)); why != "" {
		return nil, fmt.Errorf("%s: %s", name, why)
	}
	if b.format == formatOpenMetrics || b.format == formatAuto && isOpenMetrics(head) {
		var text io.Reader = buffered
		if packed {
			unpacked, err := gzip.NewReader(buffered)
			if err != nil {
				return nil, fmt.Errorf("%s: gzip: %w", name, err)
			}
			text = unpacked
		}
		return readOpenMetrics(ctx, name, text, b.unit)
	}
	reader, err := gpu.NewRecordingReader(name, buffered, b.location)
	if err != nil {
		return nil, err
	}
	if kind := string(reader.Kind()); b.format != formatAuto && b.format != kind {
		return nil, fmt.Errorf("%s: --format=%s: this is a file of the format %s", name, b.format, kind)
	}
	if b.unit != 0 && b.unit != mebibyte {
		return nil, fmt.Errorf("%s: --unit is for metrics: this file tells its units", name)
	}
	return &recorded{reader: reader}, nil
}

// peek returns the first lines, unpacked, and leaves the reader where it was.
func peek(in *bufio.Reader) (head string, packed bool) {
	raw, _ := in.Peek(peeked / 2) // what is wrong comes up again when it is read
	if !bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		return string(raw), false
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return "", true
	}
	text := make([]byte, 4<<10)
	n, _ := io.ReadFull(z, text)
	return string(text[:n]), true
}

// isOpenMetrics reports whether a file that begins so is OpenMetrics: with a
// comment, or with a sample.
func isOpenMetrics(head string) bool {
	line, _, _ := strings.Cut(strings.TrimLeft(strings.TrimPrefix(head, "\ufeff"), " \t\r\n"), "\n")
	switch {
	case strings.HasPrefix(line, "#"):
		return true
	case strings.HasPrefix(line, `{"format"`):
		return false
	}
	written, rest, err := new(openMetrics).selector([]byte(strings.TrimSpace(line)))
	if err != nil {
		return false
	}
	value, _ := field(rest)
	_, _, wrong := parseNumber(value)
	_, err = parseSelector(string(written))
	return err == nil && len(value) > 0 && wrong == nil
}
