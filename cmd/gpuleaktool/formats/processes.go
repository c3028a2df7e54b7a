// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// maxProcesses bounds the processes of one list.
const maxProcesses = 65536

// lives tells the processes of a GPU from earlier ones of the same number. A log does not say when
// a process started: gpu.ProcessID.Start is the number of the first list that it stands in
// without a gap, counted from 0.
type lives struct {
	number uint64
	before map[uint32]uint64 // Start by pid
}

// settle completes a list: it is put in order, and of a process that stands in it twice, such as
// for compute and for graphics, the larger amount is kept.
func (v *lives) settle(list []gpu.Process) []gpu.Process {
	slices.SortStableFunc(list, func(a, b gpu.Process) int {
		return cmp.Or(cmp.Compare(a.ID.PID, b.ID.PID), cmp.Compare(b.Used.V, a.Used.V))
	})
	list = slices.CompactFunc(list, func(a, b gpu.Process) bool { return a.ID.PID == b.ID.PID })
	now := make(map[uint32]uint64, len(list))
	for i := range list {
		id := &list[i].ID
		start, ok := v.before[id.PID]
		if !ok {
			start = v.number
		}
		now[id.PID], id.Start = start, start
	}
	v.before = now
	v.number++
	return list
}

// newProcess returns a process of a list. name may be a path, of Windows too, and its end.
func newProcess(pid uint32, name string, used gpu.Opt[uint64]) gpu.Process {
	return gpu.Process{ID: gpu.ProcessID{PID: pid}, Type: gpu.Compute, Used: used, Owner: &gpu.Owner{Process: name[strings.LastIndexAny(name, `/\`)+1:]}}
}

// slack is how far apart rows of one list can lie: some programs stamp each row when they write it.
const slack = 50 * time.Millisecond

// processLog puts the rows of processes together to lists: the rows of one GPU at one time.
type processLog struct {
	*log
	lists map[string]*processList // by UUID
}

// wrong is log.wrong. A line that cannot be read may have been of a process: the lists of that moment are not known to be whole, and
// are left out, or the process would end there and another one begin.
func (p *processLog) wrong(err error, text string) error {
	if err != nil {
		for _, l := range p.lists {
			l.damaged = 2 // the line may stand before the first row of a list
		}
	}
	return p.log.wrong(err, text)
}

// processList is the list of a GPU that is being read.
type processList struct {
	damaged int // how many lists from this one on are left out

	info  gpu.Info
	begin time.Duration
	line  int
	open  bool
	list  []gpu.Process
	used  map[uint32]gpu.Opt[uint64] // of list, by pid
	lives lives
}

// isOver reports whether a row of time t, and of a process if that is not nil, is of a later list.
// Rows of the very time at which a list begins are its own, even if a process stands in it twice.
func (l *processList) isOver(t time.Duration, process *gpu.Process) bool {
	if t > l.begin && process != nil {
		if _, twice := l.used[process.ID.PID]; twice {
			return true
		}
	}
	return t > l.begin+slack || t < l.begin
}

// add takes a row. A row without a process says that the GPU has none.
func (p *processLog) add(info gpu.Info, t time.Duration, process *gpu.Process) error {
	l := p.lists[info.UUID]
	if l == nil {
		if len(p.lists) >= maxGPUs {
			return p.lines.errorf("names more than %d GPUs: check which column names the GPU", maxGPUs)
		}
		l = &processList{info: info}
		p.lists[info.UUID] = l
	}
	if l.open && l.isOver(t, process) {
		if err := p.close(l); err != nil {
			return err
		}
	}
	if !l.open {
		l.open, l.begin, l.line, l.used = true, t, p.lines.number, map[uint32]gpu.Opt[uint64]{}
	}
	p.begun = true
	if process == nil {
		return nil
	}
	if len(l.list) >= maxProcesses {
		return p.lines.errorf("lists more than %d processes at one time: check the time stamps", maxProcesses)
	}
	pid, used := process.ID.PID, process.Used
	if before := l.used[pid]; before.OK && used.OK && before != used {
		p.leaveOut(leftTwice, p.lines.number, fmt.Sprintf("pid %d%s stands twice at one time, and the larger amount is used: record which GPU each row is of, and each GPU instance of a MIG GPU apart", pid, of(&info)))
	}
	l.used[pid] = used
	l.list = append(l.list, *process)
	return nil
}

// close ends a list.
func (p *processLog) close(l *processList) error {
	if l.damaged > 0 {
		l.damaged--
		l.open, l.list = false, nil
		return nil
	}
	s := gpu.Sample{T: l.begin, ProcessesKnown: true, Processes: l.lives.settle(l.list)}
	l.open, l.list = false, nil
	return p.emit(l.info, s, l.line)
}

// end ends the last lists, in the order of the GPUs.
func (p *processLog) end() error {
	var open []*processList
	for _, l := range p.lists {
		if l.open {
			open = append(open, l)
		}
	}
	slices.SortFunc(open, func(a, b *processList) int {
		return cmp.Or(cmp.Compare(a.info.Index, b.info.Index), cmp.Compare(a.info.UUID, b.info.UUID))
	})
	for _, l := range open {
		if err := p.close(l); err != nil {
			return err
		}
	}
	return nil
}
