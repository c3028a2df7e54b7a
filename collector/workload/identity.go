// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"crypto/sha256"
	"encoding/binary"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

const (
	// maxParents bounds the processes between a child of multiprocessing and its program: a server that forks, and
	// children of children.
	maxParents = 4
	// parentWithin is how long a reader waits until another one has read a parent, which takes a tenth of a millisecond.
	parentWithin = 20 * time.Millisecond
)

// prompts are programs that run what a person types, which is another program each time.
var prompts = []string{"ipykernel", "ipykernel_launcher", "colab_kernel_launcher", "ipython", "ipython3"}

// changing matches the parts of an argument that differ at each start of a program: UUIDs, hexadecimal words of at least
// eight characters, and numbers of at least five digits, such as ids, times, dates and addresses. Shorter numbers may be
// the size of a batch, a rank or a port. The longest match counts, so that a hexadecimal word is matched as a whole.
var changing = func() *regexp.Regexp {
	r := regexp.MustCompile(uuidForm + `|[0-9a-fA-F]{8,}|[0-9](?:[-_:.]?[0-9]){4,}`)
	r.Longest()
	return r
}()

// steady returns the same text for two starts of the same program.
func steady(text string) string { return changing.ReplaceAllLiteralString(text, "#") }

// steadyArguments returns the part of the arguments that is the same at each start. The program's own name is left out,
// unless the only argument is a title: then there is nothing else.
func steadyArguments(args []string) []string {
	if len(args) != 1 || !isTitle(args[0]) {
		args = args[min(1, len(args)):]
	}
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = steady(arg)
	}
	return words
}

// isTitle reports whether an argument is a title that the program has given itself.
func isTitle(arg string) bool { return strings.Contains(arg, " ") || strings.Contains(arg, "::") }

// identify returns the identity of a process's program, without the image. It has no name if another process with this
// identity could be another program. It holds a hash of the arguments.
func (r *Resolver) identify(s hostfs.Stat, name string, args []string) (p gpu.Program) {
	name, args, child := r.parentProgram(s, name, args)
	words := steadyArguments(args)
	if slices.Contains(prompts, name) || interpreterOf(name) != nil && len(words) == 0 {
		return gpu.Program{}
	}
	p.Name = label(name, maxLabel)
	if child {
		words = append([]string{"a child of"}, words...)
	}
	if len(words) > 0 {
		p.Arguments = hashOf(words)
	}
	return p
}

// hashOf returns a hash of words, so that no argument is kept while the runtime is asked for the image. The sizes keep
// two words apart from one.
func hashOf(words []string) string {
	h := sha256.New()
	for _, w := range words {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(w))))
		h.Write([]byte(w))
	}
	return string(h.Sum(nil))
}

// parentProgram returns the program that a child of Python's multiprocessing works for, because all such children look
// alike, and whether it is such a child. For any other process, and if the parent is gone, it returns the program itself.
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

// isMultiprocessing reports whether the arguments are those of a child that Python's multiprocessing has started, or of
// the server that forks such children.
func isMultiprocessing(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		return arg == "--multiprocessing-fork" || strings.HasPrefix(arg, "from multiprocessing.forkserver import")
	})
}

// parent returns the program of the parent of a process. One parent is read at a time: a parent that blocks its reader
// must not block the readers of all its children.
func (r *Resolver) parent(child hostfs.Stat) (s hostfs.Stat, name string, args []string, ok bool) {
	if child.Parent <= 1 {
		return s, "", nil, false // its parent is gone
	}
	patience := time.NewTimer(parentWithin)
	defer patience.Stop()
	select {
	case r.parents <- struct{}{}:
		defer func() { <-r.parents }()
	case <-patience.C:
		return s, "", nil, false
	}
	d, err := r.open(child.Parent)
	if err != nil {
		return s, "", nil, false
	}
	defer d.Close()
	if s, err = readStat(d); err != nil || s.Start > child.Start {
		return s, "", nil, false
	}
	name, args, err = r.program(d, s)
	return s, name, args, err == nil && name != ""
}
