// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/setting"
	"github.com/gpuleak/gpu_leak_exporter/collector/replay"
)

// formatChoices are the choices of --format.
func formatChoices() []string {
	return []string{formatAuto, string(replay.KindGPUs), string(replay.KindApps), formatCSV}
}

// addLogFlags adds the flags that tell what a log does not.
func (b *backtest) addLogFlags(cmd *kingpin.CmdClause) {
	columns, start := "", ""
	cmd.Flag("columns", "Columns of a CSV whose header is missing or unknown, in their order: those of nvidia-smi --query-gpu, or timestamp, gpu, used[MiB], total[MiB] and the like; - is one of no use.").
		SetValue(setting.Checked("columns", &columns, b.setColumns))
	cmd.Flag("log.start", "When a log begins that tells no date or no time, such as 2026-03-01 or 2026-03-01T14:00:00Z.").
		SetValue(setting.Checked("log.start", &start, b.setLogStart))
	cmd.Flag("log.interval", "Time between two rows of a log that tells no time, such as 1s.").
		SetValue(setting.Duration("log.interval", &b.logInterval, time.Millisecond, 24*time.Hour))
}

// setColumns takes the names of the columns. Those between brackets are units.
func (b *backtest) setColumns(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("names no column, such as --columns=timestamp,index,memory.used")
	}
	b.columns = strings.Split(text, ",")
	return nil
}

// setLogStart takes the begin of a log. Without a zone it is in that of --timezone, which may stand behind
// it on the command line.
func (b *backtest) setLogStart(text string) error {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if _, err := time.Parse(layout, text); err == nil {
			b.logStart = func() time.Time {
				t, _ := time.ParseInLocation(layout, text, b.location)
				return t
			}
			return nil
		}
	}
	return errors.New("is no time such as 2026-03-01 or 2026-03-01T14:00:00Z")
}
