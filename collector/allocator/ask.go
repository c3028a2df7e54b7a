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
	answerInterval = 15 * time.Second // between two looks for an answer
	patience       = 2 * time.Minute  // with a late answer
	// keepAnswer is how long an answer counts: a program that leaks for days may leak elsewhere. keepRefusal is for a
	// refusal.
	keepAnswer  = 6 * time.Hour
	keepRefusal = time.Hour
	maxAsked    = 64 // processes whose sites are kept, 64 KiB each at most
)

// A request is a read lock on a page, far beyond its end: it starts at its number times requestUnit, and is as many bytes
// long as it has seconds. maxNumber keeps it where files may be.
//
// A write into the page could block for ever: the process can hold the file meanwhile, with its own write from memory that
// never comes. A lock blocks nobody, and it goes when the exporter does.
const (
	requestUnit = 1 << 16
	maxNumber   = 1<<31 - 1
)

// sitesRequest is the request to a process.
type sitesRequest struct {
	asked  time.Time     // as Sites.Asked
	over   time.Duration // as requested: the process may choose another
	number uint32        // at random: several exporters may ask one process
	looked time.Time     // for the answer
}

// Ask has a process record where it allocates memory that stays, if it has a page and Options.Sites allows it. It does not
// wait. While an earlier answer counts, it does nothing.
func (r *Reader) Ask(id gpu.ProcessID, over time.Duration) {
	if !r.sites {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := 0
	for _, p := range r.processes {
		if p.sites != nil {
			kept++
		}
	}
	p, now := r.processes[id], time.Now()
	switch {
	case p == nil || p.records == nil:
	case p.sites != nil && !p.sites.expired(now):
	case p.sites == nil && kept >= maxAsked:
	default:
		p.sites = &Sites{State: SitesAsked, Asked: now, Over: over}
	}
}

// Sites returns the answer of a process; nil if Ask was not called. It does not wait, and the result must not be changed.
func (r *Reader) Sites(id gpu.ProcessID) *Sites {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.processes[id]; p != nil {
		return p.sites
	}
	return nil
}

// SitesOn returns Sites of a process in a sample of the GPU of that UUID, with the sites on that GPU.
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

// final reports whether the state will not change.
func (s *Sites) final() bool { return s.State == SitesDone || s.State == SitesRefused }

// expired reports whether the process may be asked again.
func (s *Sites) expired(now time.Time) bool {
	keep := keepAnswer
	if s.State == SitesRefused {
		keep = keepRefusal
	}
	return s.final() && now.Sub(s.Asked) >= keep
}

// pursue sends the request to a process, and looks for its answer. The request stays until there is one.
func (r *Reader) pursue(p *process, now time.Time) {
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
		a, err := r.findAnswer(p.id)
		if err == nil && a.number == request.number {
			if told, err := parseSites(a.text); err == nil {
				next = told
				next.Asked = s.Asked
			}
		}
		switch {
		case next.final():
		case now.Sub(s.Asked) > request.over+patience:
			next.State, next.Reason = SitesRefused, "the probe has not answered in time"
		case p.file != nil:
			_ = ask(p.file, request.number, request.over) // the page may be a new one; after an error, time runs out
		}
	}
	if next.final() && p.file != nil {
		_ = withdraw(p.file, p.request.number) // the page takes it along in any case
	}
	r.mu.Lock()
	p.sites = &next
	r.mu.Unlock()
}
