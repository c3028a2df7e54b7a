// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// What this file loads into the kernel may be used under GPL-2.0-only, too: the kernel asks for that.

package tracer

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/cilium/ebpf/asm"
)

// machine is where a processor's registers are in what a program gets: struct pt_regs on x86-64,
// struct user_pt_regs on arm64.
type machine struct {
	parameters [2]int16
	result     int16
	registers  map[string]register
	// operand matches an argument's place: its register, an offset to what that points to, or a number.
	operand *regexp.Regexp
}

// register is where a register is, and how many bytes of it the name means.
type register struct {
	at   int16
	size int
}

var machines = map[string]*machine{"amd64": amd64(), "arm64": arm64()}

func amd64() *machine {
	at := map[string]int16{
		"15": 0, "14": 8, "13": 16, "12": 24, "bp": 32, "bx": 40, "11": 48, "10": 56, "9": 64, "8": 72,
		"ax": 80, "cx": 88, "dx": 96, "si": 104, "di": 112, "sp": 152,
	}
	registers := map[string]register{}
	for name, at := range at {
		if name[0] >= '0' && name[0] <= '9' {
			for suffix, size := range map[string]int{"": 8, "d": 4, "w": 2, "b": 1} {
				registers["r"+name+suffix] = register{at, size}
			}
			continue
		}
		registers["r"+name], registers["e"+name], registers[name] = register{at, 8}, register{at, 4}, register{at, 2}
		registers[map[bool]string{true: name[:1] + "l", false: name + "l"}[name[1] == 'x']] = register{at, 1}
	}
	return &machine{
		parameters: [2]int16{112, 104}, result: 80, registers: registers,
		operand: regexp.MustCompile(`^(?:%(?P<register>\w+)|(?P<offset>-?\d+)?\(%(?P<base>\w+)\)|\$(?P<number>-?\d+))$`),
	}
}

func arm64() *machine {
	registers := map[string]register{"sp": {248, 8}}
	for i := range 31 {
		n := strconv.Itoa(i)
		registers["x"+n], registers["w"+n] = register{int16(8 * i), 8}, register{int16(8 * i), 4}
	}
	return &machine{
		parameters: [2]int16{0, 8}, result: 0, registers: registers,
		operand: regexp.MustCompile(`^(?:(?P<register>[xw]\d+|sp)|\[(?P<base>[xw]\d+|sp)(?:, ?#?(?P<offset>-?\d+))?\]|(?P<number>-?\d+))$`),
	}
}

// argument is where a mark in the code has one of its arguments.
type argument struct {
	size     int // in bytes
	signed   bool
	register register
	memory   bool // the register points to it, but for the offset
	offset   int32
	number   int64
	constant bool
}

var errArgument = errors.New("an argument is where it cannot be read")

// argument reads one argument as a note has it, such as 8@%rax, -4@-24(%rbp) or 8@$3.
func (m *machine) argument(text string) (a argument, err error) {
	size, operand, ok := cutAt(text)
	if !ok {
		return a, fmt.Errorf("%w: %q", errArgument, text)
	}
	a.size, a.signed = max(size, -size), size < 0
	part := m.operand.FindStringSubmatch(operand)
	if part == nil {
		return a, fmt.Errorf("%w: %q", errArgument, text)
	}
	of := func(name string) string { return part[m.operand.SubexpIndex(name)] }
	name := of("register")
	if base := of("base"); base != "" {
		name, a.memory = base, true
	}
	if name != "" {
		if a.register, ok = m.registers[name]; !ok {
			return a, fmt.Errorf("%w: %q", errArgument, text)
		}
	}
	if a.memory && of("offset") != "" {
		n, err := strconv.ParseInt(of("offset"), 10, 32)
		if err != nil {
			return a, fmt.Errorf("%w: %q", errArgument, text)
		}
		a.offset = int32(n)
	}
	if n := of("number"); n != "" {
		a.constant = true
		if a.number, err = strconv.ParseInt(n, 10, 64); err != nil {
			return a, fmt.Errorf("%w: %q", errArgument, text)
		}
	}
	return a, nil
}

// cutAt reads the size of an argument.
func cutAt(text string) (size int, operand string, ok bool) {
	for i, c := range text {
		if c != '@' {
			continue
		}
		size, err := strconv.Atoi(text[:i])
		switch max(size, -size) {
		case 1, 2, 4, 8:
			return size, text[i+1:], err == nil
		}
		return 0, "", false
	}
	return 0, "", false
}

// load puts the argument into a place on the stack, eight bytes. The context is in R6.
func (a argument) load(to int32) asm.Instructions {
	var list asm.Instructions
	switch {
	case a.constant:
		return asm.Instructions{asm.LoadImm(asm.R1, a.number, asm.DWord), asm.StoreMem(asm.RFP, int16(to), asm.R1, asm.DWord)}
	case a.memory:
		list = join(
			asm.Instructions{asm.LoadMem(asm.R7, asm.R6, a.register.at, asm.DWord), asm.Add.Imm(asm.R7, a.offset)},
			readUser(to, asm.R7),
			asm.Instructions{asm.JNE.Imm(asm.R0, 0, "exit"), asm.LoadMem(asm.R1, asm.RFP, int16(to), asm.DWord)},
		)
	default:
		list = asm.Instructions{asm.LoadMem(asm.R1, asm.R6, a.register.at, asm.DWord)}
	}
	if unused := int32(64 - 8*a.size); unused > 0 {
		back := asm.RSh
		if a.signed {
			back = asm.ArSh
		}
		list = append(list, asm.LSh.Imm(asm.R1, unused), back.Imm(asm.R1, unused))
	}
	return append(list, asm.StoreMem(asm.RFP, int16(to), asm.R1, asm.DWord))
}
