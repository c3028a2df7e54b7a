// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package nvml reads GPUs through NVIDIA's management library. No other package knows NVML: beyond it there are base units,
// absent values and errors.
//
// The library is loaded when it is there, and initialised again when the driver was loaded again or a GPU was added. That
// never happens while another thread is inside it. As every NVML client does, the process holds the driver open.
//
// NVML's RPC to nvidia-persistenced is suspected of allocating by the soft limit of open files (RLIMIT_NOFILE), which Go
// raises at start. A program should set it to some thousands before the first call of Devices.
package nvml

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// Config says where the driver is and how often it is asked. Zero fields have the defaults that they name.
type Config struct {
	// LibraryPath is the file or name of the library. "" is libnvidia-ml.so.1 as the dynamic linker finds it, or in one of the
	// usual places of containers.
	LibraryPath string
	// Interval is the time between two samples of a GPU; 1 s. SlowInterval is the time between two questions for its MIG mode
	// and the limits on its memory; 15 s.
	Interval, SlowInterval time.Duration
	// ProcFS and SysFS are the host's procfs and sysfs; /proc and /sys. Outside the host's pid namespace the driver counts
	// processes in the own namespace, so they are looked up in its procfs only.
	ProcFS, SysFS string
	// KernelLog is read for XID errors of GPUs without events; /dev/kmsg.
	KernelLog string
	// Timeout is how long Devices waits for a GPU to identify itself before it leaves that GPU out; 10 s. A call cannot be cut
	// short.
	Timeout time.Duration
}

func (c Config) withDefaults() Config {
	c.ProcFS, c.SysFS, c.KernelLog = cmp.Or(c.ProcFS, "/proc"), cmp.Or(c.SysFS, "/sys"), cmp.Or(c.KernelLog, "/dev/kmsg")
	c.Interval, c.SlowInterval = cmp.Or(c.Interval, time.Second), cmp.Or(c.SlowInterval, 15*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	return c
}

const (
	// drainGrace is how long Init and Shutdown wait for calls under way. It is longer than the wait for events.
	drainGrace = 3 * time.Second
	// stuckAfter is how long a call may take while others are held up for Init. A longer one may never return.
	stuckAfter = time.Second
	// renewPause is the pause after an Init for some GPUs only, which may not have helped them, or for which there was no
	// moment without calls.
	renewPause = 30 * time.Second
	// maxDevices bounds how many GPUs the driver may count: it has room for fewer.
	maxDevices = 256
)

// Source is the driver's GPUs. It implements gpu.Source.
type Source struct {
	cfg   Config
	calls gpu.Calls
	gate  *gate
	clock clock
	procs *procfs
	// generation counts the initialisations of the library; 0: none yet. A handle is valid in its own generation only.
	generation atomic.Uint64
	// down is the reason to initialise the library again; nil while it works. Only calls that every sample needs set it.
	// Another call has just failed.
	down atomic.Pointer[gpu.DriverError]
	// initialised tells whether the library is initialised. It changes only while the gate is shut.
	initialised atomic.Bool
	// library is written once, while the gate is shut, and read inside the gate.
	library *library

	// turn serialises Devices; it is a channel so that a wait can be cancelled.
	turn    chan struct{}
	bus     bus
	again   time.Time               // not before is the library initialised again for some GPUs only
	worked  bool                    // the library was initialised once
	indices map[int]*identification // by position in the driver's list

	known known
}

var _ gpu.Source = (*Source)(nil)

// New returns a source of the driver's GPUs. It does not touch the driver and does not fail without one: Devices tells what is
// missing.
func New(cfg Config) (*Source, error) {
	cfg = cfg.withDefaults()
	if min(cfg.Interval, cfg.SlowInterval, cfg.Timeout) < 0 {
		return nil, fmt.Errorf("interval %v, slow interval %v, timeout %v: must be above 0", cfg.Interval, cfg.SlowInterval, cfg.Timeout)
	}
	s := &Source{
		cfg:     cfg,
		gate:    newGate(),
		clock:   newClock(),
		turn:    make(chan struct{}, 1),
		bus:     bus{root: cfg.SysFS},
		indices: make(map[int]*identification),
		known:   known{devices: make(map[string]*device), relisted: make(chan struct{}, 1)},
	}
	s.procs = newProcFS(cfg.ProcFS, s.clock)
	return s, nil
}

// Calls implements gpu.Source.
func (s *Source) Calls() *gpu.Calls { return &s.calls }

// Devices implements gpu.Source. It initialises the library where that has not worked yet, where the driver went away, and
// where a GPU was added to the bus. A GPU that does not identify itself within the timeout is left out until it does, unless
// it was known.
func (s *Source) Devices(ctx context.Context) ([]gpu.Device, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := s.ensure(); err != nil {
		return nil, err
	}
	n, generation, err := s.count()
	if e, ok := errors.AsType[*callError](err); ok && e.outcome == down {
		// The GPUs may answer all the same.
		if err := s.renew(); err != nil {
			return nil, err
		}
		n, generation, err = s.count()
	}
	if err != nil {
		return nil, unseen(err)
	}
	devices, err := s.identifyAll(ctx, n, generation)
	if err != nil {
		return nil, err
	}
	s.known.list(devices)
	list := make([]gpu.Device, len(devices))
	for i, d := range devices {
		list[i] = d
	}
	return list, nil
}

// count asks how many GPUs there are.
func (s *Source) count() (n int, generation uint64, err error) {
	generation = s.generation.Load()
	n, err = ask(s.caller("", generation), "nvmlDeviceGetCount_v2", func() (int, nvml.Return) { return s.library.DeviceGetCount() })
	return min(n, maxDevices), generation, err
}

// unseen turns a failure to count the GPUs into a *gpu.DriverError.
func unseen(err error) error {
	if e, ok := errors.AsType[*callError](err); ok {
		return driverError(e.ret, err)
	}
	if errors.Is(err, errAbsent) {
		return driverError(nvml.ERROR_FUNCTION_NOT_FOUND, err)
	}
	return err
}

// ensure initialises the library if it is not, and again where a GPU was added or a call asked for it. Neither costs the other
// GPUs a sample: while a call hangs, it is left for later.
func (s *Source) ensure() error {
	if !s.initialised.Load() {
		return s.renew()
	}
	if time.Now().Before(s.again) || (s.down.Load() == nil && !s.bus.added()) {
		return nil
	}
	err := s.renew()
	s.again = time.Now().Add(renewPause)
	if errors.Is(err, errInUse) {
		return nil
	}
	return err
}

// stuck reports whether a call, not a wait for events, has been under way for long.
func (s *Source) stuck() bool {
	return slices.ContainsFunc(s.calls.Snapshot().InFlight, func(f gpu.InFlight) bool {
		return f.Call != eventCall && time.Since(f.Since) > stuckAfter
	})
}

var errInUse = &gpu.DriverError{Reason: "in_use", Err: errors.New("a call has not returned, so the library cannot be initialised")}

// renew initialises the library at a moment without calls. It holds up other calls for that only if no call takes long.
func (s *Source) renew() error {
	reopen, ok := s.gate.alone(claimed, drainGrace)
	if !ok && !s.stuck() {
		reopen, ok = s.gate.alone(shut, stuckAfter)
	}
	if !ok {
		return errInUse
	}
	defer reopen()
	if s.gate.isClosed() {
		return gpu.ErrClosed
	}
	return s.initialise()
}

// initialise loads the library if it is not, and starts a new generation. The caller has the library alone.
func (s *Source) initialise() error {
	if s.library == nil {
		l, err := openLibrary(s.cfg.LibraryPath)
		if err != nil {
			return err
		}
		s.library = l
	}
	if s.initialised.Swap(false) {
		s.generation.Add(1)
		// An error here is that of a driver that has gone; Init tells.
		_ = s.library.shutdown(&s.calls)
	}
	s.bus.accept()
	if ret := counted(&s.calls, entry, s.library.Init); ret != nvml.SUCCESS {
		err := driverError(ret, errors.New(entry+" failed"))
		// A library that never worked may work once the driver's module is the new one. One that worked stays the old one.
		// Only Init is believed: each new process might get the same answer from another call.
		err.Fatal = s.worked && err.Reason == gpu.ReasonMismatch
		s.down.Store(err)
		return err
	}
	s.worked = true
	s.down.Store(nil)
	s.generation.Add(1)
	s.initialised.Store(true)
	return nil
}

// Close implements gpu.Source. It keeps all further calls out and shuts the library down if those under way return soon.
// Otherwise the library ends with the process. A wait for events is no error: nothing can end it, and to stop the program must
// not wait for it.
func (s *Source) Close() error {
	s.gate.close()
	reopen, ok := s.gate.alone(shut, drainGrace)
	if !ok {
		return errors.New("a call into the driver has not returned: the library was not shut down")
	}
	defer reopen()
	if s.gate.awaited() || !s.initialised.Swap(false) {
		return nil
	}
	return s.library.shutdown(&s.calls)
}

// known are the GPUs that were ever identified.
type known struct {
	mu      sync.Mutex
	devices map[string]*device // by UUID
	listed  []*device          // by the last Devices
	// relisted holds an element after the list, or the part of it that has events, has changed, until Watch takes it.
	relisted chan struct{}
}

// get returns the device of that uuid, nil if it was never seen.
func (k *known) get(uuid string) *device {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.devices[uuid]
}

// as returns the device of that identity. It is the one of before, unless the position in the driver's list or the kind of
// memory has changed: a device never changes its identity.
func (s *Source) as(info gpu.Info) *device {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	if old := s.known.devices[info.UUID]; old != nil && old.info == info {
		return old
	}
	d := newDevice(s, info)
	s.known.devices[info.UUID] = d
	return d
}

// list notes which devices can be seen now.
func (k *known) list(devices []*device) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.Equal(k.listed, devices) {
		return
	}
	k.listed = slices.Clone(devices)
	notify(k.relisted)
}

// now returns the devices that can be seen now.
func (k *known) now() []*device {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.listed
}
