// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// BenchmarkBacktestCSV runs the tool over a log of nvidia-smi, a line a second. samples/s is what a core does, whatever else
// the machine does meanwhile: the processor time of all threads counts.
func BenchmarkBacktestCSV(b *testing.B) {
	const rows = 500_000
	path := filepath.Join(b.TempDir(), "log.csv")
	f, err := os.Create(path)
	testkit.Must(b, err)
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "timestamp, index, uuid, memory.total [MiB], memory.used [MiB]")
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for i := range rows {
		t := begin.Add(time.Duration(i) * time.Second)
		fmt.Fprintf(w, "%s, 0, GPU-c6bbd36b-1111-2222-3333-444455556666, 81559 MiB, %d MiB\n", t.Format("2006/01/02 15:04:05.000"), 20000+i%30*64)
	}
	testkit.Must(b, w.Flush())
	testkit.Must(b, f.Close())
	b.ReportAllocs()
	begun := processorTime(b)
	b.ResetTimer()
	for b.Loop() {
		if code, _, stderr := tool(b.Context(), "backtest", path); code != exitOK {
			b.Fatal(stderr)
		}
	}
	b.ReportMetric(rows*float64(b.N)/(processorTime(b)-begun).Seconds(), "samples/s")
}

// processorTime is what this process has used of processors, in user and kernel mode.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var r syscall.Rusage
	testkit.Must(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
