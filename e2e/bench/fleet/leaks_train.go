// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet/alloc"
)

// Leaks of training, notebooks and other programs that compute for people. The numbers are the bounds of the rate in MiB per
// minute.
var trainingLeaks = []Family{
	{Name: "kept_outputs", About: "Outputs of each step are appended to a list, detached and on the GPU (PyTorch FAQ, \"Don't hold onto tensors and variables you don't need\").", build: trainLeak(0.2, 500, func(_ *world, c *training, l *leak) {
		c.eachStep(l)
	})},
	{Name: "kept_autograd_graph", About: "The loss is summed up without detaching it, so that the graph of each step stays (PyTorch FAQ, \"Don't accumulate history across your training loop\").", build: trainLeak(20, 2000, func(_ *world, c *training, l *leak) {
		l.large(l.per(c.each) / 6)
		c.eachStep(l)
	})},
	{Name: "forward_hooks", About: "Each evaluation registers one more forward hook that appends activations, so that the leak gets faster (documentation of torch.nn.Module.register_forward_hook: the handle has to be removed).", build: trainLeak(0.5, 500, func(_ *world, c *training, l *leak) {
		hooks := 1.0
		c.evalEvery = l.often(5*time.Minute, time.Hour)
		c.onBegin = func(*proc) { hooks = 1 }
		c.onEval = func(*proc) { hooks++ }
		c.onStep = func(p *proc, n int) { l.owe(p, l.per(c.each)*float64(n)*hooks/4) }
	})},
	{Name: "eval_outputs", About: "Predictions of each evaluation are kept for a report that is never written; the training itself leaks nothing.", build: trainLeak(0.2, 300, func(_ *world, c *training, l *leak) {
		c.eachEval(l, l.often(2*time.Minute, 2*time.Hour))
	})},
	{Name: "metric_states", About: "A metric with list states is never reset and concatenates them at each evaluation (torchmetrics' documentation on list states).", build: trainLeak(0.2, 100, func(w *world, c *training, l *leak) {
		c.evalEvery = w.span(10*time.Minute, time.Hour)
		c.eachStep(l)
		c.onEval = func(p *proc) { p.cache.Free(p.alloc(min(l.retained, w.share(0.05, 0.1)) + alloc.KiB)) }
	})},
	{Name: "best_models", About: "A copy of the weights is kept on the GPU at each better checkpoint; the list has no bound.", build: trainLeak(1, 300, func(w *world, c *training, l *leak) {
		c.checkpoints = l.often(5*time.Minute, 3*time.Hour)
		l.large(l.per(c.checkpoints) / 10)
		c.onCheckpoint = func(p *proc) {
			if w.chance(0.5) {
				l.owe(p, 2*l.per(c.checkpoints))
			}
		}
	})},
	{Name: "recreated_optimizers", About: "Each phase makes a new optimizer while a scheduler still holds the old one with its states.", build: trainLeak(1, 200, func(w *world, c *training, l *leak) {
		var next time.Duration
		phase := l.often(20*time.Minute, 4*time.Hour)
		l.large(l.per(phase) / 24)
		c.onBegin = func(*proc) { next = w.now + phase }
		c.onStep = func(p *proc, _ int) {
			if w.now >= next {
				next = w.now + phase
				l.owe(p, l.per(phase))
			}
		}
	})},
	{Name: "replay_buffer_without_bound", About: "A replay buffer on the GPU takes each episode and drops none.", build: trainLeak(0.5, 1000, func(w *world, c *training, l *leak) {
		c.evalEvery = 0
		c.atRandom(w, l.often(2*time.Second, 3*time.Minute), func(p *proc, gap time.Duration) { l.owe(p, l.per(gap)*w.u(0.2, 1.8)) })
	})},
	{Name: "blocked_writer", About: "A queue of images for a log writer grows from the hour on at which its disk or network fails.", build: trainLeak(1, 1000, func(w *world, c *training, l *leak) {
		after, blocked := w.span(20*time.Minute, 20*time.Hour), false
		w.later(after)
		w.at(w.lead+after, func() { blocked = true })
		c.onStep = func(p *proc, n int) {
			p.cache.Free(p.alloc(l.object))
			if blocked {
				l.owe(p, l.per(c.each)*float64(n))
			}
		}
	})},
	{Name: "prefetch_queue", About: "A loader puts batches on the GPU faster than they are used, into a queue without a bound.", build: trainLeak(5, 2000, func(w *world, c *training, l *leak) {
		l.large(l.per(4 * c.each))
		c.onStep = func(p *proc, n int) { l.owe(p, l.per(c.each)*float64(n)*w.u(0, 2)) }
	})},
	{Name: "autograd_cycles", About: "backward(create_graph=True) makes reference cycles between parameters and gradients, which an object with a finalizer in C++ keeps from being collected (documentation of torch.autograd.backward).", build: trainLeak(1, 2000, func(_ *world, c *training, l *leak) {
		c.onStep = func(p *proc, n int) {
			collected := p.keep(c.acts/40, c.acts/80+alloc.KiB)
			l.owe(p, l.per(c.each)*float64(n))
			p.drop(collected)
		}
	})},
	{Name: "ddp_one_rank", About: "Rank 0 alone keeps gathered results, on the GPU on which the other ranks have a context by mistake (pytorch/examples issue 969).", build: trainLeak(0.5, 500, func(w *world, c *training, l *leak) {
		c.eachEval(l, l.often(3*time.Minute, time.Hour))
		c.owner = w.owner("train_ddp.py")
		for range w.n(1, 3) {
			w.start(&job{main: idle, owner: c.owner, context: w.contextSize()}, w.soon())
		}
	})},
	{Name: "tf_retracing", About: "A tf.function is traced anew for each Python value, and each trace keeps its constants (TensorFlow's guide on tf.function); in a quarter of the cases inside memory that was preallocated.", build: trainLeak(0.5, 500, func(w *world, c *training, l *leak) {
		c.options = w.bfc(0.25)
		c.atRandom(w, l.often(10*time.Second, 10*time.Minute), func(p *proc, gap time.Duration) { l.owe(p, l.per(gap)) })
	})},
	{Name: "jit_cache", About: "Compiled programs are cached for each shape without a bound, below BFC (JAX's page on GPU memory allocation); in a quarter of the cases inside memory that was preallocated.", build: trainLeak(0.5, 300, func(w *world, c *training, l *leak) {
		c.options = w.bfc(0.25)
		gap := l.often(30*time.Second, 20*time.Minute)
		l.large(l.per(gap) / 3)
		c.atRandom(w, gap, func(p *proc, gap time.Duration) {
			l.owe(p, l.per(gap)*w.logu(0.4, 2))
			p.lib(uint64(w.n(64, 1024)) * alloc.KiB) // the code of the kernels
		})
	})},
	{Name: "ipc_queue", About: "Tensors that were sent to another process stay with the sender, because the receiver keeps a handle (pytorch/pytorch issue 145703).", build: trainLeak(0.5, 1000, func(w *world, c *training, l *leak) {
		c.shrink(2)
		l.large(l.per(10 * c.each))
		c.eachStep(l)
		c.owner = w.owner("pipeline.py")
		w.start(&job{main: burst(w.share(0.03, 0.1), forever, w.u(0.2, 0.8)), owner: c.owner, restart: kubelet}, w.soon())
	})},
	{Name: "child_contexts", About: "Children that a search or a loader starts do not end, each with a CUDA context of its own (PyTorch FAQ, \"My GPU memory isn't freed properly\").", build: trainLeak(2, 1000, func(w *world, c *training, l *leak) {
		c.owner = w.owner("search.py")
		parent := w.start(&job{main: idle, owner: c.owner}, w.soon())
		context := w.contextSize()
		gap := time.Duration(float64(context) / l.rate * float64(time.Second))
		w.every(func() time.Duration { return w.wait(gap) }, func() {
			if parent.p == nil || len(l.lives) > 200 {
				return
			}
			w.start(&job{owner: parent.owner, context: context, main: func(p *proc) step {
				l.note(p, p.used(), 0)
				return idle(p)
			}}, 0)
		})
	})},
	{Name: "notebook_outputs", About: "IPython's output history keeps each displayed tensor (IPython's documentation of the output caching system).", build: func(w *world) {
		l, c := w.leak(1, 1000), w.notebook(0.1, 0.5)
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
	}},
}

// trainLeak sets up a leak in a training, at a rate between lo and hi.
func trainLeak(lo, hi float64, build func(w *world, c *training, l *leak)) func(w *world) {
	return func(w *world) {
		l, c := w.leak(lo, hi), w.training()
		if w.chance(0.5) {
			c.variable(w)
		}
		if w.style != slurm && w.chance(0.5) { // a job that continues from its checkpoint
			c.restart = w.supervised()
		}
		build(w, c, l)
		w.neighbours()
		w.start(c.job(w), w.soon())
	}
}

// soon returns when the program of a family begins: it runs already where the world is simulated from before the first sample,
// and in a chain the pause is before it.
func (w *world) soon() time.Duration {
	if w.lead > 0 || w.life.chained() {
		return w.span(time.Second, 20*time.Second)
	}
	return w.span(5*time.Second, 20*time.Minute)
}

// eachStep lets a leak retain its rate in the middle of the steps.
func (c *training) eachStep(l *leak) {
	c.onStep = func(p *proc, n int) { l.owe(p, l.per(c.each)*float64(n)) }
}

// eachEval lets a leak retain its rate at evaluations.
func (c *training) eachEval(l *leak, every time.Duration) {
	c.evalEvery, c.evalFor = every, min(c.evalFor, every/4)
	l.large(l.per(every) / 20)
	c.onEval = func(p *proc) { l.owe(p, l.per(every+c.evalFor)) }
}

// atRandom lets something happen in steps that are gap apart on average.
func (c *training) atRandom(w *world, gap time.Duration, do func(p *proc, gap time.Duration)) {
	c.onStep = func(p *proc, n int) {
		for range poisson(w.r, float64(n)*c.each.Seconds()/gap.Seconds()) {
			do(p, gap)
		}
	}
}
