// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// What this file loads into the kernel may be used under GPL-2.0-only, too: the kernel asks for that.

package tracer

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
)

// Bounds of the maps.
const (
	maxPending = 16384   // calls under way, of which each thread has a few
	maxLive    = 1 << 20 // blocks
	maxFixed   = 1 << 18 // blocks, on kernels where they take their memory at once: 25 MB
	maxStacks  = 16384
	maxDepth   = 127 // the kernel's own limit
	noStack    = -1  // of the kernel's errors and of collisions
)

// Counters, by their index in the map of counters.
const (
	countHits  = iota // blocks that were allocated
	countLost         // of them, those for which there was no room
	countOlder        // blocks that were freed, and allocated before anybody followed
	counterCount
)

// tables are the maps that the programs share.
type tables struct {
	pending  *ebpf.Map // thread and layer → where the address will be, size; of freed: the address
	live     *ebpf.Map // address of a block → size, stack
	totals   *ebpf.Map // stack → bytes, blocks
	stacks   *ebpf.Map
	counters *ebpf.Map
}

// total is a value of tables.totals.
type total struct{ Bytes, Blocks int64 }

// liveTable returns what the table of blocks is. Before Linux 6.1 such programs may not take memory as they run:
// the kernel warns of it, which some are told to panic at, or refuses.
func liveTable(kernel uint32) ebpf.MapSpec {
	s := ebpf.MapSpec{Name: "live", Type: ebpf.Hash, KeySize: 8, ValueSize: 16, MaxEntries: maxFixed}
	if kernel >= 6<<16|1<<8 {
		s.MaxEntries, s.Flags = maxLive, noPrealloc
	}
	return s
}

// newTables makes them for a version of the kernel; 0 is this one's.
func newTables(kernel uint32) (t *tables, err error) {
	t = &tables{}
	if kernel == 0 {
		if kernel, err = features.LinuxVersionCode(); err != nil {
			return nil, fmt.Errorf("the version of the kernel: %w", err)
		}
	}
	for _, m := range []struct {
		to   **ebpf.Map
		spec ebpf.MapSpec
	}{
		{&t.pending, ebpf.MapSpec{Name: "pending", Type: ebpf.LRUHash, KeySize: 16, ValueSize: 16, MaxEntries: maxPending}},
		{&t.live, liveTable(kernel)},
		{&t.totals, ebpf.MapSpec{Name: "totals", Type: ebpf.Hash, KeySize: 8, ValueSize: 16, MaxEntries: maxStacks + 1}},
		{&t.stacks, ebpf.MapSpec{Name: "stacks", Type: ebpf.StackTrace, KeySize: 4, ValueSize: 8 * maxDepth, MaxEntries: maxStacks}},
		{&t.counters, ebpf.MapSpec{Name: "counters", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: counterCount}},
	} {
		if *m.to, err = ebpf.NewMap(&m.spec); err != nil {
			t.close()
			return nil, fmt.Errorf("make the map %s: %w", m.spec.Name, err)
		}
	}
	return t, nil
}

func (t *tables) close() {
	for _, m := range []*ebpf.Map{t.pending, t.live, t.totals, t.stacks, t.counters} {
		if m != nil {
			_ = m.Close()
		}
	}
}

// Flags of the kernel's interface.
const (
	noPrealloc = 1      // BPF_F_NO_PREALLOC
	userStack  = 1 << 8 // BPF_F_USER_STACK
	noExist    = 1      // BPF_NOEXIST
)

// Places on a program's stack, relative to its frame pointer. What is at key and value is given to
// the helpers for maps.
const (
	keyAt   = -16 // 16 bytes
	valueAt = -32 // 16 bytes
	blockAt = -40 // address of the block
	stackAt = -48 // its stack
	sizeAt  = -56
	countAt = -60 // 4 bytes
	sumAt   = -80 // 16 bytes
)

// enter returns a program for the entry of a function that allocates: func(out **, size, …). It
// notes both until the function returns. layer tells functions that call each other apart.
func (t *tables) enter(m *machine, layer int64) asm.Instructions {
	return join(
		asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)},
		callKey(layer),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.R6, m.parameters[0], asm.DWord),
			asm.StoreMem(asm.RFP, valueAt, asm.R1, asm.DWord),
			asm.LoadMem(asm.R1, asm.R6, m.parameters[1], asm.DWord),
			asm.StoreMem(asm.RFP, valueAt+8, asm.R1, asm.DWord),
		},
		update(t.pending, keyAt, valueAt, 0),
		exit(),
	)
}

// leave returns a program for the return of such a function: the block is there if it returned 0.
func (t *tables) leave(m *machine, layer int64) asm.Instructions {
	return join(
		asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)},
		callKey(layer),
		lookup(t.pending, keyAt),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "exit"),
			asm.LoadMem(asm.R7, asm.R0, 0, asm.DWord),
			asm.LoadMem(asm.R1, asm.R0, 8, asm.DWord),
			asm.StoreMem(asm.RFP, sizeAt, asm.R1, asm.DWord),
		},
		remove(t.pending, keyAt),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.R6, m.result, asm.Word), // an enumeration
			asm.JNE.Imm(asm.R1, 0, "exit"),
		},
		readUser(blockAt, asm.R7),
		asm.Instructions{asm.JNE.Imm(asm.R0, 0, "exit")},
		t.allocated(),
		exit(),
	)
}

// free returns a program for the entry of a function that frees: func(block, …).
func (t *tables) free(m *machine) asm.Instructions {
	return join(
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.R1, m.parameters[0], asm.DWord),
			asm.StoreMem(asm.RFP, blockAt, asm.R1, asm.DWord),
		},
		t.given(),
		exit(),
	)
}

// markAllocated returns a program for a mark in the code whose arguments are the block and its size.
func (t *tables) markAllocated(block, size argument) asm.Instructions {
	return join(
		asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)},
		block.load(blockAt),
		size.load(sizeAt),
		t.allocated(),
		exit(),
	)
}

// markFreed is the same of what is freed.
func (t *tables) markFreed(block argument) asm.Instructions {
	return join(
		asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)},
		block.load(blockAt),
		t.given(),
		exit(),
	)
}

// given takes the block at blockAt out, or counts it as an older one. A function that frees may call
// another one for the same block, which says nothing new.
func (t *tables) given() asm.Instructions {
	return join(
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.RFP, blockAt, asm.DWord),
			asm.JEq.Imm(asm.R1, 0, "exit"),
			asm.Mov.Imm(asm.R9, 0),
		},
		t.freed("freed"),
		callKey(freedLayer),
		lookup(t.pending, keyAt),
		asm.Instructions{
			asm.LoadMem(asm.R2, asm.RFP, blockAt, asm.DWord),
			asm.JEq.Imm(asm.R0, 0, "first"),
			asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
			asm.JNE.Reg(asm.R1, asm.R2, "first"),
			asm.Ja.Label("exit"),
			asm.StoreMem(asm.RFP, valueAt, asm.R2, asm.DWord).WithSymbol("first"),
			asm.StoreMem(asm.RFP, valueAt+8, asm.R2, asm.DWord),
		},
		update(t.pending, keyAt, valueAt, 0),
		asm.Instructions{asm.JNE.Imm(asm.R9, 0, "exit")},
		count(t.counters, countOlder, "counted"),
	)
}

// allocated counts the block at blockAt and sizeAt. The context is in R6. A block that is there
// already was told by a function that this one called.
func (t *tables) allocated() asm.Instructions {
	return join(
		count(t.counters, countHits, "hit"),
		t.freed("replaced"),
		asm.Instructions{
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.LoadMapPtr(asm.R2, t.stacks.FD()),
			asm.Mov.Imm(asm.R3, userStack),
			asm.FnGetStackid.Call(),
			asm.JSGE.Imm(asm.R0, 0, "stack"),
			asm.Mov.Imm(asm.R0, noStack),
			asm.StoreMem(asm.RFP, stackAt, asm.R0, asm.DWord).WithSymbol("stack"),
			asm.LoadMem(asm.R1, asm.RFP, sizeAt, asm.DWord),
			asm.StoreMem(asm.RFP, valueAt, asm.R1, asm.DWord),
			asm.StoreMem(asm.RFP, valueAt+8, asm.R0, asm.DWord),
		},
		update(t.live, blockAt, valueAt, 0),
		asm.Instructions{asm.JNE.Imm(asm.R0, 0, "lost")},
		// The first block of a stack; it fails for others.
		asm.Instructions{
			asm.Mov.Imm(asm.R1, 0),
			asm.StoreMem(asm.RFP, sumAt, asm.R1, asm.DWord),
			asm.StoreMem(asm.RFP, sumAt+8, asm.R1, asm.DWord),
		},
		update(t.totals, stackAt, sumAt, noExist),
		lookup(t.totals, stackAt),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "exit"),
			asm.LoadMem(asm.R1, asm.RFP, sizeAt, asm.DWord),
			asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
			asm.Mov.Imm(asm.R1, 1),
			asm.Add.Imm(asm.R0, 8),
			asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
			asm.Ja.Label("exit"),
		},
		named("lost", count(t.counters, countLost, "counted")),
	)
}

// freed takes the block at blockAt out, if it is known: then R9 is 1. label tells the places of it in a program apart.
func (t *tables) freed(label string) asm.Instructions {
	return join(
		lookup(t.live, blockAt),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, label),
			asm.LoadMem(asm.R8, asm.R0, 0, asm.DWord),
			asm.LoadMem(asm.R1, asm.R0, 8, asm.DWord),
			asm.StoreMem(asm.RFP, stackAt, asm.R1, asm.DWord),
		},
		remove(t.live, blockAt),
		// Another thread may have been faster.
		asm.Instructions{asm.JNE.Imm(asm.R0, 0, label), asm.Mov.Imm(asm.R9, 1)},
		lookup(t.totals, stackAt),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, label),
			asm.Neg.Imm(asm.R8, 0),
			asm.StoreXAdd(asm.R0, asm.R8, asm.DWord),
			asm.Mov.Imm(asm.R1, -1),
			asm.Add.Imm(asm.R0, 8),
			asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
			asm.Mov.Imm(asm.R0, 0).WithSymbol(label),
		},
	)
}

// freedLayer is where pending has the block that a thread freed last.
const freedLayer = -1

// callKey stores the key of the call of this thread.
func callKey(layer int64) asm.Instructions {
	return asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(asm.RFP, keyAt, asm.R0, asm.DWord),
		asm.Mov.Imm(asm.R1, int32(layer)),
		asm.StoreMem(asm.RFP, keyAt+8, asm.R1, asm.DWord),
	}
}

func lookup(m *ebpf.Map, key int32) asm.Instructions {
	return join(asm.Instructions{asm.LoadMapPtr(asm.R1, m.FD())}, point(asm.R2, key), asm.Instructions{asm.FnMapLookupElem.Call()})
}

func remove(m *ebpf.Map, key int32) asm.Instructions {
	return join(asm.Instructions{asm.LoadMapPtr(asm.R1, m.FD())}, point(asm.R2, key), asm.Instructions{asm.FnMapDeleteElem.Call()})
}

func update(m *ebpf.Map, key, value, flags int32) asm.Instructions {
	return join(
		asm.Instructions{asm.LoadMapPtr(asm.R1, m.FD())}, point(asm.R2, key), point(asm.R3, value),
		asm.Instructions{asm.Mov.Imm(asm.R4, flags), asm.FnMapUpdateElem.Call()},
	)
}

// readUser reads eight bytes of the process into a place on the stack. from is no register that is
// used for arguments before the third.
func readUser(to int32, from asm.Register) asm.Instructions {
	return join(point(asm.R1, to), asm.Instructions{asm.Mov.Imm(asm.R2, 8), asm.Mov.Reg(asm.R3, from), asm.FnProbeReadUser.Call()})
}

// point has a register point to a place on the stack.
func point(r asm.Register, at int32) asm.Instructions {
	return asm.Instructions{asm.Mov.Reg(r, asm.RFP), asm.Add.Imm(r, at)}
}

// count adds one to a counter.
func count(m *ebpf.Map, counter int64, label string) asm.Instructions {
	return join(
		asm.Instructions{asm.StoreImm(asm.RFP, countAt, counter, asm.Word)},
		lookup(m, countAt),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, label),
			asm.Mov.Imm(asm.R1, 1),
			asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
			asm.Mov.Imm(asm.R0, 0).WithSymbol(label),
		},
	)
}

func exit() asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"), asm.Return()}
}

func named(label string, list asm.Instructions) asm.Instructions {
	list[0] = list[0].WithSymbol(label)
	return list
}

func join(parts ...asm.Instructions) (all asm.Instructions) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}
