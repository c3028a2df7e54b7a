// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"math"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet/alloc"
)

// serving is a service that answers requests in batches.
type serving struct {
	weights uint64
	request uint64  // bytes of the activations of the longest request
	most    int     // requests in a batch
	took    float64 // seconds that a batch takes
	lengths lengths
	traffic *traffic
	load    time.Duration
	errors  float64 // share (0 to 1) of requests that fail
	options alloc.Options

	started    func(j *job) // once, when the service is set up
	onBegin    func(p *proc)
	onRequests func(p *proc, n int) // while a batch of them is at work
	onErrors   func(p *proc, n int)
}

// serving draws a usual one that takes up to 20 to 65 % of the memory.
func (w *world) serving() *serving {
	peak := w.life.larger(w.share(0.2, 0.65), w)
	weights := uint64(float64(peak) * w.u(0.4, 0.85))
	most := w.n(1, 32)
	return &serving{
		weights: weights, request: scaled(peak-weights, w.life.Batch) / uint64(most), most: most, took: w.logu(0.01, 2),
		lengths: lognormal(w.u(0.1, 0.5), w.u(0.3, 0.8)), traffic: w.traffic(0.05, 50),
		load: w.span(5*time.Second, 3*time.Minute), errors: w.logu(0.0005, 0.02), options: w.backend(),
		started: func(*job) {}, onBegin: func(*proc) {}, onRequests: func(*proc, int) {}, onErrors: func(*proc, int) {},
	}
}

// backend draws the allocator of a service.
func (w *world) backend() alloc.Options {
	switch w.n(0, 5) {
	case 0:
		return alloc.Options{Kind: alloc.Plain}
	case 1:
		return w.bfc(0)
	}
	return w.torch()
}

// shrink makes it smaller, so that others have room beside it.
func (c *serving) shrink(by uint64) *serving {
	c.weights, c.request = c.weights/by, c.request/by
	return c
}

// tick returns for how long a service answers requests in one step.
func (w *world) tick() time.Duration { return max(w.sc.Interval, time.Second) }

// run is the program.
func (c *serving) run(p *proc) step {
	answer := func() time.Duration { return c.step(p) }
	return p.load(c.weights, c.load, func() time.Duration {
		p.j.step = answer
		p.lib(uint64(p.w.n(2, 40)) * 2 * alloc.MiB)
		c.answer(p, c.most) // the warm-up of most servers
		c.onBegin(p)
		return answer()
	})
}

// step answers the requests of a time: its largest batch is simulated, which decides what an allocator reserves.
func (c *serving) step(p *proc) time.Duration {
	w, d := p.w, p.w.tick()
	p.rest()
	rate := c.traffic.rate(w)
	n := poisson(w.r, rate*d.Seconds())
	load := rate * c.took / float64(c.most)
	p.busy(min(1, load), 0.05+min(1, load))
	if n == 0 {
		p.busy(0, 0.02)
		return d
	}
	c.answer(p, min(c.most, 1+poisson(w.r, rate*c.took)))
	c.onRequests(p, n)
	if failed := poisson(w.r, float64(n)*c.errors); failed > 0 {
		c.onErrors(p, failed)
	}
	if !w.chance(load) { // the sample sees no request at work
		p.rest()
	}
	return d
}

// answer holds what a batch of n requests needs, until the next step.
func (c *serving) answer(p *proc, n int) {
	size := uint64(float64(c.request) * float64(n) * c.lengths.longest(p.w.r, n))
	p.works(size)
}

// chat is a service whose sessions each hold a state on the GPU: a KV cache, the audio of a call, the decoder of a camera.
type chat struct {
	weights uint64
	state   uint64 // bytes of a session that has grown up
	traffic *traffic
	lasts   time.Duration // of a session, on average
	most    int           // sessions at a time
	load    time.Duration

	onEnd func(p *proc, s *session) bool // reports true where the state is kept
}

type session struct {
	until  time.Duration
	blocks []*alloc.Block
	parts  int // that it will have
}

// chat draws a usual one: all sessions together have 10 to 40 % of the memory.
func (w *world) chat() *chat {
	most := w.n(20, 300)
	c := &chat{
		weights: w.share(0.15, 0.4), state: w.share(0.1, 0.4) / uint64(most), most: most,
		lasts: w.span(time.Minute, time.Hour), load: w.span(5*time.Second, 3*time.Minute),
	}
	busy := w.u(0.2, 0.7) * float64(most)
	c.traffic = w.traffic(1, 1.0001)
	c.traffic.mean = busy / c.lasts.Seconds()
	return c
}

// run is the program.
func (c *chat) run(p *proc) step {
	var sessions []*session
	return p.load(c.weights, c.load, func() time.Duration {
		sessions = c.step(p, sessions)
		return max(p.w.sc.Interval, 2*time.Second)
	})
}

func (c *chat) step(p *proc, sessions []*session) []*session {
	w := p.w
	d := max(w.sc.Interval, 2*time.Second)
	sessions = slices.DeleteFunc(sessions, func(s *session) bool {
		if s.until > w.now {
			return false
		}
		if c.onEnd == nil || !c.onEnd(p, s) {
			p.drop(s.blocks)
		}
		return true
	})
	for range poisson(w.r, c.traffic.rate(w)*d.Seconds()) {
		if len(sessions) < c.most {
			sessions = append(sessions, &session{until: w.now + w.wait(c.lasts), parts: w.n(1, 8)})
		}
	}
	for _, s := range sessions {
		if len(s.blocks) < s.parts && w.chance(min(1, 10*d.Seconds()/c.lasts.Seconds())) {
			s.blocks = append(s.blocks, p.alloc(c.state/8))
		}
	}
	p.cache.Free(p.alloc(c.weights / 20))
	p.busy(min(1, float64(len(sessions))/float64(c.most)), 0.5)
	return sessions
}

// serve starts a service and what else is on the GPU.
func (w *world) serve(main program, o alloc.Options) *job {
	j := w.serviceJob(main, o)
	if w.chance(0.3) { // it answers with an error and goes on
		j.catches = func(p *proc) { p.cache.EmptyCache() }
	}
	w.neighbours()
	return w.start(j, w.soon())
}

// serviceJob returns the job of a service that is kept running.
func (w *world) serviceJob(main program, o alloc.Options) *job {
	owner := w.owner(pick(w, "serve.py", "server.py", "uvicorn", "gunicorn", "tritonserver", "torchserve", "app.py"))
	return &job{main: main, options: o, owner: owner, restart: w.supervised()}
}

// graphs is a set of CUDA graphs, each with a pool of its own, one for each shape of the input that was seen.
type graphs struct {
	seen map[int]bool
	most int    // shapes that there can be
	size uint64 // bytes of the pool of the largest one
}

// capture makes the graph of a shape unless there is one.
func (g *graphs) capture(p *proc, length float64) {
	shape := int(math.Ceil(length * float64(g.most)))
	if g.seen[shape] {
		return
	}
	g.seen[shape] = true
	pool := p.cache.NewPool()
	for range 3 {
		p.on(p.cache, uint64(float64(g.size)*length/3)+alloc.KiB, 0, pool)
	}
}
