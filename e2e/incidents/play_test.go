// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package incidents

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuleak/gpu_leak_exporter/collector"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// play is what happens on a node.
type play struct {
	gpus   [][]*program
	lost   time.Duration // GPU 0 falls off the bus
	driver func(at time.Duration) error
	// answers says whether the exporter runs and can be scraped at a time; nil: always.
	answers func(at time.Duration) bool
	// target is since when Prometheus knows the node.
	target time.Duration
	lasts  time.Duration
}

// exporter is one run of gpu_leak_exporter with its defaults and a state file.
type exporter struct {
	registry *prometheus.Registry
	stop     func()
}

func startExporter(t *testing.T, d *driver, state string) *exporter {
	t.Helper()
	s, err := sampler.New(d, sampler.Config{
		SlowInterval: 15 * time.Second, Timeout: 10 * time.Second, ProcessMax: 64, ProcessMinAge: 10 * time.Second,
		Groups: gpu.Groups, Detector: detector.DefaultConfig(), StateFile: state, StateInterval: 30 * time.Second,
		Logger: log.NewNopLogger(),
	})
	harness.Must(t, err)
	c, err := collector.New(s.State, collector.Options{})
	harness.Must(t, err)
	began := prometheus.NewGauge(prometheus.GaugeOpts{Name: "process_start_time_seconds", Help: "As client_golang has it, by the bubble's clock."})
	began.Set(float64(time.Now().UnixMilli()) / 1000)
	e := &exporter{registry: prometheus.NewPedanticRegistry()}
	e.registry.MustRegister(c, began)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	e.stop = func() {
		cancel()
		<-done
	}
	return e
}

// run plays it and returns what the on-call was told.
func (p *play) run(t *testing.T) []message {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state")
	return notified(t, func(t *testing.T, am *alertmanager) {
		prom := startPrometheus(t, am)
		p.follow(t, prom, state)
		prom.stop()
	})
}

// follow lets the time of the play pass, with a scrape at each interval.
func (p *play) follow(t *testing.T, prom *server, state string) {
	t.Helper()
	d := &driver{began: time.Now(), fails: p.driver}
	for i, programs := range p.gpus {
		c := &card{began: d.began, programs: programs, info: gpu.Info{
			Index: i, UUID: fmt.Sprintf("GPU-%d", i), Name: "NVIDIA H100 80GB HBM3", PCIBusID: fmt.Sprintf("00000000:%02X:00.0", 0x19+i),
		}}
		if i == 0 {
			c.lost = p.lost
		}
		d.cards = append(d.cards, c)
	}
	var running *exporter
	// A moment after the exporter's sample of that second, lest they race.
	time.Sleep(100 * time.Millisecond)
	for at := time.Duration(0); at < p.lasts; at += prom.every {
		switch answers := p.answers == nil || p.answers(at); {
		case answers && running == nil:
			running = startExporter(t, d, state)
			synctest.Wait()
		case !answers && running != nil:
			running.stop()
			running = nil
		}
		// What the exporter does at this very moment comes before the scrape.
		synctest.Wait()
		prom.neighbour()
		if at >= p.target {
			if running == nil {
				prom.scrape(nil)
			} else {
				prom.scrape(running.registry)
			}
		}
		time.Sleep(prom.every)
	}
	if running != nil {
		running.stop()
	}
}

const (
	mib = 1 << 20
	gib = 1 << 30
	// cardBytes is what each GPU has, driverBytes what the driver itself takes of it.
	cardBytes   = 80 * gib
	driverBytes = gib
	// tick is the unit of gpu.ProcessID.Start.
	tick = time.Second / gpu.ProcessorTicks
)

// program is one process on a GPU. Times count from the start of the play.
type program struct {
	pid      uint32
	owner    gpu.Owner
	start    time.Duration // may lie before the play
	end      time.Duration // 0: never
	used     func(age time.Duration) float64
	loads    time.Duration // it computes nothing for so long
	idle     bool          // it never computes
	orphaned bool          // its launcher has died
}

func (p *program) alive(at time.Duration) bool { return at >= p.start && (p.end == 0 || at < p.end) }

// bytes are what it holds; an allocator asks for 2 MiB at least.
func (p *program) bytes(at time.Duration) uint64 {
	const page = 2 * mib
	return uint64(p.used(at-p.start)) / page * page
}

func (p *program) process(began time.Time, at time.Duration) gpu.Process {
	started := (time.Duration(began.UnixNano()) + p.start).Truncate(tick)
	busy, age := 0.8, at-p.start
	if p.idle || age < p.loads {
		busy = 0
	}
	owner := p.owner
	return gpu.Process{
		ID: gpu.ProcessID{PID: p.pid, Start: uint64(started / tick)}, Type: gpu.Compute, Started: gpu.Some(started),
		Used: gpu.Some(p.bytes(at)), SM: gpu.Some(busy), CPU: gpu.Some(time.Duration(busy * float64(age)).Truncate(tick)),
		State: "S", Orphaned: p.orphaned, Owner: &owner,
	}
}

// card is one GPU; it implements gpu.Device.
type card struct {
	info     gpu.Info
	began    time.Time
	programs []*program
	lost     time.Duration // it has fallen off the bus since; 0: never
}

func (c *card) Info() gpu.Info { return c.info }

// Wait waits for the next whole second.
func (*card) Wait(ctx context.Context) (int, error) {
	now := time.Now()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(now.Truncate(time.Second).Add(time.Second).Sub(now)):
		return 0, nil
	}
}

func (c *card) Read(context.Context) (gpu.Sample, error) {
	now := time.Now()
	at := now.Sub(c.began)
	if c.lost > 0 && at >= c.lost {
		return gpu.Sample{}, fmt.Errorf("scripted: %w", gpu.ErrLost)
	}
	s := gpu.Sample{Time: now, T: time.Duration(now.UnixNano()), ProcessesKnown: true, ProcessesComplete: true}
	used := uint64(driverBytes)
	for _, p := range c.programs {
		if p.alive(at) {
			s.Processes = append(s.Processes, p.process(c.began, at))
			used += p.bytes(at)
		}
	}
	used = min(used, cardBytes)
	s.Memory = gpu.Memory{Total: gpu.Some(uint64(cardBytes)), Used: gpu.Some(used), Free: gpu.Some(cardBytes - used)}
	return s, nil
}

func (c *card) ReadGroup(context.Context, gpu.Group, *gpu.Status) error {
	if c.lost > 0 && time.Since(c.began) >= c.lost {
		return fmt.Errorf("scripted: %w", gpu.ErrLost)
	}
	return nil
}

// driver is what a driver shows of a node; it implements gpu.Source.
type driver struct {
	began time.Time
	cards []*card
	// fails says why the driver shows no GPU at a time; nil shows them.
	fails func(at time.Duration) error
	calls gpu.Calls
}

func (d *driver) Devices(context.Context) ([]gpu.Device, error) {
	if d.fails != nil {
		if err := d.fails(time.Since(d.began)); err != nil {
			return nil, err
		}
	}
	devices := make([]gpu.Device, 0, len(d.cards))
	for _, c := range d.cards {
		devices = append(devices, c)
	}
	return devices, nil
}

// Watch reports XID 79 of each GPU that falls off the bus.
func (d *driver) Watch(ctx context.Context, report func(gpu.Event)) error {
	for _, c := range d.cards {
		report(gpu.Event{Kind: gpu.Watched, UUID: c.info.UUID})
	}
	for _, c := range d.cards {
		if until := c.lost - time.Since(d.began); until > 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(until):
				report(gpu.Event{Time: time.Now(), UUID: c.info.UUID, XID: 79})
			}
		}
	}
	<-ctx.Done()
	return nil
}

func (d *driver) Calls() *gpu.Calls { return &d.calls }
func (*driver) Close() error        { return nil }

// notLoaded is the error of a driver that is not there.
func notLoaded() error {
	return &gpu.DriverError{Reason: "driver_not_loaded", Err: errors.New("scripted")}
}

// mismatch is that of one which was upgraded while the old one is still loaded.
func mismatch() error {
	return &gpu.DriverError{Reason: gpu.ReasonMismatch, Err: errors.New("scripted")}
}

// inPod is a program in a pod; the programs of its image are known again by it.
func inPod(pod string, pid uint32, p program) *program {
	runs := gpu.Program{Name: "train.py", Image: "registry.example/ml/main@sha256:" + pod}
	p.pid, p.owner = pid, gpu.Owner{
		Process: "train.py", User: "app", Namespace: "ml", Pod: pod, Container: "main",
		Runs: runs.Hash(nil),
	}
	return &p
}

// The shapes of memory by age.

func flat(bytes float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return bytes }
}

// leaking holds base, and from an age on grows by perMinute; to 0 it never stops.
func leaking(base float64, from time.Duration, perMinute float64, to time.Duration) func(time.Duration) float64 {
	return func(age time.Duration) float64 {
		if to > 0 {
			age = min(age, to)
		}
		return base + max(0, (age-from).Minutes())*perMinute
	}
}

// lasts is how long a leak takes to eat room.
func lasts(room, perMinute float64) time.Duration {
	return time.Duration(room / perMinute * float64(time.Minute)).Truncate(time.Second)
}

// load grows to bytes in a straight line and stays.
func load(bytes float64, over time.Duration) func(time.Duration) float64 {
	return func(age time.Duration) float64 { return bytes * min(float64(age)/float64(over), 1) }
}

// training warms up for some minutes, evaluates for 3 minutes in each half hour and checkpoints for 20 s in each 20 minutes.
func training(age time.Duration) float64 {
	held := 12*gib + 40*gib*-math.Expm1(-float64(age)/float64(3*time.Minute))
	if age > 20*time.Minute && age%(30*time.Minute) < 3*time.Minute {
		held += 9 * gib
	}
	if age%(20*time.Minute) < 20*time.Second {
		held += 4 * gib
	}
	return held
}

// saw grows by 40 GiB in 10 minutes and gives it back.
func saw(age time.Duration) float64 {
	const period = 10 * time.Minute
	return 20*gib + 40*gib*float64(age%period)/float64(period)
}

// filling is a cache that fills, slower and slower.
func filling(age time.Duration) float64 {
	return 16*gib + 48*gib*-math.Expm1(-float64(age)/float64(9*time.Minute))
}
