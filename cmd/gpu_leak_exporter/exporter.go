// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/sync/errgroup"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpu_leak_exporter/internal/limits"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/source"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

const (
	// stopGrace is how long all parts get to stop, which they do at the same time:
	// systemd and Kubernetes may wait no longer than five seconds for the end.
	stopGrace = 4 * time.Second
	// requestGrace is how long requests get that are under way.
	requestGrace = 2 * time.Second
)

// exporter is the program once its parts are wired.
type exporter struct {
	cfg       *config
	logger    log.Logger
	slogger   *slog.Logger
	source    gpu.Source
	sampler   *sampler.Sampler
	reloader  *reloader
	listeners []net.Listener // none where exporter-toolkit has to open them
	// servers are one for each listener, at least one: exporter-toolkit changes the handler of a server that it is given.
	servers []*http.Server
}

// newExporter listens and wires the parts. It reads no GPU yet. It owns src from
// then on, unless it returns an error.
func newExporter(cfg *config, src gpu.Source, stderr io.Writer) (*exporter, error) {
	e := &exporter{cfg: cfg, source: src}
	e.logger, e.slogger = newLoggers(&cfg.log, stderr)
	var err error
	if e.listeners, err = listen(cfg.listen); err != nil {
		return nil, err
	}
	if err := e.wire(); err != nil {
		closeAll(e.listeners)
		return nil, err
	}
	return e, nil
}

// wire makes the parts between the source and the listeners.
func (e *exporter) wire() (err error) {
	if e.sampler, err = newSampler(e.cfg, e.source, e.logger); err != nil {
		return err
	}
	e.reloader = newReloader(e.cfg, e.sampler.Configure, e.logger)
	bounds := limits.New(limits.Config{MaxRequests: e.cfg.maxRequests, Fleet: e.cfg.ofFleet(), Logger: e.slogger})
	var more []prometheus.Collector
	if c, ok := e.source.(prometheus.Collector); ok { // it has metrics about itself
		more = append(more, c)
	}
	budget, err := limitMemory(memlimit.FromCgroup)
	if err != nil {
		level.Warn(e.logger).Log("msg", "Memory has no limit: set GOMEMLIMIT", "err", err)
	}
	if budget > 0 && e.cfg.exporterMetrics {
		more = append(more, budgetMetric(budget))
	}
	handler, err := newHandler(e.cfg, e.reloader.with(e.sampler.State), e.reloader, bounds, e.slogger, more...)
	if err != nil {
		return err
	}
	for range max(1, len(e.listeners)) {
		e.servers = append(e.servers, bounds.Server(handler))
	}
	return nil
}

// newSampler returns a sampler of the source. What the host shows of GPUs and
// processes is asked for only where they are the host's.
func newSampler(cfg *config, src gpu.Source, logger log.Logger) (*sampler.Sampler, error) {
	c := sampler.Config{
		SlowInterval:  cfg.source.SlowInterval,
		Timeout:       cfg.source.Timeout,
		ProcessMax:    cfg.processMax,
		ProcessMinAge: cfg.processMinAge,
		Groups:        cfg.groups(),
		Detector:      cfg.detector,
		Resolve:       cfg.rules.For,
		ProcFS:        cfg.source.ProcFS,
		StateFile:     cfg.stateFile,
		StateInterval: cfg.stateInterval,
		Incidents:     incident.NewStore(cfg.incidentDir, incident.Most, logger),
		Places:        cfg.source.Fleet.Labels,
		Logger:        logger,
	}
	if cfg.source.Kind == source.NVML {
		c.SysFS = cfg.source.SysFS
		owners, err := source.Owners(cfg.source, cfg.workload)
		if err != nil {
			return nil, err
		}
		for _, what := range owners.Lacking() {
			level.Info(logger).Log("msg", what)
		}
		c.Owners = owners
		if cfg.families["allocator"] {
			reader, err := source.Allocators(cfg.source, cfg.sites)
			if err != nil {
				level.Warn(logger).Log("msg", "What allocators in processes hold is not read", "err", err)
			} else {
				c.Allocators = reader
			}
		}
	}
	return sampler.New(src, c)
}

// listen opens the addresses here and not in web.ListenAndServe, so that a port
// in use is known before anything is started. Sockets of systemd and vsock, which
// only exporter-toolkit knows, are left to it: no listener then.
func listen(flags *web.FlagConfig) (listeners []net.Listener, err error) {
	if *flags.WebSystemdSocket {
		return nil, nil
	}
	for _, address := range *flags.WebListenAddresses {
		if strings.HasPrefix(address, "vsock://") {
			return nil, nil
		}
	}
	for _, address := range *flags.WebListenAddresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			closeAll(listeners)
			if errors.Is(err, syscall.EADDRINUSE) {
				err = fmt.Errorf("%w; another program has this port: choose another with --web.listen-address", err)
			}
			return nil, fmt.Errorf("--web.listen-address=%s: %w", address, err)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// closeAll closes listeners to which nobody has connected.
func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		_ = l.Close()
	}
}

// run reads GPUs and serves until ctx is done, and returns the exit code.
func (e *exporter) run(ctx context.Context) int {
	e.announce()
	sampling, stopSampling := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSampling()
	sampled := make(chan struct{})
	go func() {
		defer close(sampled)
		e.sampler.Run(sampling)
	}()
	// Without a file to read again SIGHUP is taken, too: what sends it does not
	// want a daemon to die.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	go e.reloader.follow(sampling, hangup)
	served := make(chan error, 1)
	go func() {
		defer close(served)
		served <- e.serve()
	}()

	code := e.wait(ctx, served)
	grace, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	stopSampling()
	e.stopServing(grace)
	for range served { // until it has returned
	}
	e.stopReading(grace, sampled)
	return code
}

// announce logs what an operator should know of this run.
func (e *exporter) announce() {
	c := e.cfg
	var windows []string
	for _, w := range c.detector.Windows {
		windows = append(windows, cli.FormatDuration(w))
	}
	level.Info(e.logger).Log("msg", "Starting "+program, "version", version.Info(), "source", c.source.Spec(),
		"interval", cli.FormatDuration(c.source.Interval), "windows", strings.Join(windows, ","))
	if note, _ := notReal(c.source); note != "" {
		level.Warn(e.logger).Log("msg", note)
	}
}

// notReal says that GPUs are not those of this host, and how fast their clock is: in a sentence, and in the words of a
// label. Both are "" if they are.
func notReal(s source.Config) (note, label string) {
	switch s.Kind {
	case source.Sim:
		note, label = "These GPUs are simulated: scenario "+s.Name, "simulated"
	case source.Replay:
		note, label = "These GPUs are replayed from the recording "+s.Name, "replayed"
	default:
		return "", ""
	}
	speed := ""
	switch {
	case math.IsInf(s.Speed, 1):
		speed = ", as fast as it goes"
	case s.Speed != 1:
		speed = fmt.Sprintf(", %g times as fast as real time", s.Speed)
	}
	return note + speed + ".", label + speed
}

func (e *exporter) serve() error {
	if e.listeners == nil {
		return web.ListenAndServe(e.servers[0], e.cfg.listen, e.slogger)
	}
	var all errgroup.Group
	for i, l := range e.listeners {
		all.Go(func() error { return web.Serve(l, e.servers[i], e.cfg.listen, e.slogger) })
	}
	return all.Wait()
}

// wait returns the exit code once there is a reason to stop.
func (e *exporter) wait(ctx context.Context, served <-chan error) int {
	select {
	case <-ctx.Done():
		level.Info(e.logger).Log("msg", "Stopping")
		return exitOK
	case err := <-served:
		level.Error(e.logger).Log("msg", "Cannot serve", "err", oneLine(err))
		return exitFailure
	case err := <-e.sampler.Fatal():
		level.Error(e.logger).Log("msg", "The driver was replaced by another version, which only a new process can use: stopping, to be started again", "status", exitOldDriver, "err", err)
		return exitOldDriver
	}
}

func (e *exporter) stopServing(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestGrace)
	defer cancel()
	var all errgroup.Group
	for _, s := range e.servers {
		all.Go(func() error {
			err := s.Shutdown(ctx)
			if err != nil {
				_ = s.Close() // it is the last resort
			}
			return err
		})
	}
	if err := all.Wait(); err != nil {
		level.Warn(e.logger).Log("msg", "Requests were cut off", "err", err)
	}
}

// stopReading waits for the loops that read GPUs, then closes the source. A call
// into the driver that does not return keeps neither from ending in time, and the
// library is left to end with the process then.
func (e *exporter) stopReading(ctx context.Context, sampled <-chan struct{}) {
	closed := make(chan error, 1)
	go func() {
		<-sampled
		closed <- e.source.Close()
	}()
	select {
	case err := <-closed:
		if err != nil {
			level.Warn(e.logger).Log("msg", "The driver was not released", "err", err)
		}
	case <-ctx.Done():
		level.Warn(e.logger).Log("msg", "The driver was not released: a call into it has not returned")
	}
}
