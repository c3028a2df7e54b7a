// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"strings"
	"testing"
)

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
		if got := steady(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
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
		if slices.Equal(a, b) != c.same {
			t.Errorf("%s:\n%q\n%q", c.name, a, b)
		}
	}
}

// A steady text stays as it is.
func FuzzSteady(f *testing.F) {
	f.Add("log-2024-05-01_12-30-59.txt")
	f.Add("1234#5 12345abc-0x3f2a1b4c-0a1b-4c2d-8e9f-0123456789ab")
	f.Fuzz(func(t *testing.T, text string) {
		if once := steady(text); steady(once) != once {
			t.Errorf("%q becomes %q and then %q", text, once, steady(once))
		}
	})
}
