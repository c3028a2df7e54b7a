// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package allocator

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

const (
	// answerInterval is how often an answer is looked for.
	answerInterval = 15 * time.Second
	// patience is how much later than it should an answer may come.
	patience = 2 * time.Minute
	// askAgain is how long an answer stands: a program that leaks for days may leak elsewhere. A
	// refusal stands for refused.
	askAgain = 6 * time.Hour
	refused  = time.Hour
	// MaxSites bounds of how many processes sites are kept, 64 KiB each at most.
	MaxSites = 64
)

// A request is a read lock on a page, far beyond its end: it starts at its number times
// requestUnit, and is as many bytes long as it has seconds. maxNumber keeps it where files may be.
//
// To write into the page may hang for ever: the process can hold the file meanwhile, with a write of
// its own from memory that never comes. A lock waits for nobody, and it goes with who asked.
const (
	requestUnit = 1 << 16
	maxNumber   = 1<<31 - 1
)

// sitesRequest is what a process was asked.
type sitesRequest struct {
	asked  time.Time     // as Sites.Asked
	over   time.Duration // as it was asked for: the process may say another
	number uint32        // nobody else's: several may ask one process, one after the other
	looked time.Time     // for the answer
}

// Ask has a process tell where it allocates what stays, if it has a page and Options.Sites
// allows it. It does not wait, and an answer of the last hours is not asked for again.
func (r *Reader) Ask(id gpu.ProcessID, over time.Duration) {
	if !r.sites {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p, now := r.processes[id], time.Now()
	switch {
	case p == nil || p.records == nil:
	case p.sites != nil && now.Sub(p.sites.Asked) < p.sites.stands():
	case p.sites == nil && r.kept() >= MaxSites:
	default:
		p.sites = &Sites{State: SitesAsked, Asked: now, Over: over}
	}
}

// kept returns of how many processes sites are kept. mu is held.
func (r *Reader) kept() (n int) {
	for _, p := range r.processes {
		if p.sites != nil {
			n++
		}
	}
	return n
}

// Sites returns what a process has answered; nil if it was not asked. It does not wait, and
// what it returns must not be changed.
func (r *Reader) Sites(id gpu.ProcessID) *Sites {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.processes[id]; p != nil {
		return p.sites
	}
	return nil
}

// SitesOn returns what a process in a sample of the GPU of that UUID tells of where it allocates
// what stays there; nil if it was not asked.
func (r *Reader) SitesOn(uuid string, s *gpu.Sample, p *gpu.Process) *Sites {
	sites := r.Sites(p.ID)
	if sites == nil || len(sites.List) == 0 {
		return sites
	}
	here, several := uuids(uuid, s, p), len(r.Of(p.ID)) > 1
	some := *sites
	some.List = slices.DeleteFunc(slices.Clone(sites.List), func(s Site) bool {
		return !slices.Contains(here, s.UUID) && (s.UUID != "" || several)
	})
	return &some
}

// final reports whether no more will come.
func (s *Sites) final() bool { return s.State == SitesDone || s.State == SitesRefused }

// stands returns for how long after it was asked for it is not asked for again.
func (s *Sites) stands() time.Duration {
	switch s.State {
	case SitesDone:
		return askAgain
	case SitesRefused:
		return refused
	default:
		return 365 * 24 * time.Hour // it is at it
	}
}

// pursue asks a process that is to be asked, and looks for its answer. The request stands until
// there is one.
func (r *Reader) pursue(id gpu.ProcessID, p *process, now time.Time) {
	r.mu.Lock()
	s := p.sites
	r.mu.Unlock()
	if s == nil || s.final() {
		return
	}
	next := *s
	switch request := &p.request; {
	case !request.asked.Equal(s.Asked):
		*request = sitesRequest{asked: s.Asked, over: s.Over, number: 1 + rand.Uint32N(maxNumber), looked: now}
		if p.file == nil {
			next.State, next.Reason = SitesRefused, "the process has no page any more"
			break
		}
		if err := ask(p.file, request.number, request.over); err != nil {
			next.State, next.Reason = SitesRefused, err.Error()
		}
	case now.Sub(request.looked) < answerInterval:
		return
	default:
		request.looked = now
		a, err := r.findAnswer(id)
		if err == nil && a.number == request.number {
			next = a.sites
			next.Asked = s.Asked
		}
		switch {
		case next.final():
		case now.Sub(s.Asked) > request.over+patience:
			next.State, next.Reason = SitesRefused, "the probe has not answered in time"
		case p.file != nil:
			_ = ask(p.file, request.number, request.over) // the page may be another one; if it fails, time runs out
		}
	}
	if next.final() && p.file != nil {
		_ = withdraw(p.file, p.request.number) // it ends with the page in any case
	}
	r.mu.Lock()
	p.sites = &next
	r.mu.Unlock()
}
