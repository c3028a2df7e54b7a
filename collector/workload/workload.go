// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload tells whose a process on a GPU is: its program, its user, the
// container and the Slurm job that it runs in, and which processes have a GPU's
// device file open. All of it comes from procfs.
//
// # Who may see what
//
// What a missing right hides is left empty; it is never guessed, and never an
// error. "Like a debugger" below means root, CAP_SYS_PTRACE, or the user of the
// process itself (ptrace(2), "Ptrace access mode checking"); a process that made
// itself undumpable is root's in this sense, whoever runs it.
//
//   - Program: /proc/PID/exe, like a debugger. Without that right the name that the
//     process gives itself (comm), which anyone may read, and for interpreters the
//     arguments.
//   - Program of an interpreter, and the command: /proc/PID/cmdline. Anyone.
//   - User: /proc/PID/status. Anyone. The name: a file of users, see Config.Passwd.
//   - Container and Slurm job: /proc/PID/cgroup. Anyone.
//   - Device files: /proc/PID/fd, like a debugger. Without that right Holders sees
//     the processes of its own user only, and Unreadable counts the others.
//
// Where procfs is mounted with hidepid, "anyone" is the group of its gid= option,
// and processes that it hides are gone, as far as can be told. systemd's
// ProtectProc= is such a mount.
//
// A program may call itself anything, overwrite its arguments, and, where control
// groups are delegated to its user, name its group like a container's. All values
// are for finding the culprit among honest processes, not for access control. Only
// the Slurm job is not taken from a group that a user could have made.
package workload

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// DefaultMaxProcesses is enough for 1,024 processes on each of 8 GPUs.
const DefaultMaxProcesses = 8192

// forgetAfter is how long an answer is kept that nobody asks for; up to twice
// that, because a whole generation of answers is dropped at once.
const forgetAfter = 10 * time.Minute

// Config says where a Resolver looks and what it may tell.
type Config struct {
	// ProcFS is where procfs is mounted; "" is /proc. It must be that of the pid
	// namespace in which the driver reports processes, which is the exporter's.
	ProcFS string
	// Passwd is the file that names the users, in the format of passwd(5). "" is
	// the one that the first process of ProcFS sees, the host's, for which root's
	// rights are needed; without them it is /etc/passwd, unless the exporter runs
	// in a container, whose users are others. Directories such as LDAP are not
	// asked. A user without a name is shown as the number.
	Passwd string
	// Command tells the arguments of processes, too. They may hold secrets.
	Command bool
	// MaxProcesses bounds how many answers are kept; 0 is DefaultMaxProcesses.
	// With more processes than that, they are looked up anew each time.
	MaxProcesses int
}

// Resolver looks up whose a process is. Its methods may be called from several
// goroutines; a read of procfs that hangs delays its own caller alone.
type Resolver struct {
	cfg   Config
	users *users
	// open is a field so that tests can have a read fail, or a process replaced
	// between two reads.
	open func(pid uint32) (procDir, error)
	// unreadable is the count of the last Holders.
	unreadable atomic.Int64

	mu sync.Mutex // never held while procfs is read
	// young holds the answers given since turned, old those of the generation
	// before that were not asked for since.
	young, old map[gpu.ProcessID]answer
	turned     time.Time
}

// answer is what is known of a process. The owner is immutable.
type answer struct {
	owner *gpu.Owner
	done  bool
}

// nobody is the owner of a process of which nothing is known.
var nobody = &gpu.Owner{}

// New returns a Resolver. The error names the setting that cannot hold.
func New(cfg Config) (*Resolver, error) {
	cfg.ProcFS = cmp.Or(cfg.ProcFS, "/proc")
	cfg.MaxProcesses = cmp.Or(cfg.MaxProcesses, DefaultMaxProcesses)
	if cfg.MaxProcesses < 2 {
		return nil, fmt.Errorf("MaxProcesses is %d, must be 2 or more, or 0 for %d", cfg.MaxProcesses, DefaultMaxProcesses)
	}
	info, err := os.Stat(cfg.ProcFS)
	if err != nil {
		return nil, fmt.Errorf("ProcFS: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("ProcFS: %s is not a directory", cfg.ProcFS)
	}
	r := &Resolver{
		cfg:    cfg,
		users:  &users{files: passwdFiles(cfg)},
		young:  map[gpu.ProcessID]answer{},
		turned: time.Now(),
	}
	r.open = func(pid uint32) (procDir, error) { return openProcess(r.path(pid)) }
	return r, nil
}

func (r *Resolver) path(pid uint32) string {
	return filepath.Join(r.cfg.ProcFS, strconv.FormatUint(uint64(pid), 10))
}

// Owner returns whose process id is; Namespace, Pod and Container are empty, for
// procfs does not know them. The owner is never nil, is the same pointer to all
// who ask for this process, and is not changed any more. It is what was seen
// first: a program that retitles itself later keeps its name.
//
// done says that the answer is final, because all could be read that may be read,
// or because the process is gone. A process of another start than id's is not
// this one, which is gone then. If done is false the system lacked something for a
// moment (files, memory); what was found is in the owner, and asking again may
// fill in fields that are empty now, and change no other.
//
// Owner reads a few files of procfs the first time and none later. It reads the
// arguments, for which the kernel may wait for a lock of the process, only where
// the name or Config.Command needs them.
func (r *Resolver) Owner(id gpu.ProcessID) (owner *gpu.Owner, done bool) {
	if id.Start == 0 {
		return nobody, true // it could not be told from another of its number
	}
	known, ok := r.recall(id)
	if ok && known.done {
		return known.owner, true
	}
	a := r.keep(id, r.look(id))
	return a.owner, a.done
}

// recall returns the answer that was given before, and saves it from being
// forgotten.
func (r *Resolver) recall(id gpu.ProcessID) (answer, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.turned) >= forgetAfter {
		r.turn()
	}
	if a, ok := r.young[id]; ok {
		return a, true
	}
	a, ok := r.old[id]
	if ok {
		delete(r.old, id)
		r.put(id, a)
	}
	return a, ok
}

// keep remembers an answer and returns the one to give. What was known first
// stays, also if another goroutine was faster: all share one answer.
func (r *Resolver) keep(id gpu.ProcessID, a answer) answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, ok := r.young[id]
	if !ok {
		before, ok = r.old[id]
	}
	if ok && before.done {
		return before
	}
	if ok {
		a.owner = merge(before.owner, a.owner)
	}
	delete(r.old, id)
	r.put(id, a)
	return a
}

// merge returns what is known when later is learnt after first.
func merge(first, later *gpu.Owner) *gpu.Owner {
	return &gpu.Owner{
		Process:     cmp.Or(first.Process, later.Process),
		User:        cmp.Or(first.User, later.User),
		Command:     cmp.Or(first.Command, later.Command),
		ContainerID: cmp.Or(first.ContainerID, later.ContainerID),
		SlurmJob:    cmp.Or(first.SlurmJob, later.SlurmJob),
	}
}

// put needs r.mu.
func (r *Resolver) put(id gpu.ProcessID, a answer) {
	if _, ok := r.young[id]; !ok && len(r.young) >= r.cfg.MaxProcesses/2 {
		r.turn()
	}
	r.young[id] = a
}

// turn begins a new generation and drops the one before the last. Two generations
// of half the size do what a list in order of use would, without one. It needs
// r.mu.
func (r *Resolver) turn() {
	r.old, r.young = r.young, map[gpu.ProcessID]answer{}
	r.turned = time.Now()
}

// look reads procfs.
func (r *Resolver) look(id gpu.ProcessID) answer {
	d, err := r.open(id.PID)
	if err != nil {
		return answer{nobody, !momentary(err)}
	}
	defer d.Close()
	s, err := readStat(d)
	if err != nil || s.start != id.Start {
		return answer{nobody, !momentary(err)}
	}
	found, whole := r.read(d, s)
	// On Linux d stays with one process, also when its number goes to another. The
	// second look costs little and holds for every procfs there is.
	s, err = readStat(d)
	switch {
	case gone(err):
		return answer{&found, true}
	case err != nil:
		return answer{nobody, !momentary(err)}
	case s.start != id.Start:
		return answer{nobody, true}
	}
	return answer{&found, whole}
}

// read returns what the process's files say; whole is false if something was left
// out that may be there the next time.
func (r *Resolver) read(d procDir, s stat) (o gpu.Owner, whole bool) {
	name, args, err := r.program(d, s)
	whole = !momentary(err)
	o.Process = label(name, maxLabel)
	if r.cfg.Command {
		o.Command = command(args)
	}
	uid, err := readUID(d)
	if err == nil {
		o.User = label(r.users.name(uid), maxLabel)
	}
	whole = whole && !momentary(err)
	b, err := d.read("cgroup", 64<<10)
	whole = whole && !momentary(err)
	p := parseCgroup(string(b))
	o.ContainerID, o.SlurmJob = p.container, p.slurmJob
	return o, whole
}

// program returns the name of the process's program, and the arguments if they
// were needed. The error is one of reading that left the name empty.
func (r *Resolver) program(d procDir, s stat) (name string, args []string, err error) {
	exe, err := d.link("exe")
	if momentary(err) {
		return "", nil, err
	}
	exe = executable(exe)
	if r.cfg.Command || exe == "" || interpreterOf(exe) != nil {
		b, err := d.read("cmdline", maxArguments)
		if momentary(err) {
			return "", nil, err
		}
		args = splitArguments(b)
	}
	return programName(exe, s.comm, args), args, nil
}
