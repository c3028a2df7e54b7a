// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// replaceGrace is how long a new loop waits for the old one of its GPU to end.
const replaceGrace = 100 * time.Millisecond

// sitesOver is for how long a process records where it allocates. That is long enough to tell memory that stays from memory
// that comes and goes.
const sitesOver = 5 * time.Minute

// peakSpan is the span of gpu_memory_used_peak_bytes.
const peakSpan = time.Minute

// loop samples one GPU through one device.
type loop struct {
	sampler *Sampler
	device  gpu.Device
	info    gpu.Info
	logger  log.Logger
	cancel  context.CancelFunc
	done    chan struct{} // closed when run has returned
	reading stopwatch     // since when the GPU is being read; each call starts it anew
	retired stopwatch     // since when the device is gone
	xids    chan uint64   // XID errors that end programs, not told yet
	*progress
}

// progress is what is known of a GPU so far. A loop that takes over a GPU takes its progress. The goroutine of run owns all
// but the first fields.
type progress struct {
	published atomic.Pointer[DeviceState]   // immutable
	prepared  atomic.Pointer[deviceHistory] // for the state file
	missed    atomic.Uint64
	hung      bool // the log has said that a call has not returned; see logHang

	loop      *loop     // the one that reads the GPU now
	resolve   *Resolver // the rules that the series have been configured by
	frames    finding.Frames
	whole     *memory               // the GPU's own
	memories  map[MemoryKey]*memory // with whole
	instances gpu.Opt[int]          // how many of memories are; absent before a sample of this exporter or an earlier one
	processes processTable
	peak      detector.Crest[uint64]
	learnt    DeviceState // of learn, which would make one of 5 KiB for each sample
	said      findingLog
	status    gpu.Status
	readings  []FamilyState          // how the last reading of each group went
	slowAt    gpu.Opt[time.Duration] // when the status was due last, on the source's clock
	slow      bool                   // the status is due with this sample
	fault     trouble
	lost      bool // the GPU cannot be read, and what it held is gone
	blind     bool // it is read, and nothing tells how much memory is used
	exits     uint64
	// ahead is how far the wall clock is ahead of the source's clock, because it was set.
	ahead      time.Duration
	preparedAt time.Time // when the history was prepared last
}

func newLoop(s *Sampler, d gpu.Device, info gpu.Info) *loop {
	l := &loop{
		sampler: s, device: d, info: info, done: make(chan struct{}), cancel: func() {}, xids: make(chan uint64, 16),
		logger:   log.With(s.cfg.Logger, "gpu", info.IndexLabel(), "uuid", info.UUID),
		progress: &progress{processes: newProcessTable(s.cfg, info.UUID, info.IndexLabel(), s.jobs.Load), resolve: s.resolve.Load()},
	}
	l.loop = l
	l.whole = l.newMemory(MemoryState{})
	l.memories = map[MemoryKey]*memory{wholeGPU: l.whole}
	return l
}

// start runs the loop until ctx is done, the GPU is retired, or its recording ends.
func (l *loop) start(ctx context.Context) {
	ctx, l.cancel = context.WithCancel(ctx)
	l.sampler.running.Go(func() { l.run(ctx) })
}

func (l *loop) run(ctx context.Context) {
	defer close(l.done)
	defer l.tellXIDs()
	defer l.prepare()
	for {
		missed, err := l.device.Wait(ctx)
		if errors.Is(err, io.EOF) {
			level.Info(l.logger).Log("msg", "the recording has ended; its last state stays")
			return
		}
		if err != nil { // ctx is done
			// A GPU without programs may have been taken away, as may one of another host: no programs are known there.
			if of := l.whole.last.Device; l.retired.on() && of != nil && of.ProcessCount > 0 {
				l.tell(&incident.Incident{Kind: incident.Lost}, l.whole)
			}
			return
		}
		l.missed.Add(uint64(missed))
		l.step(ctx)
		if time.Since(l.preparedAt) >= l.sampler.cfg.StateInterval/2 {
			l.prepare()
		}
	}
}

// prepare makes the GPU's part of the state file.
func (l *loop) prepare() {
	if l.sampler.cfg.StateFile == "" {
		return
	}
	l.preparedAt = time.Now()
	l.prepared.Store(l.history())
}

// step takes one sample and publishes it. Only then does it read the status, which may take much longer.
func (l *loop) step(ctx context.Context) {
	l.tellXIDs()
	l.reading.start()
	defer l.reading.stop()
	began := time.Now()
	sample, err := l.device.Read(ctx)
	took := time.Since(began)
	switch {
	case errors.Is(err, gpu.ErrSilent):
		l.published.Store(nil)
		return
	case err != nil:
		l.fail(err)
		return
	}
	l.lost = false
	if sample.More {
		l.learn(&sample)
		return
	}
	l.fault.works(level.Info(l.logger), "msg", "GPU can be read again")
	l.publish(&sample)
	if l.slow {
		l.readStatus(ctx, took)
		l.publishStatus()
	}
}

// fail publishes that the GPU cannot be read.
func (l *loop) fail(err error) {
	if wentAway(err) {
		if errors.Is(err, gpu.ErrLost) {
			l.tell(&incident.Incident{Kind: incident.Lost}, l.whole)
		}
		l.forget()
	}
	l.fault.failed(level.Error(l.logger), err, "msg", "GPU cannot be read, will try again", "alert", finding.Lost)
	l.publishDown(err.Error())
}

// publishDown publishes that the GPU cannot be read, and when it was read last.
func (l *loop) publishDown(why string) {
	down := &DeviceState{Info: l.info, Error: why}
	if last := l.published.Load(); last != nil {
		down.SampleTime, down.Who = last.SampleTime, last.Who
	}
	l.published.Store(down)
}

// wentAway reports whether a GPU has lost its memory with this failure. It has if the GPU must be reset, or the driver loaded,
// before it can be read again. A driver that only does not answer has kept it.
func wentAway(err error) bool {
	if errors.Is(err, gpu.ErrLost) {
		return true
	}
	driver, ok := errors.AsType[*gpu.DriverError](err)
	return ok && driver.Reason != reasonInUse && driver.Reason != reasonHangs
}

// forget throws away the histories of a GPU that has lost its memory, once until it is read again. It does not wait for that:
// a new exporter may read the GPU, and would go on from the state file.
func (l *loop) forget() {
	if l.lost {
		return
	}
	l.lost, l.instances = true, gpu.Opt[int]{}
	*l.whole = memory{domain: l.whole.domain, dead: l.whole.dead}
	l.whole.domain.Reset(detector.ReasonDeviceReset)
	clear(l.memories)
	l.memories[wholeGPU] = l.whole
}

// readStatus reads the groups. A group that fails is absent until the next time. took is how long the fast reading took, which
// counts as one of the group memory.
func (l *loop) readStatus(ctx context.Context, took time.Duration) {
	var status gpu.Status
	readings := make([]FamilyState, 0, len(l.sampler.cfg.Groups))
	for _, g := range l.sampler.cfg.Groups {
		began := time.Now()
		l.reading.start()
		err := l.device.ReadGroup(ctx, g, &status)
		r := FamilyState{Name: string(g), Success: err == nil, Duration: time.Since(began)}
		if g == gpu.GroupMemory {
			r.Duration += took
		}
		if err != nil {
			level.Debug(l.logger).Log("msg", "not all could be read", "collector", g, "err", err)
		}
		readings = append(readings, r)
	}
	if l.processes.hidden {
		readings = append(readings, FamilyState{Name: "workload"}) // it has failed, whatever else is known of owners
	}
	l.status, l.readings = status, readings
}

// publish judges the sample and publishes the new state.
func (l *loop) publish(sample *gpu.Sample) {
	l.ahead += sample.Step
	if l.slow = !l.slowAt.OK || sample.T < l.slowAt.V || sample.T-l.slowAt.V >= l.sampler.cfg.SlowInterval || sample.Step != 0; l.slow {
		l.slowAt = gpu.Some(sample.T)
	}
	if l.sampler.cfg.Allocators != nil {
		allocator.Attribute(l.sampler.cfg.Allocators.Of, l.info.UUID, sample)
	}
	unresolved := l.processes.note(sample)
	state := &DeviceState{
		Info: l.info, Up: true, SampleTime: sample.Time,
		MemoryState: MemoryState{Memory: sample.Memory}, MIGEnabled: sample.MIGEnabled, Status: l.status,
		Unattributed: unattributed(l.info, sample), ProcessesKnown: sample.ProcessesKnown, ProcessCount: len(sample.Processes),
		unresolved: unresolved, readings: l.readings,
	}
	l.logBlind(sample)
	if sample.Memory.Used.OK {
		state.UsedPeak = gpu.Some(l.peak.Add(sample.T, peakSpan, sample.Memory.Used.V))
	}
	l.judge(sample, state)
	l.processes.show(sample, state)
	l.locate(sample, state)
	state.ExitsNearCapacity = l.exits
	l.find(state)
	maps.DeleteFunc(l.memories, func(_ MemoryKey, m *memory) bool { return m.over(sample.T) })
	state.Limited = slices.DeleteFunc(state.Limited, func(x MemoryState) bool { return l.memories[x.MemoryKey] == nil })
	l.processes.bury(l.knows)
	state.toWall(l.ahead)
	l.draw(sample, state)
	l.said.update(l.logger, state)
	l.published.Store(state)
	for _, m := range l.memories {
		m.last = Domain{}
	}
	for d := range state.memories() {
		l.memories[d.MemoryKey].last = d
	}
}

// logBlind logs once that its processes alone are judged, because nothing tells the used memory of the GPU.
func (l *loop) logBlind(sample *gpu.Sample) {
	blind := !sample.Memory.Used.OK && l.sampler.cfg.Places == nil // there is no driver to tell it
	if blind && !l.blind {
		level.Warn(l.logger).Log("msg", "nothing tells how much of the GPU's memory is used: only its processes are judged", "name", l.info.Name)
	}
	l.blind = blind
}

// locate asks processes whose tensors leak for the lines of code that allocate them.
func (l *loop) locate(sample *gpu.Sample, state *DeviceState) {
	allocators := l.sampler.cfg.Allocators
	if allocators == nil {
		return
	}
	for i := range state.Processes {
		p := &state.Processes[i]
		if p.Allocator == nil {
			continue
		}
		if p.Verdict.Leak && p.Grows != detector.InsideUntracked {
			allocators.Ask(p.ID, sitesOver)
		}
		p.Sites = allocators.SitesOn(l.info.UUID, sample, &p.Process)
	}
	l.tellRefusals(sample)
}

// publishStatus publishes the last sample again, with the status that was read after it.
func (l *loop) publishStatus() {
	state := *l.published.Load()
	state.Status, state.readings = l.status, l.readings
	l.published.Store(&state)
}

// current returns the state of the GPU now, in a copy. If a call hangs or the GPU is gone, that says only that it is down. It is
// nil while nothing is known, because the first sample may still come.
func (l *loop) current() *DeviceState {
	p, hangs := l.published.Load(), l.reading.running()
	d := DeviceState{Info: l.info}
	switch {
	case l.retired.on():
		d.Error = "the driver does not list it any more"
	case hangs > l.sampler.cfg.Timeout:
		d.Error = "a call has not returned for " + humanize.Duration(hangs)
	case p == nil:
		return nil
	default:
		d = *p
	}
	if p != nil {
		d.SampleTime, d.Who = p.SampleTime, p.Who
	}
	d.Missed = l.missed.Load()
	return &d
}

// logHang logs once that a call has not returned for too long, and once that it has. One goroutine calls it.
func (l *loop) logHang() {
	hangs := l.reading.running()
	if over := hangs > l.sampler.cfg.Timeout; over != l.hung {
		if l.hung = over; over {
			level.Error(l.logger).Log("msg", "GPU cannot be read: a call has not returned", "for", hangs, "alert", finding.Lost)
		} else {
			level.Info(l.logger).Log("msg", "the call that had not returned is over")
		}
	}
}

// retire ends the loop of a GPU that the driver does not list any more.
func (l *loop) retire() {
	if l.retired.on() {
		return
	}
	l.retired.start()
	l.cancel()
	l.sampler.news(l.logger, level.Warn).Log("msg", "GPU is gone")
}

// stop stops the loop, and reports whether it has left the GPU: only one goroutine at a time may read that. It waits a moment,
// which is not enough for a loop that is stuck in a call.
func (l *loop) stop() bool {
	l.cancel()
	select {
	case <-l.done:
		return true
	case <-time.After(replaceGrace):
		return false
	}
}

// goOn makes l, which has not been started, go on with the GPU of a loop that has ended. lost says that the GPU has lost its
// memory.
func (l *loop) goOn(before *loop, lost bool) {
	l.progress = before.progress
	l.loop = l
	l.processes.index = l.info.IndexLabel()
	l.resolve = new(Resolver) // its series may have other labels
	l.slowAt.OK = false       // the end may have cut the last reading of the status short
	if lost {
		l.forget()
		l.peak, l.status, l.readings = detector.Crest[uint64]{}, gpu.Status{}, nil
		l.publishDown("")
		l.prepare()
	} else if p := l.published.Load(); p != nil {
		now := *p
		now.Info = l.info
		l.published.Store(&now)
	}
}
