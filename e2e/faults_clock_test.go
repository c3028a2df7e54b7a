// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// wallClock is the wall clock of one process. The steady clock goes on as it does.
//
// A program asks for both by a function that the kernel puts into its memory, the vDSO. Here it is
// replaced by one that asks the kernel, and adds to the wall clock what the test wants.
type wallClock struct {
	p   *harness.Process
	mem *os.File
	at  int64 // of what is added, in seconds
}

// clockCode is the function for amd64: clock_gettime(clock in edi, result in rsi).
var clockCode = []byte{
	0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
	0x75, 0x0a, // jne to the end
	0x48, 0x8b, 0x0d, addedAt - 18, 0, 0, 0, // mov rcx, what is added
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3, // ret
}

// addedAt is where what is added is, from the beginning of the function.
const addedAt = 64

// takeWallClock puts the wall clock of a process into the hands of the test.
func takeWallClock(t *testing.T, p *harness.Process) *wallClock {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skipf("a clock of its own is made for amd64 only, and this is %s: simulated hours have steps of the clock", runtime.GOARCH)
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", p.PID()), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mem.Close() })
	low, high := vdsoOf(t, p)
	image := make([]byte, high-low)
	if _, err := mem.ReadAt(image, low); err != nil {
		t.Fatal(err)
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "__vdso_clock_gettime" })
	if i < 0 || symbols[i].Size < addedAt+8 {
		t.Skip("the kernel's vDSO has no room for another clock: simulated hours have steps of the clock")
	}
	function := low + int64(symbols[i].Value) //nolint:gosec // within the image
	c := &wallClock{p, mem, function + addedAt}
	c.pause(t)
	for inside(t, p, low, high) { // then it would go on in the midst of the other function
		c.resume(t)
		time.Sleep(time.Millisecond)
		c.pause(t)
	}
	if _, err := mem.WriteAt(append(slices.Clone(clockCode), make([]byte, addedAt+8-len(clockCode))...), function); err != nil {
		t.Fatal(err)
	}
	c.resume(t)
	return c
}

// vdsoOf returns where the vDSO of a process is.
func vdsoOf(t *testing.T, p *harness.Process) (low, high int64) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "[vdso]") {
			if _, err := fmt.Sscanf(line, "%x-%x", &low, &high); err != nil {
				t.Fatal(err)
			}
		}
	}
	if low == 0 {
		t.Skip("this kernel gives programs no vDSO: simulated hours have steps of the clock")
	}
	return low, high
}

// inside reports whether a thread of a process that is paused is in that memory.
func inside(t *testing.T, p *harness.Process, low, high int64) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", p.PID()))
	if err != nil || len(threads) == 0 {
		t.Fatal("no threads", err)
	}
	for _, file := range threads {
		b, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(string(b))
		at, err := strconv.ParseInt(strings.TrimPrefix(words[len(words)-1], "0x"), 16, 64)
		if err != nil || at >= low && at < high { // it runs still, or it is there
			return true
		}
	}
	return false
}

func (c *wallClock) pause(t *testing.T) {
	t.Helper()
	if err := c.p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

func (c *wallClock) resume(t *testing.T) {
	t.Helper()
	if err := c.p.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// set sets the wall clock that far ahead of the machine's.
func (c *wallClock) set(t *testing.T, ahead time.Duration) {
	t.Helper()
	b := binary.LittleEndian.AppendUint64(nil, uint64(ahead/time.Second)) //nolint:gosec // also if it is negative
	if _, err := c.mem.WriteAt(b, c.at); err != nil {
		t.Fatal(err)
	}
}

// stamped returns an error unless all GPUs have samples that are as far ahead of the machine's clock.
func (m *machine) stamped(s harness.Metrics, ahead time.Duration) error {
	var errs []error
	for i := range m.GPUs {
		v, err := s.Value("gpu_sample_timestamp_seconds", m.id(i))
		errs = append(errs, err)
		if off := v - float64(time.Now().UnixNano())/1e9 - ahead.Seconds(); off < -60 || off > 60 {
			errs = append(errs, fmt.Errorf("the last sample of GPU %d is %g s away from where it has to be", i, off))
		}
	}
	return errors.Join(errs...)
}

// TestFaultsOfTheClock sets the exporter's wall clock, and has it be suspended: then all stands still, and the wall clock has gone on.
func TestFaultsOfTheClock(t *testing.T) {
	t.Parallel()
	m, first := faultyMachine(t)
	first.Stop(t)
	m.calls += "2"
	p := m.start(t, "--nvml.timeout=1s", "--detector.state-file="+filepath.Join(t.TempDir(), "state"), "--detector.state-interval=1s")
	clock := takeWallClock(t, p)
	ready := func(s harness.Metrics) error {
		return errors.Join(m.allUp(s), want(s, 1, "gpu_leak_exporter_state_file_last_write_successful", nil))
	}
	for _, step := range []struct {
		name  string
		ahead time.Duration
	}{
		{"host: the clock is set an hour forward, then back", time.Hour},
		{"host: the clock is set an hour back, then forward", -time.Hour},
		{"host: the clock is set a day forward, then back", 24 * time.Hour},
		{"host: the clock is set a year back, then forward", -365 * 24 * time.Hour},
	} {
		m.through(t, p, step.name, allGPUs, func() {
			clock.set(t, step.ahead)
			eventually(t, p, func(s harness.Metrics) error { return m.stamped(s, step.ahead) })
		}, func() { clock.set(t, 0) }, func(s harness.Metrics) error { return errors.Join(ready(s), m.stamped(s, 0)) })
	}
	k := &faultKind{Name: "host: a suspend of an hour", faults: 1}
	eventually(t, p, ready)
	clock.pause(t)
	time.Sleep(2 * faultTime)
	clock.set(t, time.Hour)
	clock.resume(t)
	resumed := time.Now()
	eventually(t, p, func(s harness.Metrics) error { return errors.Join(ready(s), m.stamped(s, time.Hour)) })
	k.recovery = time.Since(resumed)
	k.watch(t, p, faultTime, nil)
	k.judge(t, k.Name)
	faultRows.add(k)
	p.Stop(t)
	noStack(t, p.Output())
}
