// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package replay reads recordings: those that its Writer writes, and CSV of nvidia-smi and other programs.
package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// New returns a source that replays a recording: the log of nvidia-smi --query-gpu or --query-compute-apps with --format=csv,
// or the output of a Writer; each may be compressed with gzip. The file must be a regular one. It is read and checked as a
// whole first, so that a bad line is an error here; the error names file and line. Then it is read once per GPU and never held
// in memory. Later additions to it are not read. It leaves out a last line that
// is cut off, messages of nvidia-smi, and rows whose time has not moved on. Time stamps without a zone are in UTC.
//
// speed is how many recorded seconds pass in a real one; 0 is 1, infinity never sleeps. It changes no sample, and no row is
// skipped. The clock of the samples is that of the recording. Wait ends with io.EOF.
//
// A GPU is known by its uuid column. Without one, PCI address or index stands in, and Info.UUID is "pci-" or "index-" with it,
// so that two GPUs never share an identity. Without any of them all rows are of one GPU, "unnamed".
func New(path string, speed float64) (gpu.Source, error) {
	pace, err := gpu.NewPace(speed)
	if err != nil {
		return nil, err
	}
	file, size, err := openRecording(path)
	if err != nil {
		return nil, err
	}
	r := &replay{pace: pace, file: file, size: size}
	infos, err := r.scan()
	for _, info := range infos {
		rows, wrong := r.reader(info.UUID)
		err = cmp.Or(err, wrong)
		r.devices = append(r.devices, &replayDevice{src: r, info: info, rows: rows})
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// replay is a Source that reads a file. Each GPU reads it on its own and passes over the rows of the others, so that none
// waits for another.
type replay struct {
	pace    *gpu.Pace
	file    *os.File
	size    int64         // how much of file is read
	first   time.Duration // the earliest row
	devices []gpu.Device
	calls   gpu.Calls // of a driver that is not there: always empty
}

// openRecording opens a file, and returns its size.
func openRecording(path string) (*os.File, int64, error) {
	// To open a pipe would wait for its writer, so look first.
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, fmt.Errorf("recording: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s: is no regular file: a recording is read more than once, so write a pipe to a file first", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("recording: %w", err)
	}
	return file, info.Size(), nil
}

// reader returns a reader of the file from its start. It may pass over the samples of all GPUs but only, unless that is "".
func (r *replay) reader(only string) (*Reader, error) {
	f, err := newReader(r.file.Name(), io.NewSectionReader(r.file, 0, r.size), nil, true)
	if err != nil {
		return nil, err
	}
	if recording, ok := f.format.(*recordingFormat); ok {
		recording.only = only
	}
	return f, nil
}

// scan reads the file once and checks it. It returns its GPUs.
func (r *replay) scan() ([]gpu.Info, error) {
	f, err := r.reader("")
	if err != nil {
		return nil, err
	}
	infos := map[string]gpu.Info{}
	for {
		reading, err := f.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(infos) == 0 || reading.sample.T < r.first {
			r.first = reading.sample.T
		}
		info := reading.info
		if _, known := infos[info.UUID]; known {
			continue
		}
		if info.Index < 0 { // a log that does not tell it: in the order of the first rows
			info.Index = len(infos)
		}
		infos[info.UUID] = info
	}
	if len(infos) == 0 {
		return nil, fmt.Errorf("%s: holds no samples: let the recording run longer%s", r.file.Name(), strings.Join(append([]string{""}, f.LeftOut()...), "; "))
	}
	return slices.SortedFunc(maps.Values(infos), func(a, b gpu.Info) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID))
	}), nil
}

// Devices implements Source.
func (r *replay) Devices(ctx context.Context) ([]gpu.Device, error) {
	if r.pace.Closed() {
		return nil, gpu.ErrClosed
	}
	return slices.Clone(r.devices), ctx.Err()
}

// Watch implements Source. It returns gpu.ErrNoEvents at once: no event in a recording does not mean that there was none.
func (*replay) Watch(context.Context, func(gpu.Event)) error { return gpu.ErrNoEvents }

// Calls implements Source. There are none.
func (r *replay) Calls() *gpu.Calls { return &r.calls }

// Close implements Source. It ends the waits that are under way.
func (r *replay) Close() error {
	r.pace.Close()
	r.file.Close()
	return nil
}

// replayDevice is one GPU of a recording.
type replayDevice struct {
	src     *replay
	info    gpu.Info
	rows    *Reader
	current reading
	status  *gpu.Status // the last one recorded
	waiting bool        // the current row was not waited for to the end
}

// Info implements Device: it is that of the GPU's first row.
func (d *replayDevice) Info() gpu.Info { return d.info }

// Wait implements Device. It misses no row: those that are overdue follow without a pause.
func (d *replayDevice) Wait(ctx context.Context) (int, error) {
	if err := d.usable(ctx); err != nil {
		return 0, err
	}
	// A wait that ctx ended has not used up its row.
	if !d.waiting {
		if err := d.advance(); err != nil {
			return 0, cmp.Or(d.usable(ctx), err)
		}
	}
	d.src.pace.Start(d.src.first)
	err := d.src.pace.Wait(ctx, d.current.sample.T)
	d.waiting = err != nil
	return 0, err
}

// usable returns ctx's error, or ErrClosed after Close.
func (d *replayDevice) usable(ctx context.Context) error {
	if d.src.pace.Closed() {
		return gpu.ErrClosed
	}
	return ctx.Err()
}

// advance goes to the next row of the GPU.
func (d *replayDevice) advance() error {
	for {
		next, err := d.rows.next()
		if err != nil {
			return err
		}
		if next.info.UUID == d.info.UUID {
			d.current, d.status = *next, cmp.Or(next.status, d.status)
			return nil
		}
	}
}

// Read implements Device. It returns the row that the last Wait has waited for.
func (d *replayDevice) Read(ctx context.Context) (gpu.Sample, error) {
	return d.current.sample, d.usable(ctx)
}

// ReadGroup implements Device. All parts are those of the current row, or of the last row before it that had a status.
func (d *replayDevice) ReadGroup(ctx context.Context, _ gpu.Group, s *gpu.Status) error {
	if d.status != nil {
		*s = *d.status
	}
	return d.usable(ctx)
}
