// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package savefile writes and reads the files that outlive the exporter. The first line of a file has its kind, its version,
// and the checksum of the rest, unless other programs read it, too.
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

// ErrUnusable means that a file is the exporter's but damaged, too large or of another version.
var ErrUnusable = errors.New("file cannot be used")

// Kind is a kind of file.
type Kind struct {
	Name    string // such as "state"
	Version int    // 0: a file has no first line, only its body
	Most    int64  // bytes: a larger file is neither read nor written
}

// begins returns the begin of the first line, for any version.
func (k Kind) begins() string { return program + " " + k.Name + " " }

// head returns the first line for a body.
func (k Kind) head(body []byte) string {
	return fmt.Sprintf("%sv%d crc32c=%08x", k.begins(), k.Version, crc32.Checksum(body, castagnoli))
}

func (k Kind) tooLarge(size int64) error {
	if size <= k.Most {
		return nil
	}
	return k.unusable(fmt.Sprintf("it is larger than %d KiB", k.Most>>10))
}

// Write replaces the file by one with this body that only its owner can read. If the exporter is killed meanwhile, the old
// file or the new one is there. Where the system allows it, the owner of the old file, or else of the directory, owns the
// new one: root may write for an exporter that is not root.
func (k Kind) Write(path string, body []byte) error {
	if err := k.write(path, body); err != nil {
		return fmt.Errorf("writing the %s file: %w", k.Name, err)
	}
	return nil
}

func (k Kind) write(path string, body []byte) error {
	var head []byte
	if k.Version != 0 {
		head = []byte(k.head(body) + "\n")
	}
	if err := k.tooLarge(int64(len(head) + len(body))); err != nil {
		return err
	}
	if is, err := os.Stat(path); err == nil && !is.Mode().IsRegular() {
		return errNoFile // a device must stay one
	}
	return replace(path, head, body)
}

// Read returns the body of a file. The error wraps fs.ErrNotExist or ErrUnusable; or it says that the file is not the
// exporter's, or it is Unreadable.
func (k Kind) Read(path string) ([]byte, error) {
	b, err := k.read(path)
	if err != nil {
		return nil, fmt.Errorf("reading the %s file: %w", k.Name, err)
	}
	return k.parse(path, b)
}

func (k Kind) read(path string) ([]byte, error) {
	// To open a file that is not regular may block.
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
		err = nil // it became shorter, which the checksum shows
	}
	return b[:n], err
}

var (
	errNoFile  = errors.New("it is no regular file")
	errForeign = errors.New("is not a")
)

// Unreadable reports whether after this error of Read the file may still be good. Then neither set it aside nor overwrite it.
func Unreadable(err error) bool {
	return err != nil && !errors.Is(err, ErrUnusable) && !errors.Is(err, errForeign)
}

func (k Kind) unusable(why string) error { return fmt.Errorf("%s %w: %s", k.Name, ErrUnusable, why) }

// parse returns the body of b, the content of the file at path.
func (k Kind) parse(path string, b []byte) ([]byte, error) {
	if len(bytes.Trim(b, "\x00")) == 0 {
		return nil, k.unusable("it is empty, as a crash of the machine may leave it")
	}
	if k.Version == 0 {
		return b, nil
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

// SetAside renames a file that cannot be used, so that the exporter can work without it, and returns its new name. It
// replaces the file that was set aside before.
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
