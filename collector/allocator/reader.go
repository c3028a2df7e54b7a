// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package allocator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

// errNoPage says that a process has no page.
var errNoPage = errors.New("no page")

// errOthers says that a page is another process's.
var errOthers = errors.New("it is the page of another process")

const (
	// readInterval is how often pages are read. Probes write every five seconds.
	readInterval = time.Second
	// findInterval is how often a process without a page is looked at again, as a probe is loaded at the start of
	// a program; lateInterval is how long that may take after earlyFor: it may load the probe late. A look takes a
	// microsecond or two for each file that the process has open.
	findInterval = 15 * time.Second
	lateInterval = time.Minute
	earlyFor     = time.Minute
	// staleAfter is six times the probe's interval: the process is stopped, or its probe is.
	staleAfter = 30 * time.Second
	// forgetAfter is how long a process is kept that nobody asks for.
	forgetAfter = time.Minute
	// MaxProcesses bounds how many processes are looked at; MaxPages how many pages are
	// kept open, a descriptor each.
	MaxProcesses = 8192
	// MaxPages is for 64 processes on each of 16 GPUs.
	MaxPages = 1024
)

// Reader reads the pages of the processes that it is asked for. Its methods may be called
// from several goroutines; only Run touches files.
type Reader struct {
	procFS string
	sites  bool           // processes may be asked for them
	device uint64         // of memory files
	buffer [written]byte  // Run's
	list   []asked        // Run's
	budget *hostfs.Budget // Run's

	mu        sync.Mutex // never held while a file is touched
	processes map[gpu.ProcessID]*process
	pages     int
	problem   error
}

// process is one that somebody asked for.
type process struct {
	// Under Reader.mu.
	asked   time.Time
	records []Record // not changed once they are here; nil: none
	sites   *Sites   // not changed once it is here; nil: nobody has asked for them

	// Run's alone.
	first    time.Time // look for a page
	looked   time.Time // for a page, the last time
	file     *os.File  // nil: none was found
	sequence uint64    // of the page that is open, or was last; 0: there was none
	written  time.Time // when the sequence was seen to change
	denied   bool
	names    map[source]gpu.Allocator // only the names, as they were first told
	request  sitesRequest
}

// source is a framework on a GPU.
type source struct{ uuid, framework string }

// Options choose what a Reader does.
type Options struct {
	// ProcFS is where procfs is mounted; "" is /proc.
	ProcFS string
	// Sites lets processes be asked where they allocate what stays.
	Sites bool
}

// New returns a Reader. The error says that this system has no memory files.
func New(o Options) (*Reader, error) {
	device, err := memoryFiles()
	if err != nil {
		return nil, err
	}
	return &Reader{
		procFS: cmp.Or(o.ProcFS, "/proc"), sites: o.Sites, device: device, processes: map[gpu.ProcessID]*process{},
		budget: hostfs.NewBudget(hostfs.PerSecond, hostfs.Save),
	}, nil
}

// Of returns what the allocator in a process says of each GPU; nil if it has no probe, or
// if that is not known yet. It touches no file and does not wait: who asks for a process
// has Run look for it. The records must not be changed.
func (r *Reader) Of(id gpu.ProcessID) []Record {
	if id.Start == 0 {
		return nil // it could not be told from another of its number
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.processes[id]
	if p == nil {
		if len(r.processes) >= MaxProcesses {
			return nil
		}
		p = &process{}
		r.processes[id] = p
	}
	p.asked = time.Now()
	return p.records
}

// Problem returns why some processes cannot be looked at, and what to do; nil if all can.
func (r *Reader) Problem() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem
}

// errDenied names the rights that are missing.
var errDenied = errors.New("those of other users need CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH; " +
	"gpu_process_allocator_* lacks such processes (see probe/README.md)")

// errLeftOut says that some processes were not looked at in time.
var errLeftOut = fmt.Errorf("they have more files open than can be looked at, %d in a second: gpu_process_allocator_* comes later", hostfs.PerSecond)

// Run reads pages until ctx is done. It must run once only.
func (r *Reader) Run(ctx context.Context) {
	tick := time.NewTicker(readInterval)
	defer tick.Stop()
	defer r.close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.update(time.Now())
		}
	}
}

// update reads what there is to read once.
func (r *Reader) update(now time.Time) {
	r.budget.Refill(now)
	var problem error
	for _, w := range r.wanted(now) {
		id, p := w.id, w.process
		waits := now.Sub(p.looked) - p.lookInterval(id, now)
		switch {
		case p.file != nil:
			r.refresh(p, now)
		case waits < 0 || r.pages == MaxPages:
		case !r.budget.Spent():
			r.look(id, p, now)
		case waits > lateInterval && !p.looked.IsZero():
			problem = cmp.Or(problem, errLeftOut)
		}
		r.pursue(id, p, now)
		if p.denied {
			problem = errDenied
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problem = problem
}

// asked is a process that somebody asks for.
type asked struct {
	id      gpu.ProcessID
	process *process
}

// wanted returns the processes that are asked for, the longest unseen first, and forgets the others. The list is Run's
// until the next call.
func (r *Reader) wanted(now time.Time) []asked {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.list)
	r.list = r.list[:0]
	for id, p := range r.processes {
		if now.Sub(p.asked) < forgetAfter {
			r.list = append(r.list, asked{id, p})
			continue
		}
		delete(r.processes, id)
		r.drop(p)
	}
	slices.SortFunc(r.list, func(a, b asked) int { return a.process.looked.Compare(b.process.looked) })
	return r.list
}

// lookInterval is how far apart two looks for the page of a process are now. Late ones are spread by the number of the
// process: all may have been found in one second.
func (p *process) lookInterval(id gpu.ProcessID, now time.Time) time.Duration {
	if p.sequence == 0 && now.Sub(p.first) >= earlyFor { // who had a page may make a new one
		return lateInterval - time.Duration(id.PID%30)*time.Second
	}
	return findInterval
}

// look looks for the page of a process.
func (r *Reader) look(id gpu.ProcessID, p *process, now time.Time) {
	p.looked = now
	if p.first.IsZero() {
		p.first = now
	}
	f, found, err := r.find(id)
	p.denied = errors.Is(err, fs.ErrPermission)
	if err != nil {
		return
	}
	if found.sequence == p.sequence {
		_ = f.Close() // the page that was given up, and still nobody writes it
		return
	}
	p.file, p.sequence, p.written = f, found.sequence, now
	r.pages++
	r.publish(p, found.records)
}

// refresh reads the page of a process again. What cannot be read is looked for again: a
// probe makes a new page where its descriptor was closed.
func (r *Reader) refresh(p *process, now time.Time) {
	if r.unchanged(p.file, p.sequence) {
		if now.Sub(p.written) >= staleAfter {
			r.drop(p)
			r.publish(p, nil)
		}
		return
	}
	found, err := r.read(p.file)
	if errors.Is(err, errTorn) && now.Sub(p.written) < staleAfter {
		return // it is written this very moment
	}
	if err != nil {
		r.drop(p)
		r.publish(p, nil)
		return
	}
	p.sequence, p.written = found.sequence, now
	r.publish(p, found.records)
}

// publish has Of return these records. The names become labels: what was told first stays,
// and of a process that tells ever new ones the later ones are left out.
func (r *Reader) publish(p *process, records []Record) {
	if p.names == nil {
		p.names = map[source]gpu.Allocator{}
	}
	var kept []Record
	for _, record := range records {
		a := &record.Allocator
		from := source{record.UUID, a.Framework}
		first, ok := p.names[from]
		if !ok && len(p.names) == maxRecords {
			continue
		}
		if !ok {
			first = gpu.Allocator{Version: a.Version, Backend: a.Backend}
			p.names[from] = first
		}
		a.Version, a.Backend = first.Version, first.Backend
		kept = append(kept, record)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p.records = kept
}

// drop closes the page of a process.
func (r *Reader) drop(p *process) {
	if p.file != nil {
		_ = p.file.Close() // it was only read
		p.file = nil
		r.pages--
	}
}

func (r *Reader) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.processes {
		r.drop(p)
	}
}
