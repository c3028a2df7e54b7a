// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

const (
	// smiSlack is the longest time between two rows of one list: nvidia-smi stamps each row when it writes it.
	smiSlack = 50 * time.Millisecond
	// maxProcesses bounds the rows of one list.
	maxProcesses = 65536
)

// procList is the list of the processes of a GPU at one time, which is being read, with what it needs of the one before. A
// log of processes has no memory of the GPU and, if nvidia-smi wrote it, no list when there is no process.
type procList struct {
	info    gpu.Info
	number  uint64 // how many lists were before
	begin   time.Duration
	last    stamp                  // of the last row
	current map[uint32]gpu.Process // nil before the first list
	rows    int                    // of current
	before  map[uint32]gpu.Process
	damaged int // how many lists from this one on are left out
}

// addProcess puts a row into the list of its GPU, and returns the list that ends with that.
func (c *csvLog) addProcess(r *csvRow) (done *reading, err error) {
	l := c.lists[r.info.UUID]
	if l == nil {
		if len(c.lists) == maxGPUs {
			return nil, errManyGPUs
		}
		l = &procList{info: r.info}
		c.lists[r.info.UUID] = l
	}
	r.stamp.settle(l.last.t)
	_, twice := l.current[r.pid.V]
	switch t := r.stamp.t; {
	case l.current == nil:
		l.open(t)
	case t < l.last.t:
		return nil, r.notAfter(&l.last)
	case twice && t > l.begin, t > l.last.t+smiSlack:
		done = l.close()
		l.open(t)
	}
	return done, l.add(r)
}

// end returns the lists that are open.
func (c *csvLog) end() (out []*reading) {
	for _, uuid := range slices.Sorted(maps.Keys(c.lists)) {
		if done := c.lists[uuid].close(); done != nil {
			out = append(out, done)
		}
	}
	return out
}

// open begins a list.
func (l *procList) open(t time.Duration) {
	l.begin, l.current, l.rows = t, map[uint32]gpu.Process{}, 0
}

// add puts a row into the list. A log does not tell when a process started, so ProcessID.Start is the number of the first list
// that it stands in without a gap, counted from 0: a pid that was gone is another process. If a process stands in it twice,
// the larger amount is kept, and the error says that the other one is left out.
func (l *procList) add(r *csvRow) error {
	l.last = r.stamp
	if !r.pid.OK {
		return nil // the GPU has no process
	}
	if l.rows++; l.rows > maxProcesses {
		return fmt.Errorf("lists more than %d processes at one time: check the time stamps", maxProcesses)
	}
	p, ok := l.before[r.pid.V]
	if !ok {
		// There is no secret in the name of its program: the log tells it, too.
		owner := &gpu.Owner{Process: r.process, Runs: (&gpu.Program{Name: r.process}).Hash(nil)}
		p = gpu.Process{ID: gpu.ProcessID{PID: r.pid.V, Start: l.number}, Type: gpu.Compute, Owner: owner}
	}
	have, twice := l.current[r.pid.V]
	if p.Used = r.sample.Memory.Used; !twice || p.Used.V > have.Used.V {
		l.current[r.pid.V] = p
	}
	if have.Used.OK && r.sample.Memory.Used.OK && have.Used != r.sample.Memory.Used {
		return &leftOutError{reason: leftOutTwice, why: fmt.Sprintf("pid %d%s stands twice at one time, and the larger amount is used: record which GPU each row is of, and each GPU instance of a MIG GPU apart", r.pid.V, of(&l.info))}
	}
	return nil
}

// damage notes that a line cannot be read. It may have been of a process. The lists of that moment are left out, or the
// process would end there and another one begin.
func (c *csvLog) damage(err error) {
	if left, ok := errors.AsType[*leftOutError](err); ok && left.reason == leftOutWrong {
		for _, l := range c.lists {
			l.damaged = 2 // the line may stand before the first row of a list
		}
	}
}

// close ends the list and returns it; nil if it is left out.
func (l *procList) close() *reading {
	if l.damaged > 0 {
		l.damaged--
		return nil
	}
	s := gpu.Sample{Time: time.Unix(0, int64(l.begin)).UTC(), T: l.begin, ProcessesKnown: true}
	s.Processes = slices.SortedFunc(maps.Values(l.current), gpu.CompareProcesses)
	l.before = l.current
	l.number++
	return &reading{info: l.info, sample: s}
}
