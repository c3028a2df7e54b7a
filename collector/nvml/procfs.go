// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	promprocfs "github.com/prometheus/procfs"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

// hostPIDNamespace is the inode of the kernel's first pid namespace (PROC_PID_INIT_INO), the host's.
const hostPIDNamespace = "pid:[4026531836]"

// statInterval is how often a process is read that is listed in each sample. Higher values cost less. That it is stuck, an
// orphan or has ended is then noticed later, which matters only after minutes. So is that another process has its number:
// for that Linux must go through all numbers between two samples.
const statInterval = 15 * time.Second

// process is procfs's data on a process. It is immutable.
type process struct {
	readAt   time.Duration // the time of the sample that it was read for
	start    uint64        // field 22 of /proc/PID/stat; 0 where it was never seen
	started  gpu.Opt[time.Duration]
	cpu      gpu.Opt[time.Duration]
	state    string // "" where it could not be read this time, X where it is not there any more
	orphaned bool
	group    string // of control groups; see hostfs.Placement
}

// alive reports whether it could be read this time.
func (p *process) alive() bool { return p.state != "" && p.state != "X" }

// procfs reads processes. Its methods may be called from any goroutine.
type procfs struct {
	root  string
	clock clock

	bootMu sync.Mutex
	boot   gpu.Opt[time.Duration] // the moment of boot on the steady clock
	// hostNamespace reports whether this process runs in the host's pid namespace. The driver uses the numbers of the caller's
	// namespace and leaves out processes that have none there. In a mounted procfs of the host, self is this process, too.
	hostNamespace func() bool
	// numbersMatch reports whether the driver counts processes as this procfs does. Outside the host's pid namespace it
	// counts them in this process's namespace: procfs belongs to it if self is the number that this process has for itself.
	numbersMatch func() bool

	readsMu sync.Mutex // never held while a file is read
	reads   map[procRead]bool
}

// procRead is a read of a process that is under way, for the loop of a GPU.
type procRead struct {
	uuid string
	pid  uint32
}

const (
	// readWithin is how long a loop waits for a read of a process, which takes some hundredths of a millisecond.
	readWithin = 100 * time.Millisecond
	// maxReads bounds the reads under way: one for each GPU, and as many that do not return.
	maxReads = 32
)

func newProcFS(root string, c clock) *procfs {
	p := &procfs{root: root, clock: c, reads: map[procRead]bool{}}
	p.hostNamespace = sync.OnceValue(func() bool {
		link, err := os.Readlink(filepath.Join(root, "self/ns/pid"))
		if err != nil {
			link, err = os.Readlink("/proc/self/ns/pid")
		}
		return err == nil && link == hostPIDNamespace
	})
	p.numbersMatch = sync.OnceValue(func() bool {
		self, err := os.Readlink(filepath.Join(root, "self"))
		return err == nil && self == strconv.Itoa(os.Getpid()) || p.hostNamespace()
	})
	return p
}

// memory returns the host's memory. Free is all that programs can still have without swapping, because the kernel gives its
// caches back. NVIDIA counts it so on DGX Spark.
func (p *procfs) memory() (gpu.Memory, error) {
	fs, err := promprocfs.NewFS(p.root)
	if err != nil {
		return gpu.Memory{}, err
	}
	info, err := fs.Meminfo()
	if err != nil {
		return gpu.Memory{}, err
	}
	total, free := info.MemTotalBytes, info.MemAvailableBytes
	if total == nil || free == nil || *total == 0 || *free > *total {
		return gpu.Memory{}, fmt.Errorf("%s: MemTotal and MemAvailable cannot be used", filepath.Join(p.root, "meminfo"))
	}
	return gpu.Memory{Total: gpu.Some(*total), Free: gpu.Some(*free), Used: gpu.Some(*total - *free)}, nil
}

// bootTime returns the moment of boot on the steady clock. It is asked for once: the kernel derives it from the wall clock,
// and it moves when that is set.
func (p *procfs) bootTime() gpu.Opt[time.Duration] {
	p.bootMu.Lock()
	defer p.bootMu.Unlock()
	if p.boot.OK {
		return p.boot
	}
	fs, err := promprocfs.NewFS(p.root)
	if err != nil {
		return p.boot
	}
	stat, err := fs.Stat()
	if err != nil || stat.BootTime == 0 {
		return p.boot
	}
	p.boot = gpu.Some(time.Duration(stat.BootTime)*time.Second - p.clock.ahead(time.Now()))
	return p.boot
}

// stands reports whether the last read of pid still holds at a time: the process was alive and not stuck, and its turn has not
// come. The turns of processes are spread over statInterval by their numbers.
func (p *process) stands(pid uint32, at time.Duration) bool {
	turn := func(t time.Duration) time.Duration { return (t + time.Duration(pid)*time.Second) / statInterval }
	return p.alive() && p.state != "D" && p.state != "Z" && turn(p.readAt) == turn(at)
}

// look is read outside of the loop of a GPU, which no file of another process may hold up. A read that does not return in time
// has failed. Until it returns, that process is not read again for this GPU.
func (p *procfs) look(uuid string, pid uint32, before *process) *process {
	r := procRead{uuid, pid}
	p.readsMu.Lock()
	refused := p.reads[r] || len(p.reads) >= maxReads
	if !refused {
		p.reads[r] = true
	}
	p.readsMu.Unlock()
	if refused {
		return before.unread()
	}
	found := make(chan *process, 1)
	go func() {
		now := p.read(pid, before)
		p.readsMu.Lock()
		delete(p.reads, r)
		p.readsMu.Unlock()
		found <- now
	}()
	select {
	case now := <-found:
		return now
	case <-time.After(readWithin):
		return before.unread()
	}
}

// unread is all that is known of a process that cannot be read now.
func (p *process) unread() *process {
	return &process{start: p.start, started: p.started, group: p.group}
}

// read reads pid. before is the read for the last sample, empty if there was none. A process that is gone keeps its identity
// while the driver lists its number, because a successor of the same number would be found. Nothing is known of any process
// where the procfs counts them otherwise than the driver.
func (p *procfs) read(pid uint32, before *process) *process {
	if !p.numbersMatch() {
		return &process{}
	}
	s, err := p.stat(pid)
	if err != nil {
		gone := before.unread()
		if gone.start != 0 && (errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ESRCH)) {
			gone.state = "X"
		}
		return gone
	}
	now := &process{
		start: s.Start,
		cpu:   gpu.Some(time.Duration(s.Ticks) * (time.Second / gpu.ProcessorTicks)),
		state: s.State,
	}
	if before.start == s.Start {
		now.started = before.started
	}
	if boot := p.bootTime(); !now.started.OK && boot.OK {
		now.started = gpu.Some(gpu.TicksToTime(boot.V, s.Start))
	}
	b, err := p.file(pid, "cgroup")
	in := hostfs.ParseCgroup(string(b))
	now.group, now.orphaned = in.Group, s.Parent == 1 && p.hostNamespace() && err == nil && !in.Service
	return now
}

// file reads a file of pid.
func (p *procfs) file(pid uint32, name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(p.root, strconv.FormatUint(uint64(pid), 10), name))
}

func (p *procfs) stat(pid uint32) (hostfs.Stat, error) {
	b, err := p.file(pid, "stat")
	if err != nil {
		return hostfs.Stat{}, err
	}
	return hostfs.ParseStat(b)
}
