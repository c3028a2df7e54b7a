// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// simScenario is a scenario and the function that writes its script.
type simScenario struct {
	name   string
	script func() *script
}

// scenarios are all scenarios. TestScenarios checks that no script breaks a rule of drivers.
var scenarios = []simScenario{{"node", nodeScript}, {"healthy", healthyScript}, {"faulty", faultyScript}, {"crashloop", crashLoopScript}}

// script is what happens in a scenario. Times count from its start.
type script struct {
	name      string
	gpus      []*simGPU
	processes int        // of all GPUs
	events    []simEvent // ordered by time
}

// simEvent is an XID error of the script.
type simEvent struct {
	at  time.Duration
	gpu int // position in script.gpus
	xid uint64
}

// add appends a GPU of a model.
func (b *script) add(m *simModel, processes ...*simProcess) *simGPU {
	i := len(b.gpus)
	seed := mix(uint64(i + 1))
	for _, c := range b.name {
		seed = mix(seed ^ uint64(c))
	}
	for _, p := range processes {
		p.id, p.script = b.processes, b
		b.processes++
	}
	// The buses of an HGX board, as its users know them from nvidia-smi.
	buses := [...]int{0x19, 0x3b, 0x4c, 0x5d, 0x9b, 0xbb, 0xcb, 0xdb}
	g := &simGPU{model: m, seed: seed, processes: processes, info: gpu.Info{
		Index: i, UUID: simUUID("GPU-", seed), Name: m.name,
		PCIBusID:     fmt.Sprintf("00000000:%02X:00.0", buses[i]),
		VBIOSVersion: m.vbios, Architecture: m.architecture,
		DriverVersion: "580.95.05", CUDAVersion: "13.0",
	}}
	if !m.consumer {
		g.info.Serial = fmt.Sprintf("165%010d", seed%1e10)
	}
	b.gpus = append(b.gpus, g)
	return g
}

// slice adds a GPU instance to a GPU, with one compute instance.
func (g *simGPU) slice(id uint32, profile string, total uint64) {
	const reserved = 64 * mib
	g.instances = append(g.instances, gpu.Instance{
		ID: id, Profile: profile,
		Memory:  gpu.Memory{Total: gpu.Some(total), Reserved: gpu.Some(uint64(reserved))},
		Devices: []gpu.MIGDevice{{UUID: simUUID("MIG-", g.seed+uint64(id)+1)}},
	})
}

// simUUID makes up a UUID in the driver's form.
func simUUID(prefix string, seed uint64) string {
	a, b := mix(seed), mix(seed+1)
	return fmt.Sprintf("%s%08x-%04x-%04x-%04x-%012x", prefix, uint32(a), uint16(a>>32), uint16(a>>48), uint16(b), b>>16)
}

// pod is the owner of a process in a Kubernetes pod.
func pod(namespace, pod, container, process, user string) gpu.Owner {
	return gpu.Owner{Process: process, User: user, Namespace: namespace, Pod: pod, Container: container}
}

// job is the owner of a process in a Slurm job.
func job(id, process, user string) gpu.Owner {
	return gpu.Owner{Process: process, User: user, SlurmJob: id}
}

// in puts a process on a GPU instance.
func in(instance uint32, p *simProcess) *simProcess {
	p.instance = gpu.Some(instance)
	return p
}

// server returns a process that holds a constant amount of memory.
func server(o gpu.Owner, bytes, sm float64) *simProcess {
	return &simProcess{owner: o, start: -9 * time.Hour, shape: flat(bytes), sm: sm, cores: 0.1 + sm}
}

// trainer returns a process whose memory goes up and down with each epoch.
func trainer(o gpu.Owner, floor, peak float64, epoch time.Duration) *simProcess {
	return &simProcess{
		owner: o, start: -50 * time.Minute, shape: sum(flat(floor), saw(peak, epoch)), sm: 0.85, cores: 1.4,
	}
}

// leaker returns a process that loads base and holds still until its age is quiet. Then it grows by perMinute until it has
// eaten room, dies, and starts again after half a minute.
func leaker(o gpu.Owner, quiet time.Duration, base, perMinute, room float64) *simProcess {
	return &simProcess{
		owner: o, shape: sum(load(base, 20*time.Second), from(quiet, line(perMinute))), sm: 0.35, cores: 0.6,
		life: quiet + outOfMemory(room, perMinute), gap: 30 * time.Second,
	}
}

// nodeScript is a busy node of 8 GPUs on which leaks begin after 10 to 12 minutes: linear, staircase and cyclic leaks, a leak
// in a MIG slice, a zombie, memory that stays after its process, and the healthy shapes that look like leaks.
func nodeScript() *script {
	b := &script{name: "node"}
	capacity := simH100.capacity() - simBaseline
	b.add(&simH100, nodeLinear(capacity)...)
	b.add(&simH100, nodeStaircase(capacity)...)
	b.add(&simH100,
		trainer(job("481516", "pretrain.py", "alice"), 14*gib, 16*gib, 90*time.Second),
		trainer(job("481516", "pretrain.py", "alice"), 14*gib, 16*gib, 90*time.Second),
		server(gpu.Owner{Process: "nsys", User: "alice", SlurmJob: "481516"}, 350*mib, 0))
	b.add(&simH100,
		&simProcess{
			owner: job("481623", "finetune.py", "bob"), sm: 0.92, cores: 1.1,
			shape: sum(flat(520*mib), load(15*gib, 40*time.Second), from(45*time.Second, warmup(34*gib, 4*time.Minute))),
		},
		server(job("481623", "tensorboard", "bob"), 310*mib, 0),
		nodeZombie(), nodeUnreleased())
	b.add(&simH100,
		&simProcess{
			owner: pod("inference", "llama-70b-7c9d8b6f54-q8wzn", "vllm", "vllm", "vllm"),
			start: -20 * time.Hour, shape: flat(0.9 * capacity), sm: 0.55, cores: 0.9,
		},
		server(pod("inference", "embeddings-5f7b9c8d6-tm2xk", "tei", "text-embeddings-router", "app"), 1900*mib, 0.08))
	b.add(&simH100, nodeCyclic(capacity)...)
	nodeMIG(b)
	b.add(&simH100, nodeLimited()...)
	return b
}

// nodeLimited is a pod that leaks to the limit of its container, which HAMi keeps, on a GPU that is half empty.
func nodeLimited() []*simProcess {
	const limit, base, perMinute = 24 * gib, 9 * gib, 80 * mib
	leak := leaker(pod("shared", "agent-5c9f7d6b8-m4tqz", "agent", "agent.py", "app"), 38*time.Minute, base, perMinute, limit-base)
	leak.start, leak.owner.Variables = -28*time.Minute, fmt.Sprintf("CUDA_DEVICE_MEMORY_LIMIT=%d", limit)
	return []*simProcess{leak, server(pod("shared", "ranker-0", "ranker", "ranker", "app"), 12*gib, 0.2)}
}

// nodeZombie is a rank of a job whose launcher was killed: it holds its share of the model, and does nothing.
func nodeZombie() *simProcess {
	return &simProcess{owner: job("481607", "ddp_worker.py", "bob"), start: -3 * time.Hour, shape: flat(17 * gib), orphaned: true}
}

// nodeUnreleased is an evaluation that runs every half hour. The driver keeps a part of its memory until the next one starts.
func nodeUnreleased() *simProcess {
	return &simProcess{
		owner: job("481630", "evaluate.py", "bob"), start: -18 * time.Minute, shape: flat(7 * gib), sm: 0.02, cores: 0.9,
		life: 20 * time.Minute, gap: 10 * time.Minute, keeps: 6 * gib,
	}
}

// nodeLinear is a search service that keeps every request's tensors.
func nodeLinear(capacity float64) []*simProcess {
	const reranker, base, perMinute = 6200 * mib, 24 * gib, 90 * mib
	leak := leaker(pod("search", "rag-embedder-6d5f8c7b9-x2k4q", "embedder", "serve.py", "app"),
		35*time.Minute, base, perMinute, capacity-reranker-base)
	leak.start = -25 * time.Minute
	return []*simProcess{
		leak, server(pod("search", "reranker-0", "reranker", "tritonserver", "triton-server"), reranker, 0.12),
	}
}

// nodeStaircase is a gateway with a cache per tenant that has no bound.
func nodeStaircase(capacity float64) []*simProcess {
	const asr, base, step, every = 4700 * mib, 11 * gib, 192 * mib, 90 * time.Second
	const quiet = 50 * time.Minute
	fits := int((capacity - asr - base) / step)
	return []*simProcess{
		{
			owner: pod("chat", "gateway-84b6f9d7c5-h7jvp", "gateway", "gateway.py", "app"),
			start: -40 * time.Minute, shape: sum(load(base, 20*time.Second), from(quiet, steps(step, every))), sm: 0.3, cores: 0.8,
			// The step that does not fit is the end.
			life: quiet + time.Duration(fits+1)*every, gap: 45 * time.Second,
		},
		server(pod("chat", "asr-0", "asr", "asr_server.py", "app"), asr, 0.1),
	}
}

// nodeCyclic is a service that leaks under a working set that comes and goes.
func nodeCyclic(capacity float64) []*simProcess {
	const base, amplitude, perMinute, transcoder = 9 * gib, 12 * gib, 160 * mib, 900 * mib
	leak := leaker(pod("vision", "detector-7f6c5d4b8-zk9ws", "detector", "detect.py", "vision"),
		40*time.Minute, base, perMinute, capacity-base-amplitude-transcoder)
	leak.shape = sum(leak.shape, saw(amplitude, 75*time.Second))
	leak.start = -30 * time.Minute
	video := server(pod("vision", "transcode-0", "ffmpeg", "ffmpeg", "vision"), transcoder, 0.04)
	video.encoder = 0.45
	video.typ = gpu.Compute | gpu.Graphics
	return []*simProcess{leak, video}
}

// nodeMIG is a GPU of three slices: a trainer, a leak, a notebook that idles.
func nodeMIG(b *script) {
	const base, perMinute = 3 * gib, 30 * mib
	room := float64(20096*mib - 64*mib - base)
	leak := leaker(pod("labs", "jupyter-carol", "notebook", "python3.12", "carol"), 27*time.Minute, base, perMinute, room)
	leak.start = -15 * time.Minute
	g := b.add(&simH100,
		in(1, trainer(pod("labs", "train-resnet-8x2lp", "train", "train.py", "dave"), 6*gib, 18*gib, 2*time.Minute)),
		in(3, leak),
		in(9, server(pod("labs", "jupyter-erin", "notebook", "python3.12", "erin"), 5300*mib, 0)))
	g.slice(1, "3g.40gb", 40448*mib)
	g.slice(3, "2g.20gb", 20096*mib)
	g.slice(9, "1g.10gb", 9984*mib)
}

// healthyScript is 5 GPUs without a leak: sawtooth trainer, warm-up, model load, KV cache that fills, flat server.
func healthyScript() *script {
	capacity := simA100.capacity() - simBaseline
	b := &script{name: "healthy"}
	b.add(&simA100,
		trainer(job("7001", "train.py", "alice"), 12*gib, 40*gib, 100*time.Second),
		server(job("7001", "tensorboard", "alice"), 310*mib, 0))
	b.add(&simA100, &simProcess{
		owner: job("7002", "finetune.py", "bob"), sm: 0.9, cores: 1.1,
		shape: sum(flat(6*gib), warmup(30*gib, 6*time.Minute)),
	})
	b.add(&simA100, &simProcess{
		owner: pod("inference", "mixtral-0", "server", "text-generation-launcher", "app"), sm: 0.4, cores: 0.7, loads: 7 * time.Minute,
		shape: sum(flat(480*mib), load(64*gib, 7*time.Minute), from(7*time.Minute, bursts(2*gib, 4*time.Minute, 12*time.Second))),
	})
	b.add(&simA100, &simProcess{
		owner: pod("inference", "llama-8b-0", "llama", "llama-server", "app"), sm: 0.5, cores: 0.8,
		shape: sum(flat(16*gib), from(20*time.Second, warmup(48*gib, 9*time.Minute))),
	})
	b.add(&simA100, &simProcess{
		owner: pod("inference", "qwen-0", "vllm", "vllm", "vllm"), sm: 0.6, cores: 0.9,
		start: -26 * time.Hour, shape: flat(0.9 * capacity),
	})
	return b
}

// faultyScript is 8 GPUs of which 7 go wrong: hang, XID 79, ECC errors, heat, unknown process memory, an old consumer card,
// failing reads.
func faultyScript() *script {
	b := &script{name: "faulty"}
	ok := func(name string) *simProcess {
		return trainer(job("9100", name, "alice"), 8*gib, 20*gib, 2*time.Minute)
	}
	b.add(&simH100, ok("healthy.py"))
	b.add(&simH100, ok("hangs.py")).faults.hangAfter = 2 * time.Minute
	b.add(&simH100, ok("lost.py")).faults.lostAfter = 3 * time.Minute
	b.add(&simH100, ok("ecc.py")).faults.eccAfter = 90 * time.Second
	b.add(&simH100, ok("hot.py")).faults.hotAfter = time.Minute
	hidden := ok("hidden.py")
	hidden.hidden = true
	b.add(&simH100, hidden, server(job("9100", "known.py", "alice"), 2*gib, 0.1))
	b.add(&simGTX, server(gpu.Owner{Process: "blender", User: "bob"}, 3*gib, 0.7))
	flaky := b.add(&simH100, ok("flaky.py"))
	flaky.faults.failEvery, flaky.faults.failGroup = 40*time.Second, gpu.GroupPCIe
	b.events = []simEvent{ // NVIDIA, XID errors
		{at: 90 * time.Second, gpu: 3, xid: 94}, // contained memory error
		{at: 91 * time.Second, gpu: 3, xid: 63}, // a row is to be remapped
		{at: 3 * time.Minute, gpu: 2, xid: 79},  // the GPU has fallen off the bus
	}
	return b
}

// crashLoopScript is a GPU whose only pod leaks 600 MiB a minute, runs out of memory after 17 minutes, dies, and starts again
// a minute later, for ever.
func crashLoopScript() *script {
	// A life grows by the memory of the card that it has not loaded.
	const perMinute, grows = 600 * mib, 16 * time.Minute
	room := perMinute * grows.Minutes()
	b := &script{name: "crashloop"}
	loop := leaker(pod("default", "crashy-0", "app", "app.py", "app"),
		time.Minute, simT4.capacity()-simBaseline-room, perMinute, room)
	loop.gap = time.Minute
	b.add(&simT4, loop)
	return b
}
