// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

const (
	// eventWait is the longest stay inside the library, and so the longest that the
	// end of Watch or a new Init has to wait.
	eventWait = 500 * time.Millisecond
	// registerRetry is when a GPU is registered again that failed to be.
	registerRetry = 30 * time.Second
	// maxBackoff bounds the pause after waits that fail at once.
	maxBackoff = 30 * time.Second
)

// Watch implements gpu.Source: it reports XID errors as the driver's events tell
// them, and from the kernel log those of GPUs for which there are no events. It
// watches the GPUs that Devices has found, also those that it finds later. The
// error is that of the kernel log, where all GPUs depend on it and it cannot be
// read.
func (s *Source) Watch(ctx context.Context, report func(gpu.Event)) error {
	w := &watcher{source: s, report: report, log: kernelLog{path: s.cfg.KernelLog, fd: -1}}
	defer w.close()
	for ctx.Err() == nil {
		if err := w.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// watcher is the state of one Watch.
type watcher struct {
	source *Source
	report func(gpu.Event)
	log    kernelLog

	generation uint64 // of what follows
	set        nvml.EventSet
	registered map[*device]handle
	// later is when a GPU is tried again that could not be registered; the zero
	// time is never, because it has no events.
	later    map[*device]time.Time
	failures int // waits that failed in a row
}

// step brings the registrations up to date, and waits for one event or a moment.
func (w *watcher) step(ctx context.Context) error {
	if g := w.source.generation.Load(); g != w.generation {
		// The old set ended with its generation.
		w.generation, w.set, w.failures = g, nil, 0
		w.registered, w.later = make(map[*device]handle), make(map[*device]time.Time)
	}
	for _, d := range w.source.known.now() {
		w.register(d)
	}
	if err := w.readLog(); err != nil {
		return err
	}
	switch {
	case len(w.registered) == 0:
		pause(ctx, eventWait)
	case w.failures > 0:
		pause(ctx, min(eventWait<<min(w.failures, 10), maxBackoff))
		fallthrough
	default:
		w.wait(ctx)
	}
	return nil
}

// pause sleeps until d has passed or ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// call makes a call that concerns events, of one GPU or ("") of all.
func (w *watcher) call(uuid, name string, f func() nvml.Return, also ...nvml.Return) error {
	return w.source.call(uuid, w.generation, name, f, also...)
}

// register adds a GPU to the set, unless it is there or has no events.
func (w *watcher) register(d *device) {
	if _, ok := w.registered[d]; ok {
		return
	}
	if at, ok := w.later[d]; ok && (at.IsZero() || time.Now().Before(at)) {
		return
	}
	w.later[d] = time.Now().Add(registerRetry)
	h, err := d.handle()
	if err != nil || h.generation != w.generation {
		return
	}
	var types uint64
	err = w.call(d.info.UUID, "nvmlDeviceGetSupportedEventTypes", func() (ret nvml.Return) {
		types, ret = h.GetSupportedEventTypes()
		return ret
	})
	if errors.Is(err, errAbsent) || (err == nil && types&nvml.EventTypeXidCriticalError == 0) {
		w.later[d] = time.Time{}
		return
	}
	if err != nil || !w.create() {
		return
	}
	err = w.call(d.info.UUID, "nvmlDeviceRegisterEvents", func() nvml.Return {
		return h.RegisterEvents(nvml.EventTypeXidCriticalError, w.set)
	})
	switch {
	case err == nil:
		w.registered[d] = h
		delete(w.later, d)
	case errors.Is(err, errAbsent):
		w.later[d] = time.Time{}
	default:
		// By nvml.h the set may be in an undefined state now.
		w.free()
	}
}

// create makes the set if there is none.
func (w *watcher) create() bool {
	if w.set != nil {
		return true
	}
	err := w.call("", "nvmlEventSetCreate", func() (ret nvml.Return) {
		w.set, ret = w.source.library.EventSetCreate()
		return ret
	})
	if err != nil {
		w.set = nil
	}
	return err == nil
}

// free releases the set with all registrations.
func (w *watcher) free() {
	if w.set == nil {
		return
	}
	// In another generation the set is gone, and the call is not made.
	_ = w.call("", "nvmlEventSetFree", func() nvml.Return { return w.set.Free() })
	w.set = nil
	clear(w.registered)
}

// wait waits for one event. When a GPU is lost, waiting fails at once for all of
// the set, so that the set is made anew, without that GPU.
func (w *watcher) wait(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	var data nvml.EventData
	err := w.call("", "nvmlEventSetWait_v2", func() (ret nvml.Return) {
		data, ret = w.set.Wait(uint32(eventWait.Milliseconds()))
		return ret
	}, nvml.ERROR_TIMEOUT)
	failure, isCall := errors.AsType[*callError](err)
	switch {
	case err == nil:
		w.failures = 0
		w.deliver(data)
	case errors.Is(err, errAbsent):
		w.failures = 0
	case isCall && failure.outcome != down:
		w.failures++
		w.free()
	default: // the driver or the generation has gone
		pause(ctx, eventWait)
	}
}

// deliver reports an event.
func (w *watcher) deliver(data nvml.EventData) {
	if data.EventType != nvml.EventTypeXidCriticalError {
		return
	}
	e := gpu.Event{Time: time.Now(), XID: data.EventData}
	for d, h := range w.registered {
		if h.Device == data.Device {
			e.UUID, e.PCIBusID = d.info.UUID, d.info.PCIBusID
		}
	}
	if e.UUID == "" {
		_ = w.call("", "nvmlDeviceGetUUID", func() (ret nvml.Return) {
			e.UUID, ret = data.Device.GetUUID()
			return ret
		})
	}
	w.report(e)
}

// eventless reports whether the driver has no events for a GPU.
func (w *watcher) eventless(d *device) bool {
	at, ok := w.later[d]
	return ok && at.IsZero()
}

// readLog reports what the kernel log has about GPUs without events. It is not
// read while there are none.
func (w *watcher) readLog() error {
	eventless, events := 0, 0
	for _, d := range w.source.known.now() {
		if w.eventless(d) {
			eventless++
		} else {
			events++
		}
	}
	if eventless == 0 {
		return nil
	}
	lines, err := w.log.read()
	if err != nil && events == 0 {
		return fmt.Errorf("XID errors cannot be had: no GPU has events, and the kernel log: %w", err)
	}
	for _, line := range lines {
		if address, xid, ok := parseXID(line); ok {
			w.deliverLogged(address, xid)
		}
	}
	return nil
}

// deliverLogged reports an XID of the kernel log, unless it comes as an event, too.
func (w *watcher) deliverLogged(address string, xid uint64) {
	e := gpu.Event{Time: time.Now(), PCIBusID: address, XID: xid}
	for _, d := range w.source.known.now() {
		if d.info.PCIBusID != address {
			continue
		}
		if !w.eventless(d) {
			return
		}
		e.UUID = d.info.UUID
	}
	w.report(e)
}

func (w *watcher) close() {
	w.free()
	w.log.close()
}
