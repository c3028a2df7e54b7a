// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

func TestParseXID(t *testing.T) {
	for _, c := range []struct {
		line, address string
		xid           uint64
	}{
		{"4,1201,5140900123,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "00000000:3B:00.0", 79},
		{"[12345.678901] NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python3, Ch 00000008, intr 00000000.", "00000000:3B:00.0", 31},
		{"NVRM: Xid (PCI:0009:01:00): 13, Graphics Exception", "00000009:01:00.0", 13},
		{"NVRM: Xid (PCI:000a:bc:1f.0): 94, Contained", "0000000A:BC:1F.0", 94},
		{"NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 43, pid=1", "00000000:3B:00.0", 43}, // under MIG
		{"NVRM: Xid (0000:3b:00): 48, An uncorrectable double bit error", "00000000:3B:00.0", 48},
		{"6,1,2,-,caller=T12;NVRM: Xid (PCI:10000:3b:00): 154", "00010000:3B:00.0", 154},
		{line: "12,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, written by a program"},
		{line: "4,1,2,-;NVRM: GPU at PCI:0000:3b:00: GPU-a0000000-1111"},
		{line: "NVRM: Xid (PCI:0000:3b:00): unknown"},
		{line: "NVRM: Xid (PCI:0000:3b:00): 99999999999999999999"},
		{line: "NVRM: Xid (PCI:0000:3b): 79"},
		{line: " SUBSYSTEM=pci"},
		{line: ""},
	} {
		address, xid, ok := parseXID(c.line)
		if address != c.address || xid != c.xid || ok != (c.address != "") {
			t.Errorf("%q: %q, %d, %t; want %q, %d", c.line, address, xid, ok, c.address, c.xid)
		}
	}
}

func FuzzParseXID(f *testing.F) {
	f.Add("4,1201,5140900123,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")
	f.Add("NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 43")
	f.Add(";;;,,,")
	f.Fuzz(func(t *testing.T, line string) {
		address, _, ok := parseXID(line)
		if ok && (len(address) != len("00000000:3B:00.0") || address != strings.ToUpper(address)) {
			t.Errorf("%q: address %q", line, address)
		}
		if !ok && address != "" {
			t.Errorf("%q: address %q of no XID", line, address)
		}
	})
}

func TestKernelLogTellsWhatIsAdded(t *testing.T) {
	path := newTree(t).write("kmsg", "old\n")
	l := kernelLog{path: path, fd: -1}
	defer l.close()
	expect := func(want ...string) {
		t.Helper()
		got, err := l.read()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("read %q, %v; want %q", got, err, want)
		}
	}
	expect()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write := func(s string) {
		t.Helper()
		if _, err := f.WriteString(s); err != nil {
			t.Fatal(err)
		}
	}
	write("one\ntwo\nthr")
	expect("one", "two")
	expect()
	write("ee\n")
	expect("three")
	write(strings.Repeat("x", 3*recordSize)) // no line is that long
	expect()
	write("y\nfour\n")
	expect("y", "four")
}

func TestKernelLogDoesNotBlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kmsg")
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Skip(err)
	}
	l := kernelLog{path: path, fd: -1}
	defer l.close()
	if _, err := l.read(); err != nil { // nobody writes
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := l.read(); err != nil || got != nil { // somebody could
		t.Fatalf("read %q, %v from an empty pipe", got, err)
	}
	fmt.Fprintln(f, "one")
	if got, err := l.read(); err != nil || !reflect.DeepEqual(got, []string{"one"}) {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestKernelLogThatCannotBeRead(t *testing.T) {
	l := kernelLog{path: filepath.Join(t.TempDir(), "none"), fd: -1}
	if _, err := l.read(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("read: %v", err)
	}
}
