// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package incidents

import (
	"context"
	"fmt"
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
