// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// recordingFile is a recording that is being written under another name. It gets
// its own once it is complete, so that nobody reads half of one.
type recordingFile struct {
	path string

	mu     sync.Mutex
	file   *os.File
	gzip   *gzip.Writer // nil for a file that is not compressed
	writer *gpu.Writer
	closed bool
}

// createRecording begins the recording path. Neither it nor what another
// recording left unfinished is overwritten.
func createRecording(path string) (*recordingFile, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("--output=%s: exists already: choose another name or remove it", path)
	}
	f, err := os.OpenFile(path+".partial", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("--output=%s: %s.partial exists: remove it unless another recording is under way", path, path)
	}
	if err != nil {
		return nil, fmt.Errorf("--output=%s: %w", path, err)
	}
	r := &recordingFile{path: path, file: f}
	var w io.Writer = f
	if strings.HasSuffix(path, ".gz") {
		r.gzip = gzip.NewWriter(f)
		w = r.gzip
	}
	r.writer = gpu.NewWriter(w)
	return r, nil
}

// write appends a sample. After the end it does nothing: a reader that was left
// behind may still come.
func (r *recordingFile) write(info gpu.Info, s gpu.Sample, st *gpu.Status) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	return r.writer.Write(info, s, st)
}

// commit completes the recording and returns its size.
func (r *recordingFile) commit() (size int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.gzip != nil {
		err = r.gzip.Close()
	}
	if err == nil {
		err = r.file.Sync()
	}
	info, statErr := r.file.Stat()
	if err = errors.Join(err, statErr, r.file.Close()); err == nil {
		err = os.Rename(r.file.Name(), r.path)
	}
	if err != nil {
		return 0, fmt.Errorf("completing %s: %w", r.path, err)
	}
	return info.Size(), syncDir(filepath.Dir(r.path))
}

// syncDir makes the new name outlive a crash of the machine.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("completing the recording: %w", err)
	}
	defer d.Close()
	// Some file systems cannot sync a directory; they keep the name or not.
	_ = d.Sync()
	return nil
}

// abandon removes what was written.
func (r *recordingFile) abandon() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return errors.Join(r.file.Close(), os.Remove(r.file.Name()))
}
