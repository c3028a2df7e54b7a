// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Each series of a history is a trace of its own, from its own first sample on.
func TestReadHistory(t *testing.T) {
	const history = `# TYPE gpu_memory_used_bytes gauge
# UNIT gpu_memory_used_bytes bytes
gpu_memory_used_bytes{pod="a"} 1024 1662858720.000
gpu_memory_used_bytes{pod="a"} 2.048e3 1662858777.5
gpu_memory_used_bytes{pod="b"} 7 1662850000.000
gpu_memory_used_bytes{pod="b"} NaN 1662850057.000
gpu_memory_used_bytes{pod="a"} 3072 1662858834.000
# EOF
`
	dir := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "pods.om"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(history)
	got, err := readTraces(dir)
	if err != nil || len(got) != 2 {
		t.Fatalf("%d traces, %v", len(got), err)
	}
	want := []traceSample{{0, 1024}, {57500 * time.Millisecond, 2048}, {114 * time.Second, 3072}}
	if a := got[0]; !slices.Equal(a.samples, want) || a.capacity != historyCapacity || !strings.Contains(a.name, `pod="a"`) {
		t.Errorf("%+v, want %v", a, want)
	}
	if b := got[1]; !slices.Equal(b.samples, []traceSample{{0, 7}}) {
		t.Errorf("%+v", b)
	}
	for _, bad := range []string{"seven", "7"} {
		write(strings.Replace(history, "7 1662850000.000", bad, 1))
		if _, err := readTraces(dir); err == nil || !strings.Contains(err.Error(), "pods.om") {
			t.Errorf("%s, and no time: %v", bad, err)
		}
	}
}
