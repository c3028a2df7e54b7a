// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fakenvml

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
)

// Calls is what a process has done with the library so far.
type Calls struct {
	// Violations counts what a real driver may not survive: Init or Shutdown while another thread is inside the library, a
	// call while one is in Init or Shutdown, freeing an event set that a thread waits on. Violation is the last one.
	Violations uint64
	Violation  string
	// Uninitialized counts calls before Init or after the last Shutdown.
	Uninitialized uint64
	// ScriptLoads and ScriptErrors count scripts that were taken and refused; ScriptError is why the last one was.
	ScriptLoads, ScriptErrors uint64
	ScriptError               string
	// Inside are the threads in a call now, those that hang included; Init and Shutdown are not.
	Inside int
	// References are the successful Inits less the Shutdowns.
	References int
	// Functions has those that were called.
	Functions map[string]Function
}

// A Function counts the calls of one.
type Function struct {
	Calls    uint64
	Failures uint64 // answers other than SUCCESS
	// CPU is the processor time of the calls that have returned: what the fake takes, where a program is measured over it.
	CPU time.Duration
}

// callLog is the layout of struct call_log in c/runtime.c, up to the functions.
type callLog struct {
	Magic                     [8]byte
	Functions, SlotSize       uint32
	Violations, Uninitialized uint64
	ScriptLoads, ScriptErrors uint64
	Inside, Alone             uint32
	References, PID           int32
	Violation                 [192]byte
	ScriptError               [256]byte
}

type callSlot struct {
	Name            [72]byte
	Calls, Failures uint64
	CPU             uint64
	Inside          uint32
	_               uint32
}

// ReadCalls reads the call log of path at any time, also while the process runs or after it was killed. Before the
// process has called Init, the file is not there: the error then is fs.ErrNotExist.
func ReadCalls(path string) (Calls, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Calls{}, fmt.Errorf("read call log: %w", err)
	}
	r := bytes.NewReader(data)
	var head callLog
	if err := binary.Read(r, binary.NativeEndian, &head); err != nil {
		return Calls{}, fmt.Errorf("read call log %s: %w", path, err)
	}
	if string(head.Magic[:]) != "FNVMLOG2" || int(head.SlotSize) != binary.Size(callSlot{}) {
		return Calls{}, fmt.Errorf("read call log %s: %w", path, errors.New("another format"))
	}
	c := Calls{
		Violations: head.Violations, Violation: text(head.Violation[:]), Uninitialized: head.Uninitialized,
		ScriptLoads: head.ScriptLoads, ScriptErrors: head.ScriptErrors, ScriptError: text(head.ScriptError[:]),
		Inside: int(head.Inside), References: int(head.References), Functions: map[string]Function{},
	}
	slots := make([]callSlot, head.Functions)
	if err := binary.Read(r, binary.NativeEndian, slots); err != nil {
		return Calls{}, fmt.Errorf("read call log %s: %w", path, err)
	}
	for _, s := range slots {
		if s.Calls > 0 {
			c.Functions[text(s.Name[:])] = Function{Calls: s.Calls, Failures: s.Failures, CPU: time.Duration(s.CPU)}
		}
	}
	return c, nil
}

func text(b []byte) string {
	s, _, _ := bytes.Cut(b, []byte{0})
	return string(s)
}
