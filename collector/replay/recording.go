// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// recordingFormatName and recordingVersion stand in the first line of a recording. The version changes when an older reader
// would read something wrong.
const (
	recordingFormatName = "gpu_leak_exporter recording"
	recordingVersion    = 1
)

// Writer writes a recording that New reads: text, one JSON object a line.
//
//	{"format":"gpu_leak_exporter recording","version":1}
//	{"gpu":{"index":0,"uuid":"GPU-…","name":"Tesla T4",…}}
//	{"uuid":"GPU-…","sample":{"time":"2026-03-01T00:00:01Z","t":1772323201000000000,"step":0,
//	  "memory":{"total":16106127360,"used":4294967296,…},"processes":[{"id":{"pid":42,"start":7},…}]},
//	  "status":{"power":{"watts":61.2,…},…}}
//
// The first line comes once; the line of a GPU before its first sample and
// whenever its Info has changed. The fields are those of Info, Sample and
// Status, in snake case and in the same units; durations are nanoseconds, type
// is the sum of 1 compute, 2 graphics and 4 mps. An absent Opt, an empty string,
// false and a nil list are left out, any number that is known is there, even 0.
// Everything comes back out of New as it was, but for bytes that are not
// UTF-8, monotonic clock readings and time zones.
//
// Its methods may be called from any goroutine.
type Writer struct {
	mu    sync.Mutex
	w     io.Writer
	begun bool
	infos map[string]gpu.Info // by UUID, as written last
	err   error               // of an earlier write, after which the end of w is unknown
}

// NewWriter returns a Writer to w, which it does not close. A gzip.Writer compresses the recording.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w, infos: map[string]gpu.Info{}} }

// Write appends a sample of a GPU and, unless it is nil, its status then. It writes whole lines, in one call. An error of w is
// final: each later call returns it again.
func (w *Writer) Write(info gpu.Info, s gpu.Sample, st *gpu.Status) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if info.UUID == "" {
		return fmt.Errorf("recording: GPU %d has no UUID", info.Index)
	}
	var lines []byte
	if !w.begun {
		lines = fmt.Appendf(lines, "{\"format\":%q,\"version\":%d}\n", recordingFormatName, recordingVersion)
	}
	var err error
	if last, known := w.infos[info.UUID]; !known || last != info {
		if lines, err = appendLine(lines, &recordingLine{GPU: &info}); err != nil {
			return fmt.Errorf("recording: %w", err)
		}
	}
	s.Time = s.Time.UTC()
	if lines, err = appendLine(lines, &recordingLine{UUID: info.UUID, Sample: &s, Status: st}); err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	if _, err := w.w.Write(lines); err != nil {
		w.err = fmt.Errorf("recording: %w", err)
		return w.err
	}
	w.begun = true
	w.infos[info.UUID] = info
	return nil
}

// recordingLine is a line of a recording below its header.
type recordingLine struct {
	GPU    *gpu.Info   `json:"gpu,omitzero"`
	UUID   string      `json:"uuid,omitzero"`
	Sample *gpu.Sample `json:"sample,omitzero"`
	Status *gpu.Status `json:"status,omitzero"`
}

// appendLine appends a line.
func appendLine(b []byte, line *recordingLine) ([]byte, error) {
	text, err := json.Marshal(line)
	return append(append(b, text...), '\n'), err
}

// recordingFormat is the format that Writer writes.
type recordingFormat struct {
	only    string // the UUID of the one GPU whose samples are read; "" reads those of all
	infos   map[string]gpu.Info
	last    map[string]time.Duration // the time of each GPU, by UUID
	text    *strings.Reader          // the line that decoder reads: one decoder for all lines takes less time
	decoder *json.Decoder
}

// newRecordingFormat returns the format for a first line in JSON.
func newRecordingFormat(first string) (format, error) {
	if err := checkHeader(first); err != nil {
		return nil, err
	}
	text := strings.NewReader("")
	f := &recordingFormat{infos: map[string]gpu.Info{}, last: map[string]time.Duration{}, text: text, decoder: json.NewDecoder(text)}
	f.decoder.DisallowUnknownFields()
	return f, nil
}

// checkHeader returns an error if this program cannot read such a recording. A later version may hold more than this program
// knows.
func checkHeader(line string) error {
	var h struct {
		Format  string
		Version int
	}
	if err := json.Unmarshal([]byte(line), &h); err != nil || h.Format != recordingFormatName {
		return fmt.Errorf("is no recording of gpu_leak_exporter, whose first line has the format %q", recordingFormatName)
	}
	if h.Version != recordingVersion {
		return fmt.Errorf("recording of version %d: this program reads version %d; replay it with the release that wrote it", h.Version, recordingVersion)
	}
	return nil
}

func (f *recordingFormat) line(text string) (*reading, error) {
	if strings.HasPrefix(text, `{"format"`) { // recordings that were put one after the other
		return nil, checkHeader(text)
	}
	if f.only != "" && f.ofOther(text) {
		return nil, nil
	}
	line, err := f.parse(text)
	if err != nil {
		return nil, err
	}
	switch {
	case line.GPU != nil:
		if line.GPU.UUID == "" {
			return nil, errors.New("gpu: has no uuid")
		}
		if _, known := f.infos[line.GPU.UUID]; !known && len(f.infos) == maxGPUs {
			return nil, errManyGPUs
		}
		f.infos[line.GPU.UUID] = *line.GPU
		return nil, nil
	case line.Sample == nil:
		return nil, errors.New("holds neither a gpu nor a sample")
	}
	info, known := f.infos[line.UUID]
	if !known {
		return nil, fmt.Errorf("sample of GPU %q, of which no gpu line was before: the start of the recording is missing", line.UUID)
	}
	line.Sample.Time = line.Sample.Time.UTC()
	if err := checkRecorded(line.Sample); err != nil {
		return nil, err
	}
	if last, known := f.last[line.UUID]; known && line.Sample.T <= last {
		return nil, notAfter(line.UUID, line.Sample.T, last)
	}
	f.last[line.UUID] = line.Sample.T
	return &reading{info: info, sample: *line.Sample, status: line.Status}, nil
}

// ofOther reports whether a line is a sample of another GPU than only. It looks at its beginning, as Writer writes it: to decode
// the line takes a hundred times as long.
func (f *recordingFormat) ofOther(text string) bool {
	rest, sample := strings.CutPrefix(text, `{"uuid":"`)
	uuid, _, _ := strings.Cut(rest, `"`)
	_, known := f.infos[uuid]
	return sample && known && uuid != f.only
}

// notAfter returns the error of a sample whose time has not moved on.
func notAfter(uuid string, t, last time.Duration) error {
	const form = "2006-01-02 15:04:05.000"
	return fmt.Errorf("timestamp: %s of GPU %q is not after %s, its row before: split the file where the clock was set back or two recordings overlap, and record with the uuid if rows of several GPUs are mixed",
		time.Unix(0, int64(t)).UTC().Format(form), uuid, time.Unix(0, int64(last)).UTC().Format(form))
}

func (*recordingFormat) end() []*reading { return nil }

// parse reads a line. An unknown field is an error: a program that knows more wrote it, and it would be lost.
func (f *recordingFormat) parse(text string) (recordingLine, error) {
	f.text.Reset(text)
	var line recordingLine
	err := f.decoder.Decode(&line)
	if _, more := f.decoder.Token(); err == nil && more != io.EOF {
		err = errors.New("there is something behind it")
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("%s: cannot take a JSON %s for a %s", wrong.Field, wrong.Value, wrong.Type)
	}
	if err != nil {
		return recordingLine{}, fmt.Errorf("cannot read the line: %w: if another release wrote it, replay it with that", err)
	}
	return line, nil
}

// checkRecorded returns an error if a sample holds a value that no driver measures.
func checkRecorded(s *gpu.Sample) error {
	if y := time.Unix(0, int64(s.T)).UTC().Year(); y < 1971 || y > gpu.LastYear {
		return fmt.Errorf("sample.t: %d ns is not between 1971 and %d", s.T, gpu.LastYear)
	}
	if y := s.Time.Year(); !s.Time.IsZero() && (y < 1971 || y > gpu.LastYear) {
		return fmt.Errorf("sample.time: %v is not between 1971 and %d", s.Time, gpu.LastYear)
	}
	amounts := map[string]gpu.Memory{"memory": s.Memory}
	for i, in := range s.Instances {
		amounts[fmt.Sprintf("instances[%d].memory", i)] = in.Memory
	}
	for name, m := range amounts {
		for _, v := range []gpu.Opt[uint64]{m.Total, m.Used, m.Free, m.Reserved} {
			if v.V > detector.MaxBytes {
				return fmt.Errorf("sample.%s: no GPU has %d bytes", name, v.V)
			}
		}
	}
	for i, p := range s.Processes {
		if p.Used.V > detector.MaxBytes {
			return fmt.Errorf("sample.processes[%d].used: no GPU has %d bytes", i, p.Used.V)
		}
		if p.Type > gpu.Compute|gpu.Graphics|gpu.MPS {
			return fmt.Errorf("sample.processes[%d].type: %d is no sum of 1, 2 and 4", i, p.Type)
		}
		if len(p.State) > 1 {
			return fmt.Errorf("sample.processes[%d].state: %q is no letter", i, p.State)
		}
	}
	return nil
}
