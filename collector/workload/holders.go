// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

// maxHolders bounds what Holders returns. A CUDA program opens every GPU that it
// may see.
const maxHolders = 256

// Holder is a process that has the device file of a GPU open.
type Holder struct {
	// Device is the file, such as /dev/nvidia0, wherever the process has it: the
	// number is the driver's minor number, which may differ from the GPU's index.
	Device string
	// Process has ID, State and Owner; the rest of it is the driver's to tell.
	Process gpu.Process
}

const (
	// youngFor is how long a process counts as new: a program loads its libraries before it opens a GPU, which
	// takes a minute or two.
	youngFor = 2 * time.Minute
	// oldEvery is how long an older process is not looked at. Higher values cost less processor time and find a
	// late holder later. With 5,000 processes of 20 open files a look at all takes half a second.
	oldEvery = 5 * time.Minute
	// retries is how often a process whose files could not be seen is looked at again at once. It may have been about to
	// end, or the system short of memory; a right that is missing stays missing.
	retries = 3
	// listedLooks is how often a process is looked at from when the driver lists it: it may open its GPUs one after the
	// other. After that it is one that holds a device, or an older one.
	listedLooks = 4
	// maxLinks is how many files of a process are looked at, those with the lowest numbers. With more of them, one process
	// that has a million files open would hide the others for minutes.
	maxLinks = 4096
	// ownersWithin is how long Holders waits for whose the processes are.
	ownersWithin = 2 * time.Second
)

// walks remembers which processes were looked at. It goes by their numbers alone: Linux gives a number again
// after all others, so that it is another process within one call's pause only where thousands start a second. That one
// is looked at as an old process is.
type walks struct {
	mu     sync.Mutex
	budget *hostfs.Budget
	began  time.Time     // the first call
	now    time.Duration // since then, of this call
	known  map[uint32]*walk
	onGPU  map[uint32]bool // processes that the driver lists
}

// walk is what was seen of a process.
type walk struct {
	first, last time.Duration // the calls that listed it first and that looked at it last, since began
	looked      bool          // a call has looked at it; until then, last is first
	postponed   int           // calls in a row that had no time for it
	start       uint64        // of the process that holds the devices
	devices     []string
	unreadable  int // how often in a row its files could not be seen
	why         error
	listed      int // looks that are left since the driver lists it
}

// begin begins a call, and forgets processes that are not there any more. It returns those that are to be looked at,
// the longest unseen first.
func (w *walks) begin(pids []uint32, onGPU map[uint32]bool) (due []uint32) {
	if w.began.IsZero() {
		w.began = time.Now() // and now stays 0, by which due knows the first call
	} else {
		w.now = time.Since(w.began)
	}
	w.budget.Refill(time.Now())
	known := make(map[uint32]*walk, len(pids))
	for _, pid := range pids {
		k := w.known[pid]
		if k == nil {
			k = &walk{first: w.now, last: w.now}
		} else if onGPU[pid] && !w.onGPU[pid] {
			k.listed = listedLooks
		}
		known[pid] = k
		if w.due(pid, k) {
			due = append(due, pid)
		}
	}
	w.known, w.onGPU = known, onGPU
	slices.SortStableFunc(due, func(a, b uint32) int { return cmp.Compare(known[a].last, known[b].last) })
	return due
}

// due reports whether a process is to be looked at in this call. The others are spread over oldEvery by their numbers.
func (w *walks) due(pid uint32, k *walk) bool {
	young := k.first > 0 && w.now-k.first < youngFor // what was there at the first call is not new
	again := k.unreadable > 0 && k.unreadable <= retries
	phase := time.Duration(pid) * time.Second
	turn := func(at time.Duration) time.Duration { return (at + phase) / oldEvery }
	return !k.looked || k.postponed > 0 || len(k.devices) > 0 || young || again || k.listed > 0 || turn(w.now) != turn(k.last)
}

// walked notes that a process was looked at, and whether its files could be seen.
func (w *walks) walked(k *walk, unreadable error) {
	k.last, k.looked, k.postponed, k.listed = w.now, true, 0, max(0, k.listed-1)
	k.unreadable, k.why = k.unreadable+1, unreadable
	if unreadable == nil {
		k.unreadable = 0
	}
}

// unreadable returns a process whose files could not be seen when they were last looked at, the one with the lowest
// number, and why. The error is nil if all could be seen.
func (w *walks) unreadable() (lowest uint32, why error) {
	for pid, k := range w.known {
		if k.unreadable > 0 && (why == nil || pid < lowest) {
			lowest, why = pid, k.why
		}
	}
	if path, ok := errors.AsType[*fs.PathError](why); ok { // without the number of the file, which may be another one each time
		why = path.Err
	}
	return lowest, why
}

// openFile is a device file that a process has open, and the link to it.
type openFile struct{ device, link string }

// Holders returns the processes that have a GPU's device file open, whether they
// hold memory or not, ordered by device and pid: those that keep a GPU from being
// reset. A process counts once a device. There are at most 256, those of the lowest
// pids.
//
// Only /dev/nvidia0, /dev/nvidia1 and so on count, as each stands for a GPU.
// /dev/nvidiactl, /dev/nvidia-uvm and /dev/nvidia-modeset stand for the driver, are
// open wherever one of those is, and would only repeat it; the files of
// /dev/nvidia-caps are rights, not GPUs. What is mapped but no more open is not
// looked for: it shares a lock with the process. Clients of NVML hold the files,
// too, so this exporter is among the holders.
//
// The first call reads the links of all open files on the system. Later ones read those of processes that hold a device,
// that Owner was asked for since a few calls, or that came in the last youngFor, and those of the others once in oldEvery. Who opens a
// device later than that is seen by the first call that is oldEvery after it, at worst. All of them together read
// hostfs.PerSecond links a second: where there are more, the processes that were seen most recently wait, and what
// was seen of them stays. Of the files of one process the first maxLinks are looked at: a program opens its GPUs early.
//
// It returns ctx's error once ctx is done. Processes whose files may not be seen are left out; see Unseen. Calls are
// made one after another.
func (r *Resolver) Holders(ctx context.Context) ([]Holder, error) {
	w := &r.walks
	w.mu.Lock()
	defer w.mu.Unlock()
	pids, err := r.processes()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	u := Unseen{}
	for _, pid := range w.begin(pids, r.asked()) {
		k := w.known[pid]
		if w.budget.Spent() {
			if k.postponed++; k.postponed > 1 {
				u.Postponed++
			}
			continue
		}
		err := r.lookAt(ctx, pid, k)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("look for open device files: %w", ctx.Err())
		}
		w.walked(k, err)
	}
	u.Unreadable, u.Why = w.unreadable()
	r.unseen.Store(&u)
	return r.holders(ctx, pids), nil
}

// lookAt notes which device files a process has open. The error says that they cannot be seen.
func (r *Resolver) lookAt(ctx context.Context, pid uint32, k *walk) error {
	files, err := r.deviceFiles(ctx, pid)
	if gone(err) || err != nil && r.isKernelThread(pid) {
		err = nil
	}
	k.devices = nil
	if len(files) > 0 {
		k.start, k.devices = r.confirm(pid, files)
	}
	return err
}

// holders returns those of the lowest pids that hold a device by what was seen last, with their owners.
func (r *Resolver) holders(ctx context.Context, pids []uint32) []Holder {
	list := []Holder{}
	for _, pid := range pids {
		k := r.walks.known[pid]
		if len(k.devices) == 0 || len(list) >= maxHolders {
			continue
		}
		s, err := r.stat(pid)
		if err != nil || s.Start != k.start {
			continue // it has ended since
		}
		id := gpu.ProcessID{PID: pid, Start: k.start}
		r.Owner(id) // has it looked up with the others
		for _, device := range k.devices {
			list = append(list, Holder{device, gpu.Process{ID: id, State: gpu.Letter(s.State)}})
		}
	}
	list = list[:min(len(list), maxHolders)]
	ctx, cancel := context.WithTimeout(ctx, ownersWithin)
	defer cancel()
	for i := range list {
		list[i].Process.Owner, _ = r.Await(ctx, list[i].Process.ID)
	}
	slices.SortFunc(list, func(a, b Holder) int {
		// Shorter names first: nvidia9 comes before nvidia10.
		return cmp.Or(cmp.Compare(len(a.Device), len(b.Device)), cmp.Compare(a.Device, b.Device),
			cmp.Compare(a.Process.ID.PID, b.Process.ID.PID))
	})
	return list
}

// asked returns the numbers of the processes that Owner was asked for in the last minutes: the driver lists them.
func (r *Resolver) asked() map[uint32]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	pids := make(map[uint32]bool, len(r.answers.young)+len(r.answers.old))
	for id := range r.answers.young {
		pids[id.PID] = true
	}
	for id := range r.answers.old {
		pids[id.PID] = true
	}
	return pids
}

// Unseen is what could not be seen of processes.
type Unseen struct {
	// Unreadable is a process that the last Holders that came to an end had to leave out, because its open files may
	// not be seen, and Why; there may be others. Why is nil if it left out none. Otherwise a device file without a
	// holder may have one.
	Unreadable uint32
	Why        error
	// Postponed is at how many processes the last two Holders did not look, because others have so many files open.
	Postponed int
	// Overdue is how many processes should have been looked up by now and were not. Stuck are those among them that
	// keep their reader waiting; each is told once.
	Overdue int
	Stuck   []gpu.ProcessID
}

// Unseen returns what could not be seen.
func (r *Resolver) Unseen() Unseen {
	u := *r.unseen.Load()
	u.Overdue, u.Stuck = r.lookups.overdue()
	return u
}

// processes returns the pids there are, in order.
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

// deviceFiles returns the device files that a process has open, one of each.
// Kernel threads have none, which is told faster by their having no files than by
// asking what they are.
func (r *Resolver) deviceFiles(ctx context.Context, pid uint32) (files []openFile, err error) {
	links := 0
	err = hostfs.List(r.path(pid)+"/fd", r.walks.budget, func(link string) error {
		if links++; links > maxLinks {
			return fs.SkipAll
		}
		device, err := deviceOf(link)
		if device != "" && !slices.ContainsFunc(files, func(f openFile) bool { return f.device == device }) {
			files = append(files, openFile{device, link})
		}
		return cmp.Or(err, ctx.Err())
	})
	return files, err
}

// deviceOf returns the GPU's device file that a link points to, "" if it is none
// or was closed meanwhile. Whoever may list the links need not be allowed to read
// them: root without CAP_SYS_PTRACE is not.
func deviceOf(link string) (string, error) {
	target, err := os.Readlink(link)
	if gone(err) {
		return "", nil
	}
	device := deviceName(target)
	if err != nil || device == "" {
		return "", err
	}
	// Anybody may have a file of that name, of another kind and on a file system that does not answer.
	held, err := hostfs.Hold(link)
	if gone(err) {
		return device, nil // it was open a moment ago, and confirm looks once more
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

// deviceName returns the name that a path has on the host, "" if it is no GPU's.
// Drivers in a container keep the files below a directory of their own
// (/run/nvidia/driver/dev), and a container that ends takes its file with it.
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

// confirm returns which of the open files of pid are still open, and the start of the process that has them: the number
// may have gone to another one since they were seen. What is open between two looks at one start belongs to that process.
func (r *Resolver) confirm(pid uint32, files []openFile) (start uint64, devices []string) {
	before, err := r.stat(pid)
	if err != nil {
		return 0, nil
	}
	for _, f := range files {
		if device, err := deviceOf(f.link); err == nil && device == f.device {
			devices = append(devices, device)
		}
	}
	if after, err := r.stat(pid); err != nil || after.Start != before.Start {
		return 0, nil
	}
	return before.Start, devices
}

func (r *Resolver) stat(pid uint32) (hostfs.Stat, error) {
	d, err := r.open(pid)
	if err != nil {
		return hostfs.Stat{}, err
	}
	defer d.Close()
	return readStat(d)
}

// isKernelThread tells threads of the kernel from processes whose files may not be
// seen; everybody may ask.
func (r *Resolver) isKernelThread(pid uint32) bool {
	s, err := r.stat(pid)
	return err == nil && s.Kernel
}
