// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package record writes down what the exporter would sample.
package record

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/command"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/source"
	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector/workload"
)

// askAgain is how often the source is asked for its GPUs.
const askAgain = time.Second

// recorder writes what a source shows to a file.
type recorder struct {
	source   source.Config
	output   string
	duration time.Duration // of the source's clock; 0 is until stopped

	stderr io.Writer
	owners *workload.Resolver // nil where the source tells whose a process is
	// allocators is nil likewise, and where it cannot be asked.
	allocators *allocator.Reader
	file       *recordingFile
	fail       context.CancelCauseFunc // ends the recording with an error
	said       sync.Map                // lines
	gpus       atomic.Int64
}

// ownersWithin is how long a sample waits in all for whose its processes are: one may never tell.
const ownersWithin = 100 * time.Millisecond

// Add adds the command record.
func Add(app *kingpin.Application, commands command.Commands) {
	r, s := &recorder{}, source.Config{}
	spec := ""
	cmd := app.Command("record", "Record what the exporter would sample, in a file for --source=replay:FILE.")
	flag := func(name, help, def string, v *cli.Value) {
		cmd.Flag(name, help).Default(def).SetValue(v)
	}
	cmd.Flag("output", "File to write, compressed if it ends in .gz. It appears once the recording is complete; until then it is FILE.partial, which backtest reads, too.").Required().StringVar(&r.output)
	flag("source", "Where GPUs come from: nvml, sim:SCENARIO or replay:FILE.", string(source.NVML), cli.Checked("source", &spec, s.SetSpec))
	speed := false
	cmd.Flag("source.speed", "How many seconds of a simulation or a recording pass in a real one; inf is as fast as it goes.").
		Default("1").IsSetByUser(&speed).SetValue(cli.Float("source.speed", &s.Speed, 1e-3, math.Inf(1)))
	flag("interval", "Time between two samples.", "1s", cli.Duration("interval", &s.Interval, 100*time.Millisecond, time.Minute))
	flag("slow-interval", "Time between two samples of everything but memory and processes.", "15s",
		cli.Duration("slow-interval", &s.SlowInterval, 100*time.Millisecond, time.Hour))
	flag("duration", "How long to record; 0s is until Ctrl-C or the end of a replay.", "0s",
		cli.Duration("duration", &r.duration, 0, 366*24*time.Hour))
	cmd.Flag("nvml.library-path", "File or name of the driver's library.").StringVar(&s.LibraryPath)
	flag("nvml.timeout", "How long a call into the driver may take at the end of the recording.", "10s",
		cli.Duration("nvml.timeout", &s.Timeout, time.Second, 10*time.Minute))
	cmd.Flag("path.procfs", "Where the procfs of the host is mounted.").Default("/proc").StringVar(&s.ProcFS)
	cmd.Flag("path.sysfs", "Where the sysfs of the host is mounted.").Default("/sys").StringVar(&s.SysFS)
	commands["record"] = func(ctx context.Context, _, stderr io.Writer) error {
		if s.Kind == source.Prometheus {
			return errors.New("--source=prometheus:URL keeps its history itself: gpuleaktool backtest --prometheus.url=URL reads it")
		}
		if s.Kind == source.NVML && speed {
			return errors.New("--source.speed needs --source=sim:SCENARIO or --source=replay:FILE: a driver has no speed")
		}
		defer outliveReader()()
		r.source, r.stderr = s, stderr
		return r.run(ctx)
	}
}

// run records until ctx is done, which is no error, or the duration is over.
func (r *recorder) run(ctx context.Context) error {
	src, err := source.Open(r.source)
	if err != nil {
		return err
	}
	if r.source.Kind == source.NVML {
		// The names of programs are made with a secret of this recording alone: a reader of it cannot find out their arguments by
		// trying.
		if r.owners, err = source.Owners(r.source, source.OwnersConfig{Secret: []byte(rand.Text())}); err != nil {
			return errors.Join(err, src.Close())
		}
		if r.allocators, err = source.Allocators(r.source, false); err != nil {
			r.say("what allocators hold is left out", err)
		}
	}
	var background sync.WaitGroup
	defer background.Wait()
	if r.file, err = createRecording(r.output); err != nil {
		return errors.Join(err, src.Close())
	}
	ctx, r.fail = context.WithCancelCause(ctx)
	defer r.fail(nil)
	if r.source.Kind == source.NVML && r.duration > 0 {
		// Its clock is ours, so the end is known even if no GPU ever comes.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.duration+r.source.Timeout)
		defer cancel()
	}
	if r.owners != nil {
		background.Go(func() { r.owners.Run(ctx) })
	}
	if r.allocators != nil {
		background.Go(func() { r.allocators.Run(ctx) })
	}
	r.record(ctx, src)
	if err := src.Close(); err != nil {
		fmt.Fprintf(r.stderr, "%s: %v\n", command.Program, err)
	}
	failed := context.Cause(ctx)
	if errors.Is(failed, context.Canceled) || errors.Is(failed, context.DeadlineExceeded) {
		failed = nil
	}
	return r.finish(failed)
}

// finish completes the file and prints its summary. failed is why the recording
// has ended before its time; what came before is kept.
func (r *recorder) finish(failed error) error {
	done, err := r.file.complete()
	failed = cmp.Or(failed, done.failed)
	size := humanize.Bytes(float64(done.size))
	switch {
	case err != nil && failed != nil:
		return fmt.Errorf("%w; %w", failed, err)
	case err != nil:
		return err
	case done.samples == 0 && failed != nil:
		return fmt.Errorf("%w: no sample is whole, so there is no recording", failed)
	case done.samples == 0:
		return errors.New("no sample was taken, so there is no recording")
	case failed != nil:
		return fmt.Errorf("%w: what came before is kept in %s (%s): samples %d", failed, r.output, size, done.samples)
	}
	fmt.Fprintf(r.stderr, "%s: recorded %s (%s): samples %d, GPUs %d\n", command.Program, r.output, size, done.samples, r.gpus.Load())
	return nil
}

// outliveReader lets writing to a pipe that nobody reads any more fail, as to any
// other file, until restore is called. A session that has dropped would otherwise
// end the program at its next line, before the recording is complete.
func outliveReader() (restore func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}

// record gives each GPU a loop and returns when all have ended, or some time after
// the first has: one that is stuck in the driver is left behind, and what it reads
// then is not written.
func (r *recorder) record(ctx context.Context, src gpu.Source) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		loops sync.WaitGroup
		known = map[gpu.Device]bool{}
		ended = make(chan struct{})
		left  int // loops that have not ended
		over  <-chan time.Time
	)
	for ctx.Err() == nil && (len(known) == 0 || left > 0) {
		for _, d := range r.devices(ctx, src) {
			if known[d] {
				continue
			}
			known[d] = true
			left++
			loops.Go(func() {
				r.loop(ctx, d)
				select {
				case ended <- struct{}{}:
				case <-ctx.Done():
				}
			})
		}
		select {
		case <-ctx.Done():
		case <-time.After(askAgain):
		case <-ended:
			left--
			if over == nil {
				over = time.After(r.source.Timeout)
			}
		case <-over:
			cancel()
		}
	}
	cancel()
	r.await(&loops)
}

// devices asks for the GPUs and says once why there are none.
func (r *recorder) devices(ctx context.Context, src gpu.Source) []gpu.Device {
	list, err := src.Devices(ctx)
	if err != nil && ctx.Err() == nil {
		r.say("no GPU can be read, will try again", err)
	}
	return list
}

// await gives the loops some time to end.
func (r *recorder) await(loops *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		loops.Wait()
	}()
	select {
	case <-done:
	case <-time.After(command.StopGrace):
		r.say("a GPU is left out from where its driver has not answered", nil)
	}
}

// say writes a line unless it is there already.
func (r *recorder) say(text string, err error) {
	if err != nil {
		text += ": " + err.Error()
	}
	if _, said := r.said.LoadOrStore(text, true); !said {
		fmt.Fprintf(r.stderr, "%s: %s\n", command.Program, text)
	}
}

// loop records one GPU until ctx is done, the duration is over or a recording
// ends.
func (r *recorder) loop(ctx context.Context, d gpu.Device) {
	var begin, slow, elapsed time.Duration
	begun := false
	for r.duration == 0 || elapsed < r.duration {
		if _, err := d.Wait(ctx); err != nil {
			if ctx.Err() == nil && !errors.Is(err, io.EOF) {
				r.fail(err)
			}
			return
		}
		s, err := d.Read(ctx)
		if err != nil {
			if ctx.Err() == nil {
				r.say(fmt.Sprintf("GPU %d cannot be read, will try again", d.Info().Index), err)
			}
			elapsed += r.source.Interval // what does not answer must not record for ever
			continue
		}
		if !begun {
			begin, begun = s.T, true
			r.gpus.Add(1)
		}
		elapsed = s.T - begin + r.source.Interval
		var status *gpu.Status
		if elapsed >= slow {
			slow = elapsed + r.source.SlowInterval
			status = r.status(ctx, d)
		}
		r.attribute(d.Info().UUID, &s)
		if err := r.file.write(d.Info(), s, status); err != nil {
			r.fail(err)
			return
		}
	}
}

// attribute says of each process whose it is, and what its allocator holds.
func (r *recorder) attribute(uuid string, s *gpu.Sample) {
	if r.owners == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), ownersWithin)
	defer cancel()
	s.Processes = slices.Clone(s.Processes) // they are the source's
	for i := range s.Processes {
		p := &s.Processes[i]
		if p.Owner == nil {
			p.Owner, _ = r.owners.Await(ctx, p.ID)
		}
	}
	if r.allocators != nil {
		allocator.Attribute(r.allocators.Of, uuid, s)
	}
}

// status reads everything but memory and processes. What fails is absent.
func (r *recorder) status(ctx context.Context, d gpu.Device) *gpu.Status {
	var s gpu.Status
	for _, g := range gpu.Groups {
		if err := d.ReadGroup(ctx, g, &s); err != nil && ctx.Err() == nil {
			r.say(fmt.Sprintf("GPU %d: not all of %s can be read", d.Info().Index, g), err)
		}
	}
	return &s
}
