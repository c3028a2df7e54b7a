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

// An Option changes the library that [Build] makes.
type Option func(*options)

type options struct {
	missing []string
	cc      string
}

// Missing leaves the symbols out of the library, as an older driver does.
func Missing(symbols ...string) Option {
	return func(o *options) { o.missing = append(o.missing, symbols...) }
}

// Build compiles the library into a folder under dir and returns its path. A library of the same sources, header and
// options that lies there already is taken as it is, so that the packages of a test run can share one dir. The header is
// go-nvml's, at the version of the e2e module. It needs a C compiler ($CC, or cc), the go command, and a working directory
// in the e2e module or its source tree where it was compiled. Several processes may call it at once.
func Build(dir string, opts ...Option) (string, error) {
	o := options{cc: os.Getenv("CC")}
	if o.cc == "" {
		o.cc = "cc"
	}
	for _, opt := range opts {
		opt(&o)
	}
	header, err := goNVMLHeader()
	if err != nil {
		return "", fmt.Errorf("build fake NVML: %w", err)
	}
	files, err := generate(header, o)
	if err != nil {
		return "", fmt.Errorf("build fake NVML: %w", err)
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("build fake NVML: %w", err)
	}
	target := filepath.Join(dir, "fakenvml-"+hash(files, o))
	path := filepath.Join(target, Soname)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := compile(dir, target, files, o); err != nil {
		return "", fmt.Errorf("build fake NVML: %w", err)
	}
	return path, nil
}

// goNVMLHeader asks the go command where go-nvml lies, first from the working directory, then from this source file's.
func goNVMLHeader() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	var last error
	for _, dir := range []string{".", filepath.Dir(file)} {
		cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml")
		cmd.Dir = dir
		out, err := cmd.Output()
		if err == nil && len(bytes.TrimSpace(out)) > 0 {
			return filepath.Join(strings.TrimSpace(string(out)), "pkg", "nvml"), nil
		}
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		last = err
	}
	return "", fmt.Errorf("find go-nvml's nvml.h: %w", last)
}

// generate returns all files that are compiled, by name, with the nvml.h of a folder.
func generate(dir string, o options) (map[string]string, error) {
	header, err := os.ReadFile(filepath.Join(dir, "nvml.h"))
	if err != nil {
		return nil, err
	}
	functions, err := parseHeader(string(header))
	if err != nil {
		return nil, err
	}
	missing := slices.Compact(slices.Sorted(slices.Values(o.missing)))
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

func hash(files map[string]string, o options) string {
	h := sha256.New()
	fmt.Fprintln(h, o.cc, compilerFlags)
	for _, name := range sortedKeys(files) {
		fmt.Fprintln(h, name, len(files[name]))
		h.Write([]byte(files[name]))
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// compile works in a folder of its own and moves it to its place whole.
func compile(dir, target string, files map[string]string, o options) error {
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
	cmd := exec.Command(o.cc, args...)
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", o.cc, err, out)
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
