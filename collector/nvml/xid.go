// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

const (
	// eventWait is the longest stay inside the library, and so the longest that a new Init has to wait. Higher values cost
	// less: for the first 10 ms of each wait Go's runtime watches whether the call returns.
	eventWait = 2 * time.Second
	// watchInterval is how often Watch looks for new GPUs and into the kernel log, and how often at most it asks a driver that
	// does not wait.
	watchInterval = time.Second
	// retryPause is the pause before a failing GPU is asked again, unless it is found again before.
	retryPause = 15 * time.Second
)

// Watch implements gpu.Source: it reports XID errors from the driver's events, and from the kernel log for GPUs without
// events. A GPU that Devices has found, now or later, is watched while it is registered for events, or while the kernel log
// can be read for it. The error is that of the kernel log, where all GPUs depend on it.
//
// Each GPU has an event set and a goroutine of its own: a lost GPU makes every wait for its set fail, and one that hangs keeps
// its thread. They wait in the driver and do not poll, because the driver keeps only the last of the errors between two calls.
//
// Once ctx is done Watch returns, and reports nothing any more. A goroutine that waits in the driver ends up to eventWait
// later.
func (s *Source) Watch(ctx context.Context, report func(gpu.Event)) error {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{
		source:    s,
		report:    report,
		log:       kernelLog{path: s.cfg.KernelLog, fd: -1},
		listeners: make(map[string]*listener),
	}
	defer w.log.close()
	defer w.stop()
	defer cancel()
	select {
	case <-s.known.relisted: // the first look sees it
	default:
	}
	for ctx.Err() == nil {
		w.listen(ctx)
		if err := w.readLog(); err != nil {
			return err
		}
		// An error in the moment after a GPU was found, or has come back, is not to be missed.
		select {
		case <-s.known.relisted:
			for _, l := range w.listeners {
				notify(l.woken)
			}
		case <-time.After(watchInterval):
		case <-ctx.Done():
		}
	}
	return nil
}

// watcher is the state of one Watch.
type watcher struct {
	source    *Source
	mu        sync.Mutex      // held while an event is reported: one at a time
	report    func(gpu.Event) // nil after stop
	log       kernelLog
	listeners map[string]*listener // by UUID: a GPU may become another device
}

// event reports an event, unless the watcher was stopped.
func (w *watcher) event(e gpu.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.report != nil {
		w.report(e)
	}
}

func (w *watcher) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report = nil
}

// notify puts an element into a channel that has room for one, unless it is there.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// listen starts to listen to the GPUs that came.
func (w *watcher) listen(ctx context.Context) {
	for _, d := range w.source.known.now() {
		if w.listeners[d.info.UUID] != nil {
			continue
		}
		l := &listener{device: d, watcher: w, woken: make(chan struct{}, 1)}
		w.listeners[d.info.UUID] = l
		go l.run(ctx)
	}
}

// readLog reports the XID errors of GPUs without events from the kernel log. It is not read while all have events.
func (w *watcher) readLog() error {
	var eventless []*listener
	for _, l := range w.listeners {
		if l.eventless.Load() {
			eventless = append(eventless, l)
		}
	}
	if len(eventless) == 0 {
		return nil
	}
	lines, err := w.log.read()
	for _, l := range eventless {
		l.watch(err == nil)
	}
	if err != nil && len(eventless) == len(w.listeners) {
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
	for uuid, l := range w.listeners {
		if l.device.info.PCIBusID != address {
			continue
		}
		if !l.eventless.Load() {
			return
		}
		e.UUID = uuid
	}
	w.event(e)
}

// listener waits for the events of one GPU.
type listener struct {
	device    *device
	watcher   *watcher
	eventless atomic.Bool   // the driver has none for this GPU
	woken     chan struct{} // has an element to end a pause
	// watched was reported last. It belongs to run, and to the watcher once the GPU has turned out to be eventless.
	watched bool
}

// watch reports whether the GPU is watched, if that has changed.
func (l *listener) watch(watched bool) {
	if watched == l.watched {
		return
	}
	l.watched = watched
	kind := gpu.Unwatched
	if watched {
		kind = gpu.Watched
	}
	l.watcher.event(gpu.Event{Kind: kind, UUID: l.device.info.UUID, PCIBusID: l.device.info.PCIBusID})
}

// run listens until ctx is done or the GPU turns out to have no events.
func (l *listener) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := l.listen(ctx)
		if errors.Is(err, errAbsent) {
			l.eventless.Store(true)
			notify(l.watcher.source.known.relisted) // the kernel log is read for it from now on
			return
		}
		pause := retryPause
		if errors.Is(err, errStale) {
			pause = watchInterval
		}
		select {
		case <-l.woken:
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// listen registers for events and reports them until a call fails or ctx is done. Its error is errAbsent if there are no
// events.
func (l *listener) listen(ctx context.Context) error {
	h, err := l.device.handle()
	if err != nil {
		return err
	}
	call := l.device.source.caller(l.device.info.UUID, h.generation)
	types, err := ask(call, "nvmlDeviceGetSupportedEventTypes", h.GetSupportedEventTypes)
	if err == nil && types&nvml.EventTypeXidCriticalError == 0 {
		err = errAbsent
	}
	if err != nil {
		return err
	}
	set, err := ask(call, "nvmlEventSetCreate", func() (nvml.EventSet, nvml.Return) { return l.device.source.library.EventSetCreate() })
	if err != nil {
		return err
	}
	// A set of an earlier generation has ended with it, and the call is not made.
	defer func() { _ = call("nvmlEventSetFree", func() nvml.Return { return set.Free() }) }()
	err = call("nvmlDeviceRegisterEvents", func() nvml.Return { return h.RegisterEvents(nvml.EventTypeXidCriticalError, set) })
	if err != nil {
		return err
	}
	return l.waitAll(ctx, set, call)
}

// waitAll waits for events of the set until that fails or ctx is done. Meanwhile the GPU is watched. A driver that answers at
// once without an event is asked once a watchInterval.
func (l *listener) waitAll(ctx context.Context, set nvml.EventSet, call caller) (err error) {
	l.watch(true)
	for err == nil && ctx.Err() == nil {
		began, happened := time.Now(), false
		if happened, err = l.wait(set, call); err == nil && !happened {
			select {
			case <-time.After(watchInterval - time.Since(began)):
			case <-ctx.Done():
			}
		}
	}
	// A lost GPU has reported its last error; that there was no other is still so.
	if !errors.Is(err, gpu.ErrLost) {
		l.watch(false)
	}
	return err
}

// wait waits for one event of the set and reports it. happened tells whether there was one.
func (l *listener) wait(set nvml.EventSet, call caller) (happened bool, err error) {
	var data nvml.EventData
	err = call(eventCall, func() (ret nvml.Return) {
		data, ret = set.Wait(uint32(eventWait.Milliseconds()))
		if happened = ret == nvml.SUCCESS && data.EventType == nvml.EventTypeXidCriticalError; ret == nvml.ERROR_TIMEOUT {
			return nvml.SUCCESS
		}
		return ret
	})
	if errors.Is(err, errAbsent) {
		err = errors.New(eventCall + " is not offered any more") // it may be again
	}
	if happened {
		l.watcher.event(gpu.Event{Time: time.Now(), UUID: l.device.info.UUID, PCIBusID: l.device.info.PCIBusID, XID: data.EventData})
	}
	return happened, err
}
