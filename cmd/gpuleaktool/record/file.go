// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/replay"
)

// memberSpan is how much of a GPU's clock a member of a compressed recording
// holds. Nothing of a member can be counted on before it ends, so this is also how
// much a crash may cost.
const memberSpan = time.Minute

// recordingFile is a recording that is being written under another name. It gets
// its own once it is complete, so that nobody reads half of one.
//
// A compressed one is a row of gzip members, which readers take for one stream:
// after a crash it can be read at least up to the last whole member. Nothing is
// synced on the way: the kernel writes to the disk by itself within about half a
// minute, and waiting for a disk would delay samples.
type recordingFile struct {
	path string

	mu      sync.Mutex
	file    *os.File
	out     tally        // to file
	gzip    *gzip.Writer // nil for a file that is not compressed
	writer  *replay.Writer
	begun   map[string]time.Duration // the first sample of each GPU in the member
	whole   int64                    // bytes that hold whole lines, or whole members
	samples uint64                   // in whole
	pending uint64                   // samples behind whole
	failed  error                    // the first error of writing
	closed  bool
}

// tally counts the written bytes, also those of a write that failed.
type tally struct {
	w io.Writer
	n int64
}

func (t *tally) Write(b []byte) (int, error) {
	n, err := t.w.Write(b)
	t.n += int64(n)
	return n, err
}

// createRecording begins the recording path. Neither it nor what another
// recording left unfinished is overwritten.
func createRecording(path string) (*recordingFile, error) {
	if path == "" { // as of an empty variable of a shell: it would fail at the end only
		return nil, errors.New("--output: is empty: name the file to write")
	}
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("--output=%s: exists already: choose another name or remove it", path)
	}
	f, err := os.OpenFile(path+".partial", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("--output=%s: %s.partial exists: another recording is under way or was cut off; backtest reads what it left", path, path)
	}
	if err != nil {
		return nil, fmt.Errorf("--output=%s: %w", path, err)
	}
	r := &recordingFile{path: path, file: f, out: tally{w: f}, begun: map[string]time.Duration{}}
	var w io.Writer = &r.out
	if strings.HasSuffix(path, ".gz") {
		r.gzip = gzip.NewWriter(&r.out)
		w = r.gzip
	}
	r.writer = replay.NewWriter(w)
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
	if err := r.writer.Write(info, s, st); err != nil {
		r.failed = cmp.Or(r.failed, err)
		return err
	}
	r.pending++
	// The GPUs of a fast replay are at different times, so each has its own span.
	begin, known := r.begun[info.UUID]
	if !known {
		r.begun[info.UUID] = s.T
	}
	if r.gzip == nil || known && s.T-begin >= memberSpan {
		return r.settle()
	}
	return nil
}

// settle ends the member of a compressed file, so that all written lines can be read.
func (r *recordingFile) settle() error {
	if r.pending == 0 {
		return nil
	}
	if r.gzip != nil {
		if err := r.gzip.Close(); err != nil {
			err = fmt.Errorf("recording: %w", err)
			r.failed = cmp.Or(r.failed, err)
			return err
		}
		r.gzip.Reset(&r.out)
		clear(r.begun)
	}
	r.whole, r.samples, r.pending = r.out.n, r.samples+r.pending, 0
	return nil
}

// outcome is the result of a recording.
type outcome struct {
	size    int64
	samples uint64 // 0 if there is no file
	failed  error  // why something is missing that was to be written
}

// complete ends the recording. What is whole in it gets its name, even if writing
// has failed; without a sample nothing stays. After an error the file is still
// there under its other name.
func (r *recordingFile) complete() (outcome, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	_ = r.settle() // it has kept the error
	done := outcome{size: r.whole, samples: r.samples, failed: r.failed}
	if r.samples == 0 {
		return done, errors.Join(r.file.Close(), os.Remove(r.file.Name()))
	}
	if err := r.publish(); err != nil {
		return done, fmt.Errorf("completing %s: %w: what was recorded is left in %s", r.path, err, r.file.Name())
	}
	return done, nil
}

// publish gives the file its name, without a part that was cut off.
func (r *recordingFile) publish() (err error) {
	if r.out.n > r.whole {
		err = r.file.Truncate(r.whole)
	}
	if err == nil {
		err = r.file.Sync()
	}
	if err = errors.Join(err, r.file.Close()); err != nil {
		return err
	}
	return os.Rename(r.file.Name(), r.path)
}
