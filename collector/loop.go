// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// loop samples one GPU. All but its atomic fields belong to the goroutine of
// run.
type loop struct {
	sampler *Sampler
	device  gpu.Device
	info    gpu.Info
	logger  log.Logger
	cancel  context.CancelFunc
	done    chan struct{} // closed when run has returned

	published atomic.Pointer[publication]
	prepared  atomic.Pointer[deviceHistory] // for the state file
	reading   stopwatch                     // since when a call into the device is under way
	missed    atomic.Uint64
	ended     atomic.Bool
	retired   stopwatch // since when the device is gone

	frames    gpu.Frames
	domain    *domain
	instances map[instanceKey]*domain
	processes processTable
	peak      peak
	status    gpu.Status
	readings  []reading
	slowAt    time.Duration // when the status was read last, on the source's clock
	slowOnce  bool
	fault     string // what was said of the last failure; "" when there is none
	lost      bool
	exits     uint64
	// ahead is how far the wall clock has been set since the source's clock was
	// started: by that much its moments are off the wall clock's.
	ahead time.Duration
	// preparedAt is when the history was prepared last.
	preparedAt time.Time
}

type domain = detector.Domain[gpu.ProcessID]

// instanceKey names a GPU instance for as long as the layout stays.
type instanceKey struct {
	id      uint32
	profile string
}

// publication is what a loop publishes after a sample. It is immutable.
type publication struct {
	state      *DeviceState
	unresolved int
	readings   []reading
}

// reading is how the last reading of a group went.
type reading struct {
	group    gpu.Group
	failed   bool
	duration time.Duration
}

func newLoop(s *Sampler, d gpu.Device) *loop {
	info := d.Info()
	return &loop{
		sampler: s, device: d, info: info, done: make(chan struct{}), cancel: func() {},
		logger:    log.With(s.cfg.Logger, "gpu", info.Index, "uuid", info.UUID),
		domain:    s.newDomain(),
		instances: map[instanceKey]*domain{},
		processes: newProcessTable(s.cfg),
	}
}

// newDomain returns a domain of the sampler's configuration, which was checked
// when the sampler was made.
func (s *Sampler) newDomain() *domain {
	d, err := detector.NewDomain(func(detector.Subject[gpu.ProcessID]) detector.Config { return s.cfg.Detector })
	if err != nil {
		panic(err)
	}
	return d
}

// start readies the loop to be retired and runs it until ctx is done, the GPU
// is retired or its recording ends.
func (l *loop) start(ctx context.Context) {
	ctx, l.cancel = context.WithCancel(ctx)
	go l.run(ctx)
}

func (l *loop) run(ctx context.Context) {
	defer close(l.done)
	defer l.prepare()
	for {
		missed, err := l.device.Wait(ctx)
		if errors.Is(err, io.EOF) {
			l.ended.Store(true)
			level.Info(l.logger).Log("msg", "the recording has ended; its last state stays")
			return
		}
		if err != nil {
			return // ctx is done
		}
		l.missed.Add(uint64(missed))
		l.reading.start()
		l.step(ctx)
		l.reading.stop()
		if time.Since(l.preparedAt) >= l.sampler.cfg.StateInterval/2 {
			l.prepare()
		}
	}
}

// prepare makes the GPU's part of the state file. A GPU that was never read keeps
// what an earlier exporter left of it.
func (l *loop) prepare() {
	if l.sampler.cfg.StateFile == "" {
		return
	}
	l.preparedAt = time.Now()
	l.prepared.Store(l.history())
}

// step takes one sample and publishes what follows from it.
func (l *loop) step(ctx context.Context) {
	began := time.Now()
	sample, err := l.device.Read(ctx)
	if err != nil {
		l.fail(err)
		return
	}
	l.recover()
	took := time.Since(began)
	if l.slowDue(sample.T) {
		l.readStatus(ctx, took)
	}
	l.publish(&sample)
}

// fail publishes that the GPU cannot be read and says why, once.
func (l *loop) fail(err error) {
	l.lost = l.lost || errors.Is(err, gpu.ErrLost)
	if fault := err.Error(); fault != l.fault {
		l.fault = fault
		level.Error(l.logger).Log("msg", "GPU cannot be read, will try again", "err", err)
	}
	down := &DeviceState{Info: l.info}
	if last := l.published.Load(); last != nil {
		down.SampleTime = last.state.SampleTime
	}
	l.published.Store(&publication{state: down})
}

// recover notes that the GPU can be read again. One that was lost has been
// reset: what it held is gone.
func (l *loop) recover() {
	if l.fault == "" {
		return
	}
	level.Info(l.logger).Log("msg", "GPU can be read again")
	if l.lost {
		l.domain.Reset(detector.ReasonDeviceReset)
		clear(l.instances)
	}
	l.fault, l.lost = "", false
}

func (l *loop) slowDue(t time.Duration) bool {
	if l.slowOnce && t-l.slowAt < l.sampler.cfg.SlowInterval && t >= l.slowAt {
		return false
	}
	l.slowOnce, l.slowAt = true, t
	return true
}

// readStatus reads the groups. What fails is absent until the next time. The
// group memory answers for the fast reading too, which took that long.
func (l *loop) readStatus(ctx context.Context, took time.Duration) {
	var status gpu.Status
	readings := make([]reading, 0, len(l.sampler.cfg.Groups))
	for _, g := range l.sampler.cfg.Groups {
		began := time.Now()
		err := l.device.ReadGroup(ctx, g, &status)
		r := reading{group: g, failed: err != nil, duration: time.Since(began)}
		if g == gpu.GroupMemory {
			r.duration += took
		}
		if err != nil {
			level.Debug(l.logger).Log("msg", "not all could be read", "collector", g, "err", err)
		}
		readings = append(readings, r)
	}
	l.status, l.readings = status, readings
}

// publish judges the sample and publishes the new state.
func (l *loop) publish(sample *gpu.Sample) {
	l.ahead += sample.Step
	unresolved := l.processes.note(sample)
	state := &DeviceState{
		Info: l.info, Up: true, SampleTime: sample.Time,
		Memory: sample.Memory, MIGEnabled: sample.MIGEnabled, Status: l.status,
		Unattributed: unattributed(l.info, sample), ProcessesKnown: sample.ProcessesKnown, ProcessCount: len(sample.Processes),
	}
	if sample.Memory.Used.OK {
		state.UsedPeak = gpu.Some(l.peak.add(sample.T, sample.Memory.Used.V))
	}
	l.judge(sample, state)
	l.processes.show(sample, state)
	state.ExitsNearCapacity = l.exits
	state.toWall(l.ahead)
	l.published.Store(&publication{state: state, unresolved: unresolved, readings: l.readings})
}

// unattributed is the used memory that no process holds; absent where that
// cannot be known, as while an entry of the list is no process that can be looked
// up: then the list may be that of another namespace.
func unattributed(info gpu.Info, sample *gpu.Sample) gpu.Opt[uint64] {
	if !sample.Memory.Used.OK || !sample.ProcessesComplete || info.CoherentMemory {
		return gpu.Opt[uint64]{}
	}
	var sum uint64
	for i := range sample.Processes {
		if p := &sample.Processes[i]; !p.Used.OK || p.ID.Start == 0 {
			return gpu.Opt[uint64]{}
		}
		sum += sample.Processes[i].Used.V
	}
	// The lists are read a moment after the memory: a process that has grown in
	// between makes the difference negative, not huge.
	return gpu.Some(sample.Memory.Used.V - min(sum, sample.Memory.Used.V))
}

// judge runs the detector over the GPU and its instances.
func (l *loop) judge(sample *gpu.Sample, state *DeviceState) {
	l.repartition(sample)
	frame, index := l.frames.Device(l.info, sample)
	if j := l.observe(l.domain, frame); j != nil {
		state.Judgement = l.take(j, sample, index, state, gpu.Opt[uint32]{})
	}
	for i := range sample.Instances {
		in := &sample.Instances[i]
		frame, index := l.frames.Instance(l.info, sample, in)
		is := InstanceState{Instance: *in}
		if j := l.observe(l.instances[instanceKey{in.ID, in.Profile}], frame); j != nil {
			is.Judgement = l.take(j, sample, index, state, gpu.Some(in.ID))
		}
		state.Instances = append(state.Instances, is)
	}
}

// repartition follows the MIG layout. A new one leaves nothing of the old
// histories valid.
func (l *loop) repartition(sample *gpu.Sample) {
	same := len(sample.Instances) == len(l.instances)
	for i := range sample.Instances {
		in := &sample.Instances[i]
		same = same && l.instances[instanceKey{in.ID, in.Profile}] != nil
	}
	if same {
		return
	}
	if l.published.Load() != nil {
		l.domain.Reset(detector.ReasonRepartition)
		level.Info(l.logger).Log("msg", "MIG layout changed", "instances", len(sample.Instances))
	}
	clear(l.instances)
	for i := range sample.Instances {
		in := &sample.Instances[i]
		l.instances[instanceKey{in.ID, in.Profile}] = l.sampler.newDomain()
	}
}

// observe adds a frame to a domain; a clock that went back starts it anew.
func (l *loop) observe(d *domain, frame *detector.Frame[gpu.ProcessID]) *detector.Judgement[gpu.ProcessID] {
	j, err := d.Observe(frame)
	if err == nil {
		return j
	}
	level.Warn(l.logger).Log("msg", "the clock of the source went back; judging starts anew", "err", err)
	d.Reset(detector.ReasonClockStep)
	if j, err = d.Observe(frame); err != nil {
		return nil
	}
	return j
}

// take copies a judgement, which belongs to the domain, into the state.
func (l *loop) take(j *detector.Judgement[gpu.ProcessID], sample *gpu.Sample, index []int, state *DeviceState, instance gpu.Opt[uint32]) detector.Judgement[gpu.ProcessID] {
	for i := range j.Members {
		l.processes.judged(sample, index[i], &j.Members[i])
	}
	for i := range j.Exited {
		if j.Exited[i].NearCapacity {
			l.exits++
		}
	}
	for i := range j.Groups {
		state.Workloads = append(state.Workloads, workloadState(&j.Groups[i], sample, index, instance))
	}
	own := *j
	own.Members, own.Groups, own.Exited = nil, nil, nil
	return own
}

// workloadState names a group by the owner of one of its members.
func workloadState(g *detector.GroupVerdict, sample *gpu.Sample, index []int, instance gpu.Opt[uint32]) WorkloadState {
	w := WorkloadState{Instance: instance, Used: uint64(g.Used), Verdict: g.Verdict}
	for _, i := range index {
		if o := sample.Processes[i].Owner; o.Group() == g.Group {
			w.Namespace, w.Pod, w.SlurmJob = o.Namespace, o.Pod, o.SlurmJob
			break
		}
	}
	return w
}

// current returns the state of the GPU now, for one reader: the published one,
// or only that it is down when a call has not returned for too long or the GPU
// is gone.
func (l *loop) current() *DeviceState {
	d := DeviceState{Info: l.info}
	if p := l.published.Load(); p != nil {
		d = *p.state
	}
	if l.retired.on() || l.reading.running() > l.sampler.cfg.Timeout {
		d = DeviceState{Info: l.info, SampleTime: d.SampleTime}
	}
	d.Missed = l.missed.Load()
	return &d
}

// retire ends the loop of a GPU that the driver does not list any more.
func (l *loop) retire(logger log.Logger) {
	if l.retired.on() {
		return
	}
	l.retired.start()
	l.cancel()
	level.Warn(logger).Log("msg", "GPU is gone", "gpu", l.info.Index, "uuid", l.info.UUID)
}

// over reports whether the GPU was gone and the loop has left the device, which one
// goroutine at a time may read: then another loop can take it when it comes back.
func (l *loop) over() bool {
	if !l.retired.on() {
		return false
	}
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// follow makes l, which has not been started, go on with the GPU of a loop that is
// over. The GPU was gone, so that what it held is gone, too; its counters go on.
func (l *loop) follow(before *loop) {
	l.domain, l.exits = before.domain, before.exits
	l.missed.Store(before.missed.Load())
	l.fault, l.lost = "it was gone", true
}

// gone returns for how long the GPU has been gone.
func (l *loop) gone() time.Duration { return l.retired.running() }
