// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

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

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/formats"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/terminal"
	"github.com/gpuleak/gpu_leak_exporter/collector/replay"
)

// The choices of --format beside those of replay.Kind.
const (
	formatAuto = "auto"
	formatCSV  = "csv" // any, by --columns
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
		if info, err := os.Stat(name); err == nil && info.IsDir() { // reading it would fail at "line 1"
			return nil, "", fmt.Errorf("%s is a directory: name a file", name)
		}
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
func (b *backtest) open(name string, in io.Reader) (history, error) {
	buffered := bufio.NewReaderSize(in, peeked)
	first, _, _ := strings.Cut(strings.TrimSpace(peek(buffered)), "\n")
	options := b.logOptions()
	isCSV := b.format == formatCSV || b.format == formatAuto && len(b.columns) > 0 && !b.isSMI()
	if columns := formats.SavedAgain(strings.TrimSpace(first)); columns != nil && len(b.columns) == 0 {
		options.Columns, isCSV = columns, true
	}
	if !isCSV {
		return b.openRecording(name, first, buffered)
	}
	reader, err := formats.NewReader(name, buffered, options)
	if err != nil {
		return nil, err
	}
	return &recorded{name: name, reader: reader}, nil
}

// isSMI reports whether --columns has names that nvidia-smi has for used memory and the time, and none that only
// other logs have: the log is one of its own without a header.
func (b *backtest) isSMI() bool {
	own, timed := false, false
	for _, c := range b.columns {
		name, _, _ := strings.Cut(c, "[")
		switch strings.TrimSpace(name) {
		case "memory.used", "memory.free", "used_memory", "used_gpu_memory":
			own = true
		case "timestamp":
			timed = true
		case "gpu", "device", "date", "time", "used", "total", "free", "process":
			return false
		}
	}
	return own && timed
}

// logOptions are what a log may not tell.
func (b *backtest) logOptions() formats.Options {
	o := formats.Options{Location: b.location, Interval: b.logInterval, Columns: b.columns, Unit: b.unit}
	if b.logStart != nil {
		o.Start = b.logStart()
	}
	return o
}

// openRecording opens a recording, or a log of nvidia-smi --query-gpu or --query-compute-apps. first is its first line.
func (b *backtest) openRecording(name, first string, in io.Reader) (history, error) {
	open := replay.NewReader
	if len(b.columns) > 0 {
		if n := strings.Count(first, ",") + 1; n != len(b.columns) && !replay.IsSMIMessage(first) && !slices.Contains(b.columns, "process_name") {
			return nil, fmt.Errorf("%s: --columns names %d columns, but the first line has %d fields: name each one, those of no use -: %s",
				name, len(b.columns), n, terminal.Printable(strings.TrimSpace(first), 80))
		}
		open = func(name string, in io.Reader, loc *time.Location) (*replay.Reader, error) {
			return replay.NewHeaderlessReader(name, in, loc, strings.Join(b.columns, ","))
		}
	}
	reader, err := open(name, in, b.location)
	begins := "it begins with " + terminal.Printable(strings.TrimSpace(first), 80)
	switch {
	case errors.Is(err, replay.ErrNoHeader) && (!strings.ContainsAny(first, ",;\t") || strings.Contains(first, "\x00")):
		return nil, fmt.Errorf("%s: is no log that can be read, neither CSV nor a recording; %s; docs/backtest.md has commands for the logs of other programs", name, begins)
	case errors.Is(err, replay.ErrNoHeader), err != nil && strings.HasPrefix(first, "{") && !strings.HasPrefix(first, `{"format"`):
		return nil, fmt.Errorf("%s: %w; %s; %s", name, replay.ErrNoHeader, otherLogs, begins)
	case errors.Is(err, replay.ErrNoTimestamp):
		return nil, fmt.Errorf("%w; %s; %s", err, otherLogs, begins)
	case err == nil && !reader.HasMemory():
		return nil, fmt.Errorf("%s: holds no used memory: record memory.used and memory.total, or used_memory of processes; %s; %s", name, otherLogs, begins)
	}
	if err != nil {
		return nil, err
	}
	if kind := string(reader.Kind()); b.format != formatAuto && b.format != kind {
		return nil, fmt.Errorf("%s: --format=%s: this is a file of the format %s", name, b.format, kind)
	}
	if b.unit != 0 && b.unit != promapi.Mebibyte {
		return nil, fmt.Errorf("%s: --unit is for metrics: this file tells its units", name)
	}
	return &recorded{name: name, reader: reader}, nil
}

// otherLogs says what to do about a file that is neither CSV of nvidia-smi nor a recording.
const otherLogs = "name the columns of another CSV, as in --columns='timestamp,gpu,used[MiB],total[MiB]', with - for one of no use; docs/backtest.md has commands for CSV without times, and for the logs of other programs"

// peek returns the first lines, unpacked and as UTF-8, and leaves the reader where it was.
func peek(in *bufio.Reader) string {
	raw, _ := in.Peek(peeked / 2) // what is wrong comes up again when it is read
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return ""
		}
		text := make([]byte, 16<<10)
		n, _ := io.ReadFull(z, text)
		raw = text[:n]
	}
	text, _ := io.ReadAll(transform.NewReader(bytes.NewReader(raw), unicode.BOMOverride(transform.Nop)))
	return string(text)
}
