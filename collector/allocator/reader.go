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

var (
	errNoPage = errors.New("no page")
	errOthers = errors.New("it is the page of another process")
	errDenied = errors.New("those of other users need CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH; " +
		"gpu_process_allocator_* lacks such processes (see probe/README.md)")
	errLeftOut = fmt.Errorf("they have more files open than can be looked at, %d in a second: gpu_process_allocator_* comes later", hostfs.PerSecond)
)

// FindInterval is how often a process without a page is looked at again: a program may load the probe late.
const FindInterval = 15 * time.Second

const (
	// readInterval is how often pages are read. Probes write every five seconds.
	readInterval = time.Second
	// staleAfter is six times the probe's interval: the process is stopped, or its probe is.
	staleAfter = 30 * time.Second
	// forgetAfter is how long a process is kept that nobody asks for.
	forgetAfter  = time.Minute
	maxProcesses = 8192
	// maxPages bounds the open pages, a descriptor each: 64 processes on each of 16 GPUs.
	maxPages = 1024
	// refusalWithin is how old a refusal is at most: an earlier exporter may have told it.
	refusalWithin = time.Minute
	// refusalPause is how many seconds are between two at least. A probe tells one a minute, another program may pretend to have more.
	refusalPause = 30
)

// Reader reads the pages of the processes that it is asked for. Its methods may be called from several goroutines; only Run
// touches files.
type Reader struct {
	procFS string
	sites  bool           // Ask is allowed
	device uint64         // of memory files
	buffer [written]byte  // Run's
	budget *hostfs.Budget // Run's

	mu        sync.Mutex // never held while a file is touched
	processes map[gpu.ProcessID]*process
	pages     int
	problem   error
}

// process is a process that Of was asked for.
type process struct {
	id gpu.ProcessID

	// Under Reader.mu. What records and sites point to does not change.
	asked   time.Time
	records []Record // nil: none
	refusal *Refusal // the last one; nil: none
	sites   *Sites   // nil: Ask was not called

	// Run's alone.
	looked   time.Time // for a page, the last time
	file     *os.File  // nil: none was found
	sequence uint64    // of the page that is open, or was last; 0: there was none
	written  time.Time // when the sequence last changed
	denied   bool
	names    map[source]gpu.Allocator // only the names, as they were first
	request  sitesRequest
}

// source is a framework on a GPU.
type source struct{ uuid, framework string }

// Options choose what a Reader does.
type Options struct {
	ProcFS string // where procfs is mounted; "" is /proc
	Sites  bool   // allows Ask
}

// New returns a Reader. The error means that this system has no memory files.
func New(o Options) (*Reader, error) {
	device, err := memoryFiles()
	if err != nil {
		return nil, err
	}
	return &Reader{
		procFS: cmp.Or(o.ProcFS, "/proc"), sites: o.Sites, device: device, processes: map[gpu.ProcessID]*process{},
		budget: hostfs.NewBudget(hostfs.PerSecond),
	}, nil
}

// Of returns the records of a process, one for each GPU and framework; nil if it has no probe, or if that is not known yet.
// It touches no file and does not wait: it has Run look for the page. The records must not be changed.
func (r *Reader) Of(id gpu.ProcessID) []Record {
	if id.Start == 0 {
		return nil // another process could have this number
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.processes[id]
	if p == nil {
		if len(r.processes) >= maxProcesses {
			return nil
		}
		p = &process{id: id}
		r.processes[id] = p
	}
	p.asked = time.Now()
	return p.records
}

// RefusedOn returns the last refusal of a process in a sample of the GPU of that UUID; nil if there was none on it. It does not wait,
// and the result must not be changed.
func (r *Reader) RefusedOn(uuid string, s *gpu.Sample, in *gpu.Process) *Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.processes[in.ID]
	if p == nil || p.refusal == nil || p.refusal.UUID != "" && !slices.Contains(uuids(uuid, s, in), p.refusal.UUID) {
		return nil
	}
	return p.refusal
}

// Problem returns why some processes cannot be looked at, and what to do; nil if all can.
func (r *Reader) Problem() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem
}

// Run reads pages until ctx is done. It must run only once.
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

func (r *Reader) update(now time.Time) {
	r.budget.Refill(now)
	var problem error
	for _, p := range r.wanted(now) {
		unseen := now.Sub(p.looked)
		switch {
		case p.file != nil:
			r.refresh(p, now)
		case unseen < FindInterval || r.pages == maxPages:
		case !r.budget.Spent():
			r.look(p, now)
		case unseen > 6*FindInterval && !p.looked.IsZero():
			problem = cmp.Or(problem, errLeftOut)
		}
		r.pursue(p, now)
		if p.denied {
			problem = errDenied
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problem = problem
}

// wanted returns the processes that Of was asked for lately, the longest unseen first, and forgets the others.
func (r *Reader) wanted(now time.Time) []*process {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*process, 0, len(r.processes))
	for id, p := range r.processes {
		if now.Sub(p.asked) < forgetAfter {
			list = append(list, p)
			continue
		}
		delete(r.processes, id)
		r.drop(p)
	}
	slices.SortFunc(list, func(a, b *process) int { return a.looked.Compare(b.looked) })
	return list
}

// look looks for the page of a process.
func (r *Reader) look(p *process, now time.Time) {
	p.looked = now
	f, found, err := r.find(p.id)
	p.denied = errors.Is(err, fs.ErrPermission)
	if err != nil {
		return
	}
	if found.sequence == p.sequence {
		_ = f.Close() // the stale page: its process has not written since
		return
	}
	p.file, p.sequence, p.written = f, found.sequence, now
	r.pages++
	r.publish(p, found, now)
}

// refresh reads the page of a process again. After an error, look searches for it: a probe makes a new page if its
// descriptor was closed.
func (r *Reader) refresh(p *process, now time.Time) {
	found, err := r.read(p.file)
	if err == nil && found.sequence != p.sequence {
		p.sequence, p.written = found.sequence, now
		r.publish(p, found, now)
		return
	}
	if (err == nil || errors.Is(err, errTorn)) && now.Sub(p.written) < staleAfter {
		return // the probe pauses, or is writing
	}
	r.drop(p)
	r.publish(p, page{}, now)
}

// publish has Of return the records of a page, and RefusedOn its refusal. The names become labels: the first ones stay, and a
// process that changes them again and again gets no new ones beyond maxRecords.
func (r *Reader) publish(p *process, found page, now time.Time) {
	if p.names == nil {
		p.names = map[source]gpu.Allocator{}
	}
	var kept []Record
	for _, record := range found.records {
		a := &record.Allocator
		from := source{record.UUID, a.Framework}
		if first, ok := p.names[from]; ok {
			a.Version, a.Backend = first.Version, first.Backend
		} else if len(p.names) == maxRecords {
			continue
		}
		p.names[from] = gpu.Allocator{Version: a.Version, Backend: a.Backend}
		kept = append(kept, record)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p.records = kept
	if found.refusal.follows(p.refusal, now) {
		p.refusal = found.refusal
	}
}

// follows reports whether a refusal is new after the last one; nil is none.
func (r *Refusal) follows(last *Refusal, now time.Time) bool {
	return r != nil && now.Sub(time.Unix(r.Time, 0)).Abs() <= refusalWithin && (last == nil || r.Time >= last.Time+refusalPause)
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
