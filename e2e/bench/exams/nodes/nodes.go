// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodes is an exam of GPUs with their processes: what a monitor of one GPU
// sees of it second by second, and what is true of each process.
//
// A seed has 100 stories. Their author had not seen what is examined.
//
//	requests          4  inference server loses memory by each request
//	load-cycles       3  the same with the load of day and night, or of batches
//	epoch-stairs      4  training keeps something of each epoch
//	evaluation        2  training loses while it evaluates only
//	shared-pod        3  one of several pods leaks, others come and go
//	two-leaks         2  two processes leak at once
//	worker-pool       3  workers are recycled; only their group grows
//	crash-loop        3  leak, OOM, restart, leak; each life is a leak
//	late-onset        3  leak begins hours after the start
//	crowded           3  leak where others have 85 to 95 % already
//	residual          3  leak that belongs to no process
//	mps-server        2  small server process that keeps a little of each client
//	notebook-cells    3  each cell that is run keeps memory
//	mended            2  leak that a new version ends
//	accelerating      2  leak that becomes faster
//	bursts            2  much in a minute, then nothing for long
//	orphan            3  training whose launcher died (zombie)
//	unkillable        2  process in an uninterruptible wait (zombie)
//	listed-dead       2  ended, and the driver lists it (zombie)
//	lone-rank         2  rank whose siblings crashed (zombie)
//	left-engine       2  engine whose front was killed (zombie)
//	unreleased        4  memory stays after a killed process
//	unreleased-often  2  the same, several times
//	notebook-idle     3  kernel idle for hours that computes again
//	night-server      3  no requests by night
//	parent-context    2  parent with a small context, children compute
//	scaled-down       2  pool of which one idle worker is left, which works again
//	autoscaled        1  the more workers, the more is asked
//	cpu-phases        2  long phases on the CPU between those on the GPU
//	checkpoints       2  pauses and evaluation at each epoch
//	staircase-jobs    3  jobs arrive one by one and then all end
//	slow-cache        3  cache that fills for hours, bent or straight
//	warm-up           2  autotuning, CUDA graphs, ramp of the load
//	daily-load        2  working memory moves with the day
//	rolling-update    2  new version overlaps the old one
//	slow-free         2  driver frees memory seconds after the end
//	unlisted          2  list of processes unreadable for minutes
//	sweep             2  many short trials
//	crashing          1  pod in a crash loop for another reason than memory
//	full              2  90 to 98 % full at all times
//	model-zoo         1  server that loads and unloads models
//	desktop           1  display server and the like beside jobs
//	nohup             1  orphaned on purpose, and computing
//
// What the labels mean where it is not plain:
//
//   - Each life of a leaking process is a leak of its own, so a crash loop has
//     many. A leak that was there before the story has From 0 and FromStart.
//   - Rate is what was really lost from From to To, divided by that time. Under a
//     caching allocator the process may show less of it, as the first losses fit
//     in what is cached.
//   - In worker-pool no process leaks: ID is 0 and Group the pool. Workers that
//     hang at their end are zombies as well.
//   - Memory that the driver frees within 20 s of an end is not Unreleased, and a
//     process that it lists so long, as Gone, is no zombie.
//   - To of a leak of no process is the reset of the driver, which ends all.
//   - Work that comes back later in the story makes no zombie, however long the
//     wait; what runs in the background of any story may be idle to its end.
package nodes

import (
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"
)

// Stories is how many stories a seed has: a round number, so that counts of
// families are percentages.
const Stories = 100

// families are all of them, in the order of their indices.
var families = slices.Concat(leaking, stuck, healthy)

// at returns the family of an index.
func at(index int) exams.Family[*node] { return exams.Nth(families, index) }

// Kind returns the name of the family of a story, so that one can choose stories
// without making them.
func Kind(index int) string { return at(index).Kind }

// New returns a story. The same seed and index always give the same one.
func New(seed uint64, index int) *Story {
	return tell(func() *node { return create(seed, 0x6e6f646573<<16+uint64(index), at(index)) })
}

// tell lets a GPU live twice: first for the labels, as nobody knows before when
// memory runs out, and then for the reader.
func tell(create func() *node) *Story {
	first := create()
	var frame Frame
	for first.next(&frame) {
		continue
	}
	first.finish()
	return &Story{Labels: first.labels, Next: create().next}
}

// State is what the kernel says about a process.
type State uint8

// The states of a process.
const (
	Alive      State = iota // runs, sleeps or is stopped
	Unkillable              // D: in an uninterruptible wait
	Orphaned                // its parent is gone and it is no service and in no container
	Gone                    // it has ended, and the driver lists it with memory all the same
)

// Process is what can be seen of a process at one moment.
type Process struct {
	// ID is never used again for another process of the story.
	ID int
	// Group is its pod or job, "" for none, and Name the program that it runs.
	Group, Name string
	// Used is its memory in bytes, a multiple of exams.Quantum.
	Used int64
	// Started is when it started, on the story's clock; negative for before.
	Started time.Duration
	// SM is the highest ratio (0 to 1) of multiprocessors that it kept busy since
	// the last frame, -1 for not known.
	SM float64
	// CPU is the processor time that it has used so far, in seconds.
	CPU float64
	// State is what the kernel says about it.
	State State
}

// Frame is what can be seen of a GPU at one moment.
type Frame struct {
	T time.Duration
	// Used is the memory in use, a multiple of exams.Quantum: that of the processes, and what no
	// process accounts for (contexts of the driver, memory that stayed after its process).
	Used int64
	// Processes holds those that have memory on the GPU, in no order. Listed says that it is
	// the whole list; where it is not, Processes is empty.
	Processes []Process
	Listed    bool
}

// Leak says that memory is lost.
type Leak struct {
	// ID is the process that leaks. 0 where none does by itself: where the sum of the Group leaks through
	// processes that come and go, or, with an empty Group, memory that belongs to no process.
	ID    int
	Group string
	// From is when the first byte is lost, To when that ends: the process ends, is mended, or the story ends.
	From, To time.Duration
	// Rate is what is lost in the long run, in bytes per second; Steady says that it is so at a constant mean
	// rate, and that nothing else in the process hides the onset.
	Rate   float64
	Steady bool
	// FromStart marks a leak that begins with its program: there is nothing
	// before it that it could be told from.
	FromStart bool
}

// Zombie says that a process will never use its memory again. From is when that became true, To when the
// memory comes back or the story ends.
type Zombie struct {
	ID       int
	From, To time.Duration
}

// Unreleased says that memory stayed after its process ended.
type Unreleased struct {
	ID       int
	Bytes    int64
	From, To time.Duration
}

// Labels are what is true of a story.
type Labels struct {
	Kind       string
	Interval   time.Duration // between frames
	Length     time.Duration
	Capacity   int64 // in bytes
	Leaks      []Leak
	Zombies    []Zombie
	Unreleased []Unreleased
	// OOMs is when an allocation fails because a leak (or several) has filled the GPU. At that moment some process dies.
	OOMs []time.Duration
}

// Story is a GPU with its labels. It can be read once.
type Story struct {
	Labels
	// Next fills the frame with what is seen next; false after the last one. What Processes
	// refers to may be used again by the next call.
	Next func(*Frame) bool
}
