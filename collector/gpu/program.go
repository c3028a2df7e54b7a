// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// Program is what a process runs. Unknown parts are empty.
type Program struct {
	Name      string // of the executable, or of the program of an interpreter
	Image     string // of its container, by the ID that the container runtime gives it
	Arguments string // or a hash of them, without those that are others at each start, such as a port
}

// Hash returns Owner.Runs: the first eight bytes of an HMAC of the parts, none of which can be taken for two. It is 0 without
// a name. Without the secret it does not tell the arguments.
func (p *Program) Hash(secret []byte) uint64 {
	if p.Name == "" {
		return 0
	}
	mac := hmac.New(sha256.New, secret)
	for _, part := range []string{p.Name, p.Image, p.Arguments} {
		mac.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	return max(1, binary.LittleEndian.Uint64(mac.Sum(nil)))
}
