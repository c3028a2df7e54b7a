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

// smiSlack is the longest time between two rows of one list: nvidia-smi stamps each row when it writes it.
const smiSlack = 50 * time.Millisecond

// smiApps is the format of --query-compute-apps: the rows of one time stamp are the processes of a GPU at that time. It has no
// memory of the GPU, and no list when there is no process. A CSV of another program may have a row for a GPU without a
// process.
type smiApps struct {
	header  *smiHeader
	indices map[string]int
	lists   map[string]*smiList // by UUID
}

// smiList is the list of a GPU that is being read, with what it needs of the one before.
type smiList struct {
	info    gpu.Info
	number  uint64 // how many lists were before
	begin   time.Duration
	last    smiStamp      // of the last row
	back    time.Duration // of the last row that was before it
	current map[uint32]gpu.Process
	rows    int               // of current
	before  map[uint32]uint64 // ProcessID.Start by pid
	damaged int               // how many lists from this one on are left out
}

func newSMIApps(h *smiHeader) (*smiApps, error) {
	if !h.known["used_gpu_memory"] && !h.known["used_memory"] {
		return nil, errors.New("no used_gpu_memory column: record with " + smiQueryApps)
	}
	return &smiApps{header: h, indices: map[string]int{}, lists: map[string]*smiList{}}, nil
}

func (f *smiApps) line(text string) (reading, bool, error) {
	if f.header.other == nil && isSMIHeader(text) {
		return reading{}, false, f.header.again(text)
	}
	row, err := f.row(text)
	if err != nil {
		f.damage(err)
		return reading{}, false, err
	}
	f.header.rows++
	row.identify(f.indices)
	l := f.lists[row.Info.UUID]
	if l == nil {
		if err := f.header.checkGPUs(len(f.lists)); err != nil {
			return reading{}, false, err
		}
		l = &smiList{info: row.Info}
		f.lists[row.Info.UUID] = l
	}
	row.stamp.settle(l.last.t)
	_, twice := l.current[row.PID.V]
	before := l.last.t
	if f.header.other != nil { // a list that comes each few milliseconds may be without a process
		before = l.begin
	}
	switch t := row.stamp.t; {
	case l.current == nil:
		l.open(t)
	case t < before && t == l.back && f.header.other != nil: // its list counts once
		return reading{}, false, nil
	case t < before:
		l.back = t
		return reading{}, false, f.header.notAfterRow(row, &l.last)
	case twice && t == l.begin && f.header.other == nil:
		err := fmt.Errorf("pid: %d stands twice in the list%s: record with gpu_uuid, and each GPU instance of a MIG GPU apart", row.PID.V, of(&l.info))
		return reading{}, false, fmt.Errorf("%w: %s", err, QuoteLine(text))
	case twice && t > l.begin, t > before+smiSlack:
		done, whole := l.close()
		l.open(t)
		return done, whole, l.add(row)
	}
	return reading{}, false, l.add(row)
}

// row reads a row, which must name a process.
func (f *smiApps) row(text string) (*Row, error) {
	row := new(Row)
	if err := f.header.read(text, row); err != nil {
		return nil, f.header.wrongRow(err, text)
	}
	if !row.PID.OK && f.header.other == nil {
		return nil, f.header.wrong(errors.New("pid: is missing: remove the line"), text)
	}
	return row, nil
}

func (f *smiApps) isWhole(text string) bool { return f.header.isWhole(text) }

func (f *smiApps) end() []reading {
	var out []reading
	for _, uuid := range slices.Sorted(maps.Keys(f.lists)) {
		if done, whole := f.lists[uuid].close(); whole {
			out = append(out, done)
		}
	}
	return out
}

// open begins a list.
func (l *smiList) open(t time.Duration) {
	l.begin, l.current, l.rows = t, map[uint32]gpu.Process{}, 0
}

// maxProcesses bounds the rows of one list.
const maxProcesses = 65536

// add puts a row into the list. A log does not tell when a process started, so ProcessID.Start is the number of the first list
// that it stands in without a gap, counted from 0: a pid that was gone is another process. If a process stands in it twice,
// the larger amount is kept, and the error says that the other one is left out.
func (l *smiList) add(r *Row) error {
	l.last = r.stamp
	if !r.PID.OK {
		return nil // the GPU has no process
	}
	if l.rows++; l.rows > maxProcesses {
		return fmt.Errorf("lists more than %d processes at one time: check the time stamps", maxProcesses)
	}
	start, ok := l.before[r.PID.V]
	if !ok {
		start = l.number
	}
	have, twice := l.current[r.PID.V]
	if !twice || r.Used.V > have.Used.V {
		l.current[r.PID.V] = gpu.Process{
			ID: gpu.ProcessID{PID: r.PID.V, Start: start}, Type: gpu.Compute,
			Used: r.Used, Owner: &gpu.Owner{Process: r.Process},
		}
	}
	if have.Used.OK && r.Used.OK && have.Used != r.Used {
		return &leftOutError{reason: leftOutTwice, why: fmt.Sprintf("pid %d%s stands twice at one time, and the larger amount is used: record which GPU each row is of, and each GPU instance of a MIG GPU apart", r.PID.V, of(&l.info))}
	}
	return nil
}

// damage notes that a line cannot be read. It may have been of a process. The lists of that moment are left out, or the
// process would end there and another one begin.
func (f *smiApps) damage(err error) {
	if left, ok := errors.AsType[*leftOutError](err); ok && left.reason == leftOutWrong {
		for _, l := range f.lists {
			l.damaged = 2 // the line may stand before the first row of a list
		}
	}
}

// close ends the list and returns it; whole is false if it is left out.
func (l *smiList) close() (done reading, whole bool) {
	if l.damaged > 0 {
		l.damaged--
		return reading{}, false
	}
	s := gpu.Sample{Time: time.Unix(0, int64(l.begin)).UTC(), T: l.begin}
	s.ProcessesKnown = true
	s.Processes = slices.SortedFunc(maps.Values(l.current), gpu.CompareProcesses)
	l.before = make(map[uint32]uint64, len(l.current))
	for pid, p := range l.current {
		l.before[pid] = p.ID.Start
	}
	l.number++
	return reading{info: l.info, sample: s}, true
}
