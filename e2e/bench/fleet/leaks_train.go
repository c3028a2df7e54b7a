// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet/alloc"
)

// Leaks of training, notebooks and other programs that compute for people.
var trainingLeaks = []Family{
	{Name: "kept_outputs", About: "Outputs of each step are appended to a list, detached and on the GPU (PyTorch FAQ, \"Don't hold onto tensors and variables you don't need\").", Draw: draw(keptOutputs)},
	{Name: "kept_autograd_graph", About: "The loss is summed up without detaching it, so that the graph of each step stays (PyTorch FAQ, \"Don't accumulate history across your training loop\").", Draw: draw(keptGraph)},
	{Name: "forward_hooks", About: "Each evaluation registers one more forward hook that appends activations, so that the leak gets faster (documentation of torch.nn.Module.register_forward_hook: the handle has to be removed).", Draw: draw(forwardHooks)},
	{Name: "eval_outputs", About: "Predictions of each evaluation are kept for a report that is never written; the training itself leaks nothing.", Draw: draw(evalOutputs)},
	{Name: "metric_states", About: "A metric with list states is never reset and concatenates them at each evaluation (torchmetrics' documentation on list states).", Draw: draw(metricStates)},
	{Name: "best_models", About: "A copy of the weights is kept on the GPU at each better checkpoint; the list has no bound.", Draw: draw(bestModels)},
	{Name: "recreated_optimizers", About: "Each phase makes a new optimizer while a scheduler still holds the old one with its states.", Draw: draw(recreatedOptimizers)},
	{Name: "replay_buffer_without_bound", About: "A replay buffer on the GPU takes each episode and drops none.", Draw: draw(replayWithoutBound)},
	{Name: "blocked_writer", About: "A queue of images for a log writer grows from the hour on at which its disk or network fails.", Draw: draw(blockedWriter)},
	{Name: "prefetch_queue", About: "A loader puts batches on the GPU faster than they are used, into a queue without a bound.", Draw: draw(prefetchQueue)},
	{Name: "autograd_cycles", About: "backward(create_graph=True) makes reference cycles between parameters and gradients, which an object with a finalizer in C++ keeps from being collected (documentation of torch.autograd.backward).", Draw: draw(autogradCycles)},
	{Name: "ddp_one_rank", About: "Rank 0 alone keeps gathered results, on the GPU on which the other ranks have a context by mistake (pytorch/examples issue 969).", Draw: draw(ddpOneRank)},
	{Name: "tf_retracing", About: "A tf.function is traced anew for each Python value, and each trace keeps its constants (TensorFlow's guide on tf.function); in a quarter of the cases inside memory that was preallocated.", Draw: draw(tfRetracing)},
	{Name: "jit_cache", About: "Compiled programs are cached for each shape without a bound, below BFC (JAX's page on GPU memory allocation); in a quarter of the cases inside memory that was preallocated.", Draw: draw(jitCache)},
	{Name: "notebook_outputs", About: "IPython's output history keeps each displayed tensor (IPython's documentation of the output caching system).", Draw: draw(notebookOutputs)},
	{Name: "child_contexts", About: "Children that a search or a loader starts do not end, each with a CUDA context of its own (PyTorch FAQ, \"My GPU memory isn't freed properly\").", Draw: draw(childContexts)},
}

// soon returns when the program of a family begins: it runs already where the
// world is simulated from before the first sample.
func (w *world) soon() time.Duration {
	if w.lead > 0 {
		return 0
	}
	return w.span(5*time.Second, 20*time.Minute)
}

// torch draws settings of PyTorch's allocator. Most programs have the defaults.
func (w *world) torch() alloc.Options {
	limit := uint64(w.u(0.85, 1) * float64(w.domains[0].dev.Capacity()))
	switch w.n(0, 9) {
	case 0:
		return alloc.Options{Expandable: true}
	case 1:
		return alloc.Options{MaxSplit: uint64(pick(w, 32, 128, 512)) * alloc.MiB}
	case 2:
		return alloc.Options{Limit: limit, GCThreshold: w.u(0.6, 0.9)}
	}
	return alloc.Options{}
}

// train starts a training and what else is on the GPU.
func (w *world) train(c *training, o alloc.Options) *job {
	if w.chance(0.5) {
		c.variable(w)
	}
	j := w.trainingJob(c, o)
	if w.style != slurm && w.chance(0.5) { // a job that continues from its checkpoint
		j.restart = w.supervised()
	}
	w.neighbours()
	return w.start(j, w.soon())
}

// eachStep lets a leak retain its rate in the middle of the steps.
func (c *training) eachStep(l *leak) {
	c.onStep = func(p *proc, n int) { l.owe(p, l.per(c.each)*float64(n)) }
}

func keptOutputs(w *world) {
	c := w.training()
	c.eachStep(w.leak(0.2, 500))
	w.train(c, w.torch())
}

func keptGraph(w *world) {
	c, l := w.training(), w.leak(20, 2000)
	l.large(l.per(c.each) / 6)
	c.eachStep(l)
	w.train(c, w.torch())
}

func forwardHooks(w *world) {
	c, l := w.training(), w.leak(0.5, 500)
	c.evalEvery = l.often(5*time.Minute, time.Hour)
	hooks := 1.0
	c.onBegin = func(*proc) { hooks = 1 }
	c.onEval = func(*proc) { hooks++ }
	c.onStep = func(p *proc, n int) { l.owe(p, l.per(c.each)*float64(n)*hooks/4) }
	w.train(c, w.torch())
}

func evalOutputs(w *world) {
	c, l := w.training(), w.leak(0.2, 300)
	c.evalEvery = l.often(2*time.Minute, 2*time.Hour)
	c.evalFor = min(c.evalFor, c.evalEvery/4)
	l.large(l.per(c.evalEvery) / 20)
	c.onEval = func(p *proc) { l.owe(p, l.per(c.evalEvery+c.evalFor)) }
	w.train(c, w.torch())
}

func metricStates(w *world) {
	c, l := w.training(), w.leak(0.2, 100)
	c.evalEvery = w.span(10*time.Minute, time.Hour)
	c.eachStep(l)
	c.onEval = func(p *proc) { p.cache.Free(p.alloc(min(l.retained, w.share(0.05, 0.1)) + alloc.KiB)) }
	w.train(c, w.torch())
}

func bestModels(w *world) {
	c, l := w.training(), w.leak(1, 300)
	c.checkpoints = l.often(5*time.Minute, 3*time.Hour)
	l.large(l.per(c.checkpoints) / 10)
	c.onCheckpoint = func(p *proc) {
		if w.chance(0.5) {
			l.owe(p, 2*l.per(c.checkpoints))
		}
	}
	w.train(c, w.torch())
}

func recreatedOptimizers(w *world) {
	c, l := w.training(), w.leak(1, 200)
	phase := l.often(20*time.Minute, 4*time.Hour)
	l.large(l.per(phase) / 24)
	var next time.Duration
	c.onBegin = func(*proc) { next = w.now + phase }
	c.onStep = func(p *proc, _ int) {
		if w.now >= next {
			next = w.now + phase
			l.owe(p, l.per(phase))
		}
	}
	w.train(c, w.torch())
}

func replayWithoutBound(w *world) {
	c, l := w.training(), w.leak(0.5, 1000)
	episode := l.often(2*time.Second, 3*time.Minute)
	c.onStep = func(p *proc, n int) {
		for range poisson(w.r, float64(n)*c.each.Seconds()/episode.Seconds()) {
			l.owe(p, l.per(episode)*w.u(0.2, 1.8))
		}
	}
	c.evalEvery = 0
	w.train(c, w.torch())
}

func blockedWriter(w *world) {
	c, l := w.training(), w.leak(1, 1000)
	from := w.lead + w.span(20*time.Minute, 20*time.Hour)
	w.later(from - w.lead)
	blocked := false
	w.at(from, func() { blocked = true })
	c.onStep = func(p *proc, n int) {
		p.cache.Free(p.alloc(l.object))
		if blocked {
			l.owe(p, l.per(c.each)*float64(n))
		}
	}
	w.train(c, w.torch())
}

func prefetchQueue(w *world) {
	c, l := w.training(), w.leak(5, 2000)
	l.large(l.per(4 * c.each))
	c.onStep = func(p *proc, n int) { l.owe(p, l.per(c.each)*float64(n)*w.u(0, 2)) }
	w.train(c, w.torch())
}

func autogradCycles(w *world) {
	c, l := w.training(), w.leak(1, 2000)
	c.onStep = func(p *proc, n int) {
		cycles := p.keep(c.acts/40, c.acts/80+alloc.KiB) // that are collected
		l.owe(p, l.per(c.each)*float64(n))
		p.drop(cycles)
	}
	w.train(c, w.torch())
}

func ddpOneRank(w *world) {
	c, l := w.training(), w.leak(0.5, 500)
	c.evalEvery = l.often(3*time.Minute, time.Hour)
	c.evalFor = min(c.evalFor, c.evalEvery/4)
	l.large(l.per(c.evalEvery) / 20)
	c.onEval = func(p *proc) { l.owe(p, l.per(c.evalEvery+c.evalFor)) }
	j := w.train(c, alloc.Options{})
	for range w.n(1, 3) {
		w.start(&job{main: idle, owner: j.owner, context: w.contextSize()}, j.due-w.now+w.span(time.Second, 10*time.Second))
	}
}

// bfc draws settings of TensorFlow's and JAX's allocator.
func (w *world) bfc(preallocated float64) alloc.Options {
	if w.chance(preallocated) {
		return alloc.Options{Kind: alloc.BFC, Preallocate: uint64(w.u(0.75, 0.92) * float64(w.domains[0].dev.Capacity()))}
	}
	return alloc.Options{Kind: alloc.BFC}
}

func tfRetracing(w *world) {
	c, l := w.training(), w.leak(0.5, 500)
	trace := l.often(10*time.Second, 10*time.Minute)
	c.onStep = func(p *proc, n int) {
		for range poisson(w.r, float64(n)*c.each.Seconds()/trace.Seconds()) {
			l.owe(p, l.per(trace))
		}
	}
	w.train(c, w.bfc(0.25))
}

func jitCache(w *world) {
	c, l := w.training(), w.leak(0.5, 300)
	shape := l.often(30*time.Second, 20*time.Minute)
	l.large(l.per(shape) / 3)
	c.onStep = func(p *proc, n int) {
		for range poisson(w.r, float64(n)*c.each.Seconds()/shape.Seconds()) {
			l.owe(p, l.per(shape)*w.logu(0.4, 2))
			p.lib(uint64(w.n(64, 1024)) * alloc.KiB) // the code of the kernels
		}
	}
	w.train(c, w.bfc(0.25))
}

func notebookOutputs(w *world) {
	c, l := w.notebook(0.1, 0.5), w.leak(1, 1000)
	cell := 4 * (c.think + time.Minute) // with the hours in which nobody works
	l.large(l.per(cell) / 2)
	c.onCell = func(p *proc) {
		if w.chance(0.5) {
			l.owe(p, 2*l.per(cell)*w.logu(0.2, 2))
		}
	}
	j := w.kernel(c)
	if w.chance(0.5) { // the kernel dies with the error, and is started again
		j.catches, j.restart = nil, restart{time.Minute, time.Hour}
	}
	w.neighbours()
	w.start(j, w.soon())
}

func childContexts(w *world) {
	c, l := w.training(), w.leak(2, 1000)
	j := w.train(c, alloc.Options{})
	context := w.contextSize()
	gap := time.Duration(float64(context) / l.rate * float64(time.Second))
	w.every(func() time.Duration { return w.wait(gap) }, func() {
		if j.p == nil || len(l.lives) > 200 {
			return
		}
		w.start(&job{owner: j.owner, context: context, main: func(p *proc) step {
			l.note(p, p.used(), 0)
			return idle(p)
		}}, 0)
	})
}
