// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet/alloc"
)

// Limited returns families whose programs run in a container with a limit on its GPU memory. They end there, while the GPU has much
// room left. The leaks are all those that a container can have, and some of their own. No other process of the GPU has a limit.
func Limited() (families []Family) {
	add := func(class Class, f Family) {
		build, several := f.build, slices.Contains(severalProcesses, f.Name)
		f.build = func(w *world) {
			w.contain(several)
			build(w)
		}
		f.Name, f.Class = "limit_"+class.String()+"_"+f.Name, class
		f.Draw = f.draw
		families = append(families, f)
	}
	for _, f := range slices.Concat(trainingLeaks, servingLeaks, limitLeaks) {
		if !slices.Contains(notInAContainer, f.Name) {
			add(Leak, f)
		}
	}
	for _, f := range limitHealthy {
		add(Healthy, f)
	}
	return families
}

var (
	// notInAContainer are leaks of the driver, of a GPU in MIG mode, and of one pod after the other.
	notInAContainer = []string{"unowned_memory", "mig_service", "after_deploy"}
	// severalProcesses are the families that have several processes at a time. A limit of MPS is one of each process.
	severalProcesses = []string{"ddp_one_rank", "ipc_queue", "child_contexts", "orphaned_workers", "leaking_workers", "workers"}
)

// limit is one of a container, with what was charged when it was read last.
type limit struct {
	gpu.Limit
	read time.Duration
}

// limitsEvery is how often limits are read, which is with all that does not change fast.
const limitsEvery = 15 * time.Second

// readLimits reads the limits after a sample. The next one has them.
func (w *world) readLimits() {
	d := w.domains[0]
	if d.limit == nil || w.now-d.limit.read < limitsEvery {
		return
	}
	d.limit.read = w.now
	if d.limit.Source == gpu.LimitDmem {
		d.limit.Charged = gpu.Some(d.dev.Used())
	}
}

// limits returns those of a process, none until it was there when they were read.
func (p *proc) limits() []gpu.Limit {
	l := p.j.dom.limit
	if l == nil || p.started > l.read {
		return nil
	}
	return []gpu.Limit{l.Limit}
}

// contain lets the programs run in a container that may have 10 to 60 % of the GPU, and 5 GiB or more.
func (w *world) contain(several bool) {
	w.style, w.listing = kubernetes, all
	device := w.domains[0].dev
	whole := float64(device.Capacity())
	bytes := uint64(w.logu(max(0.1, 5*alloc.GiB/whole), 0.6)*whole) / (256 * alloc.MiB) * 256 * alloc.MiB
	l := gpu.Limit{Source: pick(w, gpu.LimitDmem, gpu.LimitHAMi, gpu.LimitMPS), Bytes: bytes}
	if several && l.Source == gpu.LimitMPS {
		l.Source = gpu.LimitHAMi
	}
	if l.Source != gpu.LimitMPS {
		l.Of = "ml/limited/main"
	}
	rest := &domain{dev: alloc.NewDevice(device.Capacity() - bytes)}
	rest.dev.Take(device.Used()) // what the driver has
	w.domains = []*domain{{dev: alloc.NewDevice(bytes), limit: &limit{Limit: l, read: -maxLength}}, rest}
}

// besides adds healthy programs of others on the rest of the GPU. They leave a fifth of that, and mostly more.
func (w *world) besides() {
	w.domains[0], w.domains[1] = w.domains[1], w.domains[0]
	defer func() { w.domains[0], w.domains[1] = w.domains[1], w.domains[0] }()
	kind := w.n(0, 4)
	if kind == 1 || kind == 3 {
		w.start(w.serviceJob(w.serving().shrink(2).run, alloc.Options{}), w.soon())
	}
	if kind == 2 || kind == 3 {
		w.start(w.training().shrink(2).job(w), w.soon())
	}
	if kind == 4 {
		w.start(&job{main: idle, owner: w.owner("python3"), context: w.contextSize()}, w.soon())
	}
}

// limitLeaks are leaks as containers have them.
var limitLeaks = []Family{
	{Name: "leak_besides_a_preallocation", About: "A server takes 70 to 92 % of its limit for its KV cache at its start, and leaks in what is left.", build: func(w *world) {
		l, c := w.leak(0.2, 100), w.serving()
		l.lib = w.chance(0.5)
		c.preallocates(w, w.u(0.70, 0.92))
		c.eachRequest(l)
		w.serve(c.run, c.options)
	}},
	{Name: "leaking_workers", About: "Each of several workers keeps something of each request.", build: func(w *world) {
		l, n := w.leak(0.5, 500), w.n(2, 5)
		c := w.serving().shrink(uint64(n))
		c.onRequests = func(p *proc, k int) { l.owe(p, l.rate/float64(n)/c.traffic.mean*float64(k)) }
		owner := w.owner("gunicorn")
		w.neighbours()
		for range n {
			w.start(&job{main: c.run, owner: owner, options: c.options, restart: kubelet}, w.soon())
		}
	}},
	{Name: "leak_under_teeth", About: "A training of variable length empties its cache after each evaluation, and keeps outputs of its steps.", build: trainLeak(0.5, 300, func(w *world, c *training, l *leak) {
		c.variable(w).evalEvery = w.span(5*time.Minute, time.Hour)
		c.onEval = func(p *proc) { p.cache.EmptyCache() }
		c.eachStep(l)
	})},
	{Name: "old_versions_stay", About: "A server keeps the old version of a model at each reload, whole: steps of 2 to 8 % of its limit.", build: func(w *world) {
		l, c := w.leak(0.5, 200), w.serving()
		model := w.share(0.02, 0.08)
		c.options = alloc.Options{Kind: alloc.Plain}
		c.atRandom(l, time.Duration(float64(model)/l.rate*float64(time.Second)), func(p *proc, _ float64) { l.owe(p, float64(model)) })
		l.object = model / 8
		w.serve(c.run, c.options)
	}},
}
