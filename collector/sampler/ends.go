// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

const (
	// maxEnds bounds the processes that wait for an answer.
	maxEnds = 256
	// firstAsked is the age of an end at the first question, at least: its incident is there by then.
	firstAsked = time.Second
	// askInterval is the time from one question to the next, and askedUntil how long after an end somebody is asked.
	askInterval = 3 * time.Second
	askedUntil  = time.Minute
	// sigterm is the exit code of a container that SIGTERM has stopped: 128 and the number of the signal.
	sigterm = 143
)

// departed is a process that is not on its GPU any more.
type departed struct {
	runs      detector.Program
	container string
	at        time.Duration // of its last sample, on the source's clock
	since     time.Time     // when its end was noticed
}

// exitCodes are those of containers by their IDs, as far as they are known.
type exitCodes map[string]gpu.Opt[int32]

// held is the incident of processes that have ended. If all of them ended well, it is none; else tell is called.
type held struct {
	*incident.Incident
	codes exitCodes // of their containers
	since time.Time
	tell  func()
}

// ends asks how the containers of ended processes have ended, and tells heights of those that ended well. Outside of Kubernetes nobody
// knows.
type ends struct {
	heights *detector.Heights
	owners  Owners
	mu      sync.Mutex // never held while somebody is asked
	waiting []departed
	held    []held // of them, and of processes that nobody can be asked for
}

// add notes the end of a process of that program. at is the time of its last sample. It never blocks: beyond maxEnds, ends stay
// unknown.
func (e *ends) add(runs detector.Program, container string, at time.Duration) {
	if e == nil || container == "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) < maxEnds {
		e.waiting = append(e.waiting, departed{runs, container, at, time.Now()})
	}
}

// hold keeps an incident until that is known. One too many is told at once.
func (e *ends) hold(i held) {
	if e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(e.held) < incident.Most {
			e.held = append(e.held, i)
			return
		}
	}
	i.tell()
}

// ask asks for the containers, and forgets the processes that will not have another answer.
func (e *ends) ask(ctx context.Context) {
	e.mu.Lock()
	waiting := slices.Clone(e.waiting)
	e.mu.Unlock()
	asked, codes, final := len(waiting), exitCodes{}, map[string]bool{}
	waiting = slices.DeleteFunc(waiting, func(l departed) bool {
		switch age := time.Since(l.since); {
		case ctx.Err() != nil || age >= askedUntil:
			return true // the exporter ends, or the runtime is slow
		case age < firstAsked:
			return false
		}
		code, again := codes[l.container]
		if !again {
			code, final[l.container] = e.owners.Ended(ctx, l.container)
			codes[l.container] = code
		}
		return final[l.container] && (!endedWell(code) || l.runs == 0 || e.heights.Ended(l.runs, l.at))
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting = append(waiting, e.waiting[asked:]...)
	e.held = slices.DeleteFunc(e.held, func(i held) bool { return e.settle(i, codes) })
}

// endedWell reports whether a program that ended so had no error.
func endedWell(code gpu.Opt[int32]) bool { return code.OK && (code.V == 0 || code.V == sigterm) }

// settle notes exit codes in an incident. Once no other will come, it tells the incident and returns true. It needs e.mu.
func (e *ends) settle(i held, codes exitCodes) bool {
	well, asked := true, false
	for id, code := range i.codes { // each is kept now: nobody asks again for one that is known
		code = cmp.Or(code, codes[id])
		i.codes[id] = code
		well = well && endedWell(code)
		asked = asked || !code.OK && slices.ContainsFunc(e.waiting, func(l departed) bool { return l.container == id })
	}
	if asked && time.Since(i.since) < askedUntil {
		return false
	}
	for k := range i.Processes {
		if p := &i.Processes[k]; p.Ended {
			p.ExitCode = i.codes[p.ContainerID]
		}
	}
	if !well {
		i.tell()
	}
	return true
}
