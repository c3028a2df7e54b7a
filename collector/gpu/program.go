// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Program is what is known of what a process runs. What is not known is empty.
type Program struct {
	Name      string // of the executable, or of the program of an interpreter
	Image     string // of its container, as repository@digest
	Job       string // the name of its Slurm job, not its number
	Arguments string // or a hash of them, without those that are others at each start, such as a port
}

// Hash returns Owner.Runs: the first eight bytes of an HMAC of the parts, none of which can be taken for
// two. It is 0 where not even the name is known. Without the secret it does not tell the arguments.
func (p *Program) Hash(secret []byte) uint64 {
	if p.Name == "" {
		return 0
	}
	mac := hmac.New(sha256.New, secret)
	for _, part := range []string{p.Name, p.Image, p.Job, p.Arguments} {
		mac.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	return max(1, binary.LittleEndian.Uint64(mac.Sum(nil)))
}

// RunsOn returns what the process runs on a GPU of that model, or an instance of that profile. A smaller memory makes another
// program of it: it fills what there is.
func (o *Owner) RunsOn(model, profile string) detector.Program {
	if o == nil {
		return 0
	}
	return detector.Program(o.Runs).On(model).On(profile)
}

// maxNamed bounds the programs whose names are kept.
const maxNamed = 1024

// programNames name what a process of a recording runs that does not tell it, by its program alone. That is what
// nvidia-smi writes, and of a container what was recorded before its runtime had answered.
// There is no secret: the recording has the program's name, too. They are kept, because a hash takes as long as a row.
type programNames map[string]uint64

// complete names the processes of a sample that was just read: nobody else has its owners.
func (n programNames) complete(s *Sample) {
	for i := range s.Processes {
		o := s.Processes[i].Owner
		if o == nil || o.Runs != 0 {
			continue
		}
		if _, known := n[o.Process]; !known {
			if len(n) == maxNamed {
				clear(n)
			}
			n[o.Process] = (&Program{Name: o.Process}).Hash(nil)
		}
		o.Runs = n[o.Process]
	}
}
