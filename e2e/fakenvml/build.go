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
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
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
	env := []string{EnvState + "=" + script}
	if calls != "" {
		env = append(env, EnvCalls+"="+calls)
	}
	return env
}

//go:embed c/*.c c/*.h
var sources embed.FS

// Build compiles the library, without the symbols that are missing in it as in an older driver, into a folder under dir and returns its
// path. A library of the same sources, header and symbols that lies there already is taken as it is. The header is go-nvml's, at the
// version of the e2e module. It needs a C compiler ($CC, or cc) and the go command. Several processes may call it at once.
func Build(dir string, missing ...string) (string, error) {
	path, err := build(dir, missing)
	if err != nil {
		return "", fmt.Errorf("build fake NVML: %w", err)
	}
	return path, nil
}

func build(dir string, missing []string) (string, error) {
	header, err := goNVMLHeader()
	if err != nil {
		return "", err
	}
	files, err := generate(header, missing)
	if err != nil {
		return "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	cc := cmp.Or(os.Getenv("CC"), "cc")
	target := filepath.Join(dir, "fakenvml-"+hash(files, cc))
	path := filepath.Join(target, Soname)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, compile(dir, target, files, cc)
}

// goNVMLHeader asks the go command where go-nvml lies.
func goNVMLHeader() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml")
	cmd.Dir = filepath.Dir(file)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return "", fmt.Errorf("find go-nvml's nvml.h: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "pkg", "nvml"), nil
}

// generate returns all files that are compiled, by name, with the nvml.h of a folder.
func generate(dir string, missing []string) (map[string]string, error) {
	header, err := os.ReadFile(filepath.Join(dir, "nvml.h"))
	if err != nil {
		return nil, err
	}
	functions, err := parseHeader(string(header))
	if err != nil {
		return nil, err
	}
	symbols, err := exports(functions, missing)
	if err != nil {
		return nil, err
	}
	files := map[string]string{
		"nvml.h":      string(header),
		"functions.h": functionsHeader(functions),
		"stubs.c":     stubs(functions),
		"exports.map": symbols,
	}
	names, err := fs.Glob(sources, "c/*")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := sources.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files[filepath.Base(name)] = string(text)
	}
	return files, nil
}

// compilerFlags are those of every build.
var compilerFlags = []string{
	"-std=gnu11", "-O2", "-g", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra", "-Werror",
	"-Wno-deprecated-declarations", "-DNVML_NO_UNVERSIONED_FUNC_DEFS", "-Wl,-soname," + Soname, "-Wl,-Bsymbolic",
}

func hash(files map[string]string, cc string) string {
	h := sha256.New()
	fmt.Fprintln(h, cc, compilerFlags)
	for _, name := range sortedKeys(files) {
		fmt.Fprintln(h, name, len(files[name]))
		h.Write([]byte(files[name]))
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// compile works in a folder of its own and moves it to its place whole.
func compile(dir, target string, files map[string]string, cc string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(dir, ".fakenvml-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	args := slices.Concat(compilerFlags, []string{"-Wl,--version-script=exports.map", "-o", Soname, "-I."})
	for _, name := range sortedKeys(files) {
		if err := os.WriteFile(filepath.Join(work, name), []byte(files[name]), 0o644); err != nil {
			return err
		}
		if strings.HasSuffix(name, ".c") {
			args = append(args, name)
		}
	}
	cmd := exec.Command(cc, args...)
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cc, err, out)
	}
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	err = os.Rename(work, target)
	if _, statErr := os.Stat(filepath.Join(target, Soname)); err != nil && statErr == nil {
		return nil // another process was faster
	}
	return err
}
