// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"path"
	"strings"
)

const (
	// maxArguments bounds the arguments that are read. The class paths of Java programs take many kilobytes before the name
	// of the program.
	maxArguments = 64 << 10
	// maxComm is the length to which the kernel cuts the name of a process.
	maxComm = 15
)

// executable returns the base name of the target of /proc/PID/exe; "" if that could not be read. An upgrade deletes the
// file of a running program.
func executable(link string) string { return base(strings.TrimSuffix(link, " (deleted)")) }

// base is path.Base, but "" for paths that name no file.
func base(p string) string {
	switch b := path.Base(p); b {
	case ".", "..", "/":
		return ""
	default:
		return b
	}
}

// splitArguments returns the arguments in /proc/PID/cmdline. A program that has retitled itself has one, padded with NULs.
func splitArguments(cmdline []byte) []string {
	cmdline = bytes.TrimRight(cmdline, "\x00")
	if len(cmdline) == 0 {
		return nil
	}
	return strings.Split(string(cmdline), "\x00")
}

// programName returns the name of the executable, or of the program that it interprets. An interpreter without a file (a
// prompt, code in an argument) has its own name, and so has one with overwritten arguments.
func programName(exe, comm string, args []string) string {
	name := exe
	if name == "" {
		name = ownName(comm, args)
	}
	if in := interpreterOf(name); in != nil && len(args) > 0 {
		if program := in.program(args[1:]); program != "" {
			return program
		}
	}
	return name
}

// ownName returns the name that a process gives itself. An interpreter in its arguments comes before the name of its first
// thread, which libraries change: PyTorch calls it pt_main_thread. Otherwise the arguments only complete a cut name.
func ownName(comm string, args []string) string {
	if len(args) == 0 {
		return comm
	}
	first := base(args[0])
	if interpreterOf(first) != nil || (len(comm) == maxComm && strings.HasPrefix(first, comm)) {
		return first
	}
	return comm
}

// option is the meaning of an interpreter's option for the search. One that is not listed has no value, or has it after =.
type option uint8

const (
	_       option = iota
	value          // its value is the rest of the word, or the next word
	next           // its value is the next word
	program        // like value, and that is the program
	code           // the program is no file
)

// interpreter is how an interpreter finds its program among its arguments.
type interpreter struct {
	words map[string]option
	// letters are options that may be written together after one dash.
	letters map[byte]option
}

var python = &interpreter{
	words:   map[string]option{"--check-hash-based-pycs": next},
	letters: map[byte]option{'c': code, 'm': program, 'W': value, 'X': value, 'Q': value},
}

var java = &interpreter{
	words: map[string]option{
		"-jar": program, "-m": program, "--module": program,
		"-cp": next, "-classpath": next, "--class-path": next, "-p": next, "--module-path": next,
		"--upgrade-module-path": next, "--add-modules": next, "--limit-modules": next, "--add-reads": next,
		"--add-exports": next, "--add-opens": next, "--patch-module": next, "--enable-native-access": next,
		"--source": next,
	},
}

var julia = &interpreter{
	words: map[string]option{
		"--eval": code, "--print": code, "--load": next, "--sysimage": next, "--threads": next, "--gcthreads": next,
		"--procs": next, "--machine-file": next, "--cpu-target": next, "--home": next,
	},
	letters: map[byte]option{
		'e': code, 'E': code, 'm': program, 'C': value, 'H': value, 'J': value, 'L': value, 'p': value, 't': value,
	},
}

// Rscript runs R with the script in an option.
var gnuR = &interpreter{
	words: map[string]option{"--file": program, "-f": program, "-e": code, "--args": code, "-g": next, "-d": next},
}

// interpreters are by the names of their executables, without a version: those whose programs run on GPUs.
var interpreters = map[string]*interpreter{
	"python": python, "pypy": python, "java": java, "julia": julia, "R": gnuR,
}

// interpreterOf returns the interpreter of an executable, nil if it is none. The name may have a version and a kind of build:
// python3.13t.
func interpreterOf(exe string) *interpreter {
	stem := exe
	if i := strings.IndexAny(exe, "0123456789"); i >= 0 {
		build := strings.TrimLeft(exe[i:], "0123456789.")
		if len(build) > 2 || strings.Trim(build, "dmtu") != "" {
			return nil
		}
		stem = exe[:i]
	}
	return interpreters[stem]
}

// program returns the name of the program among the arguments after the interpreter's own name; "" if it runs no file.
func (in *interpreter) program(args []string) string {
	for i := 0; i < len(args); i++ {
		following := args[i+1:]
		o, attached, isOption := in.parse(args[i])
		switch {
		case !isOption:
			return base(args[i])
		case args[i] == "--" && len(following) > 0:
			return base(following[0])
		case args[i] == "-" || o == code:
			return ""
		case o == program && attached != "":
			return base(attached)
		case o == program && len(following) > 0:
			return base(following[0])
		case o == next || (o == value && attached == ""):
			i++
		}
	}
	return ""
}

// parse returns the meaning of a word, and the value in the word itself. isOption is false if the word is the program. The @
// of Java stands for a file of options.
func (in *interpreter) parse(word string) (o option, attached string, isOption bool) {
	if o, ok := in.words[word]; ok {
		return o, "", true
	}
	name, attached, ok := strings.Cut(word, "=")
	if o := in.words[name]; ok && (o == program || o == code) {
		return o, attached, true
	}
	if !strings.HasPrefix(word, "-") {
		return 0, "", strings.HasPrefix(word, "@")
	}
	for i := 1; i < len(word) && !strings.HasPrefix(word, "--"); i++ {
		if o := in.letters[word[i]]; o != 0 {
			return o, word[i+1:], true
		}
	}
	return 0, "", true
}
