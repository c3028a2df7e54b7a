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
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// Options say how a recording is replayed.
type Options struct {
	// Speed is how many recorded seconds pass in a real one; 0 is 1, infinity never sleeps. It changes no sample, and no row
	// is skipped.
	Speed float64
}

// New returns a source that replays a recording: the log of nvidia-smi --query-gpu or --query-compute-apps with --format=csv,
// or the output of a Writer; each may be compressed with gzip. The file must be a regular one. It is read and checked as a
// whole first, so that a bad line is an error here; the error names file and line. Then it is read once per GPU and never held
// in memory. Later additions to it are not read. It leaves out a last line that
// is cut off, messages of nvidia-smi, and rows whose time has not moved on. Time stamps without a zone are in UTC.
//
// The clock of its samples is that of the recording. Wait ends with io.EOF.
//
// A GPU is known by its uuid column. Without one, PCI address or index stands in, and Info.UUID is "pci-" or "index-" with it,
// so that two GPUs never share an identity. Without any of them all rows are of one GPU, "unnamed".
func New(path string, opt Options) (gpu.Source, error) {
	p, err := gpu.NewPace(opt.Speed)
	if err != nil {
		return nil, err
	}
	r := &replay{path: path, pace: p}
	if err := r.scan(); err != nil {
		return nil, err
	}
	return r, nil
}

// replay is a Source that reads a file.
type replay struct {
	path    string
	size    int64 // of the file when it was checked
	pace    *gpu.Pace
	first   time.Duration // the earliest row
	devices []*replayDevice
	calls   gpu.Calls  // of a driver that is not there: always empty
	mu      sync.Mutex // guards replayDevice.file
}

// scan reads the file once, checks it and finds its GPUs.
func (r *replay) scan() error {
	f, err := openRecording(r.path, -1)
	if err != nil {
		return err
	}
	defer f.close()
	r.size = f.size
	infos := map[string]gpu.Info{}
	for {
		reading, err := f.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
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
		return fmt.Errorf("%s: holds no samples: let the recording run longer%s", r.path, strings.Join(append([]string{""}, f.LeftOut()...), "; "))
	}
	list := slices.SortedFunc(maps.Values(infos), func(a, b gpu.Info) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID))
	})
	for _, info := range list {
		r.devices = append(r.devices, &replayDevice{src: r, info: info})
	}
	return nil
}

// Devices implements Source.
func (r *replay) Devices(ctx context.Context) ([]gpu.Device, error) {
	if r.pace.Closed() {
		return nil, gpu.ErrClosed
	}
	devices := make([]gpu.Device, len(r.devices))
	for i, d := range r.devices {
		devices[i] = d
	}
	return devices, ctx.Err()
}

// Watch implements Source. It returns gpu.ErrNoEvents at once: no event in a recording does not mean that there was none.
func (*replay) Watch(context.Context, func(gpu.Event)) error { return gpu.ErrNoEvents }

// Calls implements Source. There are none.
func (r *replay) Calls() *gpu.Calls { return &r.calls }

// Close implements Source. It ends the waits that are under way.
func (r *replay) Close() error {
	r.pace.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.devices {
		if d.file != nil {
			d.file.close()
		}
	}
	return nil
}

// replayDevice is one GPU of a recording. Each reads the file on its own and passes over the rows of the others, so that no
// GPU waits for another.
type replayDevice struct {
	src     *replay
	info    gpu.Info
	file    *Reader
	current reading
	status  *gpu.Status // the last one recorded
	begun   bool
	waiting bool  // the current row was not waited for to the end
	err     error // sticky: io.EOF, or what went wrong
}

// Info implements Device: it is that of the GPU's first row.
func (d *replayDevice) Info() gpu.Info { return d.info }

// Wait implements Device. It misses no row: those that are overdue follow without a pause.
func (d *replayDevice) Wait(ctx context.Context) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	// A wait that ctx ended has not used up its row.
	if !d.waiting {
		if err := d.advance(); err != nil {
			return 0, err
		}
	}
	d.src.pace.Start(d.src.first)
	err := d.src.pace.Wait(ctx, d.current.sample.T)
	d.waiting = err != nil
	return 0, err
}

// advance goes to the next row of the GPU.
func (d *replayDevice) advance() error {
	if d.err != nil {
		return d.err
	}
	if d.src.pace.Closed() {
		return gpu.ErrClosed
	}
	if d.file == nil {
		if d.err = d.src.openFor(d); d.err != nil {
			return d.err
		}
	}
	for {
		next, err := d.file.next()
		if err != nil {
			if d.src.pace.Closed() {
				err = gpu.ErrClosed
			}
			d.err = err
			d.file.close()
			return err
		}
		if next.info.UUID != d.info.UUID {
			continue
		}
		d.current, d.begun = next, true
		if next.status != nil {
			d.status = next.status
		}
		return nil
	}
}

// openFor opens the file for d, and Close closes it.
func (r *replay) openFor(d *replayDevice) error {
	f, err := openRecording(r.path, r.size)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pace.Closed() {
		f.close()
		return gpu.ErrClosed
	}
	d.file = f
	return nil
}

// Read implements Device. It returns the current row until the next Wait; before the first Wait it takes the first row.
func (d *replayDevice) Read(ctx context.Context) (gpu.Sample, error) {
	if err := ctx.Err(); err != nil {
		return gpu.Sample{}, err
	}
	if !d.begun {
		if err := d.advance(); err != nil {
			return gpu.Sample{}, err
		}
		d.src.pace.Start(d.src.first)
	}
	if d.src.pace.Closed() {
		return gpu.Sample{}, gpu.ErrClosed
	}
	return d.current.sample, nil
}

// ReadGroup implements Device: the part is that of the current row, or of the last row before it that had a status.
func (d *replayDevice) ReadGroup(ctx context.Context, g gpu.Group, s *gpu.Status) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.src.pace.Closed() {
		return gpu.ErrClosed
	}
	if d.status != nil {
		copyGroup(s, g, d.status)
	}
	return nil
}

// copyGroup replaces the part g of s by that of from.
func copyGroup(s *gpu.Status, g gpu.Group, from *gpu.Status) {
	switch g {
	case gpu.GroupMemory:
		s.BAR1 = from.BAR1
	case gpu.GroupUtilization:
		s.Utilization = from.Utilization
	case gpu.GroupThermal:
		s.Thermal = from.Thermal
	case gpu.GroupPower:
		s.Power = from.Power
	case gpu.GroupClocks:
		s.Clocks = from.Clocks
	case gpu.GroupECC:
		s.ECC = from.ECC
	case gpu.GroupPCIe:
		s.PCIe = from.PCIe
	case gpu.GroupNVLink:
		s.NVLinks = from.NVLinks
	}
}
