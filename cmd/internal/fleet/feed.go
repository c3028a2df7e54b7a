// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/model"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// standing is the last state of a GPU.
type standing uint8

const (
	fresh  standing = iota
	lost            // others of its place have samples, and it has none
	silent          // none of its place has
)

// feed is the queue of one GPU. The goroutine that asks fills it, and that of the device empties it.
type feed struct {
	source *Source
	key    string
	wake   chan struct{} // told that there is something to read

	mu       sync.Mutex
	rows     []row     // to be read, in order of time
	fault    error     // to be read once the rows are
	memories []*memory // of the GPU as a whole, if that has series, and of its instances by number

	// What follows belongs to the goroutine that asks.
	device *device
	place  string
	last   time.Duration // the newest row
	state  standing
}

// row is one sample of one memory.
type row struct {
	t      time.Duration // since the Unix epoch
	used   uint64        // bytes
	memory *memory
}

// memory is that of a GPU or of a GPU instance. What may change is guarded by feed.mu.
type memory struct {
	feed    *feed
	id      gpu.Opt[uint32] // of the GPU instance; absent for the GPU as a whole
	profile string

	total, reserved gpu.Opt[uint64] // bytes
	owner           *gpu.Owner      // nil: nobody
	read            row             // the last one

	// What follows belongs to the goroutine that asks.
	asked   bool // how much there is has been asked for
	last    time.Duration
	follows model.Fingerprint // of the series that was taken last
	streams []stream          // of one answer
}

// push adds rows, in order and later than all before, or a change. The feed keeps the slice.
func (f *feed) push(rows []row) {
	f.mu.Lock()
	if len(f.rows) == 0 {
		f.rows = rows // an answer may have millions
	} else {
		f.rows = append(f.rows, rows...)
	}
	if len(rows) > 0 { // a GPU with a sample is no longer silent
		f.state, f.fault = fresh, nil
	}
	f.mu.Unlock()
	f.source.queued.Add(int64(len(rows)))
	f.ring()
}

func (f *feed) ring() {
	select {
	case f.wake <- struct{}{}:
	default: // it is told already
	}
}

// turn has the reader learn that there are no samples, once.
func (f *feed) turn(to standing, why error) {
	if f.state == to {
		return
	}
	f.state = to
	f.mu.Lock()
	f.fault = why
	f.mu.Unlock()
	f.ring()
}

// empty empties the queue.
func (f *feed) empty() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.source.taken(len(f.rows))
	f.rows = nil
}

// forgetInstances removes GPU instances without a sample since then, where others have some: the layout is another one.
func (f *feed) forgetInstances(since time.Duration) {
	gone := func(m *memory) bool { return m.id.OK && m.last < since }
	if f.last >= since && slices.ContainsFunc(f.memories, gone) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.memories = slices.DeleteFunc(f.memories, gone)
	}
}

// memoryOf returns the memory of a GPU instance, or of the GPU itself for an absent one. It makes one that is new if wanted.
func (f *feed) memoryOf(id gpu.Opt[uint32], profile string, wanted bool) *memory {
	for _, m := range f.memories {
		if m.id == id && m.profile == profile {
			return m
		}
	}
	if !wanted || len(f.memories) == maxInstances {
		return nil
	}
	m := &memory{feed: f, id: id, profile: profile}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.memories = append(f.memories, m)
	slices.SortFunc(f.memories, func(a, b *memory) int { return cmp.Compare(a.id.V, b.id.V) })
	return m
}

// next takes the sample that is due.
func (f *feed) next() (gpu.Sample, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.rows) == 0 {
		err := f.fault
		if f.fault = nil; err == nil {
			err = errNothing
		}
		return gpu.Sample{}, err
	}
	t, n := f.rows[0].t, 0
	s := gpu.Sample{Time: wall(t), T: t}
	for ; n < len(f.rows) && f.rows[n].t == t; n++ {
		f.rows[n].memory.read = f.rows[n]
	}
	for _, m := range f.memories {
		used := gpu.Some(m.read.used).If(m.read.t == t)
		// A number that was given to another profile is that of the instance with the later row.
		later := func(o *memory) bool { return o.id == m.id && o.read.t > m.read.t }
		if m.id.OK && m.read.t > 0 && !slices.ContainsFunc(f.memories, later) {
			s.Instances = append(s.Instances, gpu.Instance{ID: m.id.V, Profile: m.profile, Memory: m.at(used), Owner: m.owner})
		} else if !m.id.OK && used.OK {
			s.Memory, s.Owner = m.at(used), m.owner
		}
	}
	if f.rows = f.rows[n:]; len(f.rows) == 0 {
		f.rows = nil // a history was long
	}
	s.More = len(f.rows) > 0 || f.source.learning.Load()
	f.source.taken(n)
	return s, nil
}

// at returns the memory with so much in use.
func (m *memory) at(used gpu.Opt[uint64]) gpu.Memory {
	found := gpu.Memory{Total: m.total, Used: used, Reserved: m.reserved}
	if c := found.Capacity(); c.OK && used.OK && used.V <= c.V {
		found.Free = gpu.Some(c.V - used.V)
	}
	return found
}

// waiting reports whether there is something to read.
func (f *feed) waiting() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.rows) > 0 || f.fault != nil
}

// taken notes that rows have been read.
func (s *Source) taken(n int) {
	if s.queued.Add(-int64(n)) == 0 {
		select {
		case s.drained <- struct{}{}:
		default:
		}
	}
}

// errNothing says that Read was called without Wait.
var errNothing = errors.New("no sample is due")

// device implements gpu.Device. Another index or place is another device of the same feed.
type device struct {
	info gpu.Info
	feed *feed
}

// Info implements gpu.Device.
func (d *device) Info() gpu.Info { return d.info }

// Wait implements gpu.Device. It misses nothing: late samples follow.
func (d *device) Wait(ctx context.Context) (int, error) {
	for !d.feed.waiting() {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-d.feed.wake:
		}
	}
	return 0, ctx.Err()
}

// Read implements gpu.Device. It never blocks.
func (d *device) Read(context.Context) (gpu.Sample, error) { return d.feed.next() }

// ReadGroup implements gpu.Device. There is nothing but memory.
func (*device) ReadGroup(context.Context, gpu.Group, *gpu.Status) error { return nil }
