// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

// later are the incidents that were collected after the detector had been tuned on the others.
var later = []Incident{
	// What leaks until the memory is full.
	{
		Kind:    "xpra-encoder-contexts",
		Thread:  "https://github.com/Xpra-org/xpra/issues/733",
		Told:    "Each encoder context that is closed keeps about 50 MB; resizing one window goes through up to 20 of them, so 1 GB is gone, and soon no context can be made.",
		Assumed: "4 GB, 350 MB for the server, a resize of 8 to 20 contexts every 8 to 40 minutes, a restart.",
		Ending:  Fills,
		build:   xpraContexts,
	},
	{
		Kind:    "webui-face-restoration",
		Thread:  "https://github.com/AUTOMATIC1111/stable-diffusion-webui/issues/53",
		Told:    "On a GTX 1080 of 8 GB each image whose faces are restored costs 500 MB more, until a large batch fails, in every run alike.",
		Assumed: "3.6 GB for the model, half a minute an image, new runs after a quarter of an hour to an hour.",
		Ending:  Fills,
		build:   webuiFaces,
	},
	{
		Kind:    "spacy-entities-per-document",
		Thread:  "https://github.com/explosion/spaCy/issues/9432",
		Told:    "A service for named entities is out of memory after five or six documents of 2 to 10 pages, mostly before the tenth, as the graph of each inference is kept.",
		Assumed: "8 GB, 1.5 GB for the model, a document every minute or two, a restart.",
		Ending:  Fills,
		build:   entityDocuments,
	},
	{
		Kind:    "voxtral-long-meeting",
		Thread:  "https://github.com/OlivierAlbertini/Voxtral-WebUI/issues/3",
		Told:    "A 2080 Ti has 9.5 GB in use with the first parts of a long recording, 10762 of 11264 MiB after 2000 seconds, and then nothing is left.",
		Assumed: "Straight growth; the next recording after 10 to 40 minutes.",
		Ending:  Fills,
		build:   voxtralMeeting,
	},
	{
		Kind:    "docling-mig-slice",
		Thread:  "https://github.com/docling-project/docling/issues/1079",
		Told:    "A converter of documents on a MIG slice of 12 GB (H100) grows with each PDF and fails after the fourth.",
		Assumed: "2 GB for its models, a PDF every few minutes, equal steps, a restart.",
		Ending:  Fills,
		build:   doclingSlice,
	},
	{
		Kind:    "qwen-vl-each-step",
		Thread:  "https://github.com/2U1/Qwen-VL-Series-Finetune/issues/82",
		Told:    "Fine-tuning a 7B model goes steadily from 10 to 20 GB within nearly 100 steps, and on until it is out of memory.",
		Assumed: "24 GB, one to two and a half minutes a step, new runs.",
		Ending:  Fills,
		build:   qwenSteps,
	},
	{
		Kind:    "game-learner-2-mb-a-second",
		Thread:  "https://github.com/lixado/PyBoy-RL/issues/1",
		Told:    "A program that learns a game takes about 2 MB more each second; a GPU of 11 GB is full within a couple of hours.",
		Assumed: "1.5 GB at the start, new runs.",
		Ending:  Fills,
		build:   gameLearner,
	},
	{
		Kind:    "galario-twelve-workers",
		Thread:  "https://github.com/mtazzari/galario/issues/104",
		Told:    "Twelve processes of a fit have 290 MB each, 490 at work, and 2 MB more after every ten evaluations; some time after 380 it is out of memory.",
		Assumed: "8 GB, 2 to 6 seconds an evaluation, all end when one fails, the user starts them again.",
		Ending:  Fills,
		build:   galarioWorkers,
	},
	{
		Kind:    "stove-30-epochs",
		Thread:  "https://github.com/jlko/STOVE/issues/3",
		Told:    "Training starts at about 7 GB and is beyond 10 after 30 epochs, where it fails; an older PyTorch does not leak.",
		Assumed: "11 GB, 8 to 18 minutes an epoch.",
		Ending:  Fills,
		build:   stoveEpochs,
	},
	{
		Kind:    "terminal-webgl-contexts",
		Thread:  "https://github.com/juspay/kolu/pull/1416",
		Told:    "Switching between terminals in a browser takes 2 MB a time: 1032 MB at first, 1941 after 500 switches, 3159 after 1000, the whole 4 GB after 1500, where all is thrown away.",
		Assumed: "1500 switches in 3 to 5 hours; that the browser's process ends at the ceiling and comes back.",
		Ending:  Fills,
		build:   webglTerminals,
	},
	{
		Kind:    "invoke-image-to-image",
		Thread:  "https://github.com/invoke-ai/InvokeAI/issues/444",
		Told:    "On a 3090 the model has 4.9 GB, 7.9 after the first images and no more from text; from images to images it climbs to an idle 23 of 24 GB, and then what used to work fails.",
		Assumed: "250 to 600 MB kept of each, one every five minutes, a restart of the bot.",
		Ending:  Fills,
		build:   imageToImage,
	},
	{
		Kind:    "monero-miner-a-day",
		Thread:  "https://github.com/fireice-uk/xmr-stak/issues/2360",
		Told:    "A miner on a Vega 56 of 8 GB has filled it after a day, with half the hash rate.",
		Assumed: "3 to 5 GB at the start, straight growth, a restart.",
		Ending:  Fills,
		build:   minerDay,
	},
	{
		Kind:    "mpi-ipc-cache",
		Thread:  "https://github.com/open-mpi/ompi/issues/12849",
		Told:    "Handles of shared buffers stay in a cache of Open MPI: the program itself needs the same all the time, the A100 of 40 GB goes past 27496 MiB until it is full.",
		Assumed: "3 to 6 GB for the solver, 20 minutes to an hour for it, new runs.",
		Ending:  Fills,
		build:   mpiCache,
	},
	{
		Kind:    "llama-ratcheting-floor",
		Thread:  "https://github.com/TheTom/llama-cpp-turboquant/issues/325",
		Told:    "On a 5060 Ti of 16311 MiB the floor rises by a few to a few hundred MiB with each large prompt and never falls, until the room above the KV cache is eaten.",
		Assumed: "1.2 to 2.2 GB of room, a prompt every few minutes, a restart.",
		Ending:  Fills,
		build:   ratchetingFloor,
	},
	{
		Kind:    "mitsuba-texture-optimization",
		Thread:  "https://github.com/mitsuba-renderer/mitsuba3/issues/433",
		Told:    "On a 3080 Ti for laptops each iteration of an optimization keeps a little, and after more than 300 of them 256 MB cannot be had.",
		Assumed: "16 GB, 3 to 5 GB at the start, 3 to 10 seconds an iteration, new runs.",
		Ending:  Fills,
		build:   textureOptimization,
	},

	// What leaks, and nothing is told of an end.
	{
		Kind:    "mitsuba-pose-estimation",
		Thread:  "https://github.com/mitsuba-renderer/mitsuba3/issues/477",
		Told:    "On a 3090 the loop of an example goes from 3.36 to 3.79 GB in 500 iterations, a few MB each second.",
		Assumed: "2 to 4 iterations a second, runs of 2000 to 8000 of them.",
		Ending:  GoesOn,
		build:   poseEstimation,
	},
	{
		Kind:    "invoke-prompt-embedding",
		Thread:  "https://github.com/invoke-ai/InvokeAI/pull/3633",
		Told:    "Each generated image loses about 160 MB of the GPU, which the change ends.",
		Assumed: "12 GB, 3 to 4 GB for the model, an image every minute to six, a restart when it is full.",
		Ending:  GoesOn,
		build:   promptEmbedding,
	},
	{
		Kind:    "docling-server-batches",
		Thread:  "https://github.com/docling-project/docling-serve/issues/233",
		Told:    "On an A100 of 40 GB, 10 files add memory, 20 more add to that, and with 100 more it is nearly all in use; nothing comes back when the work is done.",
		Assumed: "About 250 MB of each file, half an hour between batches, a restart an hour later, and the same again.",
		Ending:  GoesOn,
		build:   doclingBatches,
	},
	{
		Kind:    "satellite-cloud-batches",
		Thread:  "https://github.com/cmosig/sentle/issues/18",
		Told:    "Each batch of a cloud detection takes about 2 MiB more and none of it comes back.",
		Assumed: "24 GB, 2 to 4 GB at the start, a batch every 3 to 12 seconds, jobs of 3 to 6 hours, others on the GPU.",
		Ending:  GoesOn,
		build:   cloudBatches,
	},
	{
		Kind:    "hyprland-monitors-off",
		Thread:  "https://github.com/hyprwm/Hyprland/issues/8056",
		Told:    "Each time a monitor is turned off and on again, the compositor has 200 MB more.",
		Assumed: "12 GB, that it happens every two to five hours, two days of it.",
		Ending:  GoesOn,
		build:   monitorsOff,
	},
	{
		Kind:    "video-encoder-capabilities",
		Thread:  "https://github.com/billythegoat356/OVNI/issues/1",
		Told:    "The library asks a new encoder session what it can do and does not close it: 2 MB stay for each encoder.",
		Assumed: "16 GB, a clip every 15 to 60 seconds, 600 MB for the rest.",
		Ending:  GoesOn,
		build:   encoderCapabilities,
	},

	// What is held after the work has ended.
	{
		Kind:    "sglang-outlives-slurm",
		Thread:  "https://github.com/sgl-project/sglang/issues/23627",
		Told:    "When a job ends, workers of the server stay with 100998 MiB, their parent is init, and the next job on the node is out of memory.",
		Assumed: "141 GB, three jobs that fail within an hour or so, somebody who kills the worker 1 to 4 hours later.",
		Ending:  Holds,
		build:   outlivesSlurm,
	},
	{
		Kind:    "orphaned-container-168-gib",
		Thread:  "https://github.com/AMD-AGI/Hyperloom/pull/1572",
		Told:    "The container of a job that was cancelled three hours ago holds about 168 of 288 GiB; vLLM, which comes next, is refused.",
		Assumed: "Two refusals; that it is found after 3 to 4.5 hours.",
		Ending:  Holds,
		build:   orphanedContainer,
	},
	{
		Kind:    "speech-workers-removed-container",
		Thread:  "https://github.com/vllm-project/vllm-omni/issues/2317",
		Told:    "After the container is removed by force, two workers of a speech server stay on an L40S of 48 GB with about 22 GB; only kill -9 frees it.",
		Assumed: "A new container a few minutes later, which has room; the kill after 1 to 4 hours.",
		Ending:  Holds,
		build:   removedContainer,
	},
	{
		Kind:    "diffusion-ranks-partial-start",
		Thread:  "https://github.com/vllm-project/vllm-omni/pull/3848",
		Told:    "One of three workers fails while it starts; the two others stay alive and pin 4371 MiB of a GH200, and nothing can reclaim them.",
		Assumed: "96 GB; a second try minutes later that works beside them, and that nobody kills them within the story.",
		Ending:  Holds,
		build:   partialStart,
	},
	{
		Kind:    "vllm-run-complete-73-gb",
		Thread:  "https://github.com/vllm-project/vllm/issues/20860",
		Told:    "After a batch run is complete, each A100 of 80 GB still has about 73 GB in use at no utilization, by processes that are busy on the CPU.",
		Assumed: "Runs of 1 to 2 hours; the user kills them half an hour to three hours later and runs again.",
		Ending:  Holds,
		build:   runComplete,
	},
	{
		Kind:    "crashed-torch-11409-mib",
		Thread:  "https://github.com/pytorch/pytorch/issues/910",
		Told:    "A program has crashed, and the TITAN still has 11409 of 12207 MiB in use at no utilization.",
		Assumed: "That no process of the list has it; 2 to 6 hours until an administrator resets the GPU, and work after that.",
		Ending:  Holds,
		build:   crashedTorch,
	},
	{
		Kind:    "cluster-process-in-d-state",
		Thread:  "https://github.com/microsoft/pai/issues/3372",
		Told:    "Experiments find a GPU in use before they do anything, and fail: a process of a stopped job waits in state D. The node is rebooted the next day.",
		Assumed: "12 GB, 6 to 9 GB held, 16 to 24 hours, small jobs that still fit.",
		Ending:  Holds,
		build:   stateD,
	},
	{
		Kind:    "atom-workers-275-gb",
		Thread:  "https://github.com/ROCm/ATOM/issues/1511",
		Told:    "After the server is killed, its workers wait for ever with some 275 GB of each GPU; a restart in the same container fails, and operators remove the container.",
		Assumed: "288 GB; one to three restarts in vain, twice in the story.",
		Ending:  Holds,
		build:   atomWorkers,
	},

	// What was taken for a leak, or asked about, and is none.
	{
		Kind:    "deformable-gaussians-densify",
		Thread:  "https://github.com/ingra14m/Deformable-3D-Gaussians/issues/16",
		Told:    "On a 4090 of 24 GB it has 15 % after 5000 iterations and 65 % after 14000: Gaussians are added until the 15000th, which is normal.",
		Assumed: "40000 iterations in 90 to 120 minutes, of which the growth takes 18 to 28; several scenes.",
		Ending:  WasNone,
		build:   densifyGaussians,
	},
	{
		Kind:    "gaussians-render-cache",
		Thread:  "https://github.com/graphdeco-inria/gaussian-splatting/issues/44",
		Told:    "Rendering 700 to 800 images starts at 4 to 5 GB and goes gradually to 14.5 on an A10; with a limit of 7.2 GB it works as well, as PyTorch caches.",
		Assumed: "Runs of 25 to 40 minutes.",
		Ending:  WasNone,
		build:   renderCache,
	},
	{
		Kind:    "dali-watermark",
		Thread:  "https://github.com/NVIDIA/DALI/issues/278",
		Told:    "On a GTX 1080 of 8 GB the memory grows slowly in training, and by hundreds of MB with a validation; after a couple of epochs the largest samples have been seen.",
		Assumed: "5.5 GB at the start, up to 1.3 GB more, half an hour to an hour an epoch.",
		Ending:  WasNone,
		build:   daliWatermark,
	},
	{
		Kind:    "translation-after-first-epoch",
		Thread:  "https://github.com/OpenNMT/OpenNMT-py/issues/492",
		Told:    "Training goes from 17 to 23 GB after the first epoch, because of the large batches of the validation.",
		Assumed: "24 GB, 40 to 100 minutes an epoch.",
		Ending:  WasNone,
		build:   firstValidation,
	},
	{
		Kind:    "segmentation-evaluation-doubles",
		Thread:  "https://github.com/tianrun-chen/SAM-Adapter-PyTorch/issues/28",
		Told:    "Training needs 28192 MiB, and twice as much from the first evaluation on.",
		Assumed: "80 GB, 20 to 50 minutes an epoch.",
		Ending:  WasNone,
		build:   evaluationDoubles,
	},
	{
		Kind:    "yolo-validation-fills-card",
		Thread:  "https://github.com/ultralytics/ultralytics/issues/7996",
		Told:    "On a 4070 SUPER of 12281 MiB training has 50 to 60 %, more towards the end of an epoch, and each validation fills the card.",
		Assumed: "2 to 7 minutes an epoch; that it goes back after each.",
		Ending:  WasNone,
		build:   validationFills,
	},
	{
		Kind:    "xwayland-resize-pool",
		Thread:  "https://github.com/NVIDIA/egl-wayland/issues/126",
		Told:    "Resizing windows makes the memory of Xwayland leap up, but it stops at about 1.3 GB: buffers that the driver keeps.",
		Assumed: "8 GB, 200 MB at first, a spell of resizing every 5 to 40 minutes.",
		Ending:  WasNone,
		build:   resizePool,
	},
	{
		Kind:    "kwin-stays-at-2500-mb",
		Thread:  "https://github.com/taj-ny/kwin-effects-forceblur/issues/108",
		Told:    "The compositor has 110 MB after boot, 2.5 GB after the browser was opened, and the same when it is closed; the driver does not free it.",
		Assumed: "12 GB, the browser opened again some times, with nothing on top.",
		Ending:  WasNone,
		build:   kwinStays,
	},
	{
		Kind:    "emulator-texture-cleanup",
		Thread:  "https://github.com/RPCS3/rpcs3/issues/13928",
		Told:    "A view of a game takes 250 MB a second until the card is full, then all that is unused is cleaned up, and so on without end; 1.1 to 1.6 GB are needed.",
		Assumed: "A Radeon of 24 GB, on which it goes on for ever as is told; others can crash; some minutes in that view, then others.",
		Ending:  WasNone,
		build:   textureCleanup,
	},
	{
		Kind:    "julia-pool-99-percent",
		Thread:  "https://github.com/QuantumSavory/QuantumClifford.jl/issues/164",
		Told:    "After a few runs 5.782 of 5.799 GiB are in use, 5.656 of which the pool of CUDA.jl has reserved and only 2.852 are live: expected, it is reclaimed when it is short.",
		Assumed: "A session of hours without the failure that made the reporter ask; the pool is emptied by hand now and then.",
		Ending:  WasNone,
		build:   juliaPool,
	},
	{
		Kind:    "tensorrt-static-context",
		Thread:  "https://github.com/NVIDIA/TensorRT-RTX/issues/14",
		Told:    "The first execution context leaves 4 to 14 MB, and the first run up to 6 more, which no later one adds to.",
		Assumed: "8 GB, a context for each request, 150 to 450 MB while it lives.",
		Ending:  WasNone,
		build:   staticContext,
	},
	{
		Kind:    "face-recognition-small-card",
		Thread:  "https://github.com/ageitgey/face_recognition/issues/868",
		Told:    "On a card of 2048 MB 52 % are in use before, 97 after the first face, 94 after the second, and the memory stays.",
		Assumed: "The same from then on, a face now and then.",
		Ending:  WasNone,
		build:   smallCard,
	},
	{
		Kind:    "onnx-arena-18081-mb",
		Thread:  "https://github.com/microsoft/onnxruntime/issues/14526",
		Told:    "A model of 4137 MB takes 18081 MB when it is loaded.",
		Assumed: "24 GB, when it starts, and steady requests.",
		Ending:  WasNone,
		build:   onnxArena,
	},
	{
		Kind:    "detector-crowded-images",
		Thread:  "https://github.com/facebookresearch/detectron2/issues/433",
		Told:    "On a TITAN X of 12 GB a training goes from 3 GB to 5 in some dozens of iterations, to 7 in some hundreds, and fails between the 3000th and 10000th: an image with many instances needs more.",
		Assumed: "Half a second an iteration; that one image ends it, so that no leak has filled the GPU; new runs.",
		Ending:  WasNone,
		build:   crowdedImages,
	},
	{
		Kind:    "notebook-freed-2-gib",
		Thread:  "https://github.com/pytorch/pytorch/issues/130162",
		Told:    "A notebook takes 2165 MiB, frees them after five seconds, and has them until its kernel is restarted: they are in the cache of the allocator.",
		Assumed: "6 GB, further cells that fit in it, a restart of the kernel every hour to three.",
		Ending:  WasNone,
		build:   notebookCache,
	},
	{
		Kind:    "crop-size-cache",
		Thread:  "https://github.com/CVCUDA/CV-CUDA/issues/192",
		Told:    "Cropping to random sizes lets the memory rise to some 2351 MB, cropping to certain sizes does not.",
		Assumed: "That it is the library's cache of objects by size, which has seen nearly all sizes after 1 to 3 hours; 8 GB.",
		Ending:  WasNone,
		build:   cropCache,
	},
}

// The builders follow in the order of the table, which says what each tells.

func xpraContexts(n *node) {
	n.on(4, 8)
	n.bare = true
	n.begins(n.answering("xpra", 350, 40, n.steadyLoad()), "xpra", func(p *process) {
		x := n.leak(p, 0, 0)
		x.born(false)
		var resize func()
		resize = func() {
			for i := range 8 + n.IntN(13) {
				p.after(float64(i)*0.6, func() { x.add(50*n.Between(0.9, 1.1), n.now) })
			}
			p.after(n.About(8, 40)*minutes, resize)
		}
		p.after(n.About(8, 40)*minutes, resize)
	})
}

func webuiFaces(n *node) {
	n.on(8, 6)
	n.userRuns(0, n.answering("webui", 3600, 0, nil), "webui", 1800, func(p *process, _ int) {
		p.rounds(round{
			rest: bounds{2, 10}, work: bounds{20, 45},
			need: bounds{600, 900}, keep: bounds{475, 525},
		})
	})
}

func entityDocuments(n *node) {
	n.on(8, 5)
	n.begins(n.answering("entities", 1500, 0, nil), "entities", func(p *process) {
		p.rounds(round{
			rest: bounds{10, 180}, work: bounds{1, 6},
			need: bounds{200, 600}, keep: bounds{700, 1100},
		})
	})
}

func voxtralMeeting(n *node) {
	n.on(11, 6)
	g := n.answering("voxtral", min(9728-n.driver, n.budget-900)-150, 150, nil)
	rate := (10762 - 9728) / 2000.0 * n.Between(0.9, 1.1)
	lump := n.Between(4, 20)
	n.userRuns(0, g, "voxtral", 1200, func(p *process, _ int) { n.losing(p, rate, lump) })
}

func doclingSlice(n *node) {
	n.on(12, 6)
	n.view.noSM = true // as nothing is told of a slice's utilization
	n.begins(n.answering("docling", n.Between(1700, 2300), 0, nil), "docling", func(p *process) {
		step := (p.room() - 500) / 4.4
		p.rounds(round{
			rest: bounds{20, 300}, work: bounds{20, 120},
			need: bounds{200, 500}, keep: bounds{0.95 * step, 1.05 * step},
		})
	})
}

func qwenSteps(n *node) {
	n.on(24, 14)
	step := n.Between(60, 150)
	rate := 10000 / (100 * step) * n.Between(0.95, 1.1)
	n.userRuns(0, n.toldTrainer(10000-n.driver), "finetune", 1800, func(p *process, _ int) {
		n.losesBySteps(p, rate, rate*step/64)
	})
}

func gameLearner(n *node) {
	n.on(11, 8)
	rate := 2 * n.Between(0.85, 1.15)
	n.userRuns(0, n.toldTrainer(n.Between(1300, 1700)), "learner", 1800, func(p *process, _ int) {
		n.losesBySteps(p, rate, 2)
	})
}

func galarioWorkers(n *node) {
	n.on(8, 6)
	group := n.name("mcmc")
	g := n.answering("mcmc", 290, 200, nil)
	g.work.spread = 0.02
	rate := 2 / (10 * n.Between(2, 6))
	var start func()
	start = func() {
		all, living := &crew{name: group}, 12
		for range living {
			p := n.launch(g, group, 0, func(p *process) { n.losing(p, rate, 2) })
			p.crew = all
			p.onEnd = func() {
				if living--; living == 0 {
					n.after(span(n.About(300, 3000)), start)
				}
			}
		}
	}
	n.after(span(n.Between(60, 900)), start)
}

func stoveEpochs(n *node) {
	n.on(11, 22)
	g := n.toldTrainer(7*1024 - n.driver)
	l := plan{epoch: n.Between(480, 1080), evaluation: n.Between(10, 60), checkpoint: n.Between(2, 10), wants: 0.4}
	each := n.canLose(&g) / n.Between(28, 33)
	n.userRuns(0, g, "train", 3600, func(p *process, _ int) { n.losesByEpoch(p, l, n.aboutSame(each)) })
}

func webglTerminals(n *node) {
	n.on(4, 12)
	n.bare = true
	n.serve(n.drawer("compositor", n.Between(200, 300)), "", n.aged(), nil)
	rest := max(1032-n.driver-250, 250)
	rate := 2 * 1500 / (n.Between(3, 5) * hours)
	n.begins(n.drawer("browser", rest), "", func(p *process) {
		x := n.leak(p, rate/p.load.mean, 2)
		x.load = p.load
		x.born(true)
	})
}

func imageToImage(n *node) {
	n.on(24, 14)
	n.begins(n.answering("invoke", 4900-n.driver, 0, nil), "bot", func(p *process) {
		p.rounds(round{
			rest: bounds{20, 600}, work: bounds{5, 25},
			need: bounds{200, 900}, keep: bounds{250, 600}, settle: 3000,
		})
	})
}

func minerDay(n *node) {
	n.slowly(8, 60)
	n.bare = true
	g := n.answering("xmr-stak", n.Between(3000, 5000), 0, nil)
	g.work.rate, g.work.sm = n.Between(10, 50), n.Between(0.9, 1)
	n.begins(g, "", n.filling(22*hours, 26*hours, n.About(1, 10)))
}

func mpiCache(n *node) {
	n.on(40, 8)
	g := n.answering("solver", n.Between(3000, 6000), 500, nil)
	long := n.Between(0.33, 1) * hours
	lump := n.Between(20, 160)
	n.userRuns(0, g, "mpi", 1800, func(p *process, _ int) { n.losing(p, p.room()/long, lump) })
}

func ratchetingFloor(n *node) {
	n.on(16, 14)
	g := n.reserving("llama-server", n.budget-n.Between(1200, 2200), 11000)
	g.load = nil
	n.begins(g, "llama", func(p *process) {
		p.rounds(round{
			rest: bounds{30, 900}, work: bounds{10, 120},
			need: bounds{50, 400}, keep: bounds{5, 250},
		})
	})
}

func textureOptimization(n *node) {
	n.on(16, 7)
	g := n.toldTrainer(n.Between(3000, 5000))
	iteration := n.Between(3, 10)
	rate := n.canLose(&g) / (iteration * n.Between(310, 380))
	n.userRuns(0, g, "mitsuba", 1500, func(p *process, _ int) { n.losesBySteps(p, rate, rate*iteration) })
}

func poseEstimation(n *node) {
	n.on(24, 6)
	second := n.Between(2, 4)
	each := (3.79 - 3.36) * 1024 / 500
	n.userRuns(0, n.toldTrainer(3.36*1024-n.driver), "mitsuba", 900, func(p *process, _ int) {
		n.losesBySteps(p, each*second, each)
		p.endsIn(n.About(2000, 8000) / second)
	})
}

func promptEmbedding(n *node) {
	n.on(12, 11)
	n.begins(n.answering("invoke", n.Between(3000, 4000), 0, nil), "invoke", func(p *process) {
		p.rounds(round{
			rest: bounds{40, 360}, work: bounds{8, 30},
			need: bounds{900, 1500}, keep: bounds{150, 170},
		})
	})
}

// doclingBatches is left with what it has when the three batches are done.
func doclingBatches(n *node) {
	n.on(40, 11)
	batches := []int{10, 20, 100}
	n.begins(n.answering("docling", n.Between(2500, 4000), 300, nil), "docling", func(p *process) {
		work, idle := p.act, activity{idle: p.act.idle}
		each := n.Between(0.85, 0.92) * p.room() / 130
		x := n.leak(p, 0, 0)
		x.born(false)
		var batch func(i int)
		batch = func(i int) {
			if i == len(batches) {
				p.quits(n.Between(0.5, 1.5) * hours)
				return
			}
			p.act = work
			file := n.Between(10, 25)
			for k := range batches[i] {
				p.after(float64(k+1)*file, func() { x.add(each*n.Between(0.6, 1.4), n.now) })
			}
			p.after(float64(batches[i])*file+2, func() {
				p.act = idle
				p.after(n.About(10, 50)*minutes, func() { batch(i + 1) })
			})
		}
		p.act = idle
		p.after(n.About(2, 20)*minutes, func() { batch(0) })
	})
}

func cloudBatches(n *node) {
	n.on(24, 12)
	n.withTenants(14000)
	batch := n.Between(3, 12)
	n.userRuns(0, n.toldTrainer(n.Between(2000, 4000)), "clouds", 2400, func(p *process, _ int) {
		n.losesBySteps(p, 2/batch, 2)
		p.endsIn(n.Between(3, 6) * hours)
	})
}

func monitorsOff(n *node) {
	n.onForDays(12, 48)
	n.bare = true
	n.serve(n.drawer("browser", n.Between(300, 700)), "", n.aged(), nil)
	p := n.launch(n.drawer("hyprland", n.Between(350, 700)), "", n.aged(), nil)
	x := n.leak(p, 0, 0)
	x.born(false)
	var off func()
	off = func() {
		x.add(200*n.Between(0.9, 1.1), n.now)
		p.after(n.Between(2, 5)*hours, off)
	}
	p.after(n.Between(1, 4)*hours, off)
}

func encoderCapabilities(n *node) {
	n.on(16, 20)
	clip := n.Between(15, 60)
	n.begins(n.answering("encode", 600, 150, nil), "encode", func(p *process) { n.losing(p, 2/clip, 2) })
}

// orphaned leaves a process behind when its parent has ended.
func (n *node) orphaned(p *process) {
	p.Group = ""
	p.freeze(Orphaned, n.drips())
}

func outlivesSlurm(n *node) {
	n.on(141, 10)
	p := n.launch(n.reserving("sglang::scheduler", 100998, 40000), n.name("sglang"), n.aged(), nil)
	next := n.toldTrainer(n.Between(60, 100) * 1024)
	l := n.plan()
	n.after(n.within(0.1, 0.35), func() {
		n.orphaned(p)
		n.after(span(n.About(60, 1200)), func() {
			n.inVain(3, next, "job", func() {
				n.after(span(n.Between(1, 4)*hours), func() {
					n.end(p)
					n.after(span(n.About(60, 900)), func() {
						n.launch(next, n.name("job"), 0, func(p *process) { p.train(l) })
					})
				})
			})
		})
	})
}

func orphanedContainer(n *node) {
	n.on(288, 10)
	n.bare = false
	p := n.launch(n.reserving("sglang", 168*1024*n.Between(0.98, 1.02), 70000), n.name("sglang"), n.aged(), nil)
	next := n.reserving("vllm", 0.85*288*1024, 70000)
	n.after(n.within(0.1, 0.35), func() {
		p.freeze(Alive, n.drips())
		n.after(span(n.About(300, 3000)), func() { n.inVain(2, next, "vllm", func() {}) })
		n.after(span(n.Between(3, 4.5)*hours), func() {
			n.end(p)
			n.after(span(n.About(60, 900)), func() { n.serve(next, n.name("vllm"), 0, nil) })
		})
	})
}

func removedContainer(n *node) {
	n.on(48, 10)
	sizes := []float64{n.Between(12, 15) * 1024, 0}
	sizes[1] = 22*1024 - sizes[0]
	start := func(age float64) (both []*process) {
		group := n.name("tts")
		for _, size := range sizes {
			both = append(both, n.launch(n.reserving("VLLM::Worker", size, 0.3*size), group, span(age), nil))
		}
		return both
	}
	both := start(n.About(600, 300000))
	n.after(n.within(0.1, 0.4), func() {
		for _, p := range both {
			n.orphaned(p)
		}
		n.after(span(n.Between(2, 10)*minutes), func() { start(0) })
		n.after(span(n.Between(1, 4)*hours), func() {
			for _, p := range both {
				n.end(p)
			}
		})
	})
}

// partialStart has two workers that wait for a third, which has failed.
func partialStart(n *node) {
	n.on(96, 9)
	group := n.name("diffusion")
	waits := n.answering("DiffusionWorker", 4371.0/2, 0, nil)
	waits.prep, waits.loading = n.Between(5, 15), n.Between(5, 20)
	n.after(n.within(0.03, 0.2), func() {
		ranks := []*process{}
		for range 3 {
			ranks = append(ranks, n.launch(waits, group, 0, nil))
		}
		n.after(span(waits.prep+waits.loading+n.Between(5, 20)), func() {
			n.end(ranks[1])
			ranks[0].freeze(Alive, n.drips())
			ranks[2].freeze(Alive, n.drips())
			n.after(span(n.Between(3, 30)*minutes), func() {
				for range 3 {
					n.serve(n.reserving("DiffusionWorker", n.Between(20000, 24000), 9000), group, 0, nil)
				}
			})
		})
	})
}

func runComplete(n *node) {
	n.on(80, 14)
	group := n.name("batch")
	size := min(73*1024-n.driver, n.budget)
	var run func()
	run = func() {
		p := n.launch(n.reserving("RayWorker", size, 0.3*size), group, 0, nil)
		n.after(span(n.Between(1, 2)*hours), func() {
			p.freeze(Alive, n.Between(0.7, 1))
			n.after(span(n.Between(0.5, 3)*hours), func() {
				n.end(p)
				n.after(span(n.About(300, 3600)), run)
			})
		})
	}
	n.after(span(n.Between(60, 1200)), run)
}

func crashedTorch(n *node) {
	n.on(12.35, 14)
	g := n.toldTrainer(min(11409-n.driver, n.budget))
	l := n.plan()
	p := n.launch(g, n.name("train"), 0, func(p *process) { p.train(l) })
	n.after(span(n.Between(1, 3)*hours), func() {
		p.leaves, p.staysFor = 1, span(n.Between(2, 6)*hours)
		n.end(p)
		n.after(p.staysFor+span(n.About(120, 2400)), func() {
			n.launch(g, n.name("train"), 0, func(p *process) { p.train(l) })
		})
	})
}

func stateD(n *node) {
	n.slowly(12, 36)
	n.bare = false
	l := n.plan()
	held := n.toldTrainer(n.Between(6000, 9000))
	p := n.launch(held, n.name("trial"), n.aged(), func(p *process) { p.train(l) })
	small := n.toldTrainer(n.Between(1200, 2000))
	n.after(span(n.Between(2, 6)*hours), func() {
		p.freeze(Unkillable, 0)
		n.nowAndThen(small, 900, 5400, 2400)
		n.after(span(n.Between(16, 24)*hours), n.reset)
	})
}

// atomWorkers is killed, tried again in vain, and started in a new container, twice.
func atomWorkers(n *node) {
	n.on(288, 12)
	n.bare = false
	g := n.reserving("ModelRunner", 275000/1.048576*n.Between(0.99, 1.01), 120000)
	kills := 0
	var start func(age float64)
	start = func(age float64) {
		p := n.launch(g, n.name("atom"), span(age), nil)
		if kills++; kills > 2 {
			return
		}
		n.after(span(n.Between(1.5, 3.5)*hours), func() {
			p.freeze(Alive, n.drips())
			n.after(span(n.About(60, 600)), func() {
				n.inVain(1+n.IntN(3), g, "atom", func() {
					n.after(span(n.About(10, 60)*minutes), func() {
						n.end(p)
						n.after(span(n.Between(30, 200)), func() { start(0) })
					})
				})
			})
		})
	}
	start(n.About(600, 300000))
}

func densifyGaussians(n *node) {
	n.on(24, 11)
	card := 24.0 * 1024
	grown := (0.705 - 0.15) * card
	n.userRuns(0, n.toldTrainer(0.15*card-n.driver), "splat", 1200, func(p *process, _ int) {
		p.after(n.Between(240, 400), func() { p.needsMore(grown, n.Between(18, 28)*minutes) })
		p.endsIn(n.Between(90, 120) * minutes)
	})
}

func renderCache(n *node) {
	n.on(24, 7)
	g := n.creepingTrainer(n.Between(4000, 5000), 14.5*1024-n.driver, n.Between(0.2, 0.3))
	n.userRuns(0, g, "render", 1800, func(p *process, _ int) { p.endsIn(n.Between(25, 40) * minutes) })
}

func daliWatermark(n *node) {
	n.on(8, 18)
	l := plan{epoch: n.Between(1800, 3600), evaluation: n.Between(90, 240), checkpoint: n.Between(2, 8), wants: 0.6}
	g := n.creepingTrainer(5500-n.driver, 6000-n.driver, 2*l.epoch/3600)
	n.userRuns(1, g, "imagenet", 3600, func(p *process, _ int) {
		seen := 0
		l.evaluating = func(p *process, on bool) {
			if seen < 3 && on {
				p.needsMore([]float64{450, 250, 100}[seen]*n.Between(0.8, 1), 20)
				seen++
			}
		}
		p.train(l)
	})
}

// grownByEvaluation trains by a plan; from the first evaluation on the allocator
// has so many MiB more.
func (p *process) grownByEvaluation(l plan, more float64) {
	first := true
	l.evaluating = func(p *process, on bool) {
		if first && on {
			first = false
			p.needsMore(more, 15)
		}
	}
	p.train(l)
}

func firstValidation(n *node) {
	n.on(24, 20)
	l := plan{epoch: n.Between(2400, 6000), evaluation: n.Between(60, 300), checkpoint: n.Between(5, 20), wants: 0.5}
	n.userRuns(1, n.toldTrainer(17*1024-n.driver), "translate", 3600, func(p *process, _ int) {
		p.grownByEvaluation(l, min(6*1024, n.budget-17*1024+n.driver))
	})
}

func evaluationDoubles(n *node) {
	n.on(80, 14)
	l := plan{epoch: n.Between(1200, 3000), evaluation: n.Between(60, 400), checkpoint: n.Between(3, 15), wants: 0.7}
	n.userRuns(1, n.toldTrainer(28192-n.driver), "segment", 3600, func(p *process, _ int) {
		p.grownByEvaluation(l, 28192)
	})
}

func validationFills(n *node) {
	n.on(12, 10)
	half := 0.5*12281 - n.driver
	g := n.toldTrainer(half)
	g.caching = false
	l := plan{epoch: n.Between(120, 420), evaluation: n.Between(15, 60), checkpoint: 2, wants: 1}
	n.userRuns(1, g, "yolo", 3600, func(p *process, _ int) {
		base := p.goal
		p.size = n.budget - n.Between(10, 60)
		rise := func() { p.to(base+0.1*12281, 1.1*l.epoch) }
		l.evaluating = func(p *process, on bool) {
			if on {
				p.to(n.budget, 3)
				return
			}
			p.to(base, 1)
			p.after(3, rise)
		}
		rise()
		p.train(l)
	})
}

func resizePool(n *node) {
	n.on(8, 12)
	n.bare = true
	n.serve(n.drawer("browser", n.Between(300, 600)), "", n.aged(), nil)
	p := n.launch(n.drawer("Xwayland", n.Between(150, 250)), "", n.aged(), nil)
	p.size = 1330
	var resize func()
	resize = func() {
		p.to(min(p.goal+n.Between(60, 400), 1330), n.Between(3, 30))
		p.after(n.About(5, 40)*minutes, resize)
	}
	p.after(n.About(5, 60)*minutes, resize)
}

func kwinStays(n *node) {
	n.on(12, 10)
	n.bare = true
	p := n.launch(n.drawer("kwin_wayland", 110), "", 0, nil)
	more := 2500.0 - 110
	browser := n.drawer("browser", n.Between(300, 600))
	var open func()
	open = func() {
		if more > 0 {
			p.needsMore(more, n.Between(10, 120))
			more = 0
		}
		w := n.launch(browser, "", 0, nil)
		w.endsIn(n.About(10, 120) * minutes)
		w.onEnd = func() { n.after(span(n.About(10, 60)*minutes), open) }
	}
	n.after(span(n.Between(10, 60)*minutes), open)
}

// textureCleanup saws as long as the view is looked at.
func textureCleanup(n *node) {
	n.on(24, 6)
	n.bare = true
	n.serve(n.drawer("desktop", n.Between(300, 700)), "", n.aged(), nil)
	n.budget -= 900
	n.begins(n.drawer("rpcs3", n.Between(1100, 1600)), "", func(p *process) {
		base, top := p.goal, n.budget
		p.size = top
		var look func(left int)
		look = func(left int) {
			if left == 0 {
				p.after(n.About(2, 20)*minutes, func() { look(3 + n.IntN(12)) })
				return
			}
			rise := (top - base) / (250 * n.Between(0.85, 1.15))
			p.to(top, rise)
			p.after(rise, func() {
				p.to(base, 1)
				p.after(n.Between(1.5, 4), func() { look(left - 1) })
			})
		}
		look(0)
	})
}

func juliaPool(n *node) {
	n.on(6, 9)
	g := n.notebook(n.Between(700, 1000))
	g.caching, g.name = false, "julia"
	n.userRuns(2, g, "julia", 1800, func(p *process, _ int) {
		base, top := p.goal, n.budget
		p.size = top - n.Between(2, 15)
		p.cells(5400, func(p *process, _ float64) {
			p.to(min(top, p.goal+n.Between(900, 2850)), 2)
			if n.Chance(0.1) {
				p.to(base, 1)
			}
		})
		p.endsIn(n.Between(6, 10) * hours)
	})
}

func staticContext(n *node) {
	n.on(8, 10)
	left := n.Between(4, 14) + n.Between(3, 6)
	n.begins(n.answering("detect", n.Between(500, 900), 0, nil), "detect", func(p *process) {
		p.rounds(round{rest: bounds{2, 120}, work: bounds{2, 30}, need: bounds{150, 450}, settle: left})
	})
}

func smallCard(n *node) {
	n.on(2.37, 5)
	card, most := float64(n.labels.Capacity)/mib, float64(n.limit)/mib-30
	before := 0.524 * card
	g := n.answering("faces", before-n.driver-10, 0, nil)
	gap := n.About(20, 600)
	n.begins(g, "faces", func(p *process) {
		p.climbs(gap, min(0.9698*card, most)-before, min(0.9355*card, most)-before)
	})
}

func onnxArena(n *node) {
	n.on(24, 8)
	n.begins(n.reserving("onnx", 18081-n.driver, 4137), "onnx", nil)
}

func crowdedImages(n *node) {
	n.on(12, 9)
	iteration := n.Between(0.35, 0.7)
	n.userRuns(0, n.toldTrainer(3072-n.driver), "detect", 1800, func(p *process, _ int) {
		p.after(n.Between(24, 60)*iteration, func() { p.needsMore(2048, 2) })
		p.after(n.Between(100, 500)*iteration, func() { p.needsMore(2048*n.Between(0.9, 1.1), 2) })
		p.endsIn(n.About(3000, 10000) * iteration)
	})
}

func notebookCache(n *node) {
	n.on(6, 9)
	g := n.notebook(2165)
	g.context = n.Between(100, 117)
	g.weights, g.work.spread = 0, 0.002
	g.work.need = 2048
	n.torch(&g)
	g.chunk = 2
	n.userRuns(0, g, "notebook", 1200, func(p *process, _ int) {
		p.after(5, func() { p.reserved = 2165 })
		p.cells(3600, nil)
		p.endsIn(n.Between(1, 3) * hours)
	})
}

func cropCache(n *node) {
	n.on(8, 10)
	g := n.answering("crop", n.Between(900, 1100), 150, n.steadyLoad())
	g.most, g.pace = 2351-n.driver-g.context-g.weights-150, 3/(n.Between(1, 3)*hours)
	n.begins(g, "crop", nil)
}
