// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"io"
	"time"
)

// RecordingKind says what a recording was written by.
type RecordingKind string

// The kinds of recordings that NewReplay and NewRecordingReader read.
const (
	KindGPUs      RecordingKind = "nvidia-smi"   // nvidia-smi --query-gpu
	KindApps      RecordingKind = "compute-apps" // nvidia-smi --query-compute-apps
	KindRecording RecordingKind = "recording"    // a Writer
)

// RecordingReader reads the samples of a recording once, in the order of its
// rows. One goroutine may use it.
type RecordingReader struct{ file *recordingFile }

// NewRecordingReader returns a reader of a recording in any format that NewReplay
// takes; name stands in its errors. Time stamps that do not tell their zone are in
// loc; nil is UTC.
func NewRecordingReader(name string, in io.Reader, loc *time.Location) (*RecordingReader, error) {
	if loc == nil {
		loc = time.UTC
	}
	f, err := newRecordingFile(name, in, loc)
	if err != nil {
		return nil, err
	}
	if gpus, ok := f.format.(*smiGPUs); ok {
		gpus.reuse = true // of a row, what stays is its sample
	}
	return &RecordingReader{file: f}, nil
}

// Kind returns what the recording was written by.
func (r *RecordingReader) Kind() RecordingKind {
	switch r.file.format.(type) {
	case *smiGPUs:
		return KindGPUs
	case *smiApps:
		return KindApps
	default:
		return KindRecording
	}
}

// Next returns the next sample and its GPU, which is known by Info.UUID as in
// NewReplay. The time of each GPU increases. The error is io.EOF at the end, or
// names file and line.
func (r *RecordingReader) Next() (Info, Sample, error) {
	reading, err := r.file.next()
	return reading.info, reading.sample, err
}
