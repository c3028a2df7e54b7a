// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet/alloc"
)

// training is a loop over batches: forward, backward, and now and then an evaluation and a checkpoint.
type training struct {
	weights uint64 // bytes of the model
	states  uint64 // bytes of the optimizer's state, made at the first step
	acts    uint64 // bytes of the activations of the longest batch
	each    time.Duration
	lengths lengths
	batch   int // inputs that are padded to the longest of them
	load    time.Duration
	sm      float64
	options alloc.Options
	owner   *gpu.Owner // nil is a new one
	restart restart

	evalEvery, evalFor   time.Duration // 0 is no evaluation
	evalActs             uint64
	checkpoints          time.Duration // 0 is none
	compiles             int           // recompilations in the first minutes
	steps                time.Duration // until the training is done; 0 is never
	scale                func(p *proc) float64
	onBegin              func(p *proc)
	onStep               func(p *proc, n int) // in the middle of n steps
	onEval, onCheckpoint func(p *proc)
}

// layers is into how many tensors the activations are divided. Real models have more; what counts is that several sizes are freed
// in the other order.
const layers = 8

// training draws a usual one that takes up to 30 to 75 % of the memory.
func (w *world) training() *training {
	peak := w.life.larger(w.share(0.30, 0.75), w)
	model := uint64(float64(peak) * w.u(0.2, 0.7))
	acts := scaled(peak-model, w.life.Batch)
	return &training{
		options: w.torch(), weights: model / 4, states: model / 2, acts: acts, each: w.span(50*time.Millisecond, 4*time.Second),
		lengths: fixed, batch: w.n(4, 128), load: w.span(5*time.Second, 2*time.Minute), sm: w.u(0.5, 0.99),
		evalEvery: w.span(5*time.Minute, 4*time.Hour), evalFor: w.span(10*time.Second, 10*time.Minute),
		evalActs: uint64(float64(acts) * w.u(0.2, 0.9)), checkpoints: w.span(10*time.Minute, 6*time.Hour),
		onBegin: func(*proc) {}, onEval: func(*proc) {}, onCheckpoint: func(*proc) {}, scale: func(*proc) float64 { return 1 },
	}
}

// shrink makes it smaller, so that others have room beside it.
func (c *training) shrink(by uint64) *training {
	c.weights, c.states, c.acts, c.evalActs = c.weights/by, c.states/by, c.acts/by, c.evalActs/by
	return c
}

// variable lets the inputs differ in length.
func (c *training) variable(w *world) *training {
	c.lengths = lognormal(w.u(0.1, 0.5), w.u(0.3, 0.9))
	return c
}

// trainer is a process of a training.
type trainer struct {
	*training
	p          *proc
	start      time.Duration
	eval, ckpt time.Duration // when the next is due
	compile    time.Duration
	compiled   int

	length float64 // of the last pass
	ops    int     // of the process after it
	same   int     // passes of that length, nothing else having been allocated
}

// run is the program.
func (c *training) run(p *proc) step {
	t := &trainer{training: c, p: p}
	return p.load(c.weights, c.load, t.begin)
}

func (t *trainer) step() time.Duration {
	p, w := t.p, t.p.w
	if t.steps > 0 && w.now-t.start > t.steps {
		return exit
	}
	p.busy(t.sm, 1.2)
	if t.compiled < t.compiles && w.now >= t.compile {
		return t.recompile()
	}
	if t.checkpoints > 0 && w.now >= t.ckpt {
		t.ckpt = w.now + t.checkpoints
		return t.checkpoint()
	}
	if t.evalEvery > 0 && w.now >= t.eval {
		t.eval = w.now + t.evalEvery
		return t.evaluate()
	}
	n := p.batch(t.each)
	t.pass(t.lengths.longest(w.r, n*t.batch)*t.scale(p), n)
	return time.Duration(n) * t.each
}

// begin makes what the first step makes: the optimizer's state, and the work spaces of cuBLAS and cuDNN.
func (t *trainer) begin() time.Duration {
	p, w := t.p, t.p.w
	p.j.step, t.start = t.step, w.now
	t.eval, t.ckpt = w.now+t.evalEvery, w.now+t.checkpoints
	t.compile = w.now + w.span(5*time.Second, time.Minute)
	p.keep(t.states, max(t.states/24, alloc.MiB))
	p.lib(uint64(w.n(4, 64)) * 2 * alloc.MiB)
	t.onBegin(p)
	return t.step()
}

// pass goes forward and backward through the layers once, in place of n times.
func (t *trainer) pass(length float64, n int) {
	p := t.p
	if length == t.length && p.ops == t.ops && t.same > 2 && t.onStep == nil {
		return // it would leave the cache as it is
	}
	if length != t.length {
		t.same = 0
	}
	t.same++
	var acts [layers]*alloc.Block
	part := uint64(float64(t.acts) * length / (layers + 2))
	for i := range acts {
		acts[i] = p.alloc(part/2*uint64(1+i%2) + part/4 + alloc.KiB)
	}
	if t.onStep != nil {
		t.onStep(p, n)
	}
	for i := range acts {
		gradient := p.alloc(part + alloc.KiB)
		p.cache.Free(acts[layers-1-i])
		p.cache.Free(gradient)
	}
	t.length, t.ops = length, p.ops
}

// recompile traces the model anew, as torch.compile does for new shapes.
func (t *trainer) recompile() time.Duration {
	p, w := t.p, t.p.w
	t.compiled++
	t.compile = w.now + w.span(10*time.Second, 5*time.Minute)
	p.lib(uint64(w.n(2, 20)) * alloc.MiB) // code and constants of the kernels
	p.busy(0.05, 4)
	t.pass(t.lengths.longest(w.r, t.batch)*0.9, 1)
	return w.span(5*time.Second, 90*time.Second)
}

// evaluate goes forward alone, over larger batches.
func (t *trainer) evaluate() time.Duration {
	p := t.p
	p.busy(t.sm*0.8, 1)
	for range 2 {
		acts := float64(t.evalActs) * t.lengths.longest(p.w.r, t.batch*4)
		p.drop([]*alloc.Block{p.alloc(uint64(acts / 2)), p.alloc(uint64(acts / 3))})
	}
	t.onEval(p)
	return t.evalFor
}

// checkpoint writes the model out, some parts through a copy on the GPU.
func (t *trainer) checkpoint() time.Duration {
	p := t.p
	p.busy(0, 1)
	p.cache.Free(p.alloc(max(t.weights/24, alloc.MiB)))
	t.onCheckpoint(p)
	return min(time.Duration(float64(t.weights+t.states)/1e9*float64(time.Second)), 5*time.Minute)
}

// job returns the job that trains.
func (c *training) job(w *world) *job {
	if c.owner == nil {
		c.owner = w.owner(pick(w, "train.py", "finetune.py", "main.py", "run.py"))
	}
	return &job{main: c.run, options: c.options, owner: c.owner, restart: c.restart}
}

// torch draws settings of PyTorch's allocator. Most programs have the defaults.
func (w *world) torch() alloc.Options {
	switch w.n(0, 9) {
	case 0:
		return alloc.Options{Expandable: true}
	case 1:
		return alloc.Options{MaxSplit: uint64(pick(w, 32, 128, 512)) * alloc.MiB}
	case 2:
		return alloc.Options{Limit: w.share(0.85, 1), GCThreshold: w.u(0.6, 0.9)}
	}
	return alloc.Options{}
}

// bfc draws settings of TensorFlow's and JAX's allocator.
func (w *world) bfc(preallocated float64) alloc.Options {
	if w.chance(preallocated) {
		return alloc.Options{Kind: alloc.BFC, Preallocate: w.share(0.75, 0.92)}
	}
	return alloc.Options{Kind: alloc.BFC}
}
