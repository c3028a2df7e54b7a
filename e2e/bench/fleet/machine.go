// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet/alloc"
)

// model is a GPU as NVML shows it. The totals are those that nvidia-smi prints; what the driver reserves varies with its version
// and is a rough figure.
type model struct {
	name, arch      string
	total, reserved uint64 // MiB
	mig             []profile
}

// profile is a way to divide a GPU into equal instances.
type profile struct {
	name  string
	count int
	total uint64 // MiB
}

var models = []model{
	{"Tesla T4", "turing", 15360, 443, nil},
	{"Tesla V100-SXM2-16GB", "volta", 16384, 226, nil},
	{"Tesla V100-SXM2-32GB", "volta", 32768, 269, nil},
	{"NVIDIA A10", "ampere", 23028, 512, nil},
	{"NVIDIA GeForce RTX 3090", "ampere", 24576, 328, nil},
	{"NVIDIA L4", "ada", 23034, 466, nil},
	{"NVIDIA L40S", "ada", 46068, 639, nil},
	{"NVIDIA A100-SXM4-40GB", "ampere", 40960, 568, []profile{{"1g.5gb", 7, 4864}, {"2g.10gb", 3, 9984}, {"3g.20gb", 2, 20096}}},
	{"NVIDIA A100-SXM4-80GB", "ampere", 81920, 618, []profile{{"1g.10gb", 7, 9728}, {"2g.20gb", 3, 19968}, {"3g.40gb", 2, 40192}}},
	{"NVIDIA H100 80GB HBM3", "hopper", 81559, 551, []profile{{"1g.10gb", 7, 9856}, {"2g.20gb", 3, 20096}, {"3g.40gb", 2, 40448}}},
}

// drawMachine draws a node whose GPU is not divided.
func (w *world) drawMachine() {
	w.model = pick(w, models...)
	base := uint64(w.n(1, 60)) * alloc.MiB // that the driver itself takes
	w.up, w.instance = w.span(2*time.Hour, 100*24*time.Hour), uint64(w.n(5, 20))*alloc.MiB
	w.unused(4, 8, 1, 1, 220) // the driver, the number of the GPU, its UUID and its bus
	w.domains = []*domain{{dev: alloc.NewDevice((w.total - w.reserved) * alloc.MiB)}}
	w.domains[0].dev.Take(base)
	w.style = pick(w, kubernetes, kubernetes, kubernetes, kubernetes, slurm, slurm, docker, people)
}

// divide puts the GPU in MIG mode.
func (w *world) divide() {
	for w.mig == nil {
		w.drawMachine()
	}
	p := pick(w, w.mig...)
	w.domains = nil
	for i := range p.count {
		d := &domain{dev: alloc.NewDevice(p.total * alloc.MiB), id: gpu.Some(uint32(7 + i))}
		w.unused(1, 1) // its UUID
		if p.count < 7 {
			d.id.V = uint32(1 + i)
		}
		d.dev.Take(w.instance)
		w.domains = append(w.domains, d)
	}
}

// contextSize draws the memory of CUDA in a process: its context, the code of loaded libraries and the device heap; 300 to 600
// MiB, less on old GPUs.
func (w *world) contextSize() uint64 {
	if w.arch == "turing" || w.arch == "volta" || w.domains[0].id.OK {
		return uint64(w.n(50, 150)) * 2 * alloc.MiB
	}
	return uint64(w.n(150, 300)) * 2 * alloc.MiB
}

func (w *world) hex(n int) string { return fmt.Sprintf("%016x", w.r.Uint64())[:n] }

// newID gives a process its number. A node starts other processes as well.
func (w *world) newID() gpu.ProcessID {
	w.pid = 300 + (w.pid+uint32(w.n(1, 2000))-300)%4194000
	if w.listing == foreignPIDs {
		return gpu.ProcessID{PID: w.pid}
	}
	return gpu.ProcessID{PID: w.pid, Start: uint64((w.up + w.lead + w.now) / (10 * time.Millisecond))}
}

// style is what runs the programs of a node.
type style uint8

const (
	kubernetes style = iota
	slurm
	docker
	people // started from shells
)

// supervised returns what the node does when a service of it has crashed.
func (w *world) supervised() restart {
	return map[style]restart{kubernetes: kubelet, docker: {time.Second, time.Minute}, people: systemd}[w.style]
}

// owner draws a new owner of a program: another pod, job or user.
func (w *world) owner(process string) *gpu.Owner {
	o := &gpu.Owner{Process: process}
	switch w.style {
	case kubernetes:
		w.recreated()
		o.Namespace = pick(w, "ml", "inference", "research", "vision", "search")
		w.unused(3) // the container
		o.Pod = fmt.Sprintf("%s-%s-%s", pick(w, "ranker", "llm", "asr", "embed", "train", "detect"), w.hex(9), w.hex(5))
	case slurm:
		w.user()
		o.SlurmJob = strconv.Itoa(w.n(10000, 9999999))
	case docker:
		w.unused(1, 1, 1, 1) // the container
	case people:
		w.user()
	}
	w.name(o)
	if w.domains[0].limit != nil {
		o.Container = "main"
	}
	return o
}

func (w *world) user() string {
	return pick(w, "ana", "bert", "chen", "dilek", "erik", "fatima", "goran", "hana", "ines", "jonas")
}

// recreated draws the number of a new container, in which a pod starts a program anew.
func (w *world) recreated() {
	if w.style == kubernetes {
		w.unused(1, 1, 1, 1)
	}
}
