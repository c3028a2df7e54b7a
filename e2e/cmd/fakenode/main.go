// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Command fakenode makes a machine with GPUs that are not there, to run the exporter over by hand.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
)

func main() {
	gpus := flag.Int("gpus", 8, "number of GPUs")
	processes := flag.Int("processes", 16, "number of processes, spread over the GPUs; each tenth leaks 4 MiB/s")
	dir := flag.String("dir", ".", "folder for the library and the script")
	flag.Parse()
	if err := run(*gpus, *processes, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "fakenode:", err)
		os.Exit(1)
	}
}

func run(gpus, processes int, dir string) error {
	library, err := fakenvml.Build(dir)
	if err != nil {
		return err
	}
	script := filepath.Join(filepath.Dir(filepath.Dir(library)), "node")
	node := fakenvml.NewNode(gpus)
	for i := range processes {
		p := fakenvml.Process{
			PID: uint32(100_000 + i), Name: "/usr/bin/python3",
			Memory:      fakenvml.Constant(uint64(i%7+1) << 28),
			Utilization: &fakenvml.Utilization{SM: uint32(i % 100), Memory: uint32(i % 50)},
		}
		if i%10 == 0 {
			p.Memory.Rate = 4 << 20
		}
		g := &node.GPUs[i%gpus]
		g.Processes = append(g.Processes, p)
	}
	if err := node.Write(script); err != nil {
		return err
	}
	fmt.Printf("%s=%s gpu_leak_exporter --nvml.library-path=%s\n", fakenvml.EnvState, script, library)
	return nil
}
