// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"bytes"
	"fmt"
	"strconv"
)

// Stat is the part of /proc/PID/stat that is used.
type Stat struct {
	Name   string // that the process gives itself, at most 15 bytes
	State  string // a letter, such as S for a process that sleeps
	Parent uint32 // 1 if its parent is gone
	Kernel bool   // it is a thread of the kernel, which has no files
	Ticks  uint64 // its processor time in user and kernel mode, in clock ticks
	Start  uint64 // in clock ticks since boot
}

// kernelThread is PF_KTHREAD of the kernel's include/linux/sched.h.
const kernelThread = 0x00200000

// ParseStat parses /proc/PID/stat, with the field numbers of proc_pid_stat(5). The name of the program, field 2, may hold
// anything, parentheses included.
//
// There may be thousands of processes, each read every 15 seconds. The parser of prometheus/procfs takes four times as long
// and allocates 31 times, and it opens its files by name, while an open directory is tied to one process.
func ParseStat(line []byte) (Stat, error) {
	from, to := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if from < 0 || to < from {
		return Stat{}, fmt.Errorf("no program name in %q", line)
	}
	s := Stat{Name: string(line[from+1 : to])}
	field := 3
	for f := range bytes.FieldsSeq(line[to+1:]) {
		var err error
		var n uint64
		switch field {
		case 3:
			if len(f) != 1 {
				return Stat{}, fmt.Errorf("state %q", f)
			}
			s.State = string(f)
		case 4:
			n, err = strconv.ParseUint(string(f), 10, 31)
			s.Parent = uint32(n)
		case 9:
			n, err = strconv.ParseUint(string(f), 10, 64)
			s.Kernel = n&kernelThread != 0
		case 14, 15:
			n, err = strconv.ParseUint(string(f), 10, 63)
			s.Ticks += n
		case 22:
			s.Start, err = strconv.ParseUint(string(f), 10, 64)
		}
		if err != nil {
			return Stat{}, fmt.Errorf("field %d: %w", field, err)
		}
		if field == 22 {
			return s, nil
		}
		field++
	}
	return Stat{}, fmt.Errorf("%d fields in %q", field-1, line)
}
