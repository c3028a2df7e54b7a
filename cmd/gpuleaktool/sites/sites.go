// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package sites finds the lines of a process that leak.
package sites

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/procfs"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/command"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
)

const (
	// probePatience is how long a page is looked for: twice. A probe writes every five seconds.
	probePatience = allocator.FindInterval + 5*time.Second
	// sitesInterval is how often the answer is looked at.
	sitesInterval = 100 * time.Millisecond
)

// sitesCommand finds the lines of a process that allocate what stays.
type sitesCommand struct {
	pid    int
	over   time.Duration
	output string
	procFS string
}

// Add adds the command sites.
func Add(app *kingpin.Application, commands command.Commands) {
	s := &sitesCommand{}
	cmd := app.Command("sites", "Find the lines of a process on this machine that allocate GPU memory that stays. "+
		"The process needs the probe, and PyTorch 2.1 or later.")
	cmd.Flag("pid", "The process, by its number on this machine.").PlaceHolder("PID").Required().
		SetValue(cli.Int("pid", &s.pid, 1, 1<<22))
	cmd.Flag("for", "How long to watch it.").Default("5m").SetValue(cli.Duration("for", &s.over, 10*time.Second, time.Hour))
	cmd.Flag("output", "table, or json.").Default("table").
		SetValue(cli.OneOf("output", &s.output, "table", "json"))
	cmd.Flag("path.procfs", "Where the procfs of the host is mounted.").Default("/proc").StringVar(&s.procFS)
	commands["sites"] = func(ctx context.Context, stdout, stderr io.Writer) error { return s.run(ctx, stdout, stderr) }
}

func (s *sitesCommand) run(ctx context.Context, stdout, stderr io.Writer) error {
	found, err := s.ask(ctx, stderr)
	if err != nil {
		return fmt.Errorf("process %d: %w", s.pid, err)
	}
	write := writeSites
	if s.output == "json" {
		write = writeSitesJSON
	}
	return write(stdout, found)
}

// errNoProbe says what to do where nobody answers.
var errNoProbe = errors.New("it has no probe (see probe/README.md), or uses no GPU yet")

var errEnded = errors.New("it has ended")

// ask has the process tell by itself.
func (s *sitesCommand) ask(ctx context.Context, stderr io.Writer) (*allocator.Sites, error) {
	id, err := s.process()
	if err != nil {
		return nil, err
	}
	reader, err := allocator.New(allocator.Options{ProcFS: s.procFS, Sites: true})
	if err != nil {
		return nil, err
	}
	reading, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		reader.Run(reading)
	}()
	defer func() {
		stop()
		<-done
	}()
	fmt.Fprintf(stderr, "%s: looks for the probe of process %d, which will record where it allocates for %s\n", command.Program, s.pid, humanize.Duration(s.over))
	err = until(ctx, probePatience, func() bool { return reader.Of(id) != nil || reader.Problem() != nil })
	if err := cmp.Or(reader.Problem(), err); err != nil {
		return nil, err
	}
	reader.Ask(id, s.over)
	var sites *allocator.Sites
	err = until(ctx, s.over+time.Hour, func() bool {
		reader.Of(id) // or it is forgotten
		sites = reader.Sites(id)
		return sites == nil || sites.State == allocator.SitesDone || sites.State == allocator.SitesRefused
	})
	switch {
	case err != nil:
		return nil, err
	case sites == nil:
		return nil, errEnded
	case sites.State == allocator.SitesRefused:
		return nil, errors.New(sites.Reason)
	}
	return sites, nil
}

// process returns how the process is known: another one may get its number.
func (s *sitesCommand) process() (gpu.ProcessID, error) {
	fs, err := procfs.NewFS(s.procFS)
	if err != nil {
		return gpu.ProcessID{}, fmt.Errorf("--path.procfs=%s: %w", s.procFS, err)
	}
	p, err := fs.Proc(s.pid)
	if err != nil {
		return gpu.ProcessID{}, errors.New("there is none of that number")
	}
	stat, err := p.Stat()
	if err != nil {
		return gpu.ProcessID{}, errors.Join(errEnded, err)
	}
	return gpu.ProcessID{PID: uint32(s.pid), Start: stat.Starttime}, nil
}

// until waits for something. The error is errNoProbe if it does not come in that time, or ctx's.
func until(ctx context.Context, patience time.Duration, there func() bool) error {
	expired := time.After(patience)
	for !there() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-expired:
			return errNoProbe
		case <-time.After(sitesInterval):
		}
	}
	return nil
}

// shownFrames is how much of a stack the table has.
const shownFrames = 8

// writeSites writes a row for each line, with the inner part of its stack.
func writeSites(w io.Writer, f *allocator.Sites) error {
	var b bytes.Buffer
	if len(f.List) == 0 {
		fmt.Fprintf(&b, "No line was seen to allocate what stays in %s.\n", humanize.Duration(f.Over))
	} else {
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "GREW BY\tHOLDS\tBLOCKS\tLINE")
		for i := range f.List {
			s := &f.List[i]
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\n", humanize.Bytes(float64(s.Growth)), humanize.Bytes(float64(s.Live)), s.Blocks, cmp.Or(s.Line, "not in Python code"))
			for _, frame := range s.Frames[:min(len(s.Frames), shownFrames)] {
				fmt.Fprintf(t, "\t\t\t  %s\n", frame)
			}
			if more := len(s.Frames) - shownFrames; more > 0 {
				fmt.Fprintf(t, "\t\t\t  … and %d more\n", more)
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if f.Unsure > 0 {
		fmt.Fprintf(&b, "\nLines that grew and are left out: %d. Memory from before was freed meanwhile, which they may just have replaced. Watch for longer, with --for.\n", f.Unsure)
	}
	if f.Pause > 0 {
		fmt.Fprintf(&b, "\nThe longest stop of the program was %s.\n", f.Pause.Round(100*time.Microsecond))
	}
	_, err := b.WriteTo(w)
	return err
}

// writeSitesJSON writes all as one object.
func writeSitesJSON(w io.Writer, f *allocator.Sites) error {
	return json.NewEncoder(w).Encode(struct {
		Seconds float64         `json:"seconds"`
		Pause   float64         `json:"pause_seconds"`
		Unsure  uint32          `json:"unsure_lines"`
		Sites   []verdicts.Site `json:"sites"`
	}{f.Over.Seconds(), f.Pause.Seconds(), f.Unsure, fromstate.SitesOf(f.List)})
}
