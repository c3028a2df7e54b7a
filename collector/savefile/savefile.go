// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package savefile keeps what the exporter knows in files that outlive it. The first line of one says
// what it is, of which version, and the checksum of what follows it.
package savefile

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"syscall"
)

const (
	program = "gpu_leak_exporter"
	// setAside is added to the name of a file that cannot be used.
	setAside = ".bad"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrUnusable says that a file is ours and yet of no use.
var ErrUnusable = errors.New("file cannot be used")

// Kind is what a file is: its name, such as "state", the version of what is in it, and how large it can be,
// in bytes: a larger one is neither read nor written.
type Kind struct {
	Name    string
	Version int
	Most    int64
}

// begins returns how the first line of a file of the kind begins, of any version.
func (k Kind) begins() string { return program + " " + k.Name + " " }

// head returns the first line of a file that holds body.
func (k Kind) head(body []byte) string {
	return fmt.Sprintf("%sv%d crc32c=%08x", k.begins(), k.Version, crc32.Checksum(body, castagnoli))
}

// tooLarge says why a file of that size is not read or written; nil if it is.
func (k Kind) tooLarge(size int64) error {
	if size <= k.Most {
		return nil
	}
	return k.unusable(fmt.Sprintf("it is larger than %d MiB", k.Most>>20))
}

// Write replaces the file by one that holds body and that only its owner can read: whoever is killed
// meanwhile leaves the old one or the new. Where the system lets it, the owner of the old one, or else of
// the directory, owns the new one: root may write for an exporter that is not.
func (k Kind) Write(path string, body []byte) error {
	if err := k.write(path, body); err != nil {
		return fmt.Errorf("writing the %s file: %w", k.Name, err)
	}
	return nil
}

func (k Kind) write(path string, body []byte) error {
	if err := k.tooLarge(int64(len(body) + len(k.head(body)) + 1)); err != nil {
		return err
	}
	if is, err := os.Stat(path); err == nil && !is.Mode().IsRegular() {
		return errNoFile // a device must stay one
	}
	return replace(path, []byte(k.head(body)+"\n"), body)
}

// Read returns the body of a file. The error of one that does not exist is fs.ErrNotExist, and that of one
// that is of the kind and of no use, or too large, is ErrUnusable, both wrapped. Others say that the file is none of ours,
// or are Unreadable.
func (k Kind) Read(path string) ([]byte, error) {
	b, err := k.read(path)
	if err != nil {
		return nil, fmt.Errorf("reading the %s file: %w", k.Name, err)
	}
	return k.Parse(path, b)
}

func (k Kind) read(path string) ([]byte, error) {
	// To open another than a regular file may wait for ever.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	is, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !is.Mode().IsRegular() {
		return nil, errNoFile
	}
	if err := k.tooLarge(is.Size()); err != nil {
		return nil, err
	}
	b := make([]byte, is.Size())
	n, err := io.ReadFull(file, b)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil // it became shorter
	}
	return b[:n], err
}

var (
	errNoFile  = errors.New("it is no regular file")
	errForeign = errors.New("is not a")
)

// Unreadable reports whether an error of Read says nothing of what the file holds: it may be good, and is better
// neither set aside nor written over.
func Unreadable(err error) bool {
	return err != nil && !errors.Is(err, ErrUnusable) && !errors.Is(err, errForeign)
}

// unusable returns ErrUnusable with its reason.
func (k Kind) unusable(why string) error { return fmt.Errorf("%s %w: %s", k.Name, ErrUnusable, why) }

// Parse is Read of what the file at path holds.
func (k Kind) Parse(path string, b []byte) ([]byte, error) {
	if len(bytes.Trim(b, "\x00")) == 0 {
		return nil, k.unusable("it is empty, as a crash of the machine may leave it")
	}
	head, body, _ := bytes.Cut(b, []byte("\n"))
	if !strings.HasPrefix(string(head), k.begins()) {
		return nil, fmt.Errorf("%s %w %s file of %s", path, errForeign, k.Name, program)
	}
	if err := k.tooLarge(int64(len(b))); err != nil {
		return nil, err
	}
	want := k.head(body)
	if version, _, _ := strings.Cut(want, "="); !strings.HasPrefix(string(head), version+"=") {
		return nil, k.unusable("it is of another version")
	}
	if string(head) != want {
		return nil, k.unusable("its checksum does not match")
	}
	return body, nil
}

// SetAside gives a file that cannot be used the name that it returns, in the place of an earlier one: it
// must not keep an exporter that is started again and again from working.
func SetAside(path string) (kept string, err error) {
	is, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !is.Mode().IsRegular() {
		return "", errNoFile
	}
	kept = path + setAside
	if err := os.Rename(path, kept); err != nil {
		return "", err
	}
	return kept, nil
}
