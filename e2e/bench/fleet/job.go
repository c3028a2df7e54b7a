// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet/alloc"
)

// program is the code of a process: it is called when the process starts and returns what it does again and again.
type program func(p *proc) step

// step does a piece of work and returns the time until the next; exit ends the process.
type step func() time.Duration

const (
	exit    = -1
	forever = 1000 * time.Hour
)

// restart says what a supervisor does when a process has ended by an error.
type restart struct {
	first, most time.Duration // the wait doubles from first to most; 0 is no restart
}

var (
	// kubelet is the back-off of the kubelet for containers: 10 s, twice as much each time, 5 min at most, from the start again
	// after 10 min without a crash (the page on the lifecycle of pods in Kubernetes' documentation).
	kubelet = restart{10 * time.Second, 5 * time.Minute}
	// systemd restarts after a constant time.
	systemd = restart{5 * time.Second, 5 * time.Second}
	// never leaves it to people.
	never = restart{}
)

// job is a program with whatever keeps it running.
type job struct {
	w       *world
	dom     *domain
	owner   *gpu.Owner
	main    program
	options alloc.Options // of its framework's allocator
	context uint64        // of CUDA in a process, in bytes
	restart restart
	// catches handles an allocation that failed, so that the process goes on; nil ends it.
	catches func(p *proc)
	ended   func() // after the last end, unless nil

	p        *proc
	step     step
	due      time.Duration
	attempts int
	over     bool
}

// proc is a process on a domain.
type proc struct {
	w       *world
	j       *job
	id      gpu.ProcessID
	started time.Duration

	cache    *alloc.Allocator // of its framework
	native   *alloc.Allocator // of its libraries: cudaMalloc
	temp     []*alloc.Block   // of the piece of work under way
	ops      int              // allocations so far
	peak     uint64           // of used in bytes, at samples
	sm       float64          // ratio 0 to 1 that it keeps busy
	cores    float64          // processors that it keeps busy
	cpu      time.Duration
	cpuAt    time.Duration
	orphaned bool
	told     *gpu.Allocator // what its probe told last
	toldAt   time.Duration
	failed   bool // an allocation has failed in this step
}

// used returns the bytes of the device that the process holds.
func (p *proc) used() uint64 { return p.j.context + p.cache.Reserved() + p.native.Reserved() }

// alloc allocates in the framework, on the default stream; nil if it failed.
func (p *proc) alloc(size uint64) *alloc.Block { return p.on(p.cache, size, 0, 0) }

// on allocates size bytes. After a failure all further requests of the step fail as well: an exception is on its way up.
func (p *proc) on(a *alloc.Allocator, size uint64, stream, pool int) *alloc.Block {
	if p.failed {
		return nil
	}
	p.ops++
	b := a.Alloc(size, stream, pool)
	if b == nil {
		p.failed = true
		p.w.outOfMemory(p, size, a.Limited())
	}
	return b
}

// lib allocates size bytes of a library, outside of the framework.
func (p *proc) lib(size uint64) *alloc.Block { return p.on(p.native, size, 0, 0) }

// work allocates what is freed when the next piece of work begins.
func (p *proc) work(size uint64) { p.temp = append(p.temp, p.alloc(size)) }

// works does so for size bytes in four pieces.
func (p *proc) works(size uint64) {
	for i := range uint64(4) {
		p.work(size / 10 * (i + 1))
	}
}

// rest frees what the last piece of work has left.
func (p *proc) rest() {
	p.drop(p.temp)
	p.temp = p.temp[:0]
}

// keep allocates bytes in tensors of part each.
func (p *proc) keep(bytes, part uint64) (blocks []*alloc.Block) {
	for part = max(part, 1); bytes > 0 && !p.failed; bytes -= min(part, bytes) {
		blocks = append(blocks, p.alloc(min(part, bytes)))
	}
	return blocks
}

// drop frees blocks of the framework.
func (p *proc) drop(blocks []*alloc.Block) {
	for _, b := range blocks {
		p.cache.Free(b)
	}
}

// load returns a step that allocates a model of that size over some time and is then what next is.
func (p *proc) load(bytes uint64, over time.Duration, next step) step {
	const parts = 12
	i := 0
	p.busy(0, 1)
	return func() time.Duration {
		if i++; i > parts {
			p.j.step = next
			return next()
		}
		p.keep(bytes/parts, max(bytes/parts/7, 4*alloc.MiB))
		return scaled(over, p.w.life.Load) / parts
	}
}

// busy sets the ratio of the multiprocessors and how many processors the process keeps busy from now on.
func (p *proc) busy(sm, cores float64) {
	p.count()
	p.sm, p.cores = sm, cores
}

// count brings the processor time up to date.
func (p *proc) count() {
	p.cpu += time.Duration(float64(p.w.now-p.cpuAt) * p.cores)
	p.cpuAt = p.w.now
}

// batch returns how many pieces of work of that length are done until the next sample: they are simulated as one.
func (p *proc) batch(each time.Duration) int { return max(1, int(p.w.sc.Interval/each)) }

// start adds a job that begins after the delay.
func (w *world) start(j *job, after time.Duration) *job {
	j.w = w
	if j.dom == nil {
		j.dom = w.domains[0]
	}
	if j.context == 0 {
		j.context = w.contextSize()
	}
	j.due = w.now + after
	w.jobs = append(w.jobs, j)
	return j
}

// run lets a job do what is due until now.
func (j *job) run() {
	w := j.w
	until := w.now
	for !j.over && j.due <= until {
		w.now = max(j.due, w.last)
		if j.p == nil {
			j.begin()
			continue
		}
		wait := j.step()
		p := j.p
		switch {
		case p == nil: // it was killed meanwhile
		case p.failed:
			j.fail()
		case wait < 0:
			j.end()
			j.finish()
		default:
			j.due += max(wait, time.Millisecond)
		}
	}
	w.now = until
}

// begin starts a process.
func (j *job) begin() {
	w := j.w
	p := &proc{w: w, j: j, id: w.newID(), started: w.now, cpuAt: w.now, cores: 1}
	p.cpu = time.Duration(w.u(1, 8) * float64(time.Second)) // imports
	p.native = alloc.New(j.dom.dev, alloc.Options{Kind: alloc.Plain})
	if !j.dom.dev.Take(j.context) { // cudaErrorMemoryAllocation while CUDA starts
		w.outOfMemory(p, j.context, false)
		j.again()
		return
	}
	p.cache = alloc.New(j.dom.dev, j.options)
	j.p = p
	w.procs = append(w.procs, p)
	j.step = j.main(p)
}

// fail handles an allocation that failed.
func (j *job) fail() {
	p := j.p
	if j.catches != nil && p.used() > 0 {
		p.failed = false
		p.rest()
		j.catches(p)
		j.due += time.Second
		if !p.failed {
			return
		}
	}
	if j.w.now-p.started > 10*time.Minute {
		j.attempts = 0
	}
	j.end()
	j.again()
}

// again lets the supervisor start the program anew.
func (j *job) again() {
	if j.restart.first == 0 {
		j.finish()
		return
	}
	j.due = j.w.now + min(j.restart.first<<min(j.attempts, 10), j.restart.most) + j.w.span(3*time.Second, 20*time.Second)
	j.attempts++
	j.w.recreated()
}

// end ends the process and gives its memory back.
func (j *job) end() {
	p := j.p
	if p == nil {
		return
	}
	j.w.forget(p)
	p.cache.Close()
	p.native.Close()
	j.dom.dev.Give(j.context)
	j.w.procs = slices.DeleteFunc(j.w.procs, func(q *proc) bool { return q == p })
	j.p = nil
}

// kill ends the job as a whole.
func (j *job) kill() {
	if !j.over {
		j.end()
		j.finish()
	}
}

// reset ends the process and starts the program anew after a time.
func (j *job) reset(after time.Duration) {
	if !j.over {
		j.end()
		j.due = j.w.now + after
		j.w.recreated()
	}
}

func (j *job) finish() {
	j.over = true
	if j.ended != nil {
		j.ended()
	}
}
