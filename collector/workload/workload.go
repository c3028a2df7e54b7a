// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload tells whose a process on a GPU is: its program, its user, the
// container and the Slurm job that it runs in, and which processes have a GPU's
// device file open, from procfs; the pod of the container, from the container
// runtime; and which GPUs are allotted to which container, from the kubelet.
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
//   - Program of an interpreter, and the command: /proc/PID/cmdline. Anyone. With
//     Config.Secret the arguments of every process are read, and those of the parent of
//     a child of Python's multiprocessing. What changes at each start is taken out, and
//     of the rest only keyed hashes are kept: for that, no argument is stored, logged or shown.
//   - Name of the Slurm job, only with Config.Secret: the variable SLURM_JOB_NAME in
//     /proc/PID/environ, like a debugger. Nothing else of the environment is kept.
//   - User: /proc/PID/status. Anyone. The name: the passwd(5) that the first
//     process of procfs sees, the host's, for which root's rights are needed. Without them
//     it is /etc/passwd, unless the exporter runs in a container, whose users are others.
//     Directories such as LDAP are not asked. A user without a name is shown as the number.
//   - Container and Slurm job: /proc/PID/cgroup. Anyone.
//   - Pod, namespace, the container's name, its image and how it ended: the socket of
//     the container runtime (CRI), which is root's as a rule. A process with uid 0 may
//     connect without any capability.
//   - Allotted GPUs: the socket of the kubelet's pod-resources API, which is root's.
//   - Jobs of mapping files: the files of Config.JobMappingDir.
//   - Device files: /proc/PID/fd, like a debugger. Without that right Holders sees
//     the processes of its own user only, and Unseen says so.
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
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/procfs"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

// maxProcesses bounds how many answers are kept. It is enough for 1,024 processes on each of 8 GPUs. Of more processes
// than that, some are looked up anew each time.
const maxProcesses = 8192

// forgetAfter is how long an answer is kept that nobody asks for; up to twice
// that, because a whole generation of answers is dropped at once.
const forgetAfter = 10 * time.Minute

// Config says where a Resolver looks and what it may tell.
type Config struct {
	// ProcFS is where procfs is mounted; "" is /proc. It must be that of the pid
	// namespace in which the driver reports processes, which is the exporter's.
	ProcFS string
	// Command tells the arguments of processes, too. They may hold secrets.
	Command bool
	// Secret is what gpu.Owner.Runs is made with; nil makes none, unless NameWith is called.
	Secret []byte
	// RuntimeSockets are the sockets of container runtimes (CRI), of which the first
	// that has containers is asked. None stands for the usual ones.
	RuntimeSockets []string
	// PodResourcesSocket is that of the kubelet's pod-resources API. "" is the usual
	// one.
	PodResourcesSocket string
	// JobMappingDir has a file for each GPU that holds the jobs on it, as
	// dcgm-exporter has it. "" is none.
	JobMappingDir string
}

// Resolver looks up whose a process is. Its methods may be called from several
// goroutines.
type Resolver struct {
	cfg        Config
	procfs     procfs.FS
	users      *users
	containers *containers
	allotments *allotments
	// open is a field so that tests can have a read fail, or a process replaced
	// between two reads.
	open func(pid uint32) (procDir, error)
	// unseen is what the last Holders had to leave out.
	unseen  atomic.Pointer[Unseen]
	walks   walks
	lookups *lookups
	parents chan struct{} // holds an element while a parent is read

	mu      sync.Mutex // never held while procfs is read
	answers recent[gpu.ProcessID, answer]
}

// answer is what is known of a process. The owner is immutable. read says that all
// was read of procfs that can be, done that nothing else will be learnt either.
type answer struct {
	owner      *gpu.Owner
	read, done bool
	// program is what is to be named once it is known where the container is; it has no name itself if
	// there is nothing to name.
	program gpu.Program
}

// nobody is the owner of a process of which nothing is known.
var nobody = &gpu.Owner{}

// New returns a Resolver. The error names the setting that cannot hold.
func New(cfg Config) (*Resolver, error) {
	cfg.ProcFS = cmp.Or(cfg.ProcFS, "/proc")
	host, err := procfs.NewFS(cfg.ProcFS)
	if err != nil {
		return nil, fmt.Errorf("ProcFS: %w", err)
	}
	r := &Resolver{
		cfg:        cfg,
		procfs:     host,
		users:      &users{files: passwdFiles(cfg.ProcFS)},
		containers: newContainers(usualRuntimeSockets, false),
		allotments: newAllotments(cfg.PodResourcesSocket, cfg.PodResourcesSocket != ""),
		answers:    newRecent[gpu.ProcessID, answer](maxProcesses),
	}
	if len(cfg.RuntimeSockets) > 0 {
		r.containers = newContainers(cfg.RuntimeSockets, true)
	}
	r.NameWith(cfg.Secret)
	r.open = func(pid uint32) (procDir, error) { return openProcess(r.path(pid)) }
	r.unseen.Store(&Unseen{})
	r.parents = make(chan struct{}, 1)
	r.walks.budget = hostfs.NewBudget(hostfs.PerSecond, hostfs.Save)
	r.lookups = &lookups{read: func(id gpu.ProcessID) { r.lookUp(id) }, most: maxProcesses, wanted: map[gpu.ProcessID]*lookup{}}
	return r, nil
}

func (r *Resolver) path(pid uint32) string {
	return filepath.Join(r.cfg.ProcFS, strconv.FormatUint(uint64(pid), 10))
}

// Run asks the container runtime in the background for the containers that Owner
// has met, until ctx ends. Without it no process has a pod.
func (r *Resolver) Run(ctx context.Context) { r.containers.run(ctx) }

// RuntimeProblem returns why the container runtime cannot be asked, and what to do;
// nil if it can, or if there is none.
func (r *Resolver) RuntimeProblem() error { return r.containers.problem() }

// Lacking says which sockets of Kubernetes are at none of the usual places, and what
// is not known without them: nothing is missing if this host is no node.
func (r *Resolver) Lacking() []string {
	var lacking []string
	if r.containers.none() {
		lacking = append(lacking, "no socket of a container runtime at the usual places: processes have no pods; --collector.workload.cri-socket names it")
	}
	if r.allotments.none() {
		lacking = append(lacking, "no pod-resources socket of the kubelet at the usual place: gpu_allocated is absent; --collector.workload.pod-resources-socket names it")
	}
	return lacking
}

// Allotments returns which GPUs the kubelet has allotted to which containers; none
// where there is no kubelet. It may take seconds.
func (r *Resolver) Allotments(ctx context.Context) ([]Allotment, error) {
	return r.allotments.list(ctx)
}

// Jobs returns the jobs on each GPU that Config.JobMappingDir tells of; nil without
// that.
func (r *Resolver) Jobs() (Jobs, error) {
	if r.cfg.JobMappingDir == "" {
		return nil, nil
	}
	return readJobs(r.cfg.JobMappingDir)
}

// NameWith sets Config.Secret, before anything is asked.
func (r *Resolver) NameWith(secret []byte) {
	r.cfg.Secret, r.containers.images = secret, secret != nil
}

// Owner returns what is known of whose process id is. It does not wait: a process of which nothing is known yet is
// looked up in the background, and is nobody's until then. Ask again, unless done.
//
// The owner is never nil. Once it is final it is the same pointer to all who ask for this process, and is not changed any
// more. It is what was seen first: a program that retitles itself later keeps its name.
//
// done says that the answer is final, because all could be read that may be read and the container runtime has answered,
// or because the process is gone. A process of another start than id's is not this one, which is gone then. If done is
// false it was not looked up yet, the system lacked something for a moment (files, memory), the process keeps its reader
// waiting, or the runtime has not answered. What was found is in the owner, and asking again may fill in fields that are
// empty now, and change no other. Until then it is not named what it runs, so that a process never has two names.
func (r *Resolver) Owner(id gpu.ProcessID) (owner *gpu.Owner, done bool) {
	if id.Start == 0 {
		return nobody, true // it could not be told from another of its number
	}
	known, ok := r.recall(id)
	if ok && known.done {
		return known.owner, true
	}
	r.lookups.want(id)
	if !ok {
		return nobody, false
	}
	return known.owner, false
}

// Await is Owner once the process was looked up, or once ctx is done. A lookup takes a tenth of a millisecond, if nothing
// keeps it waiting.
func (r *Resolver) Await(ctx context.Context, id gpu.ProcessID) (owner *gpu.Owner, done bool) {
	if owner, done := r.Owner(id); done {
		return owner, true
	}
	select {
	case <-r.lookups.want(id):
	case <-ctx.Done():
	}
	if known, ok := r.recall(id); ok {
		return known.owner, known.done
	}
	return nobody, false
}

// lookUp looks up whose process id is, for Owner.
//
// It reads a few files of procfs the first time and none later. It reads the
// arguments and the environment, for which the kernel may wait for a lock of the
// process, only where the name, Config.Command or Config.Secret needs them.
func (r *Resolver) lookUp(id gpu.ProcessID) (owner *gpu.Owner, done bool) {
	known, ok := r.recall(id)
	if ok && known.done {
		return known.owner, true
	}
	if !ok || !known.read {
		known = r.look(id)
	}
	a := r.keep(id, r.locate(known))
	return a.owner, a.done
}

// locate adds what the container runtime knows to an answer: procfs knows the container
// only. Once nothing more can be learnt, it is named what it runs.
func (r *Resolver) locate(a answer) answer {
	var at place
	done := true
	if a.owner.ContainerID != "" {
		at, done = r.containers.find(a.owner.ContainerID)
	}
	a.done = a.read && done
	toName := a.done && a.program.Name != ""
	if at == (place{}) && !toName {
		return a
	}
	located := *a.owner
	located.Namespace, located.Pod, located.Container = at.namespace, at.pod, at.container
	if toName {
		a.program.Image = at.image
		located.Runs = a.program.Hash(r.cfg.Secret)
		a.program = gpu.Program{}
	}
	a.owner = &located
	return a
}

// recall returns the answer that was given before, and saves it from being
// forgotten.
func (r *Resolver) recall(id gpu.ProcessID) (answer, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.answers.turned) >= forgetAfter {
		r.answers.turn()
	}
	return r.answers.get(id)
}

// keep remembers an answer and returns the one to give. What was known first
// stays, also if another goroutine was faster: all share one answer.
func (r *Resolver) keep(id gpu.ProcessID, a answer) answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, ok := r.answers.get(id)
	if ok && before.done {
		return before
	}
	if ok {
		a.owner = merge(before.owner, a.owner)
	}
	r.answers.put(id, a)
	return a
}

// merge returns what is known when later is learnt after first.
func merge(first, later *gpu.Owner) *gpu.Owner {
	return &gpu.Owner{
		Process:     cmp.Or(first.Process, later.Process),
		User:        cmp.Or(first.User, later.User),
		Command:     cmp.Or(first.Command, later.Command),
		Namespace:   cmp.Or(first.Namespace, later.Namespace),
		Pod:         cmp.Or(first.Pod, later.Pod),
		Container:   cmp.Or(first.Container, later.Container),
		ContainerID: cmp.Or(first.ContainerID, later.ContainerID),
		SlurmJob:    cmp.Or(first.SlurmJob, later.SlurmJob),
		Runs:        cmp.Or(first.Runs, later.Runs),
	}
}

// look reads procfs.
func (r *Resolver) look(id gpu.ProcessID) answer {
	d, err := r.open(id.PID)
	if err != nil {
		return answer{owner: nobody, read: !momentary(err)}
	}
	defer d.Close()
	s, err := readStat(d)
	if err != nil || s.Start != id.Start {
		return answer{owner: nobody, read: !momentary(err)}
	}
	found, whole, program := r.read(d, s)
	// On Linux d stays with one process, also when its number goes to another. The
	// second look costs little and holds for every procfs there is.
	s, err = readStat(d)
	switch {
	case gone(err):
		return answer{owner: &found, read: true, program: program}
	case err != nil:
		return answer{owner: nobody, read: !momentary(err)}
	case s.Start != id.Start:
		return answer{owner: nobody, read: true}
	}
	return answer{owner: &found, read: whole, program: program}
}

// read returns what the process's files say; whole is false if something was left
// out that may be there the next time. Without a secret there is nothing to name.
func (r *Resolver) read(d procDir, s hostfs.Stat) (o gpu.Owner, whole bool, program gpu.Program) {
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
	p := hostfs.ParseCgroup(string(b))
	o.ContainerID, o.SlurmJob = p.Container, p.SlurmJob
	if r.cfg.Secret != nil && o.Process != "" {
		program, err = r.toName(d, s, name, args, p.SlurmJob)
		whole = whole && !momentary(err)
	}
	return o, whole, program
}

// program returns the name of the process's program, and the arguments if they
// were needed. The error is one of reading that is worth to ask again; the name is empty
// if it may be another one then.
func (r *Resolver) program(d procDir, s hostfs.Stat) (name string, args []string, err error) {
	exe, err := d.Readlink("exe")
	if momentary(err) {
		return "", nil, err
	}
	exe = executable(exe)
	nameless := exe == "" || interpreterOf(exe) != nil
	if nameless || r.cfg.Command || r.cfg.Secret != nil {
		b, err := d.read("cmdline", maxArguments)
		if momentary(err) && nameless {
			return "", nil, err
		}
		if momentary(err) {
			return exe, nil, err
		}
		args = splitArguments(b)
	}
	return programName(exe, s.Name, args), args, nil
}
