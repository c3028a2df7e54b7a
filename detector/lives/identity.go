// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package lives

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// Key names a program: the first eight bytes of an HMAC of what is known of it. The zero Key is that
// of nothing known. Who does not have the secret cannot tell from it what the program's arguments are.
type Key uint64

// Basis says what a Key was made of.
type Basis uint8

// What a Key may be made of.
const (
	BasisProgram Basis = 1 << iota
	BasisImage
	BasisArguments
	BasisJob
	BasisGPU
)

var basisNames = [...]string{"program", "image", "arguments", "job", "gpu"}

// String returns what the key was made of, such as "program, image, arguments".
func (b Basis) String() string {
	var names []string
	for i, name := range basisNames {
		if b>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// ID names what a process runs. Exact is made of all that is known; Kin is what a changed batch size,
// another version or another GPU leaves as it is, the fallback.
type ID struct {
	Exact Key   `json:"exact,omitzero"`
	Kin   Key   `json:"kin,omitzero"`
	Basis Basis `json:"basis,omitzero"` // of Exact
	// Program and Image are those of the Identity, for people to read.
	Program string `json:"program,omitzero"`
	Image   string `json:"image,omitzero"`
}

// Identity is what is known of what a process runs. What is not known is empty.
type Identity struct {
	Program   string   // the name of the executable, or of the program of an interpreter
	Image     string   // of its container, as repository@digest
	Job       string   // the name of its Slurm job, not its number
	Arguments []string // normalised: without what is another one at each start, such as a port
}

// Namer makes the keys of programs. It is safe for concurrent use.
type Namer struct{ secret []byte }

// NewNamer returns a Namer of that secret, which is the node's own.
func NewNamer(secret []byte) *Namer { return &Namer{secret: secret} }

// ID returns the name of what runs. It is the zero ID where not even the program is known.
func (n *Namer) ID(i Identity) ID {
	if i.Program == "" {
		return ID{}
	}
	id := ID{Basis: BasisProgram, Program: i.Program, Image: i.Image}
	repository, _, _ := strings.Cut(i.Image, "@")
	if i.Job != "" {
		id.Basis |= BasisJob
	}
	if i.Image != "" {
		id.Basis |= BasisImage
	}
	if len(i.Arguments) > 0 {
		id.Basis |= BasisArguments
	}
	id.Exact = n.key(append([]string{"exact", i.Program, i.Image, i.Job}, i.Arguments...)...)
	id.Kin = n.key("kin", i.Program, repository, i.Job)
	return id
}

// key returns the key of parts, none of which can be taken for two.
func (n *Namer) key(parts ...string) Key {
	mac := hmac.New(sha256.New, n.secret)
	var size [8]byte
	for _, p := range parts {
		binary.LittleEndian.PutUint64(size[:], uint64(len(p)))
		mac.Write(size[:])
		mac.Write([]byte(p))
	}
	return Key(max(1, binary.LittleEndian.Uint64(mac.Sum(nil))))
}

// On returns the name of the same on a GPU of that model.
func (id ID) On(model string) ID {
	if id.Exact == 0 || model == "" {
		return id
	}
	id.Exact, id.Basis = id.Exact.with(model), id.Basis|BasisGPU
	return id
}

// with mixes a text into a key, which is secret enough for what anybody may know: FNV-1a.
func (k Key) with(text string) Key {
	const prime = 1099511628211
	h := uint64(k)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * prime
	}
	return Key(max(1, h))
}
