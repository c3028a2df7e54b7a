// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"math"
	"time"
)

// serving are the incidents of what answers requests.
var serving = []Incident{
	// What leaks until the memory is full.
	{
		Kind:    "triton-full-after-a-day",
		Thread:  "https://github.com/triton-inference-server/server/issues/4372",
		Told:    "Ready at 20958 of 81920 MiB, the server is at 80342 MiB after a day of requests, and then allocations of ONNX Runtime fail.",
		Assumed: "Straight growth, a restart after the failure; that pools which are never given back count as lost.",
		Ending:  Fills,
		build:   tritonDay,
	},
	{
		Kind:    "torchserve-each-request",
		Thread:  "https://github.com/pytorch/serve/issues/1003",
		Told:    "Three models on 11 GB, of which 1.1 GB was taken before: 5983 MB when loaded, about 8 GB after 4 or 5 requests, then one model is out of memory.",
		Assumed: "A request each minute or so to each of three workers, all of which lose; the same step each time.",
		Ending:  Fills,
		build:   torchserveRequests,
	},
	{
		Kind:    "seedvr2-queue",
		Thread:  "https://github.com/numz/ComfyUI-SeedVR2_VideoUpscaler/issues/20",
		Told:    "Queued runs peak at 31.5, 35.4, 39.3 and 43.3 GB; the fifth fails at 46 GB.",
		Assumed: "A GPU of 48 GB, 6 to 14 minutes a run, a restart after the failure.",
		Ending:  Fills,
		build:   seedvr2Queue,
	},
	{
		Kind:    "whisperlive-session",
		Thread:  "https://github.com/QuentinFuxa/WhisperLiveKit/issues/275",
		Told:    "With a medium model the memory is full after little more than ten minutes of live transcription, ever faster; tensors of cross-attention piled up.",
		Assumed: "12 GB, 3.2 GB for the model, sessions with breaks, a restart when it fails.",
		Ending:  Fills,
		build:   whisperLive,
	},
	{
		Kind:    "obs-stream-reconnect",
		Thread:  "https://github.com/obsproject/obs-studio/issues/13656",
		Told:    "Each restart of the encoder keeps about 200 MiB; a card of 4 GB is full after some 12 of them in two days, though no session is open. Killing it frees all.",
		Assumed: "Reconnects about every four hours, two instances of which one loses, a restart by a supervisor.",
		Ending:  Fills,
		build:   obsReconnect,
	},
	{
		Kind:    "obs-replay-buffer",
		Thread:  "https://github.com/obsproject/obs-studio/issues/12146",
		Told:    "On a 2080 Ti the 29th start of the replay buffer beside a game is refused its memory; what a stop frees is not all.",
		Assumed: "A start every two minutes; a game with 4 to 5 GB.",
		Ending:  Fills,
		build:   obsReplay,
	},
	{
		Kind:    "immich-text-recognition",
		Thread:  "https://github.com/immich-app/immich/issues/23462",
		Told:    "On an RTX 4080 of 16 GB a run of OCR takes 665 MiB more each minute (11200 to 14193 MiB in 4.5 minutes); only a restart brings it back to 1 to 3 GB.",
		Assumed: "A library that takes one to two hours, failures at the ceiling with a restart, and recycling after idleness.",
		Ending:  Fills,
		build:   immichOCR,
	},
	{
		Kind:    "immich-faces-arena",
		Thread:  "https://github.com/immich-app/immich/issues/31675",
		Told:    "With 2.3 GB of others on the card, face detection with four jobs climbs in jumps to over 9.5 GB and fails after about 8 minutes; a pause frees nothing.",
		Assumed: "12 GB; jobs some time apart; that an arena which only ever grows into the ceiling counts as lost.",
		Ending:  Fills,
		build:   immichFaces,
	},
	{
		Kind:    "paddleocr-slow",
		Thread:  "https://github.com/PaddlePaddle/PaddleOCR/issues/17790",
		Told:    "The memory goes slowly from 8 to 11 GB until an allocation fails; the reporter catches that and starts the program again.",
		Assumed: "A card of 11 or 12 GB, 4 to 10 hours for it.",
		Ending:  Fills,
		build:   paddleSlow,
	},
	{
		Kind:    "dlib-smaller-batch",
		Thread:  "https://github.com/davisking/dlib/issues/890",
		Told:    "A face detector uses 2727 MB; after each smaller batch between, the usual one needs 53 MB more than before, in the end too much.",
		Assumed: "8 GB, a smaller batch every one to three minutes.",
		Ending:  Fills,
		build:   dlibBatches,
	},
	{
		Kind:    "omnivoice-long-text",
		Thread:  "https://github.com/k2-fsa/OmniVoice/issues/199",
		Told:    "On an RTX 5060 Ti of 16 GB each synthesis keeps memory; after 3 to 5 of them a long text runs out of it, while short ones still pass.",
		Assumed: "5.5 GB for the model, up to 4.5 GB for a long text, 1.6 to 2.1 GB kept, a restart of the container.",
		Ending:  Fills,
		build:   omnivoice,
	},
	{
		Kind:    "ik-llama-graphs",
		Thread:  "https://github.com/ikawrakow/ik_llama.cpp/issues/1232",
		Told:    "Two 3090s start at 61 and 68 %; identical queries add chunks of about 90 MB for CUDA graphs until the server crashes after several. Without graphs 11 queries change nothing.",
		Assumed: "One of the two cards, 7 to 10 chunks a query, a query every minute or two.",
		Ending:  Fills,
		build:   ikLlama,
	},
	{
		Kind:    "llamacpp-graph-instantiate",
		Thread:  "https://github.com/ggml-org/llama.cpp/issues/22638",
		Told:    "On a tight RTX 3070 of 8 GB, half an hour to three hours of ever new prompts end in out-of-memory when a graph is instantiated.",
		Assumed: "0.5 to 1 GB free at the start that is lost evenly, a restart.",
		Ending:  Fills,
		build:   llamaGraphs,
	},
	{
		Kind:    "nemo-transcribe",
		Thread:  "https://github.com/NVIDIA-NeMo/Speech/issues/5755",
		Told:    "Transcribing file after file in a hosted notebook fails for memory after 40 minutes to an hour, as the hypotheses that are returned keep their tensors on the GPU.",
		Assumed: "A T4 of 15 GB, 2.5 GB for the model; the loop is started again.",
		Ending:  Fills,
		build:   nemoTranscribe,
	},
	{
		Kind:    "exllama-unload",
		Thread:  "https://github.com/oobabooga/textgen/issues/2743",
		Told:    "Unloading a 13B model in the web interface frees nothing; the next one comes on top and probably runs out of memory.",
		Assumed: "24 GB, 8 to 9.5 GB a model, a change every quarter to three quarters of an hour, a failure by the third, a restart.",
		Ending:  Fills,
		build:   exllamaUnload,
	},
	{
		Kind:    "faiss-index-reload",
		Thread:  "https://github.com/facebookresearch/faiss/issues/872",
		Told:    "Each time an index is loaded over the old one, another 18 % of the GPU is blocked instead of the same again.",
		Assumed: "16 GB, an index of 2 GB that is loaded every hour or two, a failure when there are no 18 % left, a restart.",
		Ending:  Fills,
		build:   faissReload,
	},

	// What leaks, and somebody restarts it, or the story ends before it is full.
	{
		Kind:    "triton-stream-restarts",
		Thread:  "https://github.com/triton-inference-server/server/issues/6961",
		Told:    "5520 MiB after the start, 8176 while a video pipeline sends requests, 5680 after it has stopped; it adds up with each repetition.",
		Assumed: "24 GB, pipelines of half an hour to an hour and a half, 160 MiB kept of each.",
		Ending:  GoesOn,
		build:   tritonStreams,
	},
	{
		Kind:    "tgi-five-hours",
		Thread:  "https://github.com/huggingface/text-generation-inference/issues/801",
		Told:    "On an A100 of 40 GB the free memory falls from 1517 to 337 MB in a session of five hours; the reporter ends it before it fails.",
		Assumed: "Straight loss, and the same again after the restart.",
		Ending:  GoesOn,
		build:   tgiSession,
	},
	{
		Kind:    "ollama-reload-loop",
		Thread:  "https://github.com/ollama/ollama/issues/10597",
		Told:    "Each load and unload of a 3B model on a Radeon of 24 GB keeps 300 MB: 153 MB at first, 1051 after three loops, 5835 after twenty.",
		Assumed: "A loop every five or six minutes for four hours; 3.5 GB for the loaded model.",
		Ending:  GoesOn,
		build:   ollamaReload,
	},
	{
		Kind:    "infinity-embeddings",
		Thread:  "https://github.com/michaelfeil/infinity/issues/661",
		Told:    "An embedding server on a card of 32 GiB goes from 2 to 4 GiB to over 28 within several hours of usual traffic, at full throughput; restarting the container clears it.",
		Assumed: "4 to 7 hours for it, a restart by hand at 28 GiB.",
		Ending:  GoesOn,
		build:   infinityEmbeddings,
	},
	{
		Kind:    "vaapi-pause-resume",
		Thread:  "https://github.com/elFarto/nvidia-vaapi-driver/issues/146",
		Told:    "Pausing a stream in the browser frees 10 MB and going on takes 80 again; the total of nvidia-smi rises by what no process of its list has, into gigabytes.",
		Assumed: "8 GB, a pause every 4 to 12 minutes, a desktop with a browser.",
		Ending:  GoesOn,
		build:   vaapiPause,
	},
	{
		Kind:    "realtimetts-half-a-day",
		Thread:  "https://github.com/KoljaB/RealtimeTTS/issues/132",
		Told:    "A speech server goes from 2 to 5 GB in half a day of use; only a restart brings it back.",
		Assumed: "12 GB, 5 to 7 hours, straight; others on the GPU.",
		Ending:  GoesOn,
		build:   realtimeTTS,
	},
	{
		Kind:    "whisperx-trickle",
		Thread:  "https://github.com/m-bain/whisperX/issues/972",
		Told:    "Each inference adds very little, which over a long time becomes more than 20 GB; the reporter restarts the server now and then.",
		Assumed: "24 GB, from 4.5 to 20 GB in 18 to 30 hours.",
		Ending:  GoesOn,
		build:   whisperxTrickle,
	},
	{
		Kind:    "sglang-week",
		Thread:  "https://github.com/sgl-project/sglang/issues/5958",
		Told:    "20 GB more after seven days and half a million to a million requests, by many small allocations that are never freed.",
		Assumed: "80 GB with 70 % static; the first three days of it.",
		Ending:  GoesOn,
		build:   sglangWeek,
	},

	// What is held by processes whose work is over.
	{
		Kind:    "vllm-engine-in-driver-loop",
		Thread:  "https://github.com/unslothai/unsloth/issues/3331",
		Told:    "After a stop the engine of a server with 60 % of an H100 of 80 GB turns for ever in a loop of the UVM driver, its parent is init, kill -9 does nothing, only a reboot helps.",
		Assumed: "When it was stopped; that no reboot comes within the story.",
		Ending:  Holds,
		build:   vllmSpin,
	},
	{
		Kind:    "vllm-orphaned-engine",
		Thread:  "https://github.com/Blackwellboy/model-serving-minefield/pull/53",
		Told:    "Killing the API server of vLLM leaves its engine with 104277 MiB on a GB10, and the next start has no memory; seen twice in a session.",
		Assumed: "10 to 40 minutes until the operator kills the orphan, one to two hours between.",
		Ending:  Holds,
		build:   sparkOrphan,
	},
	{
		Kind:    "localai-stopped-models",
		Thread:  "https://github.com/mudler/LocalAI/issues/7958",
		Told:    "Stopping a model of any backend on an RTX 3060 in Kubernetes leaves its child process with all its memory.",
		Assumed: "12 GB; two models of 3 to 6 GB that are stopped one after the other, and a small third one.",
		Ending:  Holds,
		build:   localaiStopped,
	},
	{
		Kind:    "ollama-stale-runners",
		Thread:  "https://github.com/ollama/ollama/issues/7927",
		Told:    "After some time several runners are on the GPU, of which only one works; the others keep a constant memory. Models of 6.8 and 3.1 GB.",
		Assumed: "24 GB, two stale runners, an hour or two apart.",
		Ending:  Holds,
		build:   ollamaStale,
	},
	{
		Kind:    "vision-edge-deployments",
		Thread:  "https://github.com/NVIDIA/gpu-operator/issues/2880",
		Told:    "Inference processes of removed deployments stay on a T4 of 16 GB: 5144, 2070, 1562, 866 and 5154 MiB, and the next deployment has no memory.",
		Assumed: "The last one is the one that works; one to two hours between deployments.",
		Ending:  Holds,
		build:   visionEdge,
	},
	{
		Kind:    "lmcache-dead-client",
		Thread:  "https://github.com/LMCache/LMCache/issues/4014",
		Told:    "When the container of a vLLM with 85 % of a B200 (178 GiB) dies, the cache server keeps 112252 MiB of its KV pool mapped; the next vLLM is refused, until the cache server restarts.",
		Assumed: "One to three hours until that restart; nobody else uses the cache server.",
		Ending:  Holds,
		build:   lmcacheMapped,
	},

	// What was taken for a leak, or asked about, and is none.
	{
		Kind:    "onnxruntime-batch-sequence",
		Thread:  "https://github.com/microsoft/onnxruntime/issues/24376",
		Told:    "3306 MiB before, 5116 after the first request with a batch of 16, and 5068 after six smaller ones and all the others.",
		Assumed: "16 GB, a request now and then for hours.",
		Ending:  WasNone,
		build:   ortBatches,
	},
	{
		Kind:    "triton-first-inferences",
		Thread:  "https://github.com/triton-inference-server/server/issues/3379",
		Told:    "2 GB with the models loaded, 4 after the first inference, 6 after the second, and no more from then on: warm-up and caching.",
		Assumed: "16 GB, another tenant.",
		Ending:  WasNone,
		build:   tritonWarm,
	},
	{
		Kind:    "torchserve-memory-pool",
		Thread:  "https://github.com/pytorch/serve/issues/3253",
		Told:    "A request with four images takes 14 GB, and they stay when later ones have one image: the pool of PyTorch.",
		Assumed: "24 GB, 3 GB for the model, requests minutes apart.",
		Ending:  WasNone,
		build:   torchservePool,
	},
	{
		Kind:    "faster-whisper-long-file",
		Thread:  "https://github.com/SYSTRAN/faster-whisper/issues/390",
		Told:    "In a file of three hours the peak of a large model goes in twenty steps from 3302 to 5798 MB, where 4755 were expected.",
		Assumed: "12 GB, 20 to 40 minutes of computing; further files stay below that peak.",
		Ending:  WasNone,
		build:   fasterWhisper,
	},
	{
		Kind:    "tgi-takes-all",
		Thread:  "https://github.com/huggingface/text-generation-inference/issues/926",
		Told:    "A 13B model on an A100: 79645 of 81920 MiB as soon as it is deployed, as the server takes all for its cache.",
		Assumed: "When it starts, and steady requests.",
		Ending:  WasNone,
		build:   tgiAll,
	},
	{
		Kind:    "tensorrt-llm-paged-cache",
		Thread:  "https://github.com/NVIDIA/TensorRT-LLM/issues/732",
		Told:    "A card has 12 GB with the engine alone and 28 GB under Triton: the buffer of the paged KV cache.",
		Assumed: "48 GB, another tenant.",
		Ending:  WasNone,
		build:   trtllmPaged,
	},
	{
		Kind:    "ollama-keep-alive",
		Thread:  "https://github.com/ollama/ollama/issues/8660",
		Told:    "After leaving the prompt of a 32B model the 24 GB of a 3090 stay full at 0 % use; the model is kept on purpose for a while.",
		Assumed: "Five minutes of keeping, the default; talks of minutes with long breaks.",
		Ending:  WasNone,
		build:   ollamaKeep,
	},
	{
		Kind:    "paddlespeech-few-hundred-calls",
		Thread:  "https://github.com/PaddlePaddle/PaddleSpeech/issues/142",
		Told:    "On a K40c of 12 GB each call seemed to add memory; a few hundred calls show that it only moves about 1 GB.",
		Assumed: "A call every 20 seconds or so.",
		Ending:  WasNone,
		build:   paddleSpeech,
	},
	{
		Kind:    "textgen-cublas-buffer",
		Thread:  "https://github.com/oobabooga/textgen/issues/2636",
		Told:    "With the first inference 2 GB come, and after that it never falls below 3.1 GB, however many models are loaded and unloaded.",
		Assumed: "24 GB, models of 4 to 14 GB.",
		Ending:  WasNone,
		build:   textgenBuffer,
	},
	{
		Kind:    "xinference-reranker-cache",
		Thread:  "https://github.com/xorbitsai/inference/issues/3735",
		Told:    "A reranker of 0.6B parameters has over 20 GB of an A100 of 80 GB after a few days, peaks at 20 to 30 GB and stays in service: a cache.",
		Assumed: "Two days, in the first of which most of it comes.",
		Ending:  WasNone,
		build:   xinferenceReranker,
	},
	{
		Kind:    "tensorflow-serving-takes-all",
		Thread:  "https://github.com/tensorflow/serving/issues/1929",
		Told:    "The smallest sample model has 22553 of 24265 MiB.",
		Assumed: "When it starts, and a few requests.",
		Ending:  WasNone,
		build:   tfServing,
	},
	{
		Kind:    "comfyui-mvadapter-kept",
		Thread:  "https://github.com/huanngzh/ComfyUI-MVAdapter/issues/45",
		Told:    "On a 4090 sampling goes to 57 % and then 44 % stay: the loader keeps the model for the next run.",
		Assumed: "Runs of one to four minutes with breaks of some minutes to half an hour.",
		Ending:  WasNone,
		build:   mvadapterKept,
	},
	{
		Kind:    "comfyui-unload-residue",
		Thread:  "https://github.com/Comfy-Org/ComfyUI/issues/5536",
		Told:    "After all models are unloaded 1 to 2 GB remain instead of a few hundred MB: what custom nodes have loaded is not managed.",
		Assumed: "24 GB, 8 to 16 GB while a workflow runs, the same remainder after each.",
		Ending:  WasNone,
		build:   comfyResidue,
	},
	{
		Kind:    "sglang-rank-contexts",
		Thread:  "https://github.com/sgl-project/sglang/pull/22662",
		Told:    "Each other rank opens a context of about 500 MiB on the GPU that features come from, 1.6 GiB for four ranks.",
		Assumed: "80 GB; they come with the first images.",
		Ending:  WasNone,
		build:   sglangContexts,
	},
	{
		Kind:    "faiss-scratch-space",
		Thread:  "https://github.com/facebookresearch/faiss/issues/257",
		Told:    "Memory is left after an index is reset: not the index, but 18 % of the GPU as scratch space, kept as long as the resources live.",
		Assumed: "16 GB; an index of up to 2 GB that is built again and again.",
		Ending:  WasNone,
		build:   faissScratch,
	},
	{
		Kind:    "immich-faces-shrinking-arena",
		Thread:  "https://github.com/immich-app/immich/issues/31675",
		Told:    "With an arena that shrinks after each call, 50000 pictures move the card between 2800 and 3900 MiB, without a failure.",
		Assumed: "2.3 GB of that are others'; 12 GB, two to four hours.",
		Ending:  WasNone,
		build:   immichShrinking,
	},
	{
		Kind:    "paddleocr-vl-documents",
		Thread:  "https://github.com/xberg-io/xberg/issues/1717",
		Told:    "70 shards of 25 pages on an A100 of 40 GB peak at 9.5 GB in the median, 23.8 in the ninth decile and 32.6 at most, by the document alone.",
		Assumed: "A process for each shard, of 3 to 9 minutes, one after the other.",
		Ending:  WasNone,
		build:   paddleVL,
	},
	{
		Kind:    "mps-server-constant",
		Thread:  "https://github.com/nebuly-ai/nos/issues/39",
		Told:    "The MPS server has 27 MB of a V100 of 32 GB at all times, so that two slices of 16 GB do not fit.",
		Assumed: "One client with the slice that fits.",
		Ending:  WasNone,
		build:   mpsConstant,
	},
	{
		Kind:    "vllm-ninety-percent",
		Thread:  "https://github.com/vllm-project/vllm/issues/550",
		Told:    "A 13B model has 73 GB of 80 where it needs 26: 90 % is reserved for the cache.",
		Assumed: "When it starts, and steady requests.",
		Ending:  WasNone,
		build:   vllmNinety,
	},
}

// minutes and hours are in seconds.
const (
	minutes = 60.0
	hours   = 3600.0
)

// slowly is for stories of more than a day, which nobody samples by the second.
func (n *node) slowly(gibibytes, long float64) {
	seconds := n.Pick([]float64{10, 15})
	n.labels.Interval = time.Duration(seconds) * time.Second
	n.dt, n.last = seconds, -n.labels.Interval
	n.on(gibibytes, long)
}

// answering is a server that has held MiB once it is loaded and needs some more
// while it works.
func (n *node) answering(name string, held, need float64, l *load) program {
	g := n.base(held)
	g.weights = held - g.context
	g.work = activity{
		rate: n.About(0.1, 10), sm: n.Between(0.2, 0.9), jitter: n.Between(0.1, 0.3),
		cores: n.About(0.2, 1.5), idle: n.About(0.002, 0.05),
		need: need, spread: n.Between(0.03, 0.12),
	}
	g.load, g.name = l, name
	return g
}

// begins starts a service in the first minutes of a story, and again when it
// ends.
func (n *node) begins(g program, what string, ready func(*process)) {
	n.after(span(n.Between(1, 15)*minutes), func() { n.serve(g, n.name(what), 0, ready) })
}

// beside takes what an incident needs off the budget and lets somebody else have
// a share of the rest.
func (n *node) beside(needs, share float64) {
	n.budget -= needs
	n.tenants(1, share)
}

// losing is for what loses MiB/s on average by its requests, in lumps, from its
// start on.
func (n *node) losing(p *process, rate, lump float64) {
	x := n.leak(p, rate, lump)
	if x.load = p.load; x.load != nil {
		x.rate /= x.load.mean
	}
	x.born(true)
	x.judge()
}

// filling is for what has filled all that is free after so many seconds.
func (n *node) filling(least, most, lump float64) func(*process) {
	return func(p *process) { n.losing(p, p.room()/n.Between(least, most), lump) }
}

// room is how many MiB a process can still get when it is at work. What the
// driver is about to free counts.
func (p *process) room() float64 {
	n := p.node
	free := n.limit - n.used + p.Used
	for _, r := range n.remains {
		if r.label == 0 {
			free += r.bytes
		}
	}
	return float64(free)/mib - p.goal - p.act.need
}

// quits ends a process after that time, as an operator does who has seen enough.
func (p *process) quits(seconds float64) {
	p.after(seconds, func() { p.node.end(p) })
}

// bounds are between what something is drawn.
type bounds [2]float64

func (n *node) draw(b bounds) float64 { return n.Between(b[0], b[1]) }

// round is work that comes again and again: a run, a model that is loaded and
// unloaded, a connection.
type round struct {
	rest, work bounds // seconds
	need       bounds // MiB while it works
	keep       bounds // MiB that each round loses, 0 for none
	// settle is what stays of the first round for as long as the process lives,
	// and is no loss, as it is used by all others.
	settle float64
}

// rounds lets a process rest and work by turns.
func (p *process) rounds(r round) {
	n := p.node
	work, idle := p.act, activity{idle: p.act.idle}
	base := p.goal
	p.size = float64(n.limit) / mib
	var x *loss
	working, kept := false, 0.0
	if r.keep[1] > 0 {
		x = n.leak(p, 0, 0)
		x.born(r.rest[0]+r.work[0] < 10*minutes)
		// Where it is working memory that was refused, all that was kept is lost.
		ended := p.onEnd
		p.onEnd = func() {
			if working && r.need[1] > 0 {
				x.total = kept
			}
			ended()
		}
	}
	var rest, begin, end func()
	rest = func() {
		working, p.act = false, idle
		p.after(n.draw(r.rest), begin)
	}
	begin = func() {
		working = true
		base += r.settle
		r.settle = 0
		seconds := n.draw(r.work)
		p.act = work
		p.to(base+n.draw(r.need), min(seconds/4, 10))
		p.after(seconds, end)
	}
	end = func() {
		// At once, so that what a round loses is never there twice.
		p.fixed, p.goal = base, base
		if x != nil {
			more := n.draw(r.keep)
			kept += more
			x.add(more, n.now)
		}
		rest()
	}
	rest()
}

// climbs lets a process take, some seconds apart, as many MiB more than at first
// as the levels say.
func (p *process) climbs(gap float64, levels ...float64) {
	n := p.node
	base := p.goal
	p.size = float64(n.limit) / mib
	at := 0.0
	for _, level := range levels {
		at += gap * n.Between(0.6, 1.4)
		p.after(at, func() { p.to(base+level, 1) })
	}
}

// tritonDay loses 59 GB in a day.
func tritonDay(n *node) {
	n.slowly(80, 44)
	g := n.answering("tritonserver", 20958-900-n.driver, 900, n.steadyLoad())
	rate := (80342 - 20958) / (24 * hours) * n.Between(0.9, 1.1)
	lump := n.About(2, 64)
	n.begins(g, "triton", func(p *process) { n.losing(p, rate, lump) })
}

// torchserveRequests are three workers that each keep 2 GB of four or five
// requests.
func torchserveRequests(n *node) {
	n.on(11, 4)
	n.serve(n.answering("other", 1000, 100, n.steadyLoad()), n.name("other"), n.aged(), nil)
	held := (5983.0 - 1100) / 3
	group := n.name("torchserve")
	gap := n.Between(1, 3) * minutes
	for range 3 {
		n.after(span(n.Between(60, 120)), func() {
			n.serve(n.answering("worker", held, 0, nil), group, 0, func(p *process) {
				p.rounds(round{
					rest: bounds{1.5 * gap, 4.5 * gap}, work: bounds{3, 15},
					need: bounds{50, 200}, keep: bounds{400, 490},
				})
			})
		})
	}
}

// seedvr2Queue keeps 4 GB of each run.
func seedvr2Queue(n *node) {
	n.on(48, 3)
	g := n.answering("comfyui", 4000, 0, nil)
	need := 32215 - 4000 - n.driver
	work := n.Between(6, 14) * minutes
	n.begins(g, "comfyui", func(p *process) {
		p.rounds(round{
			rest: bounds{5, 20}, work: bounds{0.9 * work, 1.1 * work},
			need: bounds{need + 550, need + 700}, keep: bounds{4240, 4520},
		})
	})
}

// whisperLive loses ever faster as long as somebody speaks.
func whisperLive(n *node) {
	n.on(12, 5)
	g := n.answering("whisper", 3200, 500, nil)
	n.begins(g, "whisper", func(p *process) {
		work := p.act
		p.act = activity{idle: work.idle}
		p.after(n.About(5, 45)*minutes, func() {
			p.act = work
			long := n.Between(10.5, 13) * minutes
			x := n.leak(p, p.room()/long/1.91, n.Between(2, 20))
			// The mean of this from 0 to 3 is 1.91.
			x.shape = func(age float64) float64 { return 0.3 * math.Exp(3*age/long) }
			x.born(false)
		})
	})
}

// obsReconnect is full after twelve reconnects.
func obsReconnect(n *node) {
	n.slowly(4, 66)
	n.bare = true
	n.serve(n.answering("obs-decode", 250, 0, n.steadyLoad()), "", n.aged(), nil)
	g := n.answering("obs", 330, 0, n.steadyLoad())
	n.begins(g, "obs", func(p *process) {
		step := min(max(p.room()/12.4, 162), 238)
		x := n.leak(p, 0, 0)
		x.born(false)
		var again func()
		again = func() {
			x.add(step*n.Between(0.97, 1.03), n.now)
			p.after(48*hours/12.4*n.Between(0.75, 1.25), again)
		}
		p.after(48*hours/12.4*n.Between(0.75, 1.25), again)
	})
}

// obsReplay has no memory for the 29th start.
func obsReplay(n *node) {
	n.on(11, 4)
	n.bare = true
	n.serve(n.answering("game", n.Between(4000, 5000), 0, n.steadyLoad()), "", n.aged(), nil)
	n.begins(n.answering("obs", 500, 0, nil), "obs", func(p *process) {
		step := p.room() / 28.5
		p.rounds(round{rest: bounds{2, 10}, work: bounds{80, 160}, keep: bounds{step, step}})
	})
}

// immichOCR goes through a library; what is idle then is recycled.
func immichOCR(n *node) {
	n.on(16, 5)
	g := n.answering("immich", n.Between(1200, 2600), 300, n.steadyLoad())
	rate := 665 / minutes * n.Between(0.9, 1.1)
	lump := n.Between(20, 200)
	done := span(n.Between(1, 2) * hours)
	n.begins(g, "immich-ml", func(p *process) {
		if n.now >= done {
			p.act = activity{idle: p.act.idle}
			return
		}
		n.losing(p, rate, lump)
		p.quits((done - n.now).Seconds() + 5*minutes)
	})
}

// immichFaces fills the GPU by jumps when its job is run.
func immichFaces(n *node) {
	n.on(12, 5)
	n.serve(n.answering("other", 2300-n.driver, 0, n.steadyLoad()), n.name("other"), n.aged(), nil)
	g := n.answering("immich", 700, 0, nil)
	n.begins(g, "immich-ml", func(p *process) {
		work := p.act
		p.act = activity{idle: work.idle}
		p.after(n.About(10, 50)*minutes, func() {
			p.act = work
			room := p.room()
			x := n.leak(p, room/(8*minutes*n.Between(0.9, 1.1)), room/n.Between(40, 80))
			x.born(false)
		})
	})
}

// paddleSlow goes from 8 to 11 GB in some hours.
func paddleSlow(n *node) {
	n.slowly(n.Pick([]float64{11, 12}), 26)
	g := n.answering("ocr", 7700-n.driver, 400, n.steadyLoad())
	n.begins(g, "ocr", n.filling(4*hours, 10*hours, n.About(4, 40)))
}

// dlibBatches lose 53 MB with each smaller batch.
func dlibBatches(n *node) {
	n.on(8, 12)
	g := n.answering("faces", 2727-100-n.driver, 100, nil)
	rate := 53 / (n.Between(1.2, 3) * minutes)
	n.begins(g, "faces", func(p *process) { n.losing(p, rate, 53) })
}

// omnivoice has memory for short texts when it has none for long ones.
func omnivoice(n *node) {
	n.on(16, 4)
	g := n.answering("tts", 5500, 0, nil)
	n.begins(g, "tts", func(p *process) {
		p.rounds(round{
			rest: bounds{1 * minutes, 10 * minutes}, work: bounds{5, 25},
			need: bounds{700, 4500}, keep: bounds{1600, 2100},
		})
	})
}

// ikLlama keeps graphs of each query.
func ikLlama(n *node) {
	n.on(24, 4)
	g := n.answering("llama-server", n.Between(0.61, 0.68)*24*1024-n.driver, 0, nil)
	n.begins(g, "llama", func(p *process) {
		p.rounds(round{
			rest: bounds{20, 120}, work: bounds{20, 90},
			need: bounds{20, 60}, keep: bounds{7 * 90, 10 * 90},
		})
	})
}

// llamaGraphs has hardly anything free.
func llamaGraphs(n *node) {
	n.on(8, 12)
	g := n.answering("llama-server", n.budget-n.Between(500, 1000), 0, n.steadyLoad())
	least := n.About(0.5, 2.2) * hours
	n.begins(g, "llama", n.filling(least, 1.35*least, n.About(4, 30)))
}

// nemoTranscribe keeps the hypotheses of each file.
func nemoTranscribe(n *node) {
	n.on(15, 4)
	g := n.answering("nemo", 2500, 1200, nil)
	n.torch(&g)
	n.begins(g, "notebook", n.filling(42*minutes, 58*minutes, n.About(1, 8)))
}

// exllamaUnload has each model that was ever loaded.
func exllamaUnload(n *node) {
	n.on(24, 8)
	g := n.answering("webui", 600, 0, nil)
	size := n.Between(8000, 9500)
	n.begins(g, "webui", func(p *process) {
		p.rounds(round{
			rest: bounds{10, 60}, work: bounds{15 * minutes, 45 * minutes},
			need: bounds{size, size}, keep: bounds{0.97 * size, size},
		})
	})
}

// faissReload blocks 18 % of the GPU each time.
func faissReload(n *node) {
	n.on(16, 20)
	scratch := 0.18 * float64(n.labels.Capacity) / mib
	g := n.answering("search", 2300+scratch, 0, nil)
	n.begins(g, "search", func(p *process) {
		p.rounds(round{
			rest: bounds{45 * minutes, 2 * hours}, work: bounds{30, 120},
			need: bounds{10, 200}, keep: bounds{0.97 * scratch, 1.03 * scratch},
		})
	})
}

// tritonStreams keep 160 MiB of each pipeline.
func tritonStreams(n *node) {
	n.on(24, 20)
	n.beside(13000, 0.6)
	g := n.answering("tritonserver", 5520-n.driver, 0, n.steadyLoad())
	n.begins(g, "triton", func(p *process) {
		p.rounds(round{
			rest: bounds{5 * minutes, 40 * minutes}, work: bounds{30 * minutes, 90 * minutes},
			need: bounds{2550, 2656}, keep: bounds{140, 180},
		})
	})
}

// tgiSession loses 1.2 GB in five hours and is ended.
func tgiSession(n *node) {
	n.on(40, 12)
	g := n.answering("tgi", n.budget-1517+100, 0, n.steadyLoad())
	g.pool = g.weights - 31000
	g.weights = 31000
	rate := (1517.0 - 337) / (5 * hours) * n.Between(0.92, 1.08)
	lump := n.About(2, 20)
	n.begins(g, "tgi", func(p *process) {
		n.losing(p, rate, lump)
		p.quits(5 * hours * n.Between(0.97, 1.03))
	})
}

// ollamaReload keeps 300 MB of each load.
func ollamaReload(n *node) {
	n.on(24, 4)
	g := n.answering("ollama", 153, 0, nil)
	n.begins(g, "ollama", func(p *process) {
		p.rounds(round{
			rest: bounds{1 * minutes, 4 * minutes}, work: bounds{1 * minutes, 5 * minutes},
			need: bounds{3300, 3700}, keep: bounds{270, 325},
		})
	})
}

// infinityEmbeddings are restarted at 28 GiB.
func infinityEmbeddings(n *node) {
	n.on(32, 16)
	g := n.answering("infinity", n.Between(2200, 3600), 500, n.steadyLoad())
	long := n.Between(4, 7) * hours
	rate := (28*1024 - g.context - g.weights - 500 - n.driver) / long
	lump := n.About(2, 20)
	n.begins(g, "infinity", func(p *process) {
		n.losing(p, rate, lump)
		p.quits(long * n.Between(1, 1.05))
	})
}

// vaapiPause is a desktop whose browser keeps surfaces that no list shows.
func vaapiPause(n *node) {
	n.on(8, 9)
	n.bare = true
	for _, name := range []string{"desktop", "browser", "decoder"} {
		g := n.answering(name, n.Between(150, 450), 40, n.steadyLoad())
		n.serve(g, "", n.aged(), nil)
	}
	x := n.leak(nil, 0, 0)
	var again func()
	again = func() {
		x.add(70*n.Between(0.85, 1.15), n.now)
		n.after(span(n.Between(4, 12)*minutes), again)
	}
	n.after(n.within(0.05, 0.2), again)
}

// realtimeTTS loses 3 GB in half a day.
func realtimeTTS(n *node) {
	n.on(12, 9)
	n.beside(8000, 0.8)
	g := n.answering("tts", 2048-150, 150, n.steadyLoad())
	long := n.Between(5, 7) * hours
	lump := n.About(1, 12)
	n.begins(g, "tts", func(p *process) {
		n.losing(p, 3*1024/long, lump)
		p.quits(long * n.Between(1, 1.1))
	})
}

// whisperxTrickle is restarted now and then.
func whisperxTrickle(n *node) {
	n.slowly(24, 60)
	g := n.answering("whisperx", 3600, 900, n.steadyLoad())
	n.torch(&g)
	long := n.Between(18, 30) * hours
	lump := n.About(0.5, 6)
	n.begins(g, "whisperx", func(p *process) {
		n.losing(p, 15500/long, lump)
		p.quits(long * n.Between(1, 1.08))
	})
}

// sglangWeek loses 20 GB a week.
func sglangWeek(n *node) {
	n.slowly(80, 72)
	held := n.Between(0.7, 0.74) * 80 * 1024
	g := n.answering("sglang", held, 0, n.steadyLoad())
	g.pool = 0.6 * g.weights
	g.weights -= g.pool
	rate := 20 * 1024 / (7 * 24 * hours) * n.Between(0.88, 1.12)
	lump := n.About(0.5, 4)
	n.begins(g, "sglang", func(p *process) { n.losing(p, rate, lump) })
}

// reserving is an engine of which all is reserved at the start.
func (n *node) reserving(name string, size, weights float64) program {
	g := n.answering(name, size, 0, n.steadyLoad())
	g.pool = g.weights - weights
	g.weights = weights
	return g
}

// vllmSpin turns in the driver for ever; nobody works beside it.
func vllmSpin(n *node) {
	n.on(80, 12)
	size := 0.6 * 80 * 1024
	p := n.launch(n.reserving("VLLM::EngineCore", size, 0.4*size), n.name("vllm"), n.aged(), nil)
	n.after(n.within(0.1, 0.5), func() {
		p.Group = ""
		p.freeze(Orphaned, n.Between(0.95, 1))
	})
}

// sparkOrphan loses its front twice.
func sparkOrphan(n *node) {
	n.on(121, 8)
	left := 2
	var start func(age time.Duration)
	start = func(age time.Duration) {
		p := n.launch(n.reserving("VLLM::EngineCore", 104277, 20000), n.name("vllm"), age, nil)
		if left == 0 {
			return
		}
		left--
		n.after(span(n.Between(1, 2)*hours), func() {
			p.Group = ""
			p.freeze(Orphaned, n.drips())
			n.after(span(n.Between(10, 40)*minutes), func() {
				n.end(p)
				n.after(span(n.Between(0.5, 3)*minutes), func() { start(0) })
			})
		})
	}
	start(n.aged())
}

// stale starts processes one after the other, of which all but the last are
// forgotten some time after their start with what they have.
func (n *node) stale(name, group string, gap bounds, sizes ...float64) {
	at := 0.0
	for i, size := range sizes {
		n.after(span(at), func() {
			room := float64(n.limit-n.used)/mib - 60
			if room < 300 {
				return
			}
			p := n.launch(n.answering(name, min(size, room), 0, nil), group, 0, nil)
			if i == len(sizes)-1 {
				return
			}
			n.after(span(n.Between(0.5, 0.9)*gap[0]), func() { p.freeze(Alive, n.drips()) })
		})
		at += n.draw(gap)
	}
}

// localaiStopped has two models that nobody asks any more.
func localaiStopped(n *node) {
	n.on(12, 8)
	n.bare = false
	gap := bounds{1 * hours, 2 * hours}
	n.stale("backend", n.name("localai"), gap, n.Between(4000, 6000), n.Between(2500, 3500), n.Between(800, 1500))
}

// ollamaStale has two runners that are not asked any more.
func ollamaStale(n *node) {
	n.on(24, 8)
	n.stale("ollama_llama_server", n.name("ollama"), bounds{1 * hours, 2 * hours}, 6800, 3100, 6800)
}

// visionEdge is full of former deployments.
func visionEdge(n *node) {
	n.on(16, 10)
	n.bare = false
	gap := bounds{1 * hours, 2 * hours}
	n.stale("python-inference-process", n.name("vision-edge"), gap, 5144, 2070, 1562, 866, 5154)
}

// lmcacheMapped keeps the memory of an engine that has died.
func lmcacheMapped(n *node) {
	n.on(179, 10)
	n.bare = false
	engine := n.reserving("vllm", 151.6*1024, 151.6*1024-600-112252)
	group := n.name("vllm")
	first := n.launch(engine, group, n.aged(), nil)
	cache := n.launch(n.answering("lmcache", 500, 0, nil), n.name("lmcache"), n.aged(), nil)
	// The engine that comes next finds too little and gives up within a minute.
	refused := n.answering("vllm", 600, 0, nil)
	dies := n.within(0.1, 0.4)
	n.after(dies, func() {
		n.end(first)
		cache.size = float64(n.limit) / mib
		cache.act = activity{idle: cache.act.idle}
		cache.fixed, cache.goal = 112252, 112252
		cache.after(1*minutes, func() { cache.freeze(Alive, n.drips()) })
	})
	n.after(dies+span(n.Between(3, 10)*minutes), func() {
		s := n.serve(refused, group, 0, func(p *process) { p.quits(n.Between(5, 30)) })
		n.after(span(n.Between(1, 3)*hours), func() {
			s.stop()
			n.end(cache)
			n.after(span(n.Between(1, 5)*minutes), func() {
				n.serve(n.answering("lmcache", 500, 0, nil), cache.Group, 0, nil)
				n.serve(engine, group, 0, nil)
			})
		})
	})
}

// ortBatches has its largest batch first.
func ortBatches(n *node) {
	n.on(16, 4)
	n.beside(6000, 0.6)
	g := n.answering("onnx", 3306-n.driver, 0, nil)
	gap := n.About(2, 60)
	n.begins(g, "onnx", func(p *process) { p.climbs(gap, 1810, 1792, 1791, 1770, 1762) })
}

// tritonWarm has all after two inferences.
func tritonWarm(n *node) {
	n.on(16, 5)
	n.beside(7000, 0.6)
	g := n.answering("tritonserver", 2048, 0, nil)
	gap := n.About(10, 400)
	n.begins(g, "triton", func(p *process) { p.climbs(gap, 2048, 4096) })
}

// torchservePool keeps what the largest request needed.
func torchservePool(n *node) {
	n.on(24, 8)
	g := n.answering("worker", 3000, 0, nil)
	n.torch(&g)
	n.begins(g, "torchserve", func(p *process) {
		p.rounds(round{rest: bounds{20, 15 * minutes}, work: bounds{3, 20}, need: bounds{2750, 11000}})
	})
}

// fasterWhisper has a peak that rises within a long file.
func fasterWhisper(n *node) {
	n.on(12, 7)
	g := n.answering("whisper", 3302-n.driver, 0, nil)
	gap := n.Between(20, 40) * minutes / 20
	peaks := []float64{
		3582, 3888, 4294, 4390, 4454, 4550, 4582, 4678, 4710, 4806,
		4870, 4902, 4966, 5030, 5062, 5094, 5702, 5734, 5798,
	}
	for i := range peaks {
		peaks[i] -= 3302
	}
	n.begins(g, "whisper", func(p *process) { p.climbs(gap, peaks...) })
}

// tgiAll takes what there is.
func tgiAll(n *node) {
	n.on(80, 10)
	n.begins(n.reserving("tgi", min(79645-n.driver, n.budget), 26000), "tgi", nil)
}

// trtllmPaged reserves a cache beside its engine.
func trtllmPaged(n *node) {
	n.on(48, 8)
	n.beside(30000, 0.6)
	n.begins(n.reserving("tritonserver", 28*1024, 12*1024), "triton", nil)
}

// ollamaKeep keeps a model for five minutes after the last word.
func ollamaKeep(n *node) {
	n.on(24, 10)
	n.bare = true
	g := n.answering("ollama", n.budget-n.Between(100, 400), 0, nil)
	g.prep, g.loading = 2, n.Between(8, 40)
	var load func()
	load = func() {
		n.launch(g, "", 0, func(p *process) {
			p.after(n.About(2, 30)*minutes, func() {
				p.act = activity{idle: p.act.idle}
				p.quits(5 * minutes)
				p.onEnd = func() { n.after(span(n.About(10, 90)*minutes), load) }
			})
		})
	}
	n.after(span(n.Between(1, 20)*minutes), load)
}

// paddleSpeech moves about 1 GB.
func paddleSpeech(n *node) {
	n.on(12, 6)
	n.beside(1500, 0.4)
	g := n.answering("asr", 750, 300, n.steadyLoad())
	g.work.spread, g.memory = 0.2, 40
	n.begins(g, "asr", nil)
}

// textgenBuffer has a buffer from the first inference on.
func textgenBuffer(n *node) {
	n.on(24, 8)
	n.begins(n.answering("webui", 1100, 0, nil), "webui", func(p *process) {
		p.rounds(round{
			rest: bounds{2 * minutes, 30 * minutes}, work: bounds{5 * minutes, 60 * minutes},
			need: bounds{4000, 14000}, settle: 2000,
		})
	})
}

// xinferenceReranker has a cache that fills for a day.
func xinferenceReranker(n *node) {
	n.slowly(80, 48)
	g := n.answering("rerank", 2500, 2000, n.steadyLoad())
	g.most, g.pace = n.Between(18000, 22000), 1/(n.Between(6, 11)*hours)
	n.torch(&g)
	n.begins(g, "xinference", nil)
}

// tfServing takes what there is.
func tfServing(n *node) {
	n.on(24, 6)
	g := n.reserving("tensorflow_model_server", min(22553-n.driver, n.budget), 100)
	n.begins(g, "serving", nil)
}

// mvadapterKept keeps its model between runs.
func mvadapterKept(n *node) {
	n.on(24, 6)
	card := 24.0 * 1024
	n.begins(n.answering("comfyui", 700, 0, nil), "comfyui", func(p *process) {
		sampling := (0.57 - 0.44) * card
		p.rounds(round{
			rest: bounds{3 * minutes, 30 * minutes}, work: bounds{1 * minutes, 4 * minutes},
			need: bounds{0.97 * sampling, sampling}, settle: 0.44*card - 700 - n.driver,
		})
	})
}

// comfyResidue has what custom nodes have loaded.
func comfyResidue(n *node) {
	n.on(24, 8)
	n.begins(n.answering("comfyui", 400, 0, nil), "comfyui", func(p *process) {
		p.rounds(round{
			rest: bounds{2 * minutes, 25 * minutes}, work: bounds{1 * minutes, 10 * minutes},
			need: bounds{8000, 16000}, settle: n.Between(1024, 2048),
		})
	})
}

// sglangContexts are those of ranks that compute elsewhere.
func sglangContexts(n *node) {
	n.on(80, 8)
	size := n.Between(0.75, 0.85) * 80 * 1024
	group := n.name("sglang")
	n.after(span(n.Between(1, 15)*minutes), func() {
		n.serve(n.reserving("sglang", size, 0.3*size), group, 0, func(p *process) {
			p.after(n.Between(1, 20)*minutes, func() {
				for range 3 {
					g := n.bystander()
					g.context = 1.6 * 1024 / 3
					n.launch(g, group, 0, nil)
				}
			})
		})
	})
}

// faissScratch builds an index again and again.
func faissScratch(n *node) {
	n.on(16, 5)
	n.beside(6500, 0.5)
	scratch := 0.18 * float64(n.labels.Capacity) / mib
	n.begins(n.answering("search", 250+scratch, 0, nil), "search", func(p *process) {
		p.rounds(round{rest: bounds{10, 10 * minutes}, work: bounds{20, 20 * minutes}, need: bounds{13, 2000}})
	})
}

// immichShrinking gives back what a call needed.
func immichShrinking(n *node) {
	n.on(12, 6)
	n.serve(n.answering("other", 2300-n.driver, 0, n.steadyLoad()), n.name("other"), n.aged(), nil)
	g := n.answering("immich", 430, 640, nil)
	g.work.spread, g.memory = 0.3, 8
	done := span(n.Between(2.2, 4.2) * hours)
	n.begins(g, "immich-ml", func(p *process) {
		if n.now >= done {
			p.act = activity{idle: p.act.idle}
			return
		}
		p.quits((done - n.now).Seconds() + 5*minutes)
	})
}

// paddleVL needs by the document.
func paddleVL(n *node) {
	n.on(40, 8)
	shards := 70
	group := n.name("ocr")
	var shard func()
	shard = func() {
		if shards == 0 {
			return
		}
		shards--
		peak := n.Between(8700, 10300)
		if n.Chance(0.1) {
			peak = n.Between(23775, 32575)
		}
		g := n.answering("ocr", 2600, 0, nil)
		g.prep, g.loading = n.Between(1, 4), n.Between(3, 15)
		p := n.launch(g, group, 0, func(p *process) {
			p.size = peak
			life := n.Between(3, 9) * minutes
			p.to(peak-n.driver, life*n.Between(0.1, 0.8))
			p.quits(life)
		})
		p.onEnd = func() { n.after(span(n.Between(1, 20)), shard) }
	}
	n.after(span(n.Between(1, 10)*minutes), shard)
}

// mpsConstant is a server of 27 MB beside its client.
func mpsConstant(n *node) {
	n.on(32, 8)
	g := n.base(27)
	g.context, g.work = 27, activity{idle: n.About(0.001, 0.05)}
	n.serve(g, n.name("mps"), n.aged(), nil)
	n.begins(n.answering("client", 13500, 2000, n.steadyLoad()), "client", nil)
}

// vllmNinety reserves 90 %.
func vllmNinety(n *node) {
	n.on(80, 8)
	n.begins(n.reserving("vllm", min(73*1024-n.driver, n.budget), 26*1024), "vllm", nil)
}
