// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet/alloc"
)

// Leaks of services, and of what runs them. The numbers are the bounds of the rate in MiB per minute.
var servingLeaks = []Family{
	{Name: "leak_by_traffic", About: "Each request leaves a tensor in a global list, so that the leak follows the day's traffic and rests at night.", build: serveLeak(0.2, 500, func(w *world, c *serving, l *leak) {
		c.traffic.swing = w.u(0.7, 1)
		c.eachRequest(l)
	})},
	{Name: "response_cache", About: "Results are cached by request without eviction; new requests get rarer as the cache grows.", build: serveLeak(0.5, 2000, func(w *world, c *serving, l *leak) {
		requests, known, beta := 0.0, c.traffic.mean*w.logu(600, 86400), w.u(0.6, 0.95)
		c.onBegin = func(*proc) { requests = 0 }
		c.onRequests = func(p *proc, n int) {
			requests += float64(n) // the share of new ones falls as in Heaps' law
			l.owe(p, l.rate/c.traffic.mean*float64(n)*math.Pow(1+requests/known, beta-1))
		}
	})},
	{Name: "graphs_by_shape", About: "A CUDA graph with a pool of its own is recorded for each new shape of the input (PyTorch's documentation on CUDAGraph Trees, dynamic shapes; ggml-org/llama.cpp issue 20315).", build: serveLeak(2, 500, func(_ *world, c *serving, l *leak) {
		c.options = alloc.Options{}
		c.atRandom(l, l.often(10*time.Second, 10*time.Minute), func(p *proc, bytes float64) {
			before, pool := p.cache.Reserved(), p.cache.NewPool()
			for ; bytes > 0; bytes -= float64(l.object) {
				p.on(p.cache, uint64(min(bytes, float64(l.object)))+1, 0, pool)
			}
			l.note(p, p.cache.Reserved()-min(before, p.cache.Reserved()), p.peak)
		})
	})},
	{Name: "native_library", About: "A C++ extension calls cudaMalloc for each request and frees it on one of two paths.", build: serveLeak(0.2, 2000, func(_ *world, c *serving, l *leak) {
		l.lib = true
		c.eachRequest(l)
	})},
	{Name: "errors_only", About: "The traceback of each failed request is kept, and with it the tensors of its frames (PyTorch FAQ, \"My out of memory exception handler can't allocate memory\").", build: serveLeak(0.5, 1000, func(w *world, c *serving, l *leak) {
		usual := c.errors
		each := l.rate / (c.traffic.mean * usual)
		l.large(each)
		w.every(func() time.Duration { return w.wait(6 * time.Hour) }, func() { // another system is down
			c.errors = min(0.5, usual*w.logu(3, 50))
			w.in(w.span(5*time.Minute, 2*time.Hour), func() { c.errors = usual })
		})
		c.onErrors = func(p *proc, n int) { l.owe(p, each*float64(n)/2) }
	})},
	{Name: "adapters_without_bound", About: "The adapter of each new customer is loaded beside the others, and none is unloaded.", build: serveLeak(0.5, 300, func(_ *world, c *serving, l *leak) {
		c.atRandom(l, l.often(time.Minute, time.Hour), l.owe)
	})},
	{Name: "model_reload", About: "A part of the old version stays at each reload of a model (triton-inference-server/server issues 2023 and 3320).", build: serveLeak(0.5, 500, func(_ *world, c *serving, l *leak) {
		c.atRandom(l, l.often(5*time.Minute, 6*time.Hour), func(p *proc, bytes float64) {
			p.drop(p.keep(c.weights/3, c.weights/24+alloc.KiB)) // the new version beside the old one
			l.owe(p, bytes)
		})
	})},
	{Name: "thread_workspaces", About: "Each new thread gets a stream and a cuBLAS workspace that nobody frees (PyTorch's CUDA notes, cuBLAS workspaces).", build: serveLeak(1, 500, func(_ *world, c *serving, l *leak) {
		streams := 0
		c.options = alloc.Options{}
		c.onBegin = func(*proc) { streams = 0 }
		c.atRandom(l, time.Duration(workspace/l.rate*float64(time.Second)), func(p *proc, _ float64) {
			streams++
			l.hold(p, p.on(p.cache, workspace, streams, 0))
			p.cache.Free(p.on(p.cache, c.request/4+alloc.KiB, streams, 0))
		})
	})},
	{Name: "decoder_sessions", About: "A video decoder or encoder is made anew at each reconnect of a camera, and the old one stays (obsproject/obs-studio issue 13656).", build: serveLeak(1, 500, func(w *world, c *serving, l *leak) {
		size := w.logu(30, 250) * alloc.MiB
		l.lib, c.options = true, alloc.Options{Kind: alloc.Plain}
		c.atRandom(l, time.Duration(size/l.rate*float64(time.Second)), func(p *proc, bytes float64) {
			p.native.Free(p.lib(uint64(size))) // most are destroyed
			l.owe(p, bytes)
		})
	})},
	{Name: "orphaned_workers", About: "Workers outlive each forced restart of their server and keep their memory (vllm-project/vllm issue 34643).", build: serveLeak(5, 300, func(w *world, c *serving, l *leak) {
		c.shrink(3)
		c.restarts(w, l, func(j *job) { j.leave(l) })
	})},
	{Name: "unowned_memory", About: "The driver keeps memory of processes that were killed; no process has it in the list.", build: serveLeak(5, 500, func(w *world, c *serving, l *leak) {
		c.shrink(2)
		c.restarts(w, l, func(j *job) {
			stays := min(j.p.used(), uint64(float64(c.weights)*w.u(0.5, 1.5)))
			j.reset(w.span(5*time.Second, time.Minute))
			l.strand(stays / alloc.Granule * alloc.Granule)
		})
	})},
	{Name: "after_deploy", About: "A service is healthy for several versions, until one is deployed that leaks.", build: func(w *world) {
		l, c := w.leak(0.5, 2000), w.serving().shrink(2) // two versions fit at a time
		bad := *c
		bad.eachRequest(l)
		owner, first, last, every := w.owner("server.py"), w.n(1, 3), w.n(1, 4), w.span(time.Hour, 12*time.Hour)
		w.later(every * time.Duration(first))
		w.neighbours()
		w.deploys(every, func(n int) *job {
			j := w.serviceJob(c.run, c.options)
			if n >= first && n < first+last {
				j.main = bad.run
			}
			next := *j.owner
			next.Process, next.Namespace = owner.Process, owner.Namespace
			j.owner = &next
			return j
		})
	}},
	{Name: "mig_service", About: "A small service leaks in its GPU instance; the other instances are healthy.", build: func(w *world) {
		w.divide()
		l, c := w.leak(0.2, 200), w.serving()
		c.eachRequest(l)
		w.start(w.serviceJob(c.run, w.torch()), w.soon())
		w.migTenants(1)
	}},
	{Name: "unclosed_sessions", About: "The state of a session stays when its client goes away without closing it.", build: func(w *world) {
		l, c := w.leak(0.5, 1000), w.chat()
		q := min(0.5, l.rate/(c.traffic.mean*float64(c.state)*0.55))
		c.onEnd = func(p *proc, s *session) bool {
			if !w.chance(q) {
				return false
			}
			for _, b := range s.blocks {
				l.hold(p, b)
			}
			return true
		}
		w.serve(c.run, w.torch())
	}},
	{Name: "conversation_cache", About: "The past keys and values of each conversation are kept for its return, without eviction.", build: func(w *world) {
		l, c := w.leak(1, 2000), w.chat()
		each := l.rate / c.traffic.mean
		l.large(min(each, float64(c.state)))
		c.onEnd = func(p *proc, _ *session) bool {
			l.owe(p, each*w.logu(0.3, 2.2))
			return false
		}
		w.serve(c.run, w.torch())
	}},
	{Name: "index_tombstones", About: "Updates of an index of vectors append, and what they replace is only marked.", build: func(w *world) {
		l := w.leak(0.5, 1000)
		c := &store{chunk: uint64(w.logu(64*alloc.KiB, 8*alloc.MiB)), lists: w.n(4, 64), traffic: w.traffic(0.1, 5), most: w.share(0.1, 0.3)}
		c.onAdd = func(p *proc, n int) { l.owe(p, l.rate/c.traffic.mean*float64(n)) }
		w.serve(c.run, pick(w, alloc.Options{Kind: alloc.Plain}, alloc.Options{}))
	}},
}

// workspace is the default of CUBLAS_WORKSPACE_CONFIG on GPUs before Hopper, in bytes: :4096:2:16:8 (PyTorch's CUDA notes).
const workspace = (2*4096 + 8*16) * alloc.KiB

// serveLeak sets up a leak in a service, at a rate between lo and hi.
func serveLeak(lo, hi float64, build func(w *world, c *serving, l *leak)) func(w *world) {
	return func(w *world) {
		l, c := w.leak(lo, hi), w.serving()
		build(w, c, l)
		c.started(w.serve(c.run, c.options))
	}
}

// eachRequest lets a leak retain its rate as requests come.
func (c *serving) eachRequest(l *leak) {
	c.onRequests = func(p *proc, n int) { l.owe(p, l.rate/c.traffic.mean*float64(n)) }
}

// atRandom lets a service retain bytes at moments that are gap apart on average.
func (c *serving) atRandom(l *leak, gap time.Duration, get func(p *proc, bytes float64)) {
	l.large(l.per(gap) / 8)
	c.onRequests = func(p *proc, _ int) {
		for range min(100, poisson(l.w.r, l.w.tick().Seconds()/gap.Seconds())) {
			get(p, l.per(gap)*l.w.logu(0.5, 1.8))
		}
	}
}

// restarts lets somebody restart the service by force, as often as the rate of the leak asks for where each time about its
// weights are retained.
func (c *serving) restarts(w *world, l *leak, do func(j *job)) {
	c.options = alloc.Options{}
	gap := time.Duration(float64(c.weights) / l.rate * float64(time.Second))
	c.started = func(j *job) {
		w.every(func() time.Duration { return max(w.around(gap), 2*time.Minute) }, func() {
			if j.p != nil {
				do(j)
			}
		})
	}
}

// migTenants starts a healthy program in each GPU instance from number first on.
func (w *world) migTenants(first int) {
	for _, d := range w.domains[first:] {
		j, after := w.training().job(w), w.span(time.Second, 3*time.Hour)
		switch w.n(0, 3) {
		case 0:
			j, after = w.serviceJob(w.serving().run, alloc.Options{}), w.soon()
		case 1:
			j = w.kernel(w.notebook(0.1, 0.7))
		case 2:
			continue
		}
		j.dom = d
		w.start(j, after)
	}
}

// leave turns the process of j into an orphan and starts another one.
func (j *job) leave(l *leak) {
	w, p := j.w, j.p
	p.rest()
	p.busy(0, 0)
	p.orphaned = w.chance(0.7)
	p.j = &job{w: w, dom: j.dom, owner: j.owner, context: j.context, p: p, due: w.now + forever}
	p.j.step = func() time.Duration { return forever }
	w.jobs = append(w.jobs, p.j)
	l.note(p, p.used(), 0)
	j.p = nil
	j.due = w.now + w.span(5*time.Second, time.Minute)
}

// strand retains bytes that no process has any more.
func (l *leak) strand(bytes uint64) {
	if l.dom.dev.Take(bytes) {
		l.count(bytes)
		l.stranded += bytes
	}
}
