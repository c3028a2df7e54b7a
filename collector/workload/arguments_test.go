// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestSteadyArguments(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		// What decides how much memory is held.
		{"train.py|--batch-size|32|--seq-len|131072|--lr|0.00003|--lr=3e-5", "="},
		{"--model|meta-llama/Llama-3.1-70B-Instruct|--num-workers=8|--max-model-len|32768", "="},
		{"--max-lora-rank|64|--lora-rank=16|--eos-token-id|128001|--model-id|bigscience/bloom", "="},
		{"--max_steps=100000|--mem=80000MiB|--conf|{\"max_len\": 65536}", "="},
		{"--quantization|fp8|--dtype=bfloat16|--gpus|8|--kv-cache-dtype=fp8_e4m3", "="},
		{"--log-interval|100|--save-steps=500|--trace|0.5", "="},
		{"-c|print(1)|x", "="},
		{"--offset|-1|--ratio|-.5", "="},
		{"", "="},
		{"--seed=|--port=", "="},

		// Flags that name what changes.
		{"--port|8000|--host|node17|--seed=42|--rdzv_id=9|--node-rank|3", "--port|#|--host|#|--seed=#|--rdzv_id=#|--node-rank|#"},
		{"--seed|-1|--verbose|--seed|--batch|2", "--seed|#|--verbose|--seed|--batch|2"},
		{"+trainer.seed=7|data.randomSeed=8|MASTER_PORT=29500|--override=trainer.seed=42", "+trainer.seed=#|data.randomSeed=#|MASTER_PORT=#|--override=trainer.seed=#"},
		{`--kv-transfer-config|{"kv_role":"both","kv_ip":"n1","kv_port": 14579,"kv_rank":0,"kv_parallel_size":2}`, `--kv-transfer-config|{"kv_role":"both","kv_ip":"#","kv_port": #,"kv_rank":#,"kv_parallel_size":2}`},
		{"--api-key|sk-abc|--hf-token=hf_xyz|--wandb-run-id|3k9fj2a1", "--api-key|#|--hf-token=#|--wandb-run-id|#"},

		// Places for files.
		{"--output-dir|/out/run-12/x|--resume_from_checkpoint=/ckpt/llama-7b/step-1200", "--output-dir|/out/run-#/x|--resume_from_checkpoint=/ckpt/llama-7b/step-#"},
		{"--logdir=runs/exp3|hydra.run.dir=outputs/v2|--work-dir|w4", "--logdir=runs/exp#|hydra.run.dir=outputs/v#|--work-dir|w#"},
		{"/tmp/tmpab12cd_/train.py|--config=/dev/shm/x/y.yaml|--data|/data/tmp/a", "/tmp/#|--config=/dev/shm/#|--data|/data/tmp/a"},

		// What changes by its form.
		{"run-3f2a1b4c-0a1b-4c2d-8e9f-0123456789ab", "run-#"},
		{"exp_deadbeef01|3fa9c1b2e|0x7f3a2b1c00", "exp_#|#|#"},
		{"10.0.0.12:29500|tcp://node7:1234/x|http://u:p@h.example/y|node.example.com:8080|localhost:6006", "#|tcp://#/x|http://#/y|#|#"},
		{"[fe80::1]|::1|std::move|2001:db8::17", "[#]|#|std::move|#"},
		{"log-2024-05-01_12-30-59.txt|2024-05-01T12:30:59|20240501_123059|20240501-1230|May01_12-30-59_node", "log-#.txt|#|#|#|#_node"},
		{"12345|g123456h|1700000000|--at|1700000000|--at=1700000000123", "#|g#h|#|--at|#|--at=#"},
		{"--device|cuda:3", "--device|cuda:#"},
	} {
		want := c.want
		if want == "=" {
			want = c.args
		}
		if got := strings.Join(steadyArguments(strings.Split(c.args, "|")), "|"); got != want {
			t.Errorf("%s\n got %s\nwant %s", c.args, got, want)
		}
	}
}

// TestTwoStarts has what starts programs on GPUs, as it is seen of two starts of the same.
func TestTwoStarts(t *testing.T) {
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"torchrun": {
			"/opt/venv/bin/torchrun|--nnodes=2|--nproc_per_node=8|--node_rank=0|--rdzv_id=481516|--rdzv_backend=c10d|--rdzv_endpoint=node1:29500|--master_port=29501|train.py|--bs|32",
			"/opt/venv/bin/torchrun|--nnodes=2|--nproc_per_node=8|--node_rank=1|--rdzv_id=481623|--rdzv_backend=c10d|--rdzv_endpoint=node7:29400|--master_port=29502|train.py|--bs|32", true,
		},
		"torch.distributed.launch": {"-u|train.py|--local-rank=0|--bs|32", "-u|train.py|--local-rank=7|--bs|32", true},
		"DeepSpeed": {
			"-u|-m|deepspeed.launcher.launch|--world_info=eyJsb2NhbGhvc3QiOiBbMF19|--master_addr=127.0.0.1|--master_port=29500|--enable_each_rank_log=None|train.py|--deepspeed|ds.json",
			"-u|-m|deepspeed.launcher.launch|--world_info=eyJub2RlMTciOiBbMSwyXX0=|--master_addr=10.1.1.9|--master_port=29511|--enable_each_rank_log=None|train.py|--deepspeed|ds.json", true,
		},
		"another batch size":  {"train.py|--bs|32", "train.py|--bs|64", false},
		"another long number": {"train.py|--max-tokens=16384", "train.py|--max-tokens=32768", false},
		"vLLM": {
			"/usr/local/bin/vllm|serve|meta-llama/Llama-3-8B|--port|8000|--host|10.0.0.4|--max-model-len|8192|--gpu-memory-utilization|0.9|--api-key|a",
			"/usr/local/bin/vllm|serve|meta-llama/Llama-3-8B|--port|8123|--host|10.0.0.9|--max-model-len|8192|--gpu-memory-utilization|0.9|--api-key|b", true,
		},
		"vLLM of another model": {"vllm|serve|meta-llama/Llama-3-8B", "vllm|serve|meta-llama/Llama-3-70B", false},
		"Triton": {
			"--model-repository=/models|--http-port=8000|--grpc-port=8001|--metrics-port|8002|--id=a",
			"--model-repository=/models|--http-port=9000|--grpc-port=9001|--metrics-port|9002|--id=b", true,
		},
		"Python model of Triton": {
			"/models/m/1/model.py|triton_python_backend_shm_region_3f2a1b4c-0a1b-4c2d-8e9f-0123456789ab|1048576|1048576|11337|/opt/tritonserver/backends/python|336|m_0_0|DEFAULT",
			"/models/m/1/model.py|triton_python_backend_shm_region_7|1048576|1048576|12001|/opt/tritonserver/backends/python|336|m_0_0|DEFAULT", true,
		},
		"a module": {"-m|pkg.serve|--uds-path|/tmp/a", "-m|pkg.serve|--uds-path|/tmp/b", true},
		"a notebook": {
			"-m|ipykernel_launcher|-f|/root/.local/share/jupyter/runtime/kernel-3f2a1b4c-0a1b-4c2d-8e9f-0123456789ab.json",
			"-m|ipykernel_launcher|-f|/root/.local/share/jupyter/runtime/kernel-v31d0a9b.json", true,
		},
		"a child of multiprocessing": {
			"-c|from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)|--multiprocessing-fork",
			"-c|from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=12, pipe_handle=104)|--multiprocessing-fork", true,
		},
		"code": {"-c|import x; x.run(1)", "-c|import x; x.run(2)", false},
		"Ray": {
			"default_worker.py|--node-ip-address=10.0.0.3|--node-manager-port=36123|--object-store-name=/tmp/ray/session_2024-05-01_10-11-12_123456_77/sockets/plasma_store|--startup-token=12|--worker-launch-time-ms=1714550000123|--node-id=ab12|--runtime-env-hash=-123",
			"default_worker.py|--node-ip-address=10.0.0.9|--node-manager-port=41999|--object-store-name=/tmp/ray/session_2024-06-01_10-11-12_999999_8/sockets/plasma_store|--startup-token=3|--worker-launch-time-ms=1717550000777|--node-id=cd34|--runtime-env-hash=77", true,
		},
	} {
		a, b := steadyArguments(strings.Split(c.a, "|")), steadyArguments(strings.Split(c.b, "|"))
		if slices.Equal(a, b) != c.same {
			t.Errorf("%s:\n%q\n%q", name, a, b)
		}
	}
}

func TestSteadyTitle(t *testing.T) {
	for title, want := range map[string]string{
		"VLLM::Worker_TP0":       "VLLM::Worker_TP#",
		"VLLM::EngineCore":       "VLLM::EngineCore",
		"train: epoch 3  loss 2": "train: epoch # loss #",
		"ray::Trainer.train()":   "ray::Trainer.train()",
		"":                       "",
	} {
		if got := strings.Join(steadyTitle(title), " "); got != want {
			t.Errorf("%q: %q, want %q", title, got, want)
		}
	}
}

func TestSteadyArgumentsAreBounded(t *testing.T) {
	many := slices.Repeat([]string{strings.Repeat("x", 4*maxWord)}, 2*maxWords)
	got := steadyArguments(many)
	if len(got) != maxSteady/maxWord || len(got[0]) != maxWord {
		t.Errorf("%d words of %d bytes", len(got), len(got[0]))
	}
	if got := steadyArguments(slices.Repeat([]string{"x"}, 2*maxWords)); len(got) != maxWords {
		t.Errorf("%d words", len(got))
	}
	if got := steadyTitle(many[0]); len(got[0]) != maxWord {
		t.Errorf("a title of %d bytes", len(got[0]))
	}
}

// FuzzSteadyArguments checks that what is left does not change any more, and that a port,
// a run and a date make no difference.
func FuzzSteadyArguments(f *testing.F) {
	f.Add("train.py\x00--seed\x007\x00--out=/x/run-2/2024-05-01", uint16(29500), uint32(7))
	f.Add(`{"kv_port": 14579, "a":"b"}`+"\x00run12345-id=5\x0012345.6\x00fe80::1", uint16(1), uint32(1<<31))
	f.Add("-c\x00import x; spawn_main(tracker_fd=5, pipe_handle=7)\x00--log\x0012b", uint16(80), uint32(0))
	f.Fuzz(func(t *testing.T, cmdline string, port uint16, run uint32) {
		args := strings.Split(cmdline, "\x00")
		once := steadyArguments(args)
		if twice := steadyArguments(once); !slices.Equal(once, twice) {
			t.Errorf("%q\n     becomes %q\nand at last %q", args, once, twice)
		}
		start := func(port uint16, run uint32) []string {
			return steadyArguments(append(slices.Clone(args), "--", "--port="+decimal(uint32(port)), "--rdzv-endpoint", "node:"+decimal(uint32(port)),
				"--x=3f2a1b4c-0a1b-4c2d-8e9f-"+decimal(1e9+run%1e9)+"ab", "log-2024-05-"+decimal(10+run%20)+".txt"))
		}
		if a, b := start(port, run), start(port+1, run+1); !slices.Equal(a, b) {
			t.Errorf("%q\n%q", a, b)
		}
		for _, word := range steadyTitle(cmdline) {
			if strings.ContainsAny(word, "0123456789") {
				t.Errorf("title %q keeps %q", cmdline, word)
			}
		}
	})
}

func decimal(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
