// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package sampler reads GPUs in the background, judges them, and publishes what it has read last as an immutable State.
package sampler

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

const (
	// retryDriver is the time between two questions to a driver that does not answer.
	retryDriver = time.Second
	// rememberDevice is how long a GPU that is gone is shown as down. The state file keeps its history for as long.
	rememberDevice = 24 * time.Hour
	// retryWatch is the pause before the sampler tries again to watch events.
	retryWatch = 30 * time.Second
	// stopGrace is how long Run waits for a loop that is inside the driver.
	stopGrace = time.Second
	// saveInterval is how often incidents are saved.
	saveInterval = 5 * time.Second
	// reasonHangs is the reason of a driver that does not return.
	reasonHangs = "call_does_not_return"
	// reasonInUse is the reason of a driver that cannot be initialised again, because a call of ours is under way.
	reasonInUse = "in_use"
)

// ReasonStarting is the State's DriverReason before the driver's first answer.
const ReasonStarting = "starting"

// Sampler reads the GPUs of a source in the background, one loop a GPU. It judges what it reads, and publishes it as a State.
type Sampler struct {
	source gpu.Source
	cfg    Config
	xids   xidCounts
	// running counts the goroutines of Run and the loops.
	running sync.WaitGroup
	// watched has the UUIDs of the GPUs whose XID errors the source reports now.
	watched sync.Map
	fatal   chan error
	boot    string
	// secret is the key of the hashes that name programs. It must not leave the node.
	secret []byte
	// heights remembers how much memory programs held and gave back.
	heights *detector.Heights
	// saved tells how the last writing of the state file went; nil before the first.
	saved atomic.Pointer[FileState]
	// past are the histories that an earlier exporter left. They do not change.
	past []deviceHistory
	// asking runs while a call of Devices is under way.
	asking stopwatch
	// shared is the part of the State that supervise publishes.
	shared atomic.Pointer[shared]
	// host is the part that lookAround publishes.
	host atomic.Pointer[host]
	// jobs are from the mapping files; nil where there are none.
	jobs atomic.Pointer[jobsState]
	// walking and readingJobs run while the owners are asked.
	walking, readingJobs stopwatch
	// resolve is Config.Resolve, or what Configure put in its place.
	resolve atomic.Pointer[Resolver]
	// ends learns how processes have ended; nil without Owners.
	ends *ends
}

// shared is the part of the state that concerns no single GPU. It is immutable.
type shared struct {
	reason string
	loops  []*loop
}

// New returns a Sampler that reads nothing until Run. The error is that of Config.Detector.
func New(source gpu.Source, cfg Config) (*Sampler, error) {
	if err := cfg.Detector.Validate(); err != nil {
		return nil, fmt.Errorf("sampler: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = log.NewNopLogger()
	}
	if cfg.Incidents == nil {
		cfg.Incidents = incident.NewStore("", incident.Most, cfg.Logger)
	}
	s := &Sampler{source: source, cfg: cfg, fatal: make(chan error, 1), secret: make([]byte, secretSize), heights: detector.NewHeights()}
	_, _ = rand.Read(s.secret) // it never fails: see crypto/rand
	s.shared.Store(&shared{reason: ReasonStarting})
	s.past = s.load()
	s.host.Store(&host{})
	if cfg.Owners != nil {
		cfg.Owners.NameWith(s.secret)
		s.jobs.Store(&jobsState{})
		s.ends = &ends{heights: s.heights, owners: cfg.Owners}
	}
	s.Configure(cfg.Resolve)
	return s, nil
}

// Fatal delivers an error after which only a new process can go on: the driver now has another version.
func (s *Sampler) Fatal() <-chan error { return s.fatal }

// Run reads until ctx is done. It waits for its loops to end, but not for one that is stuck in a call.
func (s *Sampler) Run(ctx context.Context) {
	tasks := []func(context.Context){s.supervise, s.watch, s.lookAround, every(saveInterval, s.cfg.Incidents.Save)}
	if s.cfg.StateFile != "" { // the loops prepare their parts as often: no more than a StateInterval is ever lost
		tasks = append(tasks, every(s.cfg.StateInterval/2, s.write))
	}
	if s.cfg.Allocators != nil {
		tasks = append(tasks, s.cfg.Allocators.Run)
	}
	if s.cfg.Owners != nil {
		tasks = append(tasks, s.cfg.Owners.Run, s.followJobs, every(askInterval, func() { s.ends.ask(ctx) }))
	}
	for _, task := range tasks {
		s.running.Go(func() { task(ctx) })
	}
	<-ctx.Done()
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(stopGrace):
	}
	s.write()
	if s.ends != nil {
		s.ends.ask(ctx) // nobody, any more
	}
	s.cfg.Incidents.Save() // what the loops told at their end
}

// every returns a task that calls do once in each interval.
func every(interval time.Duration, do func()) func(context.Context) {
	return func(ctx context.Context) {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				do()
			}
		}
	}
}

// watch counts the events of the source.
func (s *Sampler) watch(ctx context.Context) {
	var blind trouble
	for ctx.Err() == nil {
		err := s.source.Watch(ctx, s.event)
		s.watched.Clear()
		if errors.Is(err, gpu.ErrNoEvents) {
			return
		}
		if err != nil {
			blind.failed(level.Warn(s.cfg.Logger), err, "msg", "XID errors cannot be watched, will try again")
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryWatch):
		}
	}
}

// xidsOf returns the XID errors of a GPU. Counts of 0 mean nothing while the source does not watch the GPU: it leaves them out.
func (s *Sampler) xidsOf(info *gpu.Info) []XIDState {
	counts := s.xids.of(cmp.Or(info.UUID, info.PCIBusID))
	if _, watched := s.watched.Load(info.UUID); watched {
		return counts
	}
	return slices.DeleteFunc(slices.Clone(counts), func(x XIDState) bool { return x.Count == 0 })
}

// event notes which GPUs are watched, and counts their XID errors.
func (s *Sampler) event(e gpu.Event) {
	switch e.Kind {
	case gpu.Watched:
		s.watched.Store(e.UUID, true)
		return
	case gpu.Unwatched:
		s.watched.Delete(e.UUID)
		return
	}
	msg, info, means := "XID error of a GPU that is not listed", gpu.Info{UUID: e.UUID, PCIBusID: e.PCIBusID, Index: -1}, finding.Message{}
	var of *loop
	for _, l := range s.shared.Load().loops {
		if l.info.UUID == e.UUID || e.UUID == "" && l.info.PCIBusID == e.PCIBusID {
			of, msg, info, means = l, "XID error", l.info, finding.XID(e.XID)
			break
		}
	}
	count, worth := s.xids.add(cmp.Or(info.UUID, info.PCIBusID), e)
	if !worth {
		return
	}
	if of != nil && finding.EndsPrograms(e.XID) {
		select {
		case of.xids <- e.XID:
		default: // it does not read its GPU: the log has it
		}
	}
	logger := log.With(level.Warn(s.cfg.Logger), "msg", msg, "xid", e.XID, "gpu", info.IndexLabel(), "uuid", info.UUID, "pci_bus_id", info.PCIBusID, "count", count)
	if means.Alert != "" {
		logger = log.With(logger, "means", means.Summary, "alert", means.Alert)
	}
	_ = logger.Log()
}

// supervise asks the source for its GPUs again and again, and gives each a loop.
func (s *Sampler) supervise(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		s.asking.start()
		devices, err := s.source.Devices(ctx)
		s.asking.stop()
		next := *s.shared.Load()
		next.reason = s.driver(next.reason, err)
		if err == nil {
			next.loops = s.loopsOf(ctx, next.loops, devices)
		}
		s.shared.Store(&next)
		// The time that the answer took counts: one GPU can delay it for long.
		pause := min(s.cfg.SlowInterval, retryDriver)
		if err == nil {
			pause = max(pause, s.cfg.SlowInterval-time.Since(began))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// driver returns why the driver does not answer, and logs that when it changes.
func (s *Sampler) driver(before string, err error) (reason string) {
	if err != nil {
		reason = "unknown"
		if driver, ok := errors.AsType[*gpu.DriverError](err); ok {
			reason = driver.Reason
			if driver.Fatal {
				select {
				case s.fatal <- err:
				default:
				}
			}
		}
	}
	switch {
	case reason == before:
	case err != nil:
		level.Error(s.cfg.Logger).Log("msg", "no GPU can be read, will try again", "reason", reason, "err", err)
	case before != ReasonStarting:
		level.Info(s.cfg.Logger).Log("msg", "GPUs can be read again")
	}
	return reason
}

// loopsOf returns the loops for the devices that are there now. It keeps those of devices that stayed and,
// for a while, those of devices that are gone.
func (s *Sampler) loopsOf(ctx context.Context, loops []*loop, devices []gpu.Device) (now []*loop) {
	before := byGPU(loops)
	for _, d := range devices {
		now = append(now, s.loopOf(ctx, before[keyOfGPU(d)], d))
	}
	after := byGPU(now)
	for _, l := range loops {
		if after[keyOfGPU(l.device)] != nil {
			continue
		}
		l.retire()
		if s.cfg.Places == nil && l.retired.running() < rememberDevice {
			now = append(now, l)
		}
	}
	slices.SortStableFunc(now, func(a, b *loop) int {
		x, y := a.device.Info(), b.device.Info()
		return cmp.Or(cmp.Compare(x.Index, y.Index), cmp.Compare(x.UUID, y.UUID))
	})
	return now
}

// news returns the logger for a line about a GPU that has come or gone.
func (s *Sampler) news(of log.Logger, as func(log.Logger) log.Logger) log.Logger {
	if s.cfg.Places != nil {
		return level.Debug(of)
	}
	return as(of)
}

// keyOfGPU returns what stays the same of a GPU: its UUID or, where it has none, the device.
func keyOfGPU(d gpu.Device) any {
	if uuid := d.Info().UUID; uuid != "" {
		return uuid
	}
	return d
}

// byGPU returns the loops by keyOfGPU. A fleet has thousands.
func byGPU(loops []*loop) map[any]*loop {
	all := make(map[any]*loop, len(loops))
	for _, l := range slices.Backward(loops) { // the first one counts
		all[keyOfGPU(l.device)] = l
	}
	return all
}

// loopOf returns the loop of a device that is there now. before is that of its GPU so far; nil where there was none. It stays
// while it reads this device, and while it is stuck in a call. Else a new loop goes on where it has ended.
func (s *Sampler) loopOf(ctx context.Context, before *loop, d gpu.Device) *loop {
	if before != nil && ((before.device == d && !before.retired.on()) || !before.stop()) {
		return before
	}
	l := newLoop(s, d, d.Info())
	news := s.news(l.logger, level.Info)
	switch {
	case before == nil:
		news.Log("msg", "GPU found", "name", l.info.Name)
		s.revive(l)
	case before.retired.on():
		news.Log("msg", "GPU found again", "name", l.info.Name)
		l.goOn(before, true)
	case before.info.UnifiedMemory != l.info.UnifiedMemory:
		level.Warn(l.logger).Log("msg", "the driver now tells otherwise whose memory the GPU uses, so that its history is thrown away")
		l.goOn(before, true)
	case before.info.Index != l.info.Index:
		news.Log("msg", "GPU has another index", "before", before.info.Index)
		l.goOn(before, false)
	default:
		news.Log("msg", "the driver now tells more of the GPU", "coherent_memory", l.info.CoherentMemory)
		l.goOn(before, false)
	}
	if l.info.UnifiedMemory && (before == nil || !before.info.UnifiedMemory) {
		level.Info(l.logger).Log("msg", "the GPU has no memory of its own; gpu_memory_* is the memory of the host, which all its programs use")
	}
	l.start(ctx)
	return l
}

// State returns the current state. It never blocks.
func (s *Sampler) State() *State {
	shared, host := s.shared.Load(), s.host.Load()
	state := &State{
		Time: time.Now(), DriverReason: shared.reason, Places: s.cfg.Places,
		PCIDevices: host.pci, Calls: s.source.Calls().Snapshot(), DeviceHolders: host.holders, Unresolved: host.overdue,
	}
	if s.asking.running() > s.cfg.Timeout {
		state.DriverReason = reasonHangs
	}
	state.StateFile = s.saved.Load()
	state.Incidents = s.cfg.Incidents.Now()
	for _, l := range shared.loops {
		d := l.current()
		if d == nil {
			state.Awaited++
			continue
		}
		d.XIDs = s.xidsOf(&d.Info)
		d.Allotments = allotmentsOf(d, host.allotments)
		state.Devices = append(state.Devices, d)
		state.Unresolved += d.unresolved
		if p := l.published.Load(); p != nil && !l.retired.on() {
			state.addUp(p.readings)
		}
	}
	state.addUp(s.attribution(host))
	slices.SortFunc(state.Collectors, func(a, b FamilyState) int { return cmp.Compare(a.Name, b.Name) })
	return state
}

// addUp adds the last readings of a GPU's groups.
func (s *State) addUp(readings []FamilyState) {
	for _, r := range readings {
		i := slices.IndexFunc(s.Collectors, func(c FamilyState) bool { return c.Name == r.Name })
		if i < 0 {
			s.Collectors = append(s.Collectors, r)
			continue
		}
		c := &s.Collectors[i]
		c.Success = c.Success && r.Success
		c.Duration += r.Duration
	}
}

// stopwatch tells any goroutine for how long another one has been at something.
type stopwatch struct{ since atomic.Pointer[time.Time] }

func (w *stopwatch) start() {
	now := time.Now()
	w.since.Store(&now)
}

func (w *stopwatch) stop() { w.since.Store(nil) }

// on reports whether start was called, and not stop since.
func (w *stopwatch) on() bool { return w.since.Load() != nil }

// running returns how long ago start was called; 0 after stop.
func (w *stopwatch) running() time.Duration {
	if since := w.since.Load(); since != nil {
		return time.Since(*since)
	}
	return 0
}
