// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import "github.com/gpuleak/gpu_leak_exporter/detector/lives"

// maxNamed bounds the programs whose names are kept. Those that call themselves another
// way every second are named anew each time.
const maxNamed = 1024

// programNames gives a process of a recording that does not tell what it runs over all
// its lives the name that its program alone makes. That is what nvidia-smi writes, and
// of a container what was recorded before its runtime had answered.
// The secret is empty: the recording has the program's name, too.
type programNames struct {
	namer *lives.Namer
	known map[string]lives.ID
}

func newProgramNames() *programNames {
	return &programNames{namer: lives.NewNamer(nil), known: map[string]lives.ID{}}
}

// complete names the processes of a sample that was just read: nobody else has its owners.
func (n *programNames) complete(s *Sample) {
	for i := range s.Processes {
		if o := s.Processes[i].Owner; o != nil && o.Lives.Exact == 0 && o.Process != "" {
			o.Lives = n.of(o.Process)
		}
	}
}

// of returns the name of a program.
func (n *programNames) of(program string) lives.ID {
	id, ok := n.known[program]
	if !ok {
		id = n.namer.ID(lives.Identity{Program: program})
		if len(n.known) < maxNamed {
			n.known[program] = id
		}
	}
	return id
}
