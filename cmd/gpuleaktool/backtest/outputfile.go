// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/history"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
)

// outputFile is the file of --output-file. It is opened before the work is done, so that
// a path which can't be written costs no wait, and keeps what it held until there is something to
// write.
type outputFile struct {
	file *os.File
	path string
	made bool // by this call
}

// openOutputFile opens the file at path. One of the inputs can't be it: files, of which - is the
// standard input.
func openOutputFile(path string, inputs []string) (*outputFile, error) {
	if is, err := os.Stat(path); err == nil {
		for _, name := range inputs {
			if of, err := statInput(name); err == nil && is.Mode().IsRegular() && os.SameFile(is, of) {
				return nil, fmt.Errorf("--output-file=%s: is a file to read: name another one", path)
			}
		}
	}
	// What a link points to is made if it is absent, and stays: only what has this very name is taken away.
	file, err := create(path, os.O_EXCL)
	made := err == nil
	if errors.Is(err, os.ErrExist) {
		file, err = create(path, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("--output-file=%s: %w", path, err)
	}
	return &outputFile{file: file, path: path, made: made}, nil
}

// create opens a file for writing, and leaves what is in it.
func create(path string, flag int) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flag, 0o666) //nolint:gosec // A report is no secret, and has the mode that os.Create gives: the umask decides who reads it.
}

// statInput returns what is known of an input.
func statInput(name string) (os.FileInfo, error) {
	if history.IsNamed(name) {
		return os.Stat(name)
	}
	return os.Stdin.Stat()
}

// write puts what f writes in the place of what the file held.
func (o *outputFile) write(f func(io.Writer) error) error {
	// A pipe or a device holds nothing.
	if is, err := o.file.Stat(); err == nil && is.Mode().IsRegular() {
		if err := o.file.Truncate(0); err != nil {
			return fmt.Errorf("--output-file=%s: %w", o.path, err)
		}
	}
	o.made = false
	return f(&cli.Terminal{Raw: o.file}) // which may be one, and may be shown on one
}

// close closes the file, and takes it away again if it was made for nothing.
func (o *outputFile) close() error {
	err := o.file.Close()
	if o.made {
		err = errors.Join(err, os.Remove(o.path))
	}
	if err != nil {
		return fmt.Errorf("--output-file=%s: %w", o.path, err)
	}
	return nil
}
