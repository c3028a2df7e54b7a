// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package history

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

	"github.com/alecthomas/kingpin/v2"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/command"
	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/history/formats"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
	"github.com/gpuleak/gpu_leak_exporter/collector/replay"
)

// The choices of --format beside those of replay.Kind.
const (
	FormatAuto = "auto"
	FormatCSV  = "csv" // any, by --columns
)

// Files are the logs and recordings to read, and what they do not tell.
type Files struct {
	Format   string
	Location *time.Location
	Unit     float64  // bytes; 0 is to find out
	Columns  []string // of a CSV without a header that is known
	// When a log begins that tells no date or no time, nil if that was not given, and what is
	// between two of its rows.
	LogStart    func() time.Time
	LogInterval time.Duration
}

// peeked is how much of a file is looked at to find out its format.
const peeked = 64 << 10

// StandardInput stands for the name of a file: in errors, and in the list of files as -.
const StandardInput = "standard input"

// OpenFile opens a file, or takes the standard input for -, and returns its name for
// messages. kingpin hands - over as an empty name, as which an empty variable of a
// shell comes, too: who waits for neither is told.
func OpenFile(name string) (file *os.File, shown string, err error) {
	if IsNamed(name) {
		if info, err := os.Stat(name); err == nil && info.IsDir() { // reading it would fail at "line 1"
			return nil, "", fmt.Errorf("%s is a directory: name a file", name)
		}
		file, err = os.Open(name)
		return file, name, err
	}
	if command.IsTerminal(os.Stdin) {
		return nil, "", errors.New(StandardInput + ": nothing is piped into it: name a file, or pipe the output of nvidia-smi into it")
	}
	return os.Stdin, StandardInput, nil
}

// IsNamed reports whether a name is that of a file, not the standard input.
func IsNamed(name string) bool { return name != "-" && name != "" }

// Open returns the history that a file holds. name stands in errors.
func (f *Files) Open(name string, in io.Reader) (History, error) {
	buffered := bufio.NewReaderSize(in, peeked)
	first, _, _ := strings.Cut(strings.TrimSpace(peek(buffered)), "\n")
	options := f.logOptions()
	isCSV := f.Format == FormatCSV || f.Format == FormatAuto && len(f.Columns) > 0 && !f.isSMI()
	if columns := formats.SavedAgain(strings.TrimSpace(first)); columns != nil && len(f.Columns) == 0 {
		options.Columns, isCSV = columns, true
	}
	if !isCSV {
		return f.openRecording(name, first, buffered)
	}
	reader, err := formats.NewReader(name, buffered, options)
	if err != nil {
		return nil, err
	}
	return &Recorded{name: name, reader: reader}, nil
}

// isSMI reports whether --columns has names that nvidia-smi has for used memory and the time, and none that only
// other logs have: the log is one of its own without a header.
func (f *Files) isSMI() bool {
	own, timed := false, false
	for _, c := range f.Columns {
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
func (f *Files) logOptions() formats.Options {
	o := formats.Options{Location: f.Location, Interval: f.LogInterval, Columns: f.Columns, Unit: f.Unit}
	if f.LogStart != nil {
		o.Start = f.LogStart()
	}
	return o
}

// openRecording opens a recording, or a log of nvidia-smi --query-gpu or --query-compute-apps. first is its first line.
func (f *Files) openRecording(name, first string, in io.Reader) (History, error) {
	open := replay.NewReader
	if len(f.Columns) > 0 {
		if n := strings.Count(first, ",") + 1; n != len(f.Columns) && !replay.IsSMIMessage(first) && !slices.Contains(f.Columns, "process_name") {
			return nil, fmt.Errorf("%s: --columns names %d columns, but the first line has %d fields: name each one, those of no use -: %s",
				name, len(f.Columns), n, cli.Printable(strings.TrimSpace(first), 80))
		}
		open = func(name string, in io.Reader, loc *time.Location) (*replay.Reader, error) {
			return replay.NewHeaderlessReader(name, in, loc, strings.Join(f.Columns, ","))
		}
	}
	reader, err := open(name, in, f.Location)
	begins := "it begins with " + cli.Printable(strings.TrimSpace(first), 80)
	switch {
	case errors.Is(err, replay.ErrNoHeader) && (!strings.ContainsAny(first, ",;\t") || strings.Contains(first, "\x00")):
		return nil, fmt.Errorf("%s: is no log that can be read, neither CSV nor a recording; %s; docs/backtest.md has commands for the logs of other programs", name, begins)
	case errors.Is(err, replay.ErrNoHeader), err != nil && strings.HasPrefix(first, "{") && !strings.HasPrefix(first, `{"format"`):
		return nil, fmt.Errorf("%s: %w; %s; %s", name, replay.ErrNoHeader, OtherLogs, begins)
	case errors.Is(err, replay.ErrNoTimestamp):
		return nil, fmt.Errorf("%w; %s; %s", err, OtherLogs, begins)
	case err == nil && !reader.HasMemory():
		return nil, fmt.Errorf("%s: holds no used memory: record memory.used and memory.total, or used_memory of processes; %s; %s", name, OtherLogs, begins)
	}
	if err != nil {
		return nil, err
	}
	if kind := string(reader.Kind()); f.Format != FormatAuto && f.Format != kind {
		return nil, fmt.Errorf("%s: --format=%s: this is a file of the format %s", name, f.Format, kind)
	}
	if f.Unit != 0 && f.Unit != promapi.Mebibyte {
		return nil, fmt.Errorf("%s: --unit is for metrics: this file tells its units", name)
	}
	return &Recorded{name: name, reader: reader}, nil
}

// OtherLogs says what to do about a file that is neither CSV of nvidia-smi nor a recording.
const OtherLogs = "name the columns of another CSV, as in --columns='timestamp,gpu,used[MiB],total[MiB]', with - for one of no use; docs/backtest.md has commands for CSV without times, and for the logs of other programs"

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

// Formats are the choices of --format.
func Formats() []string {
	return []string{FormatAuto, string(replay.KindGPUs), string(replay.KindApps), FormatCSV}
}

// AddFlags adds the flags that tell what a log does not.
func (f *Files) AddFlags(cmd *kingpin.CmdClause) {
	columns, start := "", ""
	cmd.Flag("columns", "Columns of a CSV whose header is missing or unknown, in their order: those of nvidia-smi --query-gpu, or timestamp, gpu, used[MiB], total[MiB] and the like; - is one of no use.").
		SetValue(cli.Checked("columns", &columns, f.setColumns))
	cmd.Flag("log.start", "When a log begins that tells no date or no time, such as 2026-03-01 or 2026-03-01T14:00:00Z.").
		SetValue(cli.Checked("log.start", &start, f.setLogStart))
	cmd.Flag("log.interval", "Time between two rows of a log that tells no time, such as 1s.").
		SetValue(cli.Duration("log.interval", &f.LogInterval, time.Millisecond, 24*time.Hour))
}

// setColumns takes the names of the columns. Those between brackets are units.
func (f *Files) setColumns(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("names no column, such as --columns=timestamp,index,memory.used")
	}
	f.Columns = strings.Split(text, ",")
	return nil
}

// setLogStart takes the begin of a log. Without a zone it is in that of --timezone, which may stand behind
// it on the command line.
func (f *Files) setLogStart(text string) error {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if _, err := time.Parse(layout, text); err == nil {
			f.LogStart = func() time.Time {
				t, _ := time.ParseInLocation(layout, text, f.Location)
				return t
			}
			return nil
		}
	}
	return errors.New("is no time such as 2026-03-01 or 2026-03-01T14:00:00Z")
}
