// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package backtest runs the detector over recorded history.
package backtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"
	_ "time/tzdata" // a container may have no time zones

	"github.com/alecthomas/kingpin/v2"
	"golang.org/x/sync/errgroup"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/command"
	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/history"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/detectorconfig"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// The choices of --output.
const (
	outputTable = "table"
	outputJSON  = "json"
	outputHTML  = "html"
)

// leastCapacity is the least capacity, in bytes: less is a number without its unit.
const leastCapacity = 64 << 20

// backtest is a call of the command.
type backtest struct {
	files      []string
	logs       history.Files
	output     string
	incidents  bool
	failOn     string // the level from which on the exit status is 1
	step       time.Duration
	unit       float64 // of the metric, bytes; 0 is to find out
	capacity   float64 // bytes; 0 is what the history says
	prometheus history.Prometheus
	detector   settings
	rules      *detectorconfig.Config
}

const backtestHelp = `Run the detector over recorded history: would it have caught the last leak, and how early?

FILE is CSV of nvidia-smi, what "gpuleaktool record" wrote or any CSV with --columns. It may be compressed with gzip. - is the standard input. Or ask a Prometheus with --prometheus.url and --query.

The exit status is 0 without a leak, even if an alert on memory that only fills would have paged, 1 with one (--fail-on chooses alerts instead), 2 if the input or the call was wrong, and 3 if nothing was judged.`

// Add adds the command backtest.
func Add(app *kingpin.Application, commands command.Commands) {
	b := &backtest{}
	b.logs.Location = time.UTC
	cmd := app.Command("backtest", backtestHelp)
	choice := func(name, help, def string, p *string, choices ...string) {
		cmd.Flag(name, help).Default(def).SetValue(cli.OneOf(name, p, choices...))
	}
	unit, zone := "", ""
	b.logs.AddFlags(cmd)
	choice("output", "table, json (an object a line, for each series and step) or html (a page with plots).", outputTable, &b.output, outputTable, outputJSON, outputHTML)
	choice("fail-on", "What the exit status 1 means: leak (a series was called one), ticket (the mixin's rules would have made a ticket or paged) or page.", levelLeak.String(), &b.failOn,
		levelLeak.String(), levelTicket.String(), levelPage.String())
	cmd.Flag("incidents", "Also tell what ended while its memory was full: who filled it, and whether an alert came before. Needs processes in the history; not for --output=html.").BoolVar(&b.incidents)
	cmd.Flag("step", "Time between two verdicts of --output=json. Alarms between them count as well.").Default("1m").SetValue(cli.Duration("step", &b.step, 100*time.Millisecond, 24*time.Hour))
	choice("unit", "Unit of the metric of --query: auto (from its name), B or MiB.", "auto", &unit, "auto", "B", "MiB")
	cmd.Flag("capacity", "Memory that there is, such as 80GiB, instead of what the history says.").SetValue(cli.Bytes("capacity", &b.capacity, leastCapacity, detector.MaxBytes))
	cmd.Flag("timezone", "Time zone of time stamps that tell none, and of what is shown, such as Europe/Berlin.").Default("UTC").
		SetValue(cli.Checked("timezone", &zone, b.setLocation))
	b.prometheus.AddFlags(cmd)
	b.detector.addFlags(cmd)
	cmd.Arg("file", "Files to read, each on its own; - is the standard input.").StringsVar(&b.files)
	commands["backtest"] = func(ctx context.Context, stdout, stderr io.Writer) error {
		b.unit = map[string]float64{"B": 1, "MiB": promapi.Mebibyte}[unit]
		return b.run(ctx, stdout, stderr)
	}
}

func (b *backtest) setLocation(name string) error {
	loc, err := time.LoadLocation(name)
	if err != nil {
		return errors.New("is no time zone such as UTC or Europe/Berlin")
	}
	b.logs.Location = loc
	return nil
}

// run judges the history and writes what came out. The error is the exit status if a leak
// was found, or nothing was judged.
func (b *backtest) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	if err := b.check(); err != nil {
		return err
	}
	if b.rules, err = b.detector.load(); err != nil {
		return err
	}
	var judged judgedFile
	if b.prometheus.URL != "" {
		judged, err = b.judgePrometheus(ctx, stderr)
	} else {
		judged, err = b.judgeFiles(ctx, stderr)
	}
	if err != nil {
		return err
	}
	distinguish(judged.results)
	if err := b.write(stdout, judged); err != nil {
		return err
	}
	switch {
	case slices.ContainsFunc(judged.results, b.fails):
		return command.ExitStatus(command.Leak)
	case !slices.ContainsFunc(judged.results, func(r *result) bool { return r.judged || r.word == finding.Muted }):
		return command.ExitStatus(command.Unjudged)
	}
	return nil
}

// fails reports whether a result is what --fail-on names.
func (b *backtest) fails(r *result) bool {
	switch b.failOn {
	case levelPage.String():
		return r.level() == levelPage
	case levelTicket.String():
		return r.level() >= levelTicket
	}
	return r.leaked() // a memory may fill up without a leak
}

// check returns an error if the call cannot be carried out.
func (b *backtest) check() error {
	if err := b.prometheus.Check(); err != nil {
		return err
	}
	switch {
	case b.prometheus.URL == "" && len(b.files) == 0:
		return errors.New("name the files to read, or a Prometheus with --prometheus.url; try gpuleaktool help backtest")
	case b.prometheus.URL != "" && len(b.files) > 0:
		return fmt.Errorf("either files or --prometheus.url, not both: %s", cmp.Or(b.files[0], "-"))
	case len(slices.DeleteFunc(slices.Clone(b.files), history.IsNamed)) > 1:
		return errors.New(history.StandardInput + ": can be read only once: name - once")
	case b.incidents && b.output == outputHTML:
		return errors.New("--incidents is for --output=table and json")
	case b.step > mostApart && b.step%mostApart != 0:
		return fmt.Errorf("--step=%s: must be whole minutes, or less than one", cli.FormatDuration(b.step))
	case b.prometheus.URL != "" && b.logs.Given():
		return errors.New("--columns, --log.start and --log.interval are for files: leave them out with --prometheus.url")
	case b.prometheus.URL == "" && b.unit != 0:
		return errors.New("--unit is for --query: a log tells its units, or --columns does, as in used[MiB]")
	}
	return nil
}

// judgePrometheus judges what a Prometheus holds.
func (b *backtest) judgePrometheus(ctx context.Context, stderr io.Writer) (f judgedFile, err error) {
	span, err := b.prometheus.TimeRange(time.Now().Truncate(time.Second))
	if err != nil {
		return f, err
	}
	said := map[string]bool{} // each part of the range may be answered with the same warning
	b.prometheus.Warn = func(text string) {
		if text = promapi.Excerpt(text); !said[text] {
			said[text] = true
			fmt.Fprintf(stderr, "%s: Prometheus: %s\n", command.Program, text)
		}
	}
	h, err := b.prometheus.Read(ctx, span, b.unit)
	if err != nil {
		return f, err
	}
	return b.judge(ctx, h)
}

// judgedFile has the results of a file, or of all.
type judgedFile struct {
	results   []*result
	lines     []Line
	incidents []*incident.Incident // in the order of time
	warnings  []string             // what was not used of it
}

// judgeFiles judges the files, several at once. Their series come in the order of the files. After an error it waits for a
// moment only: nothing wakes a reader of a pipe whose writer is silent. It is left behind, and ends with its writer, or with
// the program, which has nothing to do but to say so.
func (b *backtest) judgeFiles(ctx context.Context, stderr io.Writer) (all judgedFile, err error) {
	judged := make([]judgedFile, len(b.files))
	done := judged // what nobody writes any more
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	ended := make(chan error, 1)
	go func() {
		for i, name := range b.files {
			group.Go(func() (err error) {
				judged[i], err = b.judgeFile(ctx, name)
				return err
			})
		}
		ended <- group.Wait()
	}()
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case err = <-ended:
		case <-time.After(command.StopGrace):
			err, done = context.Cause(ctx), nil
		}
	}
	for _, f := range done {
		for _, text := range f.warnings {
			fmt.Fprintf(stderr, "%s: %s\n", command.Program, text)
		}
		all.results, all.lines = append(all.results, f.results...), append(all.lines, f.lines...)
		all.incidents = append(all.incidents, f.incidents...)
	}
	slices.SortStableFunc(all.lines, func(a, b Line) int { return a.Time.Compare(b.Time) })
	slices.SortStableFunc(all.incidents, func(a, b *incident.Incident) int { return a.Time.Compare(b.Time) })
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	return all, err
}

// judgeFile judges one file.
func (b *backtest) judgeFile(ctx context.Context, name string) (f judgedFile, err error) {
	if err := ctx.Err(); err != nil {
		return f, err
	}
	file, name, err := history.OpenFile(name)
	if err != nil {
		return f, err
	}
	defer file.Close()
	h, err := b.logs.Open(name, &ctxReader{ctx, file})
	if err != nil {
		return f, err
	}
	if f, err = b.judge(ctx, h); err != nil {
		return f, err
	}
	for _, text := range h.LeftOut() {
		f.warnings = append(f.warnings, name+": "+text)
	}
	if !slices.ContainsFunc(f.results, func(r *result) bool { return r.samples > 0 }) {
		return f, fmt.Errorf("%s: %w", name, noMemory(f.results))
	}
	if len(b.files) > 1 {
		for _, r := range f.results {
			r.from = name
		}
		for i := range f.lines {
			f.lines[i].File = name
		}
	}
	return f, nil
}

// ctxReader is a reader that ends with a context.
type ctxReader struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (r *ctxReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}

// noMemory is the error of a history without a single amount of used memory.
func noMemory(list []*result) error {
	if len(list) == 0 {
		return errors.New("holds no samples: let the recording run longer")
	}
	return errors.New("holds no used memory: every value of it is absent, such as N/A")
}

// judge runs the detector over a history.
func (b *backtest) judge(ctx context.Context, h history.History) (f judgedFile, err error) {
	j := newJudge(b.rules, b.step, b.output)
	err = h.Each(ctx, func(m *history.Memory, s *gpu.Sample) error {
		if total := s.Memory.Total; total.OK && total.V > 0 && total.V < leastCapacity {
			return fmt.Errorf("there are %s of memory at %s, less than any GPU has: check the unit, that of --unit or behind a name in --columns", humanize.Bytes(float64(total.V)), s.Time.Format(time.RFC3339))
		}
		g, err := j.of(m)
		if err != nil {
			return err
		}
		g.tells = g.tells || s.Memory.Used.OK
		if !g.tells && s.ProcessesKnown { // a log of processes alone: their sum stands for the memory
			s.Memory.Used, s.ProcessesComplete = history.SumOf(s.Processes), true
		}
		if b.capacity > 0 {
			if err := b.limit(s); err != nil {
				return err
			}
		}
		j.add(g, s)
		return nil
	})
	f.results, f.lines = j.end(), j.lines
	if b.incidents {
		f.incidents = j.incidents.Now().List
	}
	return f, err
}

// limit gives a sample the capacity that was asked for.
func (b *backtest) limit(s *gpu.Sample) error {
	s.Memory.Total, s.Memory.Reserved = gpu.Some(uint64(b.capacity)), gpu.Opt[uint64]{}
	if used := float64(s.Memory.Used.V); used > b.capacity {
		return fmt.Errorf("--capacity=%s: %s are in use at %s: give what the GPU has, such as 80GiB", humanize.Bytes(b.capacity), humanize.Bytes(used), s.Time.Format(time.RFC3339))
	}
	return nil
}

// write writes what came out.
func (b *backtest) write(w io.Writer, judged judgedFile) (err error) {
	switch b.output {
	case outputJSON:
		err = writeLines(w, judged.lines, judged.incidents)
	case outputHTML:
		err = writeReport(w, judged.results, b.logs.Location)
	default:
		err = writeTable(w, judged.results, judged.incidents, b.logs.Location)
	}
	if err != nil {
		return fmt.Errorf("writing the %s: %w", b.output, err)
	}
	return nil
}
