// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// TestPartialRecording cuts a recording off anywhere: under a name that says so,
// what is whole is read.
func TestPartialRecording(t *testing.T) {
	var plain, packed bytes.Buffer
	w := NewWriter(&plain)
	whole := 0 // bytes of packed that hold all but the last member
	for i := range 9 {
		from := plain.Len()
		now := simStart.Add(time.Duration(i) * time.Second)
		must(t, w.Write(gpu.Info{UUID: "GPU-a"}, gpu.Sample{Time: now, T: time.Duration(now.UnixNano())}, nil))
		whole = packed.Len()
		packed.WriteString(compress(t, plain.String()[from:]))
	}
	begin := bytes.Index(plain.Bytes(), []byte(`{"uuid"`))
	for _, c := range []struct {
		name, text string
		from       int // where the first sample may be whole
		last       int // from where 8 samples are whole
	}{
		{"plain", plain.String(), begin, bytes.LastIndexByte(plain.Bytes()[:plain.Len()-1], '\n') + 1},
		{"compressed", packed.String(), 1, whole},
	} {
		before := 0
		for size := c.from; size <= len(c.text); size++ {
			n, err := countReadings("r.partial", c.text[:size])
			if n < before || n < 8 && size >= c.last || n < 9 && size == len(c.text) {
				t.Fatalf("%s: %d samples in %d of %d bytes, %d in fewer", c.name, n, size, len(c.text), before)
			}
			// A file without a whole line is empty, which is said.
			if err != nil && (n > 0 || err.Error() != "r.partial: is empty") {
				t.Fatalf("%s: %d of %d bytes: %v", c.name, size, len(c.text), err)
			}
			before = n
		}
		if n, err := countReadings("r", c.text[:len(c.text)-1]); err == nil || !strings.Contains(err.Error(), "this line") && !strings.Contains(err.Error(), "cut off") {
			t.Errorf("%s, under another name: %d samples, %v", c.name, n, err)
		}
	}
}

// countReadings reads a recording to its end.
func countReadings(name, text string) (n int, err error) {
	r, err := NewReader(name, strings.NewReader(text), nil)
	for err == nil {
		if _, _, err = r.Next(); err == nil {
			n++
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}
