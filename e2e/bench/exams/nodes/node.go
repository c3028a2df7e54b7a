// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"
)

// mib is the unit in which programs are described.
const mib = 1 << 20

// quantumMiB is the granularity of used memory, in MiB.
const quantumMiB = exams.Quantum / mib

// node is a GPU that lives: its processes, what is to happen on it, and what is
// true of it. All its randomness comes from r, so that it lives the same life
// again when it is created again.
type node struct {
	exams.Random

	labels Labels
	// now is the time of the event or frame that happens, last that of the frame
	// before, dt the seconds between two frames.
	now, last time.Duration
	dt        float64
	events    events
	processes []*process
	remains   []*remain
	ghosts    []ghost
	losses    []*loss
	loads     []*load
	ids       int
	// driver is what belongs to no process as long as the GPU lives, residual what
	// of it leaked, both in MiB.
	driver, residual float64
	// budget is the MiB that no program has been promised yet.
	budget float64
	// used is the memory in use in bytes, limit what of the capacity can be had: a
	// little always stays too scattered.
	used, limit int64
	// bare marks a host without pods or jobs.
	bare bool
	view view
	dead bool // some process died since the list was last swept
}

// remain is memory that stays after its process: for seconds, as the driver takes
// its time, or for long.
type remain struct {
	bytes int64
	until time.Duration
	label int // 1 + index of the label, 0 for none
}

// ghost is an ended process that the driver lists until it has freed its memory.
type ghost struct {
	Process

	cpu   float64
	until time.Duration
}

// event is something that is to happen.
type event struct {
	at  time.Duration
	seq int
	do  func()
}

// events is a heap, the next one first. Of events at the same time the one that
// was planned first comes first.
type events struct {
	list []event
	seq  int
}

func (e *events) Len() int { return len(e.list) }
func (e *events) Less(i, j int) bool {
	if e.list[i].at != e.list[j].at {
		return e.list[i].at < e.list[j].at
	}
	return e.list[i].seq < e.list[j].seq
}
func (e *events) Swap(i, j int) { e.list[i], e.list[j] = e.list[j], e.list[i] }
func (e *events) Push(x any)    { e.list = append(e.list, x.(event)) }
func (e *events) Pop() any {
	last := e.list[len(e.list)-1]
	e.list = e.list[:len(e.list)-1]
	return last
}

// create sets up the GPU of a story: its hardware, its monitor, and by its family
// what runs on it.
func create(seed, stream uint64, one exams.Family[*node]) *node {
	n := &node{Random: exams.NewRandom(seed, stream)}
	n.labels.Kind = one.Kind
	n.memory(n.Pick([]float64{16, 24, 24, 40, 48, 48, 80, 80, 80, 141}))
	// The driver's own contexts (display, persistence daemon, monitoring agents)
	// are in the used memory of some set-ups and in none of its processes.
	n.driver = n.About(2, 30)
	if n.Chance(0.5) {
		n.driver = n.Between(300, 600)
	}
	n.used = quantum(n.driver)
	n.share()
	seconds := n.Pick([]float64{1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 5, 5, 5, 5, 5, 10, 10, 15})
	n.labels.Interval = time.Duration(seconds) * time.Second
	n.dt = seconds
	n.length(min(3+4.6*n.ExpFloat64(), 24))
	n.last = -n.labels.Interval
	n.bare = n.Chance(0.2)
	n.view = n.newView()
	if n.Chance(0.3) {
		n.shift(n.driver, n.About(600, 30000))
	}
	one.Build(n)
	return n
}

// memory sets what the GPU has, in GiB.
func (n *node) memory(nominal float64) {
	reserved := n.Between(150, 700)
	n.labels.Capacity = quantum(nominal*1024 - reserved)
	n.limit = n.labels.Capacity - quantum(n.About(2, 120))
}

// share sets what can be promised to programs.
func (n *node) share() { n.budget = float64(n.limit)/mib - n.driver - 100 }

// shift lets what the driver has for itself change now and then by some MiB, as
// clients that are no processes of compute come and go.
func (n *node) shift(least, gap float64) {
	n.after(span(gap*n.ExpFloat64()), func() {
		before := quantum(n.driver)
		n.driver = least + n.Between(0, 60)
		more := quantum(n.driver) - before
		if n.limit-n.used < more {
			n.driver, more = float64(before)/mib, 0
		}
		n.used += more
		for _, l := range n.losses {
			if l.open && l.process == nil && l.group == "" {
				l.bytes += more
			}
		}
		n.shift(least, gap)
	})
}

// length sets how many hours the story has; builders call it before they plan.
func (n *node) length(hours float64) {
	n.labels.Length = time.Duration(hours * float64(time.Hour)).Truncate(n.labels.Interval)
}

// atLeast makes the story long enough for what needs that many hours.
func (n *node) atLeast(hours float64) {
	if n.labels.Length < span(hours*3600) {
		n.length(min(hours*n.Between(1, 1.4), 24))
	}
}

// within draws a moment between two shares of the story.
func (n *node) within(low, high float64) time.Duration {
	return time.Duration(n.Between(low, high) * float64(n.labels.Length))
}

// after plans something.
func (n *node) after(d time.Duration, do func()) {
	n.events.seq++
	heap.Push(&n.events, event{n.now + max(d, 0), n.events.seq, do})
}

// take promises a share of the memory that is left and returns it in MiB.
func (n *node) take(share float64) float64 {
	part := share * n.budget
	n.budget -= part
	return part
}

// name makes up the name of a pod or job; a bare host has none.
func (n *node) name(what string) string {
	if n.bare {
		return ""
	}
	return fmt.Sprintf("%s-%05x", what, n.IntN(1<<20))
}

// next lets the time of one frame pass and shows what is then seen.
func (n *node) next(f *Frame) bool {
	t := n.last + n.labels.Interval
	if t > n.labels.Length {
		return false
	}
	for len(n.events.list) > 0 && n.events.list[0].at <= t {
		e := heap.Pop(&n.events).(event)
		n.now = max(e.at, n.now)
		e.do()
	}
	n.now = t
	for _, l := range n.loads {
		l.step(n)
	}
	n.release()
	for _, l := range n.losses {
		l.step(n)
	}
	n.grow()
	for _, p := range n.processes {
		if !p.dead {
			p.step(n)
		}
	}
	n.sweep()
	n.last = t
	n.show(f)
	return true
}

// sweep takes the dead off the list.
func (n *node) sweep() {
	if !n.dead {
		return
	}
	n.dead = false
	alive := n.processes[:0]
	for _, p := range n.processes {
		if !p.dead {
			alive = append(alive, p)
		}
	}
	clear(n.processes[len(alive):])
	n.processes = alive
}

// release gives back what stayed after its process and is over.
func (n *node) release() {
	left := n.remains[:0]
	for _, r := range n.remains {
		if n.now < r.until {
			left = append(left, r)
			continue
		}
		n.used -= r.bytes
		if r.label > 0 {
			n.labels.Unreleased[r.label-1].To = r.until
		}
	}
	n.remains = left
}

// grow puts the leak that belongs to no process into the used memory. Where the
// GPU is full it stops, and whoever asks for anything next is refused it.
func (n *node) grow() {
	if n.residual == 0 {
		return
	}
	want := quantum(n.driver + n.residual)
	for _, l := range n.losses {
		if l.open && l.process == nil && l.group == "" {
			step := min(want-l.bytes, n.limit-n.used)
			l.bytes += step
			n.used += step
			if n.used == n.limit && !l.found {
				n.refuse()
			}
		}
	}
}

// refuse lets one of the processes fail that use memory of changing size or at
// least launch kernels, which now and then takes some.
func (n *node) refuse() {
	start := n.IntN(max(len(n.processes), 1))
	for i := range n.processes {
		p := n.processes[(start+i)%len(n.processes)]
		if !p.dead && !p.frozen && p.Used > 0 && p.act.rate > 0 {
			n.fail(p)
			return
		}
	}
}

// request lets a process hold want bytes. It can do with least: what is more is
// cached. When not even that is there because a leak has taken it, a process dies.
func (n *node) request(p *process, want, least int64) {
	free := n.limit - n.used + p.Used
	switch {
	case want <= free:
	case least <= free:
		// The caching allocator of PyTorch frees its cache and tries again.
		want = least
		p.reserved = float64(least) / mib
	case float64(least-free) <= n.lost()*mib:
		// What it was refused is not lost.
		n.unlose(p, float64(least-p.Used)/mib)
		n.fail(p)
		return
	default:
		want = p.Used // it waits until there is memory
	}
	n.used += want - p.Used
	p.Used = want
}

// unlose takes back what a process was about to lose.
func (n *node) unlose(p *process, mebibytes float64) {
	for _, l := range n.losses {
		if l.open && l.process == p {
			l.total -= min(mebibytes, 0.9*l.total)
		}
	}
}

// lost is the MiB that leaks hold now.
func (n *node) lost() float64 {
	sum := 0.0
	for _, l := range n.losses {
		if l.open {
			sum += l.total
		}
	}
	return sum
}

// fail is the end of a process that was refused memory. The one that leaks asks
// most often, but it can be any. If it was another one, an operator looks for the
// culprit some time after: else the one would be started and refused for ever.
func (n *node) fail(p *process) {
	p.failed = true
	// One that cannot even open the GPU was never on it: it only fails to start.
	if k := len(n.labels.OOMs); p.Used > 0 && (k == 0 || n.labels.OOMs[k-1] < n.now) {
		n.labels.OOMs = append(n.labels.OOMs, n.now)
	}
	guilty := false
	for _, l := range n.losses {
		if !l.open {
			continue
		}
		if l.process == p || l.process == nil && l.group != "" && l.group == p.Group {
			guilty = true
		}
	}
	group := p.crew
	n.end(p)
	for _, other := range n.processes {
		if group != nil && other.crew == group {
			n.end(other)
		}
	}
	if guilty {
		return
	}
	for _, l := range n.losses {
		if l.open && !l.found {
			l.found = true
			n.after(span(n.About(60, 1500)), func() {
				if l.open {
					l.mend()
				}
			})
		}
	}
}

// end ends a process. Its memory comes back at once, or as late as this GPU's
// driver does it, or stays if the process leaves something behind.
func (n *node) end(p *process) {
	if p.dead {
		return
	}
	p.dead, n.dead = true, true
	for _, l := range n.losses {
		if l.process == p {
			l.stop(n)
		}
	}
	if p.zombie > 0 {
		n.labels.Zombies[p.zombie-1].To = n.now
	}
	back := p.Used + p.hidden
	switch {
	case p.leaves > 0:
		n.leave(p, &back)
	case n.view.slowFree > 0 && n.Chance(0.8):
		late := n.now + span(n.Between(1, n.view.slowFree))
		n.remains = append(n.remains, &remain{bytes: back, until: late})
		if n.view.ghosts && p.Used > 0 && !p.frozen {
			n.ghosts = append(n.ghosts, ghost{p.Process, p.cpu, late})
		}
		back = 0
	}
	n.used -= back
	if p.onEnd != nil {
		p.onEnd()
	}
}

// leave keeps a part of what a killed process had, which nothing gives back
// before the driver is reset or finds it by itself.
func (n *node) leave(p *process, back *int64) {
	stays := min(quantum(p.leaves*float64(*back)/mib), *back)
	if stays == 0 {
		return
	}
	*back -= stays
	n.labels.Unreleased = append(n.labels.Unreleased, Unreleased{
		ID: p.ID, Bytes: stays, From: n.now, To: n.labels.Length,
	})
	until := n.labels.Length + time.Hour
	if p.staysFor > 0 {
		until = n.now + p.staysFor
	}
	n.remains = append(n.remains, &remain{bytes: stays, until: until, label: len(n.labels.Unreleased)})
}

// reset is that of the driver, by which an operator gets back memory of no
// process: everything that runs ends before, and services come again after it.
func (n *node) reset() {
	for _, p := range n.processes {
		n.end(p)
	}
	for _, r := range n.remains {
		r.until = n.now
	}
	n.release()
	n.ghosts = n.ghosts[:0]
	for _, l := range n.losses {
		if l.open && l.process == nil && l.group == "" {
			l.stop(n)
			n.used -= l.bytes - quantum(n.driver)
			n.residual = 0
		}
	}
}

// finish closes what is still open when the story ends, and labels the leaks.
func (n *node) finish() {
	n.now = n.labels.Length
	for _, r := range n.remains {
		if r.label > 0 && r.until < n.labels.Length {
			n.labels.Unreleased[r.label-1].To = r.until
		}
	}
	for _, l := range n.losses {
		if l.open {
			l.stop(n)
		}
		if one, ok := l.leak(); ok {
			n.labels.Leaks = append(n.labels.Leaks, one)
		}
	}
}

// quantum rounds MiB up to what NVML can show, in bytes.
func quantum(mebibytes float64) int64 {
	units := int64(mebibytes / quantumMiB)
	if float64(units)*quantumMiB < mebibytes {
		units++
	}
	return units * exams.Quantum
}

// span makes a duration of seconds.
func span(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
