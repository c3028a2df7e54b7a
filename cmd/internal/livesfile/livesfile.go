// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package livesfile is the file in which the lives of programs outlive the exporter and the machine, and
// travel to other nodes.
package livesfile

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/savefile"
	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
)

// kind is that of the file. At the bounds of a book it is a tenth as large as it may be.
var kind = savefile.Kind{Name: "lives", Version: 1, Most: 40 << 20}

// secretSize is the length of the random secret of a node, in bytes.
const secretSize = 32

// ErrUnusable says that a file is a lives file and yet of no use.
var ErrUnusable = savefile.ErrUnusable

// ErrOtherKey says that the keys of two books are not of the same secret: they mean nothing to each other.
var ErrOtherKey = errors.New("its keys were made with another secret")

// File is what a lives file holds.
type File struct {
	// Saved is when it was written.
	Saved time.Time
	// Check is that of the Namer which made the keys.
	Check lives.Key
	// Node says that the keys were made with the random secret of one node: no other one can use them.
	Node bool
	// Secret is that secret. What was exported does not have it.
	Secret []byte
	Book   *lives.Book
}

// New returns a file without lives, whose keys are those of the secret; nil is a new one, of this node.
func New(secret []byte) *File {
	f := &File{Book: lives.NewBook()}
	if secret == nil {
		f.Node, f.Secret = true, make([]byte, secretSize)
		_, _ = rand.Read(f.Secret) // it never fails: see crypto/rand
		secret = f.Secret
	}
	f.Check = lives.NewNamer(secret).Check()
	return f
}

// content is how a file is written.
type content struct {
	Saved time.Time `json:"saved"`
	Check string    `json:"key_check"`
	Node  bool      `json:"key_of_this_node"`
	// Secret must not leave the node.
	Secret []byte `json:"secret,omitempty"`
	Book   []byte `json:"programs"`
}

func checkText(k lives.Key) string { return fmt.Sprintf("%016x", uint64(k)) }

// Write replaces the file at path.
func (f *File) Write(path string) error {
	book, err := f.Book.MarshalBinary()
	if err != nil {
		return fmt.Errorf("writing the lives file: %w", err)
	}
	body, err := json.Marshal(content{f.Saved, checkText(f.Check), f.Node, f.Secret, book})
	if err != nil {
		return fmt.Errorf("writing the lives file: %w", err)
	}
	return kind.Write(path, body)
}

// Read returns what the file at path holds. Its errors are those of savefile.Kind.Read.
func Read(path string) (*File, error) {
	body, err := kind.Read(path)
	if err != nil {
		return nil, err
	}
	return parse(body)
}

func parse(body []byte) (*File, error) {
	var c content
	unusable := func(err error) (*File, error) { return nil, fmt.Errorf("lives %w: %w", ErrUnusable, err) }
	if err := json.Unmarshal(body, &c); err != nil {
		return unusable(err)
	}
	f := &File{Saved: c.Saved, Node: c.Node, Secret: c.Secret, Book: lives.NewBook()}
	if _, err := fmt.Sscanf(c.Check, "%016x", (*uint64)(&f.Check)); err != nil || checkText(f.Check) != c.Check {
		return unusable(errors.New("it does not tell of which secret its keys are"))
	}
	if len(f.Secret) > 0 && (!f.Node || lives.NewNamer(f.Secret).Check() != f.Check) {
		return unusable(errors.New("its keys are not those of its secret"))
	}
	if err := f.Book.UnmarshalBinary(c.Book); err != nil {
		return unusable(err)
	}
	return f, nil
}

// Fits returns an error if keys of the secret are not those of the file; nil stands for the file's own.
func (f *File) Fits(secret []byte) error {
	switch {
	case secret == nil && len(f.Secret) > 0:
		return nil
	case secret == nil:
		return fmt.Errorf("%w, which the file does not hold", ErrOtherKey)
	case lives.NewNamer(secret).Check() != f.Check:
		return ErrOtherKey
	}
	return nil
}

// Merge adds the lives of another file, at the time now, and returns how many those are. The error is
// ErrOtherKey.
func (f *File) Merge(other *File, now time.Time) (added int, err error) {
	if f.Check != other.Check {
		return 0, ErrOtherKey
	}
	return f.Book.Merge(other.Book, time.Duration(now.UnixNano())), nil
}
