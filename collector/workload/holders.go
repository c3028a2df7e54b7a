// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

// Holder is a process that has the device file of a GPU open.
type Holder struct {
	// Device is the file, such as /dev/nvidia0, wherever the process has it. The number is the driver's minor number,
	// which may differ from the GPU's index.
	Device string
	// Process has ID, State and Owner only.
	Process gpu.Process
}

const (
	// maxHolders bounds what Holders returns. A CUDA program opens every GPU that it may see.
	maxHolders = 256
	// lookEvery is the interval for a process that the driver does not list and that holds no GPU. Higher values cost less
	// processor time and find a late holder later. With 5,000 processes of 20 open files a look at all takes half a second.
	lookEvery = 5 * time.Minute
	// maxLinks bounds the files of a process that are looked at, those with the lowest numbers. With more of them, one
	// process with a million open files would hide the others for minutes.
	maxLinks = 4096
	// ownersWithin is how long Holders waits for the owners.
	ownersWithin = 2 * time.Second
)

// walks schedules the looks at processes. It knows them by their numbers alone: Linux reuses a number after all others, so
// that another process has it within one call's pause only where thousands start in a second. That process is then looked
// at as an old one.
type walks struct {
	mu     sync.Mutex
	budget *hostfs.Budget
	known  map[uint32]*walk
}

// walk is what was seen of a process.
type walk struct {
	looked  time.Time // the last call that looked at it; zero: none yet
	start   uint64    // of the process that holds the devices
	devices []string
	why     error // its files were unreadable at the last look
}

// begin begins a call, and forgets processes that are gone. It returns the processes to look at, the longest unseen first.
// onGPU are the processes that the driver lists.
func (w *walks) begin(now time.Time, pids []uint32, onGPU map[uint32]bool) (due []uint32) {
	w.budget.Refill(now)
	known := make(map[uint32]*walk, len(pids))
	for _, pid := range pids {
		k := cmp.Or(w.known[pid], &walk{})
		known[pid] = k
		if onGPU[pid] || len(k.devices) > 0 || now.Sub(k.looked) >= lookEvery {
			due = append(due, pid)
		}
	}
	w.known = known
	slices.SortStableFunc(due, func(a, b uint32) int { return known[a].looked.Compare(known[b].looked) })
	return due
}

// unreadable returns the lowest process whose files were unreadable at the last look, and why. The error is nil if there is
// none.
func (w *walks) unreadable() (lowest uint32, why error) {
	for pid, k := range w.known {
		if k.why != nil && (why == nil || pid < lowest) {
			lowest, why = pid, k.why
		}
	}
	if path, ok := errors.AsType[*fs.PathError](why); ok { // without the path, whose last number may differ each time
		why = path.Err
	}
	return lowest, why
}

// Holders returns the processes that have a GPU's device file open, with or without memory on it, ordered by pid: they keep
// a GPU from being reset. A process counts once for each device. There are at most 256, of the lowest pids.
//
// Only /dev/nvidia0, /dev/nvidia1 and so on count, as each stands for a GPU. /dev/nvidiactl, /dev/nvidia-uvm and
// /dev/nvidia-modeset stand for the driver, and are open beside those. The files of /dev/nvidia-caps are rights, not GPUs.
// A file that is mapped but no longer open does not count: to see it takes a lock of the process. Clients of NVML hold
// device files, too, so this exporter is a holder.
//
// The first call reads the links of all open files on the system. Later calls read those of new processes, of holders and of
// processes on a GPU; of the others once in lookEvery, so that a late holder is found that late. All together read
// hostfs.PerSecond links a second at most. Beyond that, the processes that were seen most recently wait, and what was seen of
// them stays. A look reads the first maxLinks files of a process: a program opens its GPUs early.
//
// It returns ctx's error once ctx is done. Unreadable processes are left out; see Unseen. Calls do not overlap.
func (r *Resolver) Holders(ctx context.Context) ([]Holder, error) {
	w := &r.walks
	w.mu.Lock()
	defer w.mu.Unlock()
	pids, err := r.processes()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	u, now := Unseen{}, time.Now()
	for _, pid := range w.begin(now, pids, r.asked()) {
		if w.budget.Spent() {
			break
		}
		k := w.known[pid]
		err := r.findDevices(ctx, pid, k)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("look for open device files: %w", ctx.Err())
		}
		k.looked, k.why = now, err
	}
	u.Unreadable, u.Why = w.unreadable()
	r.unseen.Store(&u)
	return r.holders(ctx, pids), nil
}

// findDevices notes the device files that a process has open, one of each. The error means that they are unreadable.
func (r *Resolver) findDevices(ctx context.Context, pid uint32, k *walk) error {
	k.devices = nil
	d, err := r.open(pid)
	if err == nil {
		defer d.Close()
		k.start, k.devices, err = r.devicesOf(ctx, d)
	}
	if gone(err) {
		return nil
	}
	return err
}

// devicesOf returns the start of a process, and the device files that it has open.
func (r *Resolver) devicesOf(ctx context.Context, d procDir) (start uint64, devices []string, err error) {
	s, err := readStat(d)
	if err != nil || s.Kernel { // nobody can list the files of a thread of the kernel
		return 0, nil, err
	}
	err = hostfs.List(d.path()+"/fd", maxLinks, r.walks.budget, func(link, target string) error {
		device, err := deviceOf(link, target)
		if device != "" && !slices.Contains(devices, device) {
			devices = append(devices, device)
		}
		return cmp.Or(err, ctx.Err())
	})
	return s.Start, devices, err
}

// holders returns the holders of the last looks, with their owners.
func (r *Resolver) holders(ctx context.Context, pids []uint32) []Holder {
	list := []Holder{}
	for _, pid := range pids {
		k := r.walks.known[pid]
		if len(k.devices) == 0 || len(list) >= maxHolders {
			continue
		}
		s, err := r.stat(pid)
		if err != nil || s.Start != k.start {
			continue // it is gone
		}
		id := gpu.ProcessID{PID: pid, Start: k.start}
		r.Owner(id) // so that all are looked up at the same time
		for _, device := range k.devices {
			list = append(list, Holder{device, gpu.Process{ID: id, State: s.State}})
		}
	}
	list = list[:min(len(list), maxHolders)]
	ctx, cancel := context.WithTimeout(ctx, ownersWithin)
	defer cancel()
	for i := range list {
		list[i].Process.Owner, _ = r.Await(ctx, list[i].Process.ID)
	}
	return list
}

// asked returns the processes that Owner was asked for in the last minutes: holders, and those that the driver lists.
func (r *Resolver) asked() map[uint32]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	pids := make(map[uint32]bool, len(r.answers.young)+len(r.answers.old))
	for _, generation := range []map[gpu.ProcessID]answer{r.answers.young, r.answers.old} {
		for id := range generation {
			pids[id.PID] = true
		}
	}
	return pids
}

// Unseen is what could not be seen of processes.
type Unseen struct {
	// Unreadable is a process that the last complete Holders had to leave out, because its open files are unreadable, and
	// Why; there may be others. Why is nil if there is none. Otherwise a device file without a holder may have one.
	Unreadable uint32
	Why        error
	// Overdue is the number of lookups that should be done by now. Stuck are the processes among them that block their
	// reader; each is returned once.
	Overdue int
	Stuck   []gpu.ProcessID
}

// Unseen returns what could not be seen.
func (r *Resolver) Unseen() Unseen {
	u := *r.unseen.Load()
	u.Overdue, u.Stuck = r.lookups.overdue()
	return u
}

// processes returns the pids of the host, in order.
func (r *Resolver) processes() ([]uint32, error) {
	all, err := r.procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	pids := make([]uint32, len(all))
	for i, p := range all {
		pids[i] = uint32(p.PID)
	}
	slices.Sort(pids)
	return pids, nil
}

// deviceOf returns the GPU's device file that a link with this text points to, "" if it is none.
func deviceOf(link, target string) (string, error) {
	device := deviceName(target)
	if device == "" {
		return "", nil
	}
	// Any file may have that name, also one on a file system that does not answer.
	held, err := hostfs.Hold(link)
	if gone(err) {
		return device, nil // it was open a moment ago
	}
	if err != nil {
		return "", err
	}
	defer held.Close()
	if !held.IsCharacterDevice() {
		return "", nil
	}
	return device, nil
}

// deviceName returns the name that a path has on the host, "" if it is no GPU's. A driver in a container keeps its files in
// its own directory (/run/nvidia/driver/dev), and they are deleted with the container.
func deviceName(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i < 0 || !strings.HasPrefix(path[i:], "/nvidia") || !strings.HasSuffix(path[:i], "/dev") {
		return ""
	}
	n := strings.TrimSuffix(path[i+len("/nvidia"):], " (deleted)")
	if n == "" || len(n) > 3 || strings.Trim(n, "0123456789") != "" {
		return ""
	}
	return "/dev/nvidia" + n
}

func (r *Resolver) stat(pid uint32) (hostfs.Stat, error) {
	d, err := r.open(pid)
	if err != nil {
		return hostfs.Stat{}, err
	}
	defer d.Close()
	return readStat(d)
}
