// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package livesfile is the file in which the lives of programs outlive the exporter and the machine.
package livesfile

import (
	"crypto/rand"
	"encoding/json"
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

// File is what a lives file holds.
type File struct {
	// Saved is when it was written.
	Saved time.Time
	// Secret is what the keys of the book are made with. It is the node's own, and random.
	Secret []byte
	Book   *lives.Book
}

// New returns a file without lives, with a secret of its own.
func New() *File { return &File{Secret: NewSecret(), Book: lives.NewBook()} }

// NewSecret returns a secret that nobody else has.
func NewSecret() []byte {
	secret := make([]byte, secretSize)
	_, _ = rand.Read(secret) // it never fails: see crypto/rand
	return secret
}

// content is how a file is written.
type content struct {
	Saved time.Time `json:"saved"`
	// Secret must not leave the node.
	Secret []byte `json:"secret"`
	Book   []byte `json:"programs"`
}

// Write replaces the file at path.
func (f *File) Write(path string) error {
	book, err := f.Book.MarshalBinary()
	if err != nil {
		return fmt.Errorf("writing the lives file: %w", err)
	}
	body, err := json.Marshal(content{f.Saved, f.Secret, book})
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
	f := &File{Saved: c.Saved, Secret: c.Secret, Book: lives.NewBook()}
	if len(f.Secret) != secretSize {
		return unusable(fmt.Errorf("its secret has %d bytes, not %d", len(f.Secret), secretSize))
	}
	if err := f.Book.UnmarshalBinary(c.Book); err != nil {
		return unusable(err)
	}
	return f, nil
}
