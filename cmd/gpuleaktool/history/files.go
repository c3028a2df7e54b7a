// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/replay"
)

// Files are the logs and recordings to read, and what they do not tell.
type Files struct {
	replay.Log
	start string // as --log.start has it
}

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
	if info, err := os.Stdin.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 { // a terminal, or /dev/null
		return nil, "", errors.New(StandardInput + ": nothing is piped into it: name a file, or pipe the output of nvidia-smi into it")
	}
	return os.Stdin, StandardInput, nil
}

// IsNamed reports whether a name is that of a file, not the standard input.
func IsNamed(name string) bool { return name != "-" && name != "" }

// OtherLogs says what to do about a file that is neither CSV of nvidia-smi nor a recording.
const OtherLogs = "name the columns of another CSV, as in --columns='timestamp,gpu,used[MiB],total[MiB]', with - for one of no use; docs/backtest.md has commands for CSV without times, and for the logs of other programs"

// Open returns the history that a file holds. name stands in errors.
func (f *Files) Open(name string, in io.Reader) (*Recorded, error) {
	log := f.Log
	if f.start != "" {
		log.Start, _ = parseStart(f.start, log.Location) // it was checked
	}
	reader, err := replay.NewReader(name, in, &log)
	if header, ok := errors.AsType[*replay.HeaderError](err); ok {
		err = fmt.Errorf("%w; %s", err, OtherLogs)
		if header.Line != "" {
			err = fmt.Errorf("%w; it begins with %s", err, cli.Printable(header.Line, 80))
		}
	}
	return &Recorded{name: name, Reader: reader}, err
}

// AddFlags adds the flags that tell what a log does not.
func (f *Files) AddFlags(cmd *kingpin.CmdClause) {
	columns := ""
	cmd.Flag("columns", "Columns of a CSV whose header is missing or unknown, in their order: those of nvidia-smi --query-gpu, or timestamp, gpu, used[MiB], total[MiB] and the like; - is one of no use.").
		SetValue(cli.Checked("columns", &columns, func(text string) (err error) {
			f.Columns, err = replay.ParseColumns(text)
			return err
		}))
	cmd.Flag("log.start", "When a log begins that tells no date or no time, such as 2026-03-01 or 2026-03-01T14:00:00Z.").
		SetValue(cli.Checked("log.start", &f.start, func(text string) error {
			_, err := parseStart(text, time.UTC)
			return err
		}))
	cmd.Flag("log.interval", "Time between two rows of a log that tells no time, such as 1s.").
		SetValue(cli.Duration("log.interval", &f.Interval, time.Millisecond, 24*time.Hour))
}

// Given reports whether there is such a flag.
func (f *Files) Given() bool { return f.Columns != nil || f.start != "" || f.Interval > 0 }

// parseStart reads the begin of a log, which is in loc if it tells no zone.
func parseStart(text string, loc *time.Location) (t time.Time, err error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateTime, "2006-01-02T15:04", time.DateOnly} {
		if t, err = time.ParseInLocation(layout, text, loc); err == nil {
			return t, nil
		}
	}
	return t, errors.New("is no time such as 2026-03-01 or 2026-03-01T14:00:00Z")
}

// Recorded is the history that a file holds.
type Recorded struct {
	name string
	*replay.Reader
}

// Each implements History.
func (r *Recorded) Each(ctx context.Context, take func(*Memory, *gpu.Sample) error) error {
	gpus := map[string]*Memory{}
	for ctx.Err() == nil {
		info, sample, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		m := gpus[info.UUID]
		if m == nil {
			m = &Memory{Info: *info, Labels: Labels{}}
			if info.Named() {
				m.Labels = m.Labels.With("gpu", info.IndexLabel(), "uuid", info.UUID)
			}
			gpus[info.UUID] = m
		}
		if err := take(m, sample); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return ctx.Err()
}
