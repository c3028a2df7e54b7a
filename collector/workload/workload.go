// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload finds the owner of a process on a GPU: its program, its user, its container and its Slurm job, from
// procfs; the pod of the container, from the container runtime. It also finds which processes have the device file of a GPU
// open, from procfs, and which containers have an allotted GPU, from the kubelet.
//
// # Rights
//
// A value that a missing right hides is empty. It is never guessed, and never an error.
//
//   - Anyone may read the user (/proc/PID/status), the container and the Slurm job (cgroup), the name that a process gives
//     itself (comm), and the arguments (cmdline). The arguments are read for interpreters, for Config.Command, and with
//     Config.Secret for every process; then only a keyed hash of them is kept. Where procfs is mounted with hidepid, as by
//     systemd's ProtectProc=, "anyone" is the group of its gid= option, and hidden processes seem to be gone.
//   - A debugger may read the program (exe) and the open files (fd). That is root, CAP_SYS_PTRACE, or the user of the process (ptrace(2), "Ptrace
//     access mode checking"), unless the process made itself undumpable. Unseen reports what Holders misses without it.
//   - Root may read the passwd(5) of the host's first process, for the names of users. Without that right it is
//     /etc/passwd, unless the exporter runs in a container, which has other users. Directories such as LDAP are not asked.
//     A user without a name is shown as the number.
//   - Root, without any capability, may use the sockets of the container runtime, for the pod, the image and the exit code
//     of a container, and of the kubelet, for the allotted GPUs.
//
// A program may choose its name, overwrite its arguments, and, where control groups are delegated to its user, name its
// group like a container's. All values are for finding the culprit among honest processes, not for access control. Only
// the Slurm job is never taken from a group that a user could have made.
package workload

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/procfs"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

const (
	// maxProcesses bounds the answers that are kept. It is enough for 1,024 processes on each of 8 GPUs.
	maxProcesses = 8192
	// forgetAfter is how long an answer is kept that nobody asks for; up to twice that, because a whole generation of
	// answers is dropped at once.
	forgetAfter = 10 * time.Minute
)

// Config is where a Resolver looks and what it may show.
type Config struct {
	// ProcFS is where procfs is mounted; "" is /proc. It must belong to the pid namespace in which the driver reports
	// processes, which is the exporter's.
	ProcFS string
	// Command allows the arguments of processes in Owner.Command. They may hold secrets.
	Command bool
	// Secret is the key of gpu.Owner.Runs; without it there is none, unless NameWith is called.
	Secret []byte
	// RuntimeSockets are the sockets of container runtimes (CRI). The first one with containers is used. None means the
	// usual ones.
	RuntimeSockets []string
	// PodResourcesSocket is that of the kubelet's pod-resources API. "" is the usual one.
	PodResourcesSocket string
	// JobMappingDir has a file for each GPU with the jobs on it, as for dcgm-exporter. "" is none.
	JobMappingDir string
}

// Resolver finds the owner of a process. Its methods may be called from several goroutines.
type Resolver struct {
	cfg        Config
	procfs     procfs.FS
	users      *users
	containers *containers
	allotments *allotments
	// open is a field so that tests can have a read fail.
	open    func(pid uint32) (procDir, error)
	unseen  atomic.Pointer[Unseen] // of the last Holders
	walks   walks
	lookups *lookups
	parents chan struct{} // holds an element while a parent is read

	mu      sync.Mutex // never held while procfs is read
	answers recent[gpu.ProcessID, answer]
}

// answer is what is known of a process. The owner is immutable.
type answer struct {
	owner *gpu.Owner
	read  bool // procfs has nothing more
	done  bool // the runtime has nothing more either
	// program waits for the image of the container. It has no name if there is nothing to wait for.
	program gpu.Program
}

// nobody is the owner of a process of which nothing is known.
var nobody = &gpu.Owner{}

// New returns a Resolver. The error names the wrong setting.
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
		allotments: newAllotments(cfg.PodResourcesSocket),
		answers:    newRecent[gpu.ProcessID, answer](maxProcesses),
	}
	if len(cfg.RuntimeSockets) > 0 {
		r.containers = newContainers(cfg.RuntimeSockets, true)
	}
	r.NameWith(cfg.Secret)
	r.open = func(pid uint32) (procDir, error) { return openProcess(r.path(pid)) }
	r.unseen.Store(&Unseen{})
	r.parents = make(chan struct{}, 1)
	r.walks.budget = hostfs.NewBudget(hostfs.PerSecond)
	r.lookups = &lookups{read: func(id gpu.ProcessID) { r.lookUp(id) }, most: maxProcesses, wanted: map[gpu.ProcessID]*lookup{}}
	return r, nil
}

func (r *Resolver) path(pid uint32) string {
	return filepath.Join(r.cfg.ProcFS, strconv.FormatUint(uint64(pid), 10))
}

// Run asks the container runtime in the background for the containers that Owner has met, until ctx is done. Without Run
// no process has a pod.
func (r *Resolver) Run(ctx context.Context) { r.containers.run(ctx) }

// RuntimeProblem returns why the container runtime does not answer, and what to do; nil if it does, or if there is none.
func (r *Resolver) RuntimeProblem() error { return r.containers.problem() }

// Lacking names the sockets of Kubernetes that are missing at the usual places, and control groups that cannot be named, and what
// is unknown without them. A host that is no node does not need the sockets.
func (r *Resolver) Lacking() []string {
	var lacking []string
	if r.containers.none() {
		lacking = append(lacking, "no socket of a container runtime at the usual places: processes have no pods; "+runtimeFlag+" names it")
	}
	if r.allotments.none() {
		lacking = append(lacking, "no pod-resources socket of the kubelet at the usual place: gpu_allocated is absent; "+podResourcesFlag+" names it")
	}
	// The first process is outside of the exporter's own cgroup namespace, if there is one.
	first, err := os.ReadFile(filepath.Join(r.path(1), "cgroup"))
	if in := string(first); err == nil && strings.Contains(in, "::/..") {
		lacking = append(lacking, "the exporter has a cgroup namespace of its own: limits on GPU memory of control groups (nvml, dmem) are not read; in a container, it takes privileged or the cgroup namespace of the host")
	}
	return lacking
}

// Allotments returns the GPUs that the kubelet has allotted to containers; none without a kubelet. It may take seconds.
func (r *Resolver) Allotments(ctx context.Context) ([]Allotment, error) {
	return r.allotments.list(ctx)
}

// Jobs returns the jobs on each GPU from Config.JobMappingDir; nil without that.
func (r *Resolver) Jobs() (Jobs, error) {
	if r.cfg.JobMappingDir == "" {
		return nil, nil
	}
	return readJobs(r.cfg.JobMappingDir)
}

// NameWith sets Config.Secret, before anything is asked.
func (r *Resolver) NameWith(secret []byte) { r.cfg.Secret = secret }

// Owner returns the owner of process id, as far as it is known. It does not wait: it has an unknown process looked up in
// the background, and returns an empty owner until then. Ask again, unless done.
//
// The owner is never nil. A final owner is the same pointer for all callers, and does not change: a program that retitles
// itself later keeps its first name.
//
// done means that the answer is final, because everything was read that may be read and the container runtime has answered,
// or because the process is gone. A process with another start than id's is another process. done is false if the lookup
// waits, blocks, lacked files or memory for a moment, or if the runtime has not answered. Asking again may then fill in
// empty fields, and changes no other. Runs stays empty until done, so that a process never has two of them.
func (r *Resolver) Owner(id gpu.ProcessID) (owner *gpu.Owner, done bool) {
	if id.Start == 0 {
		return nobody, true // another process could have this number
	}
	known := r.recall(id)
	if !known.done {
		r.lookups.want(id)
	}
	return known.owner, known.done
}

// Await waits for the lookup, or until ctx is done, and returns Owner. A lookup takes a tenth of a millisecond, unless it
// blocks.
func (r *Resolver) Await(ctx context.Context, id gpu.ProcessID) (owner *gpu.Owner, done bool) {
	if owner, done := r.Owner(id); done {
		return owner, true
	}
	select {
	case <-r.lookups.want(id):
	case <-ctx.Done():
	}
	known := r.recall(id)
	return known.owner, known.done
}

// lookUp finds the owner of process id, for Owner. It reads a few files of procfs the first time and none later. It reads
// the arguments, for which the kernel may wait for a lock of the process, only if the name, Config.Command or
// Config.Secret needs them.
func (r *Resolver) lookUp(id gpu.ProcessID) (owner *gpu.Owner, done bool) {
	known := r.recall(id)
	if known.done {
		return known.owner, true
	}
	if !known.read {
		known = r.look(id)
	}
	a := r.keep(id, r.locate(known))
	return a.owner, a.done
}

// locate adds the pod of the container to an answer, and Runs once the answer is final.
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
	located.Namespace, located.Pod, located.Container, located.Variables = at.namespace, at.pod, at.container, at.variables
	if toName {
		a.program.Image = at.image
		located.Runs = a.program.Hash(r.cfg.Secret)
		a.program = gpu.Program{}
	}
	a.owner = &located
	return a
}

// recall returns what is known of a process, and keeps it for longer.
func (r *Resolver) recall(id gpu.ProcessID) answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.answers.turned) >= forgetAfter {
		r.answers.turn()
	}
	return r.known(id)
}

// known needs r.mu.
func (r *Resolver) known(id gpu.ProcessID) answer {
	if a, ok := r.answers.get(id); ok {
		return a
	}
	return answer{owner: nobody}
}

// keep keeps an answer, unless a final one is known already, and returns the one to give: all callers share one.
func (r *Resolver) keep(id gpu.ProcessID, a answer) answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before := r.known(id); before.done {
		return before
	}
	r.answers.put(id, a)
	return a
}

// look reads procfs. Of a process of which a file could not be read for a moment nothing is known yet.
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
	name, args, noName := r.program(d, s)
	uid, noUser := readUID(d)
	group, noGroup := d.read("cgroup", 64<<10)
	if noName != nil || momentary(noUser) || momentary(noGroup) {
		return answer{owner: nobody}
	}
	in := hostfs.ParseCgroup(string(group))
	o := &gpu.Owner{Process: label(name, maxLabel), ContainerID: in.Container, SlurmJob: in.SlurmJob}
	if r.cfg.Command {
		o.Command = label(strings.Join(args, " "), maxCommand)
	}
	if noUser == nil {
		o.User = label(r.users.name(uid), maxLabel)
	}
	a := answer{owner: o, read: true}
	if r.cfg.Secret != nil && o.Process != "" {
		a.program = r.identify(s, name, args)
	}
	return a
}

// program returns the name of the process's program, and the arguments if they are needed. The error means: try again.
func (r *Resolver) program(d procDir, s hostfs.Stat) (name string, args []string, err error) {
	exe, err := d.Readlink("exe")
	if momentary(err) {
		return "", nil, err
	}
	exe = executable(exe)
	if exe == "" || interpreterOf(exe) != nil || r.cfg.Command || r.cfg.Secret != nil {
		b, err := d.read("cmdline", maxArguments)
		if momentary(err) {
			return "", nil, err
		}
		args = splitArguments(b)
	}
	return programName(exe, s.Name, args), args, nil
}
