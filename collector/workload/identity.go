// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

// maxEnvironment bounds how much of a process's environment is searched.
const maxEnvironment = 256 << 10

// maxParents bounds how many processes stand between a child of multiprocessing and its
// program: a server that forks, and children of children.
const maxParents = 4

// parentWithin is how long a reader waits for another one to have read a parent, which takes a tenth of a millisecond.
const parentWithin = 20 * time.Millisecond

// prompts are programs that run what a person types: what was typed before says nothing of
// what is typed now.
var prompts = []string{"ipykernel", "ipykernel_launcher", "colab_kernel_launcher", "ipython", "ipython3"}

// toName returns what is known of what a process runs, but for the image; without a name where
// nothing else that runs it could tell anything. Of its arguments it holds a hash.
// The error is one of reading that is worth to ask again.
func (r *Resolver) toName(d procDir, s hostfs.Stat, name string, args []string, slurmJob string) (p gpu.Program, err error) {
	name, args, child := r.parentProgram(s, name, args)
	words := steadyArguments(args)
	if slices.Contains(prompts, name) || interpreterOf(name) != nil && len(words) == 0 {
		return gpu.Program{}, nil
	}
	p.Name = label(name, maxLabel)
	if child {
		words = append([]string{"a child of"}, words...)
	}
	if len(words) > 0 {
		p.Arguments = hashOf(words)
	}
	if slurmJob != "" {
		p.Job, err = slurmJobName(d)
	}
	p.Job = steady(p.Job)
	return p, err
}

// isTitle reports whether an argument is a title that the program has given itself.
func isTitle(arg string) bool { return strings.Contains(arg, " ") || strings.Contains(arg, "::") }

// hashOf returns a hash of words, none of which can be taken for two: 32 bytes are kept
// for as long as a container is waited for, and nobody can read them.
func hashOf(words []string) string {
	h := sha256.New()
	var size [8]byte
	for _, w := range words {
		binary.LittleEndian.PutUint64(size[:], uint64(len(w)))
		h.Write(size[:])
		h.Write([]byte(w))
	}
	return string(h.Sum(nil))
}

// parentProgram returns the program that a child of Python's multiprocessing works for,
// because all such children look alike, and whether it is one. Of any other process it
// returns the program itself; so it does where the parent is gone.
func (r *Resolver) parentProgram(s hostfs.Stat, name string, args []string) (string, []string, bool) {
	own, ownArgs, child := name, args, false
	for range maxParents {
		if !isMultiprocessing(args) {
			return name, args, child
		}
		child = true
		var ok bool
		if s, name, args, ok = r.parent(s); !ok {
			break
		}
	}
	return own, ownArgs, child
}

// isMultiprocessing reports whether these are the arguments of a child that Python's
// multiprocessing has started anew, or of the server that forks such children.
func isMultiprocessing(args []string) bool {
	for _, arg := range args {
		if arg == "--multiprocessing-fork" || strings.HasPrefix(arg, "from multiprocessing.forkserver import") {
			return true
		}
	}
	return false
}

// parent returns the program of the parent of a process. One parent is read at a time, so that one that keeps its reader
// waiting does not keep those of all its children.
func (r *Resolver) parent(child hostfs.Stat) (s hostfs.Stat, name string, args []string, ok bool) {
	if child.Parent <= 1 {
		return hostfs.Stat{}, "", nil, false // its parent is gone
	}
	patience := time.NewTimer(parentWithin)
	defer patience.Stop()
	select {
	case r.parents <- struct{}{}:
		defer func() { <-r.parents }()
	case <-patience.C:
		return hostfs.Stat{}, "", nil, false
	}
	d, err := r.open(child.Parent)
	if err != nil {
		return hostfs.Stat{}, "", nil, false
	}
	defer d.Close()
	if s, err = readStat(d); err != nil || s.Start > child.Start {
		return hostfs.Stat{}, "", nil, false
	}
	name, args, err = r.program(d, s)
	return s, name, args, err == nil && name != ""
}

// slurmJobName returns the name of the Slurm job that a process runs in, "" where it may
// not be read. The error is one that is worth to ask again.
func slurmJobName(d procDir) (string, error) {
	b, err := d.read("environ", maxEnvironment)
	if momentary(err) {
		return "", err
	}
	return jobNameIn(b), nil
}

// jobNameIn returns the name of the Slurm job that an environment tells.
func jobNameIn(environ []byte) string {
	const variable = "SLURM_JOB_NAME="
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(variable)); ok {
			return label(string(value), maxLabel)
		}
	}
	return ""
}
