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
	first := strings.TrimPrefix(base(args[0]), "-") // of a login shell
	if interpreterOf(first) != nil || (len(comm) == maxComm && strings.HasPrefix(first, comm)) {
		return first
	}
	return comm
}

// option is the meaning of an interpreter's option for the search. One that is not listed has no value, or has it after =.
type option uint8

const (
	_       option = iota
	joined         // its value is the rest of the word, which may be empty
	value          // its value is the rest of the word, or the next word
	next           // its value is the next word, also from amid a word of letters
	program        // like value, and that is the program
	code           // the program is no file
)

// interpreter is how an interpreter finds its program among its arguments.
type interpreter struct {
	words map[string]option
	// letters are options that may be written together after one dash.
	letters map[byte]option
	// argumentFiles means that @file stands for options in a file.
	argumentFiles bool
}

var python = &interpreter{
	words:   map[string]option{"--check-hash-based-pycs": next},
	letters: map[byte]option{'c': code, 'm': program, 'W': value, 'X': value, 'Q': value},
}

var node = &interpreter{
	words: map[string]option{
		"--eval": code, "--print": code, "--require": next, "--import": next, "--loader": next,
		"--experimental-loader": next, "--conditions": next, "--env-file": next, "--inspect-port": next,
		"--icu-data-dir": next, "--input-type": next, "--openssl-config": next, "--redirect-warnings": next,
		"--disable-warning": next, "--title": next,
	},
	letters: map[byte]option{'e': code, 'p': code, 'r': value, 'C': value},
}

var java = &interpreter{
	words: map[string]option{
		"-jar": program, "-m": program, "--module": program,
		"-cp": next, "-classpath": next, "--class-path": next, "-p": next, "--module-path": next,
		"--upgrade-module-path": next, "--add-modules": next, "--limit-modules": next, "--add-reads": next,
		"--add-exports": next, "--add-opens": next, "--patch-module": next, "--enable-native-access": next,
		"--source": next,
	},
	argumentFiles: true,
}

var ruby = &interpreter{
	words: map[string]option{
		"--encoding": next, "--external-encoding": next, "--internal-encoding": next, "--disable": next, "--enable": next,
	},
	letters: map[byte]option{
		'e': code, 'C': value, 'X': value, 'E': value, 'I': value, 'r': value,
		'F': joined, 'K': joined, 'W': joined, 'i': joined, 'x': joined,
	},
}

var perl = &interpreter{
	letters: map[byte]option{
		'e': code, 'E': code, 'I': value,
		'C': joined, 'D': joined, 'F': joined, 'M': joined, 'V': joined, 'd': joined, 'i': joined, 'm': joined,
		'x': joined,
	},
}

var shell = &interpreter{
	words:   map[string]option{"--rcfile": next, "--init-file": next, "+o": next, "+O": next},
	letters: map[byte]option{'c': code, 's': code, 'o': next, 'O': next},
}

var julia = &interpreter{
	words: map[string]option{
		"--eval": code, "--print": code, "--load": next, "--sysimage": next, "--threads": next, "--gcthreads": next,
		"--procs": next, "--machine-file": next, "--cpu-target": next, "--home": next,
	},
	letters: map[byte]option{
		'e': code, 'E': code, 'm': program, 'C': value, 'H': value, 'J': value, 'L': value, 'p': value, 't': value,
		'O': joined, 'g': joined,
	},
}

// Rscript runs R with the script in an option.
var gnuR = &interpreter{
	words: map[string]option{"--file": program, "-f": program, "-e": code, "--args": code, "-g": next, "-d": next},
}

// interpreters are by the names of their executables, without a version.
var interpreters = map[string]*interpreter{
	"python": python, "pypy": python, "node": node, "nodejs": node, "java": java, "ruby": ruby, "perl": perl,
	"bash": shell, "sh": shell, "dash": shell, "ash": shell, "ksh": shell, "zsh": shell, "julia": julia, "R": gnuR,
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

// parse returns the meaning of a word, and the value in the word itself. isOption is false if the word is the program.
func (in *interpreter) parse(word string) (o option, attached string, isOption bool) {
	if o, ok := in.words[word]; ok {
		return o, "", true
	}
	name, attached, ok := strings.Cut(word, "=")
	if o := in.words[name]; ok && (o == program || o == code) {
		return o, attached, true
	}
	switch {
	case strings.HasPrefix(word, "--"):
		return 0, "", true
	case strings.HasPrefix(word, "-"):
		o, attached = in.parseLetters(word[1:])
		return o, attached, true
	}
	return 0, "", in.argumentFiles && strings.HasPrefix(word, "@")
}

// parseLetters returns the first meaning among options written together.
func (in *interpreter) parseLetters(letters string) (o option, attached string) {
	waits := option(0)
	for i := range len(letters) {
		switch o := in.letters[letters[i]]; o {
		case code, program, value, joined:
			return o, letters[i+1:]
		case next:
			waits = next // bash -euo pipefail, but also bash -oc errexit
		}
	}
	return waits, ""
}
