// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

// executing returns a process, whose arguments are split at |.
func executing(exe, args string) process {
	return process{comm: "x", start: 100, exe: "/bin/" + exe, args: strings.Split(args, "|"), uid: 1000, cgroup: "0::/user.slice\n"}
}

// with changes a process.
func (p process) with(change func(p *process)) process {
	change(&p)
	return p
}

func TestPrograms(t *testing.T) {
	base := executing("python3", "python3|train.py|--bs|32|--port|29500")
	const spawned = "python3|-c|from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)|--multiprocessing-fork"
	const forking = "python3|-c|from multiprocessing.forkserver import main; main(3, 5, ['__main__'], **{'sys_path': ['/srv']})"
	childOf := func(parent uint32) process {
		return executing("python3", spawned).with(func(p *process) { p.parent, p.start = parent, 200 })
	}
	parents := func(tr tree) {
		tr.add(10, executing("python3", "python3|/srv/train.py|--bs|32"))
		tr.add(11, executing("python3", "python3|/srv/serve.py"))
		tr.add(12, executing("python3", "python3|/srv/train.py|--bs|32|--seed|8"))
		tr.add(13, childOf(10))
		tr.add(15, executing("python3", forking).with(func(p *process) { p.parent, p.start = 10, 150 }))
		tr.add(14, executing("python3", "python3|/srv/late.py").with(func(p *process) { p.start = 300 }))
	}
	for _, c := range []struct {
		name  string
		a, b  process
		same  bool
		setUp func(tr tree) // what else there is
	}{
		{"another program", base, executing("python3", "python3|serve.py|--bs|32|--port|29500"), false, nil},
		{"no arguments", executing("gmx", "gmx"), executing("gmx", "/opt/gmx"), true, nil},
		{"children of a program", childOf(10), childOf(12), false, parents},
		{"children of two programs", childOf(10), childOf(11), false, parents},
		{"a child of a child", childOf(10), childOf(13), true, parents},
		{
			"a child that a server has forked", childOf(10), executing("python3", forking).with(func(p *process) { p.parent, p.start = 15, 200 }),
			true, parents,
		},
		{"a child and its program", childOf(10), executing("python3", "python3|/srv/train.py|--bs|32"), false, parents},
		{"children whose parents are gone", childOf(9), childOf(14), true, parents},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTree(t)
			a, b := tr.add(5, c.a), tr.add(6, c.b)
			if c.setUp != nil {
				c.setUp(tr)
			}
			r := tr.resolver(Config{Secret: []byte("secret")})
			first, second := mustOwn(r, a).Runs, mustOwn(r, b).Runs
			if first == 0 || (first == second) != c.same {
				t.Errorf("%d and %d", first, second)
			}
			equal(t, mustOwn(r, a).Runs, first, "its name the second time")
		})
	}
}

// A prompt, and a process that cannot be read, has no identity.
func TestNoPrograms(t *testing.T) {
	secret := []byte("secret")
	for name, c := range map[string]struct {
		process process
		secret  []byte
	}{
		"no secret":  {executing("python3", "python3|train.py"), nil},
		"a notebook": {executing("python3", "python3|-m|ipykernel_launcher|-f|/x/kernel-1.json"), secret},
		"a prompt":   {executing("python3", "python3"), secret},
		"of nobody":  {process{start: 100}, secret},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t)
			id := tr.add(5, c.process)
			equal(t, mustOwn(tr.resolver(Config{Secret: c.secret}), id).Runs, 0, "name")
		})
	}
}

// A process in a container has no identity until its image is known.
func TestProgramsInAContainer(t *testing.T) {
	image := func(c *runtimeapi.Container) *runtimeapi.Container {
		listed := inPod(idA, "ml", "train-0", "main")
		listed.ImageId, listed.ImageRef, listed.Image = c.GetImageId(), c.GetImageRef(), c.GetImage()
		return listed
	}
	named := &runtimeapi.ImageSpec{Image: "quay.io/x/y:1"}
	for name, c := range map[string]struct {
		listed *runtimeapi.Container
		want   string
	}{
		"containerd":  {image(&runtimeapi.Container{ImageId: "sha256:" + idB, ImageRef: "sha256:" + idB, Image: named}), "sha256:" + idB},
		"CRI-O":       {image(&runtimeapi.Container{ImageId: idB, ImageRef: "quay.io/x/y@sha256:" + idA, Image: named}), idB},
		"cri-dockerd": {image(&runtimeapi.Container{ImageRef: "docker-pullable://x/y@sha256:" + idA, Image: named}), "docker-pullable://x/y@sha256:" + idA},
		"a name only": {image(&runtimeapi.Container{Image: named}), "quay.io/x/y:1"},
		"nothing":     {image(nil), ""},
		"not listed":  {inPod(idB, "a", "b", "c"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t)
			id := tr.add(5, executing("gmx", "gmx").with(func(p *process) { p.cgroup = "0::/cri-containerd-" + idA + ".scope\n" }))
			socket := runtimeSocket(t)
			having(c.listed).start(t, socket)
			r := tr.resolver(Config{Secret: []byte{}, RuntimeSockets: []string{socket}})
			if o, done := r.lookUp(id); done || o.Runs != 0 {
				t.Errorf("done %t: %+v", done, o)
			}
			<-running(t, r.containers)
			o, done := r.lookUp(id)
			if want := (&gpu.Program{Name: "gmx", Image: c.want}).Hash(nil); !done || o.Runs != want {
				t.Errorf("done %t: %d, want %d", done, o.Runs, want)
			}
			if again := mustOwn(r, id); again != o {
				t.Error("the owner is another one each time")
			}
		})
	}
}

// Without the secret nobody can read the arguments from Runs, and they are not kept.
func TestArgumentsAreNotKept(t *testing.T) {
	tr := newTree(t)
	id := tr.add(5, executing("gmx", "gmx|--hunter2|secretword"))
	r := tr.resolver(Config{Secret: []byte("secret")})
	o := mustOwn(r, id)
	if r.answers.young[id].program != (gpu.Program{}) || o.Command != "" || o.Runs == 0 {
		t.Errorf("kept %+v, %+v", r.answers.young[id], o)
	}
	if p := r.identify(hostfs.Stat{}, "gmx", []string{"gmx", "secretword"}); p.Arguments == "" || strings.Contains(p.Arguments, "secretword") {
		t.Errorf("%+v", p)
	}
	if other := mustOwn(tr.resolver(Config{Secret: []byte("another")}), id); other.Runs == o.Runs {
		t.Error("another secret, the same name")
	}
}

func TestSteady(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		"--batch-size=1024":              "--batch-size=1024",
		"--port=8000":                    "--port=8000",
		"--port=29500":                   "--port=#",
		"--seq-len=131072":               "--seq-len=#",
		"--lr=3e-5":                      "--lr=3e-5",
		"meta-llama/Llama-3.1-70B":       "meta-llama/Llama-3.1-70B",
		"feedback":                       "feedback",
		"run-3f2a1b4c-0a1b-4c2d-8e9f-01": "run-#-0a1b-4c2d-8e9f-01",
		"run-3f2a1b4c-0a1b-4c2d-8e9f-0123456789AB": "run-#",
		"exp_deadbeef01|12345abc|0x7f3a2b1c":       "exp_#|#|0x#",
		"log-2024-05-01_12-30-59.txt":              "log-#.txt",
		"20240501_123059|2024-05-01T12:30:59":      "#|#T#",
		"10.0.0.12:29500|tcp://10.1.2.3:1234":      "#|tcp://#",
		"/tmp/torchelastic_1700000000/none_0":      "/tmp/torchelastic_#/none_0",
	} {
		equal(t, steady(text), want, "steady %q", text)
	}
}

// TestTwoStarts has what starts programs on GPUs, as it is seen of two starts.
func TestTwoStarts(t *testing.T) {
	for _, c := range []struct {
		name, a, b string
		same       bool
	}{
		{
			"torchrun",
			"python3|-u|/usr/local/bin/torchrun|--nnodes=2|--nproc_per_node=8|--rdzv_id=481516|--rdzv_backend=c10d|--rdzv_endpoint=10.0.0.12:29500|train.py|--bs|32",
			"python3|-u|/usr/local/bin/torchrun|--nnodes=2|--nproc_per_node=8|--rdzv_id=481623|--rdzv_backend=c10d|--rdzv_endpoint=10.0.0.7:29400|train.py|--bs|32", true,
		},
		{"torchrun with a larger batch", "torchrun|--master_port=29500|train.py|--bs|32", "torchrun|--master_port=29501|train.py|--bs|64", false},
		{"ranks of torch.distributed.launch", "python3|-u|train.py|--local-rank=0", "python3|-u|train.py|--local-rank=7", false},
		{
			"vLLM",
			"python3|/usr/local/bin/vllm|serve|meta-llama/Llama-3-8B|--host|10.0.0.4|--port|8000|--max-model-len|8192|--gpu-memory-utilization|0.9",
			"python3|/usr/local/bin/vllm|serve|meta-llama/Llama-3-8B|--host|10.0.0.9|--port|8000|--max-model-len|8192|--gpu-memory-utilization|0.9", true,
		},
		{"vLLM with another model", "vllm|serve|meta-llama/Llama-3-8B", "vllm|serve|meta-llama/Llama-3-70B", false},
		{"a worker of vLLM", "VLLM::Worker_TP0", "VLLM::Worker_TP0", true},
		{
			"a script of Slurm",
			"/bin/bash|/var/spool/slurmd/job481516/slurm_script|--out|/scratch/481516/out",
			"/bin/bash|/var/spool/slurmd/job481623/slurm_script|--out|/scratch/481623/out", true,
		},
		{"srun", "srun|--jobid=481516|gmx|mdrun|-s|a.tpr", "srun|--jobid=481623|gmx|mdrun|-s|b.tpr", false},
		{"python -m", "python3|-m|pkg.serve|--run|2024-05-01_12-30", "python3|-m|pkg.serve|--run|2024-06-02_01-15", true},
		{"another module", "python3|-m|pkg.serve", "python3|-m|pkg.train", false},
		{
			"a worker of Ray",
			"python3|/usr/lib/python3/ray/_private/workers/default_worker.py|--node-ip-address=10.0.0.3|--node-manager-port=36123|--object-store-name=/tmp/ray/session_2024-05-01_10-11-12_123456_77/sockets/plasma_store|--gcs-address=10.0.0.3:6379|--cluster-id=9f0a8c1b2d3e4f50|--worker-launch-time-ms=1714550000123",
			"python3|/usr/lib/python3/ray/_private/workers/default_worker.py|--node-ip-address=10.0.0.9|--node-manager-port=41999|--object-store-name=/tmp/ray/session_2024-06-01_10-11-12_999999_8/sockets/plasma_store|--gcs-address=10.0.0.9:6379|--cluster-id=0b1c2d3e4f5a6978|--worker-launch-time-ms=1717550000777", true,
		},
		{"actors of Ray", "ray::Trainer.train()", "ray::Server.serve()", false},
		{"code", "python3|-c|import x; x.run(1)", "python3|-c|import x; x.run(2)", false},
	} {
		a, b := steadyArguments(strings.Split(c.a, "|")), steadyArguments(strings.Split(c.b, "|"))
		equal(t, slices.Equal(a, b), c.same, "%s: %q %q", c.name, a, b)
	}
}

// A steady text stays as it is.
func FuzzSteady(f *testing.F) {
	f.Add("log-2024-05-01_12-30-59.txt")
	f.Add("1234#5 12345abc-0x3f2a1b4c-0a1b-4c2d-8e9f-0123456789ab")
	f.Fuzz(func(t *testing.T, text string) {
		equal(t, steady(steady(text)), steady(text), "twice steady %q", text)
	})
}
