// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"sync"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

const (
	// maxReaders bounds the lookups at a time, and so the threads that may block. To read the arguments of a process the
	// kernel waits for a lock of that process, which may be held for ever: by an mmap of a file whose file system does not
	// answer. No signal interrupts that wait.
	maxReaders = 4
	// overdueAfter is when a lookup counts as blocked. One takes a tenth of a millisecond.
	overdueAfter = 5 * time.Second
)

// lookups finds the owners of processes in the background. A process that blocks its reader is in quarantine until it no
// longer does: no other reader touches it. Its methods may be called from any goroutine, and do not wait.
type lookups struct {
	read func(gpu.ProcessID)
	most int // in wanted

	mu      sync.Mutex // never held while a file is read
	wanted  map[gpu.ProcessID]*lookup
	queue   []gpu.ProcessID // those of wanted that no reader has taken
	readers int
}

// lookup is a process that waits for a reader, or that a reader has taken.
type lookup struct {
	asked    time.Time
	taken    bool
	reported bool          // as overdue
	done     chan struct{} // closed once it is read
}

// want starts the lookup of a process, unless it waits already. It returns a channel that is closed afterwards; nil if too
// many wait.
func (l *lookups) want(id gpu.ProcessID) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.wanted[id]; w != nil {
		return w.done
	}
	if len(l.wanted) >= l.most {
		return nil
	}
	w := &lookup{asked: time.Now(), done: make(chan struct{})}
	l.wanted[id] = w
	l.queue = append(l.queue, id)
	if l.readers < maxReaders {
		l.readers++
		go l.run()
	}
	return w.done
}

// run is a reader. It returns when nothing waits.
func (l *lookups) run() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 {
		id := l.queue[0]
		l.queue = l.queue[1:]
		l.wanted[id].taken = true
		l.mu.Unlock()
		l.read(id)
		l.mu.Lock()
		close(l.wanted[id].done)
		delete(l.wanted, id)
	}
	l.readers--
}

// overdue returns the number of lookups that should be done by now, and the processes among them that block a reader and were
// not returned before.
func (l *lookups) overdue() (n int, stuck []gpu.ProcessID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, w := range l.wanted {
		if time.Since(w.asked) < overdueAfter {
			continue
		}
		n++
		if w.taken && !w.reported {
			w.reported = true
			stuck = append(stuck, id)
		}
	}
	return n, stuck
}
