// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/prometheus/common/model"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

const (
	// retryDriver is how often a driver that does not answer is asked again.
	retryDriver = time.Second
	// rememberDevice is how long a GPU that is gone is still shown as down.
	rememberDevice = 24 * time.Hour
	// retryWatch is how long to wait before events are asked for again.
	retryWatch = 30 * time.Second
	// stopGrace is how long Run waits for a loop that is inside the driver.
	stopGrace = time.Second
	// reasonStarting and reasonHangs stand for the driver's reason before its
	// first answer, and while it gives none.
	reasonStarting = "starting"
	reasonHangs    = "call_does_not_return"
)

// SamplerConfig says what a Sampler reads and how.
type SamplerConfig struct {
	// SlowInterval is the time between readings of everything but memory and
	// processes, on the source's clock. At least once a second of the wall clock
	// is the driver not asked for its GPUs, whatever it is.
	SlowInterval time.Duration
	// Timeout is how long a call may take, on the wall clock, before its GPU
	// counts as one that cannot be read.
	Timeout time.Duration
	// ProcessMax is how many processes of a GPU have series of their own.
	ProcessMax int
	// ProcessMinAge is how old a process must be to have series of its own.
	ProcessMinAge time.Duration
	// Groups are the parts of the slow reading that are wanted.
	Groups []gpu.Group
	// Detector is the configuration of all series.
	Detector detector.Config
	// Owners tells whose a process is, where the source does not; nil leaves it
	// unknown.
	Owners Owners
	// ProcFS is where procfs is mounted; SysFS is the same for sysfs, and ""
	// leaves the PCI bus unread.
	ProcFS, SysFS string
	// StateFile is where the detector's histories outlive the exporter; "" for
	// nowhere. It is written every StateInterval and when Run ends, and read by
	// NewSampler.
	StateFile     string
	StateInterval time.Duration
	// Logger takes what an operator should know, once each.
	Logger log.Logger
}

// validate names the first setting that cannot hold.
func (c *SamplerConfig) validate() error {
	switch {
	case c.SlowInterval <= 0:
		return fmt.Errorf("slow interval %s is not above 0", c.SlowInterval)
	case c.Timeout <= 0:
		return fmt.Errorf("timeout %s is not above 0", c.Timeout)
	case c.ProcessMax < 0:
		return fmt.Errorf("%d processes a GPU is below 0", c.ProcessMax)
	case c.ProcessMinAge < 0:
		return fmt.Errorf("minimum age %s of a process is below 0", c.ProcessMinAge)
	case c.StateFile != "" && c.StateInterval < time.Second:
		return fmt.Errorf("state interval %s is below 1s", c.StateInterval)
	}
	for _, g := range c.Groups {
		if !slices.Contains(gpu.Groups, g) {
			return fmt.Errorf("there is no group %q, only %v", g, gpu.Groups)
		}
	}
	return c.Detector.Validate()
}

// Owners looks up whose a process is. Its methods are called from several
// goroutines, one a GPU.
type Owners interface {
	// Owner returns whose process id is; it does not block for longer than a read
	// of procfs. done says that the answer is final; until then it is asked again.
	Owner(id gpu.ProcessID) (owner *gpu.Owner, done bool)
	// Holders returns the processes that have a device file of the driver open.
	// It may take long and is called at the slow interval.
	Holders(ctx context.Context) ([]DeviceHolder, error)
}

// Sampler reads the GPUs of a source in the background, one loop a GPU, judges
// what it reads and publishes it as a State.
type Sampler struct {
	source  gpu.Source
	cfg     SamplerConfig
	windows []string
	xids    xidCounts
	// watching says that events are being watched.
	watching atomic.Bool
	fatal    chan error
	boot     string
	// past are the histories of an earlier exporter, by UUID, until a loop takes
	// them. They belong to the supervisor.
	past map[string]*deviceHistory
	// saved is how the last writing of the state file went; nil before the first.
	saved atomic.Pointer[StateFileState]
	// asking is since when Devices of the source is under way; see stopwatch.
	asking stopwatch
	// shared is what the supervisor publishes.
	shared atomic.Pointer[shared]
}

// shared is the part of the state that concerns no single GPU. It is immutable.
type shared struct {
	reason  string
	loops   []*loop
	pci     gpu.Opt[int]
	holders []DeviceHolder
}

// NewSampler returns a Sampler that reads nothing until Run. The error names the
// setting that cannot hold.
func NewSampler(source gpu.Source, cfg SamplerConfig) (*Sampler, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("sampler: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = log.NewNopLogger()
	}
	s := &Sampler{source: source, cfg: cfg, fatal: make(chan error, 1)}
	for _, w := range cfg.Detector.Windows {
		s.windows = append(s.windows, model.Duration(w).String())
	}
	s.shared.Store(&shared{reason: reasonStarting})
	if cfg.StateFile != "" {
		if err := s.load(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// load reads the state file.
func (s *Sampler) load() error {
	h, err := readHistories(s.cfg.StateFile)
	if err != nil {
		return err
	}
	s.boot, s.past = bootID(s.cfg.ProcFS), map[string]*deviceHistory{}
	if len(h.Devices) > 0 && (h.BootID == "" || h.BootID != s.boot) {
		level.Info(s.cfg.Logger).Log("msg", "the state file is of another boot: judging starts anew", "file", s.cfg.StateFile)
		return nil
	}
	for i := range h.Devices {
		s.past[h.Devices[i].UUID] = &h.Devices[i]
	}
	if len(h.Devices) > 0 {
		level.Info(s.cfg.Logger).Log("msg", "going on from the state file", "file", s.cfg.StateFile, "saved", h.Saved.UTC().Format(time.RFC3339), "gpus", len(h.Devices))
	}
	return nil
}

// Fatal delivers an error after which only a fresh process can go on: the
// driver's library was replaced by one of another version.
func (s *Sampler) Fatal() <-chan error { return s.fatal }

// Run reads until ctx is done. It returns when its loops have ended, but for
// those that are stuck in a call into the driver.
func (s *Sampler) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { s.watch(ctx) })
	wg.Go(func() { s.save(ctx) })
	supervised := make(chan struct{})
	go func() {
		defer close(supervised)
		s.supervise(ctx)
	}()
	<-ctx.Done()
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	expired := await(supervised, grace.C, false)
	for _, l := range s.shared.Load().loops {
		expired = await(l.done, grace.C, expired)
	}
	if !expired {
		wg.Wait()
	}
	s.write()
}

// save writes the state file again and again. Both it and the loops, which
// prepare what it writes, do so twice an interval, so that no more than an
// interval is ever lost.
func (s *Sampler) save(ctx context.Context) {
	if s.cfg.StateFile == "" {
		return
	}
	ticker := time.NewTicker(s.cfg.StateInterval / 2)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.write()
		}
	}
}

// write writes what the loops have prepared to the state file.
func (s *Sampler) write() {
	if s.cfg.StateFile == "" {
		return
	}
	h := histories{BootID: s.boot, Saved: time.Now()}
	for _, l := range s.shared.Load().loops {
		if d := l.prepared.Load(); d != nil {
			h.Devices = append(h.Devices, *d)
		}
	}
	if len(h.Devices) == 0 {
		return // the driver has not answered yet: keep what an earlier exporter left
	}
	before, now := s.saved.Load(), StateFileState{Time: h.Saved, Success: true}
	if err := h.write(s.cfg.StateFile); err != nil {
		now = StateFileState{}
		if before != nil {
			now.Time = before.Time
		}
		if before == nil || before.Success {
			level.Error(s.cfg.Logger).Log("msg", "a restart would lose the histories, will try again", "err", err)
		}
	}
	s.saved.Store(&now)
}

// await waits for done until the grace period is over, and says whether it is.
func await(done <-chan struct{}, grace <-chan time.Time, expired bool) bool {
	if expired {
		select {
		case <-done:
		default:
		}
		return true
	}
	select {
	case <-done:
		return false
	case <-grace:
		return true
	}
}

// watch counts the events of the source.
func (s *Sampler) watch(ctx context.Context) {
	said := ""
	for ctx.Err() == nil {
		s.watching.Store(true)
		err := s.source.Watch(ctx, s.event)
		if err != nil {
			s.watching.Store(false)
		}
		if errors.Is(err, gpu.ErrNoEvents) {
			return
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			level.Warn(s.cfg.Logger).Log("msg", "XID errors cannot be watched, will try again", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryWatch):
		}
	}
}

// xidsOf returns the XID errors of a GPU. While events cannot be watched, that
// there were none is not known.
func (s *Sampler) xidsOf(uuid string) []XIDState {
	counts := s.xids.of(uuid)
	if s.watching.Load() {
		return counts
	}
	return slices.DeleteFunc(slices.Clone(counts), func(x XIDState) bool { return x.Count == 0 })
}

// event counts an XID error.
func (s *Sampler) event(e gpu.Event) {
	for _, l := range s.shared.Load().loops {
		info := l.device.Info()
		if info.UUID == e.UUID || (e.UUID == "" && sameBus(info.PCIBusID, e.PCIBusID)) {
			s.xids.add(info.UUID, e)
			level.Warn(s.cfg.Logger).Log("msg", "XID error", "xid", e.XID, "gpu", info.Index, "uuid", info.UUID)
			return
		}
	}
	level.Warn(s.cfg.Logger).Log("msg", "XID error of a GPU that is not listed", "xid", e.XID, "uuid", e.UUID, "pci_bus_id", e.PCIBusID)
}

// supervise asks the source for its GPUs, again and again, and gives each a
// loop.
func (s *Sampler) supervise(ctx context.Context) {
	for ctx.Err() == nil {
		s.asking.start()
		devices, err := s.source.Devices(ctx)
		s.asking.stop()
		next := *s.shared.Load()
		s.driver(&next, err)
		if err == nil {
			next.loops = s.follow(ctx, next.loops, devices)
		}
		s.shared.Store(&next)
		s.lookAround(ctx, next)
		pause := s.cfg.SlowInterval
		if err != nil {
			pause = min(pause, retryDriver)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// driver notes in next whether the driver answers, and says so when it changed.
func (s *Sampler) driver(next *shared, err error) {
	before := next.reason
	next.reason = ""
	if err != nil {
		next.reason = "unknown"
		if driver, ok := errors.AsType[*gpu.DriverError](err); ok {
			next.reason = driver.Reason
			if driver.Fatal {
				select {
				case s.fatal <- err:
				default:
				}
			}
		}
	}
	switch {
	case next.reason == before:
	case err != nil:
		level.Error(s.cfg.Logger).Log("msg", "no GPU can be read, will try again", "reason", next.reason, "err", err)
	case before != reasonStarting:
		level.Info(s.cfg.Logger).Log("msg", "the driver answers again")
	}
}

// follow returns the loops for the devices that are there now: those of before,
// new ones, and for a while those of devices that are gone.
func (s *Sampler) follow(ctx context.Context, before []*loop, devices []gpu.Device) []*loop {
	var now []*loop
	for _, d := range devices {
		i := slices.IndexFunc(before, func(l *loop) bool { return l.device == d })
		if i >= 0 && !before[i].over() {
			now = append(now, before[i])
			continue
		}
		info := d.Info()
		level.Info(s.cfg.Logger).Log("msg", "GPU found", "gpu", info.Index, "uuid", info.UUID, "name", info.Name)
		l := newLoop(s, d)
		if i >= 0 {
			l.follow(before[i])
		} else {
			s.revive(l)
		}
		now = append(now, l)
		l.start(ctx)
	}
	for _, l := range before {
		if slices.Contains(now, l) {
			continue
		}
		uuid := l.device.Info().UUID
		l.retire(s.cfg.Logger)
		replaced := slices.ContainsFunc(now, func(o *loop) bool { return o.device.Info().UUID == uuid })
		if !replaced && l.gone() < rememberDevice {
			now = append(now, l)
		}
	}
	slices.SortStableFunc(now, func(a, b *loop) int {
		x, y := a.device.Info(), b.device.Info()
		return cmp.Or(cmp.Compare(x.Index, y.Index), cmp.Compare(x.UUID, y.UUID))
	})
	return now
}

// revive gives a new loop the history that an earlier exporter left of its GPU.
func (s *Sampler) revive(l *loop) {
	h := s.past[l.info.UUID]
	if h == nil {
		return
	}
	delete(s.past, l.info.UUID)
	if err := l.restore(h); err != nil {
		level.Error(s.cfg.Logger).Log("msg", "judging starts anew", "file", s.cfg.StateFile, "err", err)
	}
}

// lookAround publishes what the system, not the driver, shows of the GPUs. It
// comes after the rest, because it may take its time.
func (s *Sampler) lookAround(ctx context.Context, next shared) {
	if s.cfg.SysFS != "" {
		next.pci = countPCIDevices(s.cfg.SysFS)
	}
	next.holders = s.holders(ctx)
	s.shared.Store(&next)
}

func (s *Sampler) holders(ctx context.Context) []DeviceHolder {
	if s.cfg.Owners == nil {
		return nil
	}
	holders, err := s.cfg.Owners.Holders(ctx)
	if err != nil {
		level.Debug(s.cfg.Logger).Log("msg", "cannot see who holds the device files", "err", err)
		return nil
	}
	return holders
}

// State returns the current state. It never blocks.
func (s *Sampler) State() *State {
	shared := s.shared.Load()
	state := &State{
		Time: time.Now(), DriverReason: shared.reason, Windows: s.windows,
		PCIDevices: shared.pci, Calls: s.source.Calls().Snapshot(), DeviceHolders: shared.holders,
	}
	if s.asking.running() > s.cfg.Timeout {
		state.DriverReason = reasonHangs
	}
	state.StateFile = s.saved.Load()
	for _, l := range shared.loops {
		d := l.current()
		d.XIDs = s.xidsOf(d.Info.UUID)
		state.Devices = append(state.Devices, d)
		if p := l.published.Load(); p != nil && d.Up {
			state.Unresolved += p.unresolved
		}
		state.addReadings(l)
	}
	slices.SortFunc(state.Collectors, func(a, b FamilyState) int { return cmp.Compare(a.Name, b.Name) })
	return state
}

// addReadings adds the last readings of a GPU's groups.
func (s *State) addReadings(l *loop) {
	p := l.published.Load()
	if p == nil {
		return
	}
	for _, r := range p.readings {
		i := slices.IndexFunc(s.Collectors, func(c FamilyState) bool { return c.Name == string(r.group) })
		if i < 0 {
			i = len(s.Collectors)
			s.Collectors = append(s.Collectors, FamilyState{Name: string(r.group), Success: true})
		}
		c := &s.Collectors[i]
		c.Success = c.Success && !r.failed
		c.Duration += r.duration
	}
}

// Ended reports whether every GPU of a recording has been read to its end.
func (s *Sampler) Ended() bool {
	loops := s.shared.Load().loops
	for _, l := range loops {
		if !l.ended.Load() {
			return false
		}
	}
	return len(loops) > 0
}

// stopwatch tells, to any goroutine, for how long another has been at something.
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
