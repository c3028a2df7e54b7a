// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package tracer finds where a process allocates GPU memory that stays, without any change to it: by
// eBPF programs on PyTorch's own marks for what it allocates and frees, or, where its build has none,
// on the functions of CUDA.
//
// The kernel keeps the sums by stack; this package reads them ten times, and names what each later
// reading has more of than each early one. A call costs the process some microseconds.
//
// The rights CAP_BPF and CAP_PERFMON are needed, those of a debugger over the process (its user's, or
// CAP_SYS_PTRACE), and Linux 5.8. Stacks are followed by frame pointers: code that was built without them ends a stack.
package tracer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
)

// Result is what was found.
type Result struct {
	// By says what was followed: marks or functions.
	By string
	// Hits is how many blocks were allocated meanwhile, and Lost of how many of them there was no room.
	Hits, Lost uint64
	Sites      []allocator.Site
	// Unsure is how many lines grew by less than twice as many blocks as were freed meanwhile of those from
	// before: they may just have replaced them.
	Unsure int
	// Skipped says of which files that the process maps nothing is known, and why.
	Skipped []error
}

// Errors that say why nothing can be found.
var (
	// ErrNothing says that the process has nothing that can be followed.
	ErrNothing = errors.New("it maps neither CUDA's library nor a PyTorch with marks: it uses no GPU, or has CUDA linked in statically")
	// ErrNoHits says that nothing was allocated.
	ErrNoHits = errors.New("it allocated nothing meanwhile")
)

// Trace follows a process, of a procfs that is mounted here, for some time.
func Trace(ctx context.Context, procFS string, pid uint32, over time.Duration) (*Result, error) {
	return run(ctx, &trace{pid: pid}, procFS, over)
}

func run(ctx context.Context, t *trace, procFS string, over time.Duration) (*Result, error) {
	m := machines[runtime.GOARCH]
	if m == nil {
		return nil, fmt.Errorf("eBPF programs for %s are not there", runtime.GOARCH)
	}
	proc := filepath.Join(procFS, strconv.FormatUint(uint64(t.pid), 10))
	t.machine = m
	defer t.close()
	skipped, err := t.followProcess(proc)
	if err != nil {
		return nil, err
	}
	taken, err := t.watch(ctx, over)
	if err != nil {
		return nil, err
	}
	r := &Result{By: t.by, Skipped: skipped}
	if r.Hits, r.Lost, err = t.counted(); err != nil {
		return nil, err
	}
	if r.Hits == 0 {
		return nil, ErrNoHits
	}
	names, err := newNames(proc)
	if err != nil {
		return nil, err
	}
	var growths []growth
	growths, r.Unsure = grown(taken)
	for _, g := range growths {
		frames := t.frames(g.stack, names)
		r.Sites = append(r.Sites, allocator.Site{
			Growth: uint64(g.growth), Live: uint64(g.last.Bytes), Blocks: uint64(g.last.Blocks), Line: lineOf(frames), Frames: texts(frames),
		})
	}
	return r, nil
}

// followProcess follows the libraries of the process whose folder in procfs that is. It returns why some are not followed;
// that none is followed is an error.
func (t *trace) followProcess(proc string) (skipped []error, err error) {
	list, skipped, err := libraries(proc)
	if err != nil {
		return nil, err
	}
	err = t.follow(list)
	for i := range list {
		_ = list[i].file.Close() // it was only read, and what is attached holds it
	}
	switch {
	case err != nil:
		return nil, readable(err)
	case len(t.links) == 0 && len(skipped) > 0:
		return nil, skipped[0]
	case len(t.links) == 0:
		return nil, ErrNothing
	}
	return skipped, nil
}

// readable says what is missing where the kernel refuses.
func readable(err error) error {
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("the kernel refuses: CAP_BPF and CAP_PERFMON are needed, which root has unless a container or a lockdown takes them away: %w", os.ErrPermission)
	case errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("this kernel is too old or was built without eBPF: Linux 5.8 is needed: %w", err)
	}
	return err
}

// trace is what is attached to a process.
type trace struct {
	machine *machine
	pid     uint32
	kernel  uint32 // its version; 0: this one's
	by      string
	tables  *tables
	links   []link.Link
	single  bool // as on kernels before 6.6, and some until 6.9
	checked bool // whether this one is such a one
}

func (t *trace) close() {
	for _, l := range t.links {
		_ = l.Close() // the kernel detaches what this program had in any case
	}
	if t.tables != nil {
		t.tables.close()
	}
}

// follow attaches programs to all that a process can tell.
func (t *trace) follow(list []library) (err error) {
	_ = rlimit.RemoveMemlock() // older kernels count maps as locked memory; if it fails, so does the next call
	if t.tables, err = newTables(t.kernel); err != nil {
		return err
	}
	for i := range list {
		l := &list[i]
		for _, m := range l.marks {
			if err := t.followMark(l, m); err != nil {
				return err
			}
		}
		for layer, at := range l.allocates {
			for _, at := range at {
				if err := t.attach(l, place{at: at}, t.tables.enter(t.machine, int64(layer))); err != nil {
					return err
				}
				if err := t.attach(l, place{at: at, leaves: true}, t.tables.leave(t.machine, int64(layer))); err != nil {
					return err
				}
				t.by = "functions"
			}
		}
		for _, at := range l.frees {
			if err := t.attach(l, place{at: at}, t.tables.free(t.machine)); err != nil {
				return err
			}
		}
	}
	return nil
}

// followMark attaches to a mark: malloc(block, device, size, stream) or free(block).
func (t *trace) followMark(l *library, m mark) error {
	var program asm.Instructions
	switch {
	case m.name == "malloc" && len(m.arguments) >= 3:
		block, err := t.machine.argument(m.arguments[0])
		if err != nil {
			return err
		}
		size, err := t.machine.argument(m.arguments[2])
		if err != nil {
			return err
		}
		program = t.tables.markAllocated(block, size)
	case m.name == "free" && len(m.arguments) >= 1:
		block, err := t.machine.argument(m.arguments[0])
		if err != nil {
			return err
		}
		program = t.tables.markFreed(block)
	default:
		return fmt.Errorf("%w: pytorch:%s has %d", errArgument, m.name, len(m.arguments))
	}
	t.by = "marks"
	return t.attach(l, place{at: m.at, semaphore: m.semaphore}, program)
}

// place is where a program is attached in a file.
type place struct {
	at, semaphore uint64
	leaves        bool // when the function returns
}

// attach loads a program and attaches it. One link for several places needs Linux 6.6, and CAP_BPF and
// CAP_PERFMON are enough for it; older kernels get a perf event for each.
func (t *trace) attach(in *library, p place, program asm.Instructions) error {
	// The file that was looked at, whatever its path leads to by now.
	executable, err := link.OpenExecutable(in.file.path())
	if err != nil {
		return err
	}
	var l link.Link
	if !t.single && !t.checked {
		t.single, t.checked = followsThreads(attachMulti(executable, nobody, p, program)), true
	}
	if !t.single {
		l, err = attachMulti(executable, t.pid, p, program)
		t.single = errors.Is(err, ebpf.ErrNotSupported)
	}
	if t.single {
		l, err = t.attachOne(executable, p, program)
	}
	if err != nil {
		return fmt.Errorf("attach to %s: %w", in.path, err)
	}
	t.links = append(t.links, l)
	return nil
}

// nobody is a number that no process can have.
const nobody = 1 << 31

// followsThreads reports whether this kernel would follow one thread where a process is meant, as it comes to say of
// an attempt to follow nobody. Linux 6.6 to 6.9 do without commit 46ba0e49b642: these look for a process of that
// number, where others say that there can be none.
func followsThreads(l link.Link, err error) bool {
	if l != nil {
		_ = l.Close() // it should not be there
		return true
	}
	return errors.Is(err, os.ErrNotExist)
}

func attachMulti(e *link.Executable, pid uint32, p place, program asm.Instructions) (link.Link, error) {
	loaded, err := load(program, ebpf.AttachTraceUprobeMulti)
	if err != nil {
		return nil, err
	}
	defer loaded.Close() // the link holds it
	o := &link.UprobeMultiOptions{Addresses: []uint64{p.at}, PID: pid}
	if p.semaphore != 0 {
		o.RefCtrOffsets = []uint64{p.semaphore}
	}
	if p.leaves {
		return e.UretprobeMulti(nil, loaded, o)
	}
	return e.UprobeMulti(nil, loaded, o)
}

func (t *trace) attachOne(e *link.Executable, p place, program asm.Instructions) (link.Link, error) {
	loaded, err := load(program, ebpf.AttachNone)
	if err != nil {
		return nil, err
	}
	defer loaded.Close()
	o := &link.UprobeOptions{Address: p.at, PID: int(t.pid), RefCtrOffset: p.semaphore}
	if p.leaves {
		return e.Uretprobe("", loaded, o)
	}
	return e.Uprobe("", loaded, o)
}

// license is that of the programs, in programs.go: the kernel gives the stack only to programs of that one.
const license = "GPL"

func load(program asm.Instructions, how ebpf.AttachType) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "gpu_leak_sites", Type: ebpf.Kprobe, AttachType: how, License: license, Instructions: append(asm.Instructions(nil), program...),
	})
}

// The readings, at these parts of the time, each later by up to the last one: equal distances would beat
// with the steps of a training.
var (
	readings = []float64{0.1, 0.17, 0.24, 0.31, 0.38, 0.65, 0.72, 0.79, 0.86, 0.93}
	jitter   = 0.07
)

// watch reads the sums again and again.
func (t *trace) watch(ctx context.Context, over time.Duration) (taken []reading, err error) {
	began := time.Now()
	for _, part := range readings {
		due := time.Duration((part + jitter*rand.Float64()) * float64(over)) //nolint:gosec // nobody gains by guessing it
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Until(began.Add(due))):
		}
		r, err := t.read()
		if err != nil {
			return nil, err
		}
		taken = append(taken, r)
	}
	return taken, nil
}

// read reads what the kernel has counted.
func (t *trace) read() (reading, error) {
	sums := map[int64]total{}
	var older, stack int64
	var held total
	all := t.tables.totals.Iterate()
	for all.Next(&stack, &held) {
		sums[stack] = held
	}
	if err := all.Err(); err != nil {
		return reading{}, fmt.Errorf("read the sums: %w", err)
	}
	if err := t.tables.counters.Lookup(uint32(countOlder), &older); err != nil {
		return reading{}, fmt.Errorf("read the counters: %w", err)
	}
	return reading{sums, older}, nil
}

func (t *trace) counted() (hits, lost uint64, err error) {
	err = errors.Join(t.tables.counters.Lookup(uint32(countHits), &hits), t.tables.counters.Lookup(uint32(countLost), &lost))
	if err != nil {
		return 0, 0, fmt.Errorf("read the counters: %w", err)
	}
	return hits, lost, nil
}

// frames returns the stack of that number, the innermost frame first.
func (t *trace) frames(stack int64, n *names) []frame {
	if stack < 0 {
		return nil
	}
	addresses := make([]uint64, maxDepth)
	if err := t.tables.stacks.Lookup(uint32(stack), &addresses); err != nil {
		return nil // it shares its place with another one
	}
	var list []frame
	for i, a := range addresses {
		if a == 0 || len(list) == maxFrames {
			break
		}
		if i > 0 {
			a-- // the call, where this is the address that it returns to
		}
		f := n.frame(a)
		if !f.code {
			break // the caller has no frame pointer, and what stands in its place is no address
		}
		list = append(list, f)
	}
	return list
}
