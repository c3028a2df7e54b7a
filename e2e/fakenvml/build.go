// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package fakenvml builds and drives a fake libnvidia-ml.so.1, so that a program that loads the real library can be
// tested where there is no GPU. The library is C, in folder c: it exports every function of go-nvml's nvml.h, keeps the
// real structures, and answers out of a script file that a test replaces while the program runs.
//
// A test fills in a [Node], writes it with [Node.Write], starts the program with [Env], and compares what the program
// says with the Node: it is the truth.
package fakenvml

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Soname is the file name of the library, as the driver has it.
const Soname = "libnvidia-ml.so.1"

// Names of the environment variables that the library reads at Init.
const (
	// EnvState is the path of the script.
	EnvState = "FAKE_NVML_STATE"
	// EnvCalls is the path of the call log; see [ReadCalls]. Use one a process.
	EnvCalls = "FAKE_NVML_CALLS"
)

// Env returns the environment, as NAME=value, of a program that is to see the node of the script, and to log its calls
// where calls is not empty.
func Env(script, calls string) []string {
	return []string{EnvState + "=" + script, EnvCalls + "=" + calls}
}

// building is held by who builds: tests may ask for a library at once.
var building sync.Mutex

// Build compiles the library, without the symbols that are missing in it as in an older driver, into a folder under dir and returns its
// path. One that was built there before is taken as it is. The header is go-nvml's, at the version of the e2e module. It needs a C
// compiler ($CC, or cc) and the go command.
func Build(dir string, missing ...string) (string, error) {
	building.Lock()
	defer building.Unlock()
	work := filepath.Join(dir, fmt.Sprintf("fakenvml-%08x", crc32.ChecksumIEEE([]byte(strings.Join(missing, " ")))))
	path := filepath.Join(work, Soname)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := build(work, missing); err != nil {
		return "", fmt.Errorf("build fake NVML: %w", err)
	}
	return path, nil
}

// compilerFlags are those of every build.
var compilerFlags = []string{
	"-std=gnu11", "-O2", "-g", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra", "-Werror",
	"-Wno-deprecated-declarations", "-DNVML_NO_UNVERSIONED_FUNC_DEFS", "-Wl,-soname," + Soname, "-Wl,-Bsymbolic",
	"-Wl,--version-script=exports.map", "-I.", "-o", Soname, "stubs.c",
}

// build compiles the sources of folder c and what is generated, which it writes to a folder.
func build(work string, missing []string) error {
	_, file, _, _ := runtime.Caller(0)
	here := filepath.Dir(file)
	nvml, err := goNVML(here)
	if err != nil {
		return err
	}
	header, err := os.ReadFile(filepath.Join(nvml, "nvml.h"))
	if err != nil {
		return err
	}
	functions, err := parseHeader(string(header))
	if err != nil {
		return err
	}
	symbols, err := exports(functions, missing)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{"functions.h": functionsHeader(functions), "stubs.c": stubs(functions), "exports.map": symbols} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	sources, err := filepath.Glob(filepath.Join(here, "c", "*.c"))
	if err != nil {
		return err
	}
	cmd := exec.Command(cmp.Or(os.Getenv("CC"), "cc"), slices.Concat(compilerFlags, []string{"-I" + nvml, "-I" + filepath.Join(here, "c")}, sources)...)
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd.Path, err, out)
	}
	return nil
}

// goNVML asks the go command where go-nvml's nvml.h lies.
func goNVML(here string) (string, error) {
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml")
	cmd.Dir = here
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return "", fmt.Errorf("find go-nvml's nvml.h: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "pkg", "nvml"), nil
}
