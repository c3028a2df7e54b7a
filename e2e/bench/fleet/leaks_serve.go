// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet/alloc"
)

// Leaks of services, and of what runs them.
var servingLeaks = []Family{
	{Name: "leak_by_traffic", About: "Each request leaves a tensor in a global list, so that the leak follows the day's traffic and rests at night.", Draw: draw(byTraffic)},
	{Name: "response_cache", About: "Results are cached by request without eviction; new requests get rarer as the cache grows.", Draw: draw(responseCache)},
	{Name: "graphs_by_shape", About: "A CUDA graph with a pool of its own is recorded for each new shape of the input (PyTorch's documentation on CUDAGraph Trees, dynamic shapes; ggml-org/llama.cpp issue 20315).", Draw: draw(graphsByShape)},
	{Name: "native_library", About: "A C++ extension calls cudaMalloc for each request and frees it on one of two paths.", Draw: draw(nativeLibrary)},
	{Name: "errors_only", About: "The traceback of each failed request is kept, and with it the tensors of its frames (PyTorch FAQ, \"My out of memory exception handler can't allocate memory\").", Draw: draw(errorsOnly)},
	{Name: "after_deploy", About: "A service is healthy for several versions, until one is deployed that leaks.", Draw: draw(afterDeploy)},
	{Name: "unclosed_sessions", About: "The state of a session stays when its client goes away without closing it.", Draw: draw(unclosedSessions)},
	{Name: "conversation_cache", About: "The past keys and values of each conversation are kept for its return, without eviction.", Draw: draw(conversationCache)},
	{Name: "adapters_without_bound", About: "The adapter of each new customer is loaded beside the others, and none is unloaded.", Draw: draw(adaptersWithoutBound)},
	{Name: "model_reload", About: "A part of the old version stays at each reload of a model (triton-inference-server/server issues 2023 and 3320).", Draw: draw(modelReload)},
	{Name: "thread_workspaces", About: "Each new thread gets a stream and a cuBLAS workspace that nobody frees (PyTorch's CUDA notes, cuBLAS workspaces).", Draw: draw(threadWorkspaces)},
	{Name: "ipc_queue", About: "Tensors that were sent to another process stay with the sender, because the receiver keeps a handle (pytorch/pytorch issue 145703).", Draw: draw(ipcQueue)},
	{Name: "decoder_sessions", About: "A video decoder or encoder is made anew at each reconnect of a camera, and the old one stays (obsproject/obs-studio issue 13656).", Draw: draw(decoderSessions)},
	{Name: "index_tombstones", About: "Updates of an index of vectors append, and what they replace is only marked.", Draw: draw(indexTombstones)},
	{Name: "mig_service", About: "A small service leaks in its GPU instance; the other instances are healthy.", Draw: draw(migService)},
	{Name: "orphaned_workers", About: "Workers outlive each forced restart of their server and keep their memory (vllm-project/vllm issue 34643).", Draw: draw(orphanedWorkers)},
	{Name: "unowned_memory", About: "The driver keeps memory of processes that were killed; no process has it in the list.", Draw: draw(unownedMemory)},
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

// eachRequest lets a leak retain its rate as requests come.
func (c *serving) eachRequest(l *leak) {
	c.onRequests = func(p *proc, n int) { l.owe(p, l.rate/c.traffic.mean*float64(n)) }
}

func byTraffic(w *world) {
	c, l := w.serving(), w.leak(0.2, 500)
	c.traffic.swing = w.u(0.7, 1)
	c.eachRequest(l)
	w.serve(c.run, w.backend())
}

func responseCache(w *world) {
	c, l := w.serving(), w.leak(0.5, 2000)
	requests, known, beta := 0.0, c.traffic.mean*w.logu(600, 86400), w.u(0.6, 0.95)
	c.onBegin = func(*proc) { requests = 0 }
	c.onRequests = func(p *proc, n int) {
		requests += float64(n) // the share of new ones falls as in Heaps' law
		l.owe(p, l.rate/c.traffic.mean*float64(n)*math.Pow(1+requests/known, beta-1))
	}
	w.serve(c.run, w.backend())
}

func graphsByShape(w *world) {
	c, l := w.serving(), w.leak(2, 500)
	gap := l.often(10*time.Second, 10*time.Minute)
	l.large(l.per(gap) / 3)
	c.onRequests = func(p *proc, _ int) {
		d := max(w.sc.Interval, time.Second)
		for range poisson(w.r, d.Seconds()/gap.Seconds()) {
			before := p.cache.Reserved()
			pool := p.cache.NewPool()
			for size := l.per(gap) * w.logu(0.4, 2); size > 0; size -= float64(l.object) {
				p.on(p.cache, uint64(min(size, float64(l.object)))+1, 0, pool)
			}
			l.note(p, p.cache.Reserved()-min(before, p.cache.Reserved()), p.peak)
		}
	}
	w.serve(c.run, alloc.Options{})
}

func nativeLibrary(w *world) {
	c, l := w.serving(), w.leak(0.2, 2000)
	l.lib = true
	c.eachRequest(l)
	w.serve(c.run, w.backend())
}

func errorsOnly(w *world) {
	c, l := w.serving(), w.leak(0.5, 1000)
	usual := c.errors
	each := l.rate / (c.traffic.mean * usual)
	l.large(each)
	w.every(func() time.Duration { return w.wait(6 * time.Hour) }, func() { // another system is down
		c.errors = min(0.5, usual*w.logu(3, 50))
		w.in(w.span(5*time.Minute, 2*time.Hour), func() { c.errors = usual })
	})
	c.onErrors = func(p *proc, n int) { l.owe(p, each*float64(n)/2) }
	w.serve(c.run, w.backend())
}

func afterDeploy(w *world) {
	c, l := w.serving(), w.leak(0.5, 2000)
	c.weights, c.request = c.weights/2, c.request/2 // two versions fit at a time
	bad := *c
	bad.eachRequest(l)
	o := w.backend()
	owner, first, last := w.owner("server.py"), w.n(1, 3), w.n(1, 4)
	every := w.span(time.Hour, 12*time.Hour)
	w.later(every * time.Duration(first))
	w.neighbours()
	w.deploys(every, func(n int) *job {
		j := w.serviceJob(c.run, o)
		if n >= first && n < first+last {
			j.main = bad.run
		}
		next := *j.owner
		next.Process, next.Namespace, next.Container = owner.Process, owner.Namespace, owner.Container
		j.owner = &next
		return j
	})
}

func unclosedSessions(w *world) {
	c := w.chat()
	l := w.leak(0.5, 1000)
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
}

func conversationCache(w *world) {
	c := w.chat()
	l := w.leak(1, 2000)
	each := l.rate / c.traffic.mean
	l.large(min(each, float64(c.state)))
	c.onEnd = func(p *proc, _ *session) bool {
		l.owe(p, each*w.logu(0.3, 2.2))
		return false
	}
	w.serve(c.run, w.torch())
}

// arrivals lets a service retain something at moments that are gap apart on average.
func (w *world) arrivals(c *serving, l *leak, gap time.Duration, get func(p *proc, bytes float64)) {
	l.large(l.per(gap) / 8)
	c.onRequests = func(p *proc, _ int) {
		for range poisson(w.r, max(w.sc.Interval, time.Second).Seconds()/gap.Seconds()) {
			get(p, l.per(gap)*w.logu(0.5, 1.8))
		}
	}
}

func adaptersWithoutBound(w *world) {
	c, l := w.serving(), w.leak(0.5, 300)
	w.arrivals(c, l, l.often(time.Minute, time.Hour), l.owe)
	w.serve(c.run, w.torch())
}

func modelReload(w *world) {
	c, l := w.serving(), w.leak(0.5, 500)
	w.arrivals(c, l, l.often(5*time.Minute, 6*time.Hour), func(p *proc, bytes float64) {
		p.drop(p.keep(c.weights/3, c.weights/24+alloc.KiB)) // the new version beside the old one
		l.owe(p, bytes)
	})
	w.serve(c.run, w.backend())
}

// workspace is the default of CUBLAS_WORKSPACE_CONFIG on GPUs before Hopper, in
// bytes: :4096:2:16:8 (PyTorch's CUDA notes).
const workspace = (2*4096 + 8*16) * alloc.KiB

func threadWorkspaces(w *world) {
	c, l := w.serving(), w.leak(1, 500)
	streams := 0
	gap := time.Duration(workspace / l.rate * float64(time.Second))
	c.onBegin = func(*proc) { streams = 0 }
	c.onRequests = func(p *proc, _ int) {
		for range min(8, poisson(w.r, max(w.sc.Interval, time.Second).Seconds()/gap.Seconds())) {
			streams++
			l.hold(p, p.on(p.cache, workspace, streams, 0))
			p.cache.Free(p.on(p.cache, c.request/4+alloc.KiB, streams, 0))
		}
	}
	w.serve(c.run, alloc.Options{})
}

func ipcQueue(w *world) {
	c, l := w.training(), w.leak(0.5, 1000)
	c.weights, c.states, c.acts = c.weights/2, c.states/2, c.acts/2
	l.large(l.per(10 * c.each))
	c.eachStep(l)
	j := w.train(c, alloc.Options{})
	receiver := burst{w.share(0.03, 0.1), forever, w.u(0.2, 0.8)}
	w.start(&job{main: receiver.run, owner: j.owner, restart: kubelet}, w.soon())
}

func decoderSessions(w *world) {
	c, l := w.serving(), w.leak(1, 500)
	size := w.logu(30, 250) * alloc.MiB
	l.lib = true
	w.arrivals(c, l, time.Duration(size/l.rate*float64(time.Second)), func(p *proc, bytes float64) {
		p.native.Free(p.lib(uint64(size))) // most are destroyed
		l.owe(p, bytes)
	})
	w.serve(c.run, alloc.Options{Kind: alloc.Plain})
}

func indexTombstones(w *world) {
	l := w.leak(0.5, 1000)
	c := &store{chunk: uint64(w.logu(64*alloc.KiB, 8*alloc.MiB)), lists: w.n(4, 64), traffic: w.traffic(0.1, 5), most: w.share(0.1, 0.3)}
	c.onAdd = func(p *proc, n int) { l.owe(p, l.rate/c.traffic.mean*float64(n)) }
	w.serve(c.run, pick(w, alloc.Options{Kind: alloc.Plain}, alloc.Options{}))
}

// migTenants starts a healthy program in each GPU instance from number first on.
func (w *world) migTenants(first int) {
	for i := first; i < len(w.domains); i++ {
		switch w.n(0, 3) {
		case 0:
			w.start(w.within(i, w.trainingJob(w.training(), alloc.Options{})), w.span(time.Second, 3*time.Hour))
		case 1:
			w.start(w.within(i, w.serviceJob(w.serving().run, alloc.Options{})), w.soon())
		case 2:
			w.start(w.within(i, w.kernel(w.notebook(0.1, 0.7))), w.span(time.Second, 8*time.Hour))
		}
	}
}

// within puts a job into a GPU instance.
func (w *world) within(i int, j *job) *job {
	j.dom = w.domains[i]
	return j
}

func migService(w *world) {
	w.divide()
	c, l := w.serving(), w.leak(0.2, 200)
	c.eachRequest(l)
	w.start(w.serviceJob(c.run, w.torch()), w.soon())
	w.migTenants(1)
}

func orphanedWorkers(w *world) {
	c, l := w.serving(), w.leak(5, 300)
	c.weights, c.request = c.weights/3, c.request/3
	j := w.serve(c.run, alloc.Options{})
	gap := time.Duration(float64(c.weights) / l.rate * float64(time.Second))
	w.every(func() time.Duration { return max(w.around(gap), 2*time.Minute) }, func() {
		if p := j.p; p != nil && p.cache.Reserved() > 0 {
			j.leave(l)
		}
	})
}

// leave turns the process of j into an orphan and starts another one.
func (j *job) leave(l *leak) {
	w, p := j.w, j.p
	p.rest()
	p.busy(0, 0)
	p.orphaned = w.chance(0.7)
	orphan := &job{w: w, dom: j.dom, owner: j.owner, context: j.context, kind: j.kind, p: p, due: w.now + forever}
	orphan.step = func() time.Duration { return forever }
	p.j = orphan
	w.jobs = append(w.jobs, orphan)
	l.note(p, p.used(), 0)
	j.p = nil
	j.due = w.now + w.span(5*time.Second, time.Minute)
}

func unownedMemory(w *world) {
	l := w.leak(5, 500)
	c := w.serving()
	c.weights, c.request = c.weights/2, c.request/2
	j := w.serve(c.run, alloc.Options{})
	gap := time.Duration(float64(c.weights) / l.rate * float64(time.Second))
	w.every(func() time.Duration { return max(w.around(gap), 2*time.Minute) }, func() {
		if p := j.p; p != nil {
			stays := min(p.used(), uint64(float64(c.weights)*w.u(0.5, 1.5)))
			j.reset(w.span(5*time.Second, time.Minute))
			l.strand(stays / alloc.Granule * alloc.Granule)
		}
	})
}

// strand retains bytes that no process has any more.
func (l *leak) strand(bytes uint64) {
	if !l.dom.dev.Take(bytes) {
		return
	}
	if !l.begun {
		l.begun, l.t.From, l.since = true, l.w.now, l.w.now
	}
	l.count(bytes)
	l.stranded += bytes
}
