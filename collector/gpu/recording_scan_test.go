// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
)

// recordedLines are the lines of a recording in which every field is set.
func recordedLines(tb testing.TB) []string {
	tb.Helper()
	var n int64
	var info Info
	var s Sample
	var st Status
	fill(reflect.ValueOf(&info).Elem(), &n)
	fill(reflect.ValueOf(&s).Elem(), &n)
	fill(reflect.ValueOf(&st).Elem(), &n)
	s.T = time.Duration(simStart.UnixNano())
	s.Processes[0].State, s.Processes[1].State = 'R', 'S'
	var b bytes.Buffer
	if err := NewWriter(&b).Write(info, s, &st); err != nil {
		tb.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(b.String()), "\n")[1:]
}

// FuzzScanLine checks that what the scanner takes is what the slow way makes of it.
func FuzzScanLine(f *testing.F) {
	for _, line := range recordedLines(f) {
		f.Add(line)
	}
	f.Add(`{"uuid":"a","sample":{"time":"2026-03-01T00:00:01.5Z","t":-1,"memory":{"used":01},"processes":[{"state":"R","sm":0.5,"owner":{}},{}]},"status":{"thermal":{"fans":[null,0.25]}}}`)
	f.Add(`{"gpu":{"index":1,"index":2,"uuid":"\u0041é"},"uuid":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		var fast recordingLine
		if !scanLine(text, &fast) {
			return
		}
		slow, err := decodeRecordingLine(text)
		if err != nil || !reflect.DeepEqual(fast, slow) {
			t.Errorf("%s: %+v, want %+v, %v", text, fast, slow, err)
		}
	})
}

// TestScanLine checks that nothing that Writer writes takes the slow way.
func TestScanLine(t *testing.T) {
	for _, text := range recordedLines(t) {
		var fast recordingLine
		if !scanLine(text, &fast) {
			t.Errorf("gave up on %s", text)
		}
	}
}

// BenchmarkReadRecording reads a GPU and a sample in which every field is set.
func BenchmarkReadRecording(b *testing.B) {
	lines := recordedLines(b)
	text := []byte(`{"format":"gpu_leak_exporter recording","version":1}` + "\n" + strings.Join(lines, "\n") + "\n")
	b.ReportAllocs()
	for range b.N {
		r, err := NewRecordingReader("r", bytes.NewReader(text), nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}
