// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import "time"

// training are the incidents of what computes by itself: training, notebooks,
// batch jobs; and of processes and memory that are left behind.
var training = []Incident{
	// Leaks.
	{
		Kind: "lightning-forecaster-80-epochs", Thread: "https://github.com/QData/spacetimeformer/issues/23",
		Told: "Training with Lightning runs out of memory in epoch 80, after 8 hours; " +
			"an epoch has 858 steps at 2.5 per second.",
		Assumed: "24 GiB, 5 to 11 GiB at the start, the same loss at each step; started again by hand.",
		Ending:  Fills,
		build:   forecasterEpochs,
	},
	{
		Kind: "lightning-22-to-68-percent", Thread: "https://github.com/Lightning-AI/pytorch-lightning/issues/12703",
		Told: "The GPU is 22 % full when training with a loss over a memory bank begins, and 68 % full 900 steps later.",
		Assumed: "16 to 32 GiB, 2 to 6 s a step, the same loss at each; " +
			"the user stops at 68 to 75 % and tries again.",
		Ending: GoesOn,
		build:  lightningPercent,
	},
	{
		Kind: "metrics-bootstrap-validation", Thread: "https://github.com/behavioral-data/Homekit2020/issues/13",
		Told: "An A40 with 48 GB is out of memory after 125 epochs; " +
			"what is lost is lost in the bootstraps of the metrics while it validates.",
		Assumed: "Epochs of 3 to 7 min, of which a tenth to a quarter as long for validation; 4 to 10 GiB at the start.",
		Ending:  Fills,
		build:   metricsBootstrap,
	},
	{
		Kind: "evaluation-forward-graph", Thread: "https://github.com/yalesong/pvse/issues/30",
		Told:    "An evaluation script loses at each forward pass and is out of memory at about 7700 samples on 24 GB.",
		Assumed: "1 to 4 samples a second, 2 to 4.5 GiB for the model; tried three times.",
		Ending:  Fills,
		build:   evaluationForward,
	},
	{
		Kind: "superresolution-17-epochs", Thread: "https://github.com/isaaccorley/torchrs/issues/24",
		Told:    "Training in a hosted notebook on a T4 (15.9 GiB) is out of memory at epoch 17.",
		Assumed: "Epochs of 7 to 15 min which keep the same each, 3 to 6 GiB at the start.",
		Ending:  Fills,
		build:   superresolutionEpochs,
	},
	{
		Kind: "accumulated-loss-tensors", Thread: "https://github.com/microsoft/SpareNet/issues/12",
		Told: "Losses are summed up with their graph: memory of RTX 2080 Ti with 10.7 GB grows slowly and steadily, " +
			"and is full after about 2 epochs.",
		Assumed: "Epochs of 2 to 4 h, 5 to 7 GiB at the start.",
		Ending:  Fills,
		build:   accumulatedLoss,
	},
	{
		Kind: "waves-100-mb-an-epoch", Thread: "https://github.com/dingo-gw/dingo/issues/60",
		Told:    "Memory grows slowly within each epoch, by about 100 MB in all of it.",
		Assumed: "40 GiB, 8 to 16 GiB at the start, epochs of 3 to 7 min, other tenants; stopped before it is full.",
		Ending:  GoesOn,
		build:   wavesEpochs,
	},
	{
		Kind: "fsdp-full-state-save", Thread: "https://github.com/axolotl-ai-cloud/axolotl/issues/3596",
		Told: "With 81559 MiB, 49258 MiB are used before the first checkpoint of the full state, " +
			"61558 MiB after it, 76124 MiB after the second; the third is out of memory.",
		Assumed: "A checkpoint every 40 to 90 min.",
		Ending:  Fills,
		build:   fullStateSave,
	},
	{
		Kind: "hsdp-frequent-checkpoints", Thread: "https://github.com/pytorch/pytorch/issues/103884",
		Told: "A model of 3 B parameters is saved every 5 steps; in 100 steps the reserved memory grows by 10 GB " +
			"and is never given back, in the end it is out of memory.",
		Assumed: "80 GiB, 24 to 30 GiB at the start, 8 to 16 s a step, 10 to 30 s a checkpoint.",
		Ending:  Fills,
		build:   hsdpCheckpoints,
	},
	{
		Kind: "radiance-gan-2-mib-steps", Thread: "https://github.com/autonomousvision/graf/issues/6",
		Told: "A GAN on a TITAN X (12196 MiB) grows from 8400 MiB on by 2 MiB at a time until it is out of memory " +
			"at iteration 7990, at 1.1 s each; in another environment it does not.",
		Assumed: "How long the user looks for the cause.",
		Ending:  Fills,
		build:   radianceGAN,
	},
	{
		Kind: "fastai-unet-fine-tune", Thread: "https://github.com/fastai/fastai/issues/2946",
		Told: "Fine-tuning a U-Net grows from 2065 MiB to 2575 MiB in 50 epochs, " +
			"by a step after about every 15; layers kept a reference to their input.",
		Assumed: "8 to 24 GiB, epochs of 40 to 90 s, other tenants; run four times.",
		Ending:  GoesOn,
		build:   unetFineTune,
	},
	{
		Kind: "vocoder-end-of-epoch", Thread: "https://github.com/open-mmlab/Amphion/issues/181",
		Told: "A vocoder GAN on an L4 takes less than half of the memory at first and much more towards " +
			"the end of the first epoch of 2375 steps, where it is out of memory.",
		Assumed: "0.9 to 1.8 s a step; a seventh of the pace in the first 60 % of the epoch; started again by hand.",
		Ending:  Fills,
		build:   vocoderEpoch,
	},
	{
		Kind: "verl-rollouts-55-steps", Thread: "https://github.com/verl-project/verl/issues/1232",
		Told: "Reinforcement learning of a model of 7 B parameters on H100 with 80 GB, where 60 % are for the rollouts, " +
			"is out of memory after 50 to 60 steps.",
		Assumed: "Steps of 4 to 7 min, 60 to 64 GiB at the start; started again by hand.",
		Ending:  Fills,
		build:   verlSteps,
	},
	{
		Kind: "simulator-disabled-gc", Thread: "https://github.com/NVlabs/GR00T-WholeBodyControl/issues/220",
		Told: "A simulator has switched off Python's garbage collector: PPO on an A800 with 80 GB has 4.48 GB after " +
			"the first iteration and loses 3.41 GB at each, out of memory within minutes; mended, it is flat for 10 hours.",
		Assumed: "10 to 25 s an iteration, 8 to 14 GiB for the simulation, three to five tries before it is mended.",
		Ending:  Fills,
		build:   disabledGC,
	},
	{
		Kind: "simulation-stop-and-play", Thread: "https://github.com/isaac-sim/IsaacSim/issues/812",
		Told: "Each stop and start of a simulation keeps 0.1 GiB, from 1.5 to 3.5 GiB in all, " +
			"until the application is started again.",
		Assumed: "8 GiB; seconds to a quarter of an hour for each cycle, and breaks as long.",
		Ending:  GoesOn,
		build:   stopAndPlay,
	},
	{
		Kind: "umap-in-a-loop", Thread: "https://github.com/NVIDIA/cuml/issues/4068",
		Told: "Fits of UMAP one after another: memory piles up over some, most of it is collected, not all, " +
			"and after 641 fits in 20 minutes it is out of memory.",
		Assumed: "A T4 with 16 GB; 0.5 to 1.5 GiB are collected every 15 to 40 s; run four times.",
		Ending:  Fills,
		build:   umapLoop,
	},
	{
		Kind: "forecasting-optuna-trials", Thread: "https://github.com/sktime/pytorch-forecasting/issues/1161",
		Told:    "A search of 100 trials in one process runs out of memory on a GPU of more than 30 GB.",
		Assumed: "Out of memory in trial 70 to 98, trials of 2.5 to 6 min, 2 to 5 GiB for one.",
		Ending:  Fills,
		build:   forecastingTrials,
	},
	{
		Kind: "bart-search-eighth-trial", Thread: "https://github.com/huggingface/transformers/issues/9929",
		Told: "A search with the Trainer keeps the model of each trial: number 8 fails on 14.76 GiB, " +
			"of which 13.66 GiB are allocated.",
		Assumed: "Trials of 20 to 50 min, about the same kept of each; started again by hand.",
		Ending:  Fills,
		build:   searchKeepsModels,
	},
	{
		Kind: "xorg-steam-client", Thread: "https://github.com/ValveSoftware/steam-for-linux/issues/9862",
		Told: "With the client of a game shop running, Xorg accumulates several GB on an RTX 3080 Ti within days, " +
			"until games stutter and crash.",
		Assumed: "12 GiB, 2.5 to 4.5 GB in 60 hours; a game of 3 to 5 GB for some hours now and then.",
		Ending:  GoesOn,
		build:   xorgSteam,
	},
	{
		Kind: "video-decoder-ghost", Thread: "https://github.com/elFarto/nvidia-vaapi-driver/issues/146",
		Told: "Each time a video stream in the browser is left and started again, 10 MB come back and 80 MB are taken. " +
			"No process is listed with that memory; it is free when the browser is closed.",
		Assumed: "8 GiB, a restart every 2 to 8 min, closed after 25 to 60.",
		Ending:  GoesOn,
		build:   videoGhost,
	},
	{
		Kind: "compositor-70-mb-a-window", Thread: "https://github.com/niri-wm/niri/issues/4372",
		Told: "Each window of a browser that is opened adds 70 MB to the compositor, " +
			"on an RTX 5060 Ti with 16 GB, and its end does not give them back.",
		Assumed: "A window every 10 to 40 min for a day.",
		Ending:  GoesOn,
		build:   compositorWindows,
	},
	{
		Kind: "robot-arm-after-200-iterations", Thread: "https://github.com/real-stanford/umi-on-legs/issues/8",
		Told: "On an RTX 4090, memory is constant for 200 iterations and then grows for several hundred " +
			"until training crashes.",
		Assumed: "3 to 6 s an iteration, 400 to 700 from the onset to the crash, 9 to 14 GiB before.",
		Ending:  Fills,
		build:   robotArm,
	},
	{
		Kind: "boosting-fit-again", Thread: "https://github.com/dmlc/xgboost/issues/3045",
		Told: "Each fit of gradient boosting in a notebook keeps its memory; " +
			"on 16 GB the same fit cannot be run twice, and the kernel crashes.",
		Assumed: "70 to 85 % of what is free kept of a fit, fits of seconds to minutes; again half an hour later.",
		Ending:  Fills,
		build:   boostingFits,
	},
	{
		Kind: "dynamics-contexts", Thread: "https://github.com/OpenFreeEnergy/openfe/pull/354",
		Told: "A service computes free energies one after another and leaves contexts of the simulation behind; " +
			"after many, creating arrays is out of memory. Jobs of up to 24 hours mostly escape.",
		Assumed: "11 GiB, 20 to 50 min for each, out of memory after 27 to 44 h; started again by itself.",
		Ending:  Fills,
		build:   dynamicsContexts,
	},

	// Memory that is held after the work has ended.
	{
		Kind: "driving-interrupted", Thread: "https://github.com/OpenDriveLab/UniAD/issues/180",
		Told: "Ctrl-C ends a training, but 17323 of 24259 MiB on an RTX 3090 stay used and the next run is out of " +
			"memory, until the rest is killed by hand.",
		Assumed: "Interrupted after 15 to 60 min, two runs in vain, killed after half an hour to three hours.",
		Ending:  Holds,
		build:   drivingInterrupted,
	},
	{
		Kind: "mxnet-unknown-error", Thread: "https://github.com/apache/mxnet/issues/4242",
		Told: "A training became a zombie while its child for input runs on; " +
			"the driver lists 5371 MiB for it under the name of an unknown error.",
		Assumed: "12 GiB, jobs of others beside it; it stays until the end.",
		Ending:  Holds,
		build:   mxnetZombie,
	},
	{
		Kind: "ddp-uninterruptible", Thread: "https://github.com/pytorch/pytorch/issues/12166",
		Told: "After Ctrl-C one process of distributed training on P100 stays in state D, " +
			"cannot be killed, and the machine has to be started again.",
		Assumed: "16 GiB, 8 to 13 GiB of them in use; the list of processes stays readable; restart after 2 to 7 h.",
		Ending:  Holds,
		build:   ddpUnkillable,
	},
	{
		Kind: "imagenet-defunct", Thread: "https://github.com/pytorch/examples/issues/137",
		Told:    "One time in ten that a training is killed, its main process stays defunct and its memory is not released.",
		Assumed: "12 GiB, runs of 1 to 2.5 h with 3.5 to 5 GiB, one bad kill; a reset of the GPU hours later.",
		Ending:  Holds,
		build:   imagenetDefunct,
	},
	{
		Kind: "editing-no-such-process", Thread: "https://github.com/qizhou000/VisEdit/issues/5",
		Told: "A run on an A100 that was stopped when memory was short leaves 10151 of 81920 MiB used; " +
			"no process can be found that has them.",
		Assumed: "70 to 76 GiB before; other runs go on in what is left.",
		Ending:  Holds,
		build:   noSuchProcess,
	},
	{
		Kind: "sweep-agent-kill", Thread: "https://github.com/wandb/wandb/issues/1247",
		Told: "Every so often a trial that a sweep's agent ends does not give all its memory back, " +
			"no process is listed with it, and only a restart of the machine helps.",
		Assumed: "24 GiB, trials of 10 to 60 min with 4 to 7 GiB, one or two such ends in 16 h, 60 to 100 % left.",
		Ending:  Holds,
		build:   sweepAgent,
	},
	{
		Kind: "notebook-network-cut", Thread: "https://github.com/jupyter/notebook/issues/5421",
		Told:    "A remote notebook was cut off: 8525 of 11019 MiB of an RTX 2080 Ti stay used, and no process has them.",
		Assumed: "Cut off after 1 to 3 h, free again 4 to 8 h later.",
		Ending:  Holds,
		build:   notebookCut,
	},
	{
		Kind: "ray-actor-finished", Thread: "https://github.com/ray-project/ray/issues/11608",
		Told:    "After training in an actor 2338 MiB stay used with no process listed, until all of Ray is killed.",
		Assumed: "11 GiB, trainings of 30 to 80 min, killed 1 to 4 h later, then the same again.",
		Ending:  Holds,
		build:   rayActor,
	},
	{
		Kind: "ray-driver-exit", Thread: "https://github.com/ray-project/ray/issues/376",
		Told:    "The driver has ended and its workers have not: each K80 has 11283 of 11439 MiB in use and does nothing.",
		Assumed: "Trainings of 1 to 2 h, two runs in vain, all stopped by hand 1 to 4 h later.",
		Ending:  Holds,
		build:   rayDriverExit,
	},
	{
		Kind: "slurm-cancelled-loaders", Thread: "https://github.com/GaTech-RL2/EgoVerse/pull/682",
		Told: "Loader processes outlive three cancelled jobs and pin about 39 GiB on 7 of 8 GPUs; " +
			"the driver lists processes that are not there any more.",
		Assumed: "80 GiB, jobs of 2 to 4 h, of which the first leaves memory on this GPU; sometimes cleared after hours.",
		Ending:  Holds,
		build:   cancelledLoaders,
	},
	{
		Kind: "rollout-shard-orphan", Thread: "https://github.com/NVIDIA-NeMo/RL/pull/3592",
		Told: "A shard for rollouts on GB200 was killed and its engine keeps 115 of 184 GiB; " +
			"five restarts in 370 s do not find room.",
		Assumed: "A trainer of 20 to 35 GiB goes on beside it; the job ends 1 to 4 h later.",
		Ending:  Holds,
		build:   rolloutOrphan,
	},

	// What was none.
	{
		Kind: "ranks-on-every-gpu", Thread: "https://github.com/Lightning-AI/pytorch-lightning/issues/2426",
		Told: "Each of 8 ranks has 24409 MiB on its own GPU and 933 MiB on each of the others: " +
			"contexts that are opened once.",
		Assumed: "32 GiB, jobs of 3 to 5 h.",
		Ending:  WasNone,
		build:   ranksEverywhere,
	},
	{
		Kind: "second-iteration-optimizer", Thread: "https://github.com/git-disl/recap/issues/2",
		Told:    "2400 MB in the first iteration and 2800 MB from the second on: the states of the optimizer.",
		Assumed: "8 to 24 GiB, iterations of 2 to 10 min, runs of 1 to 3 h, other tenants.",
		Ending:  WasNone,
		build:   secondIteration,
	},
	{
		Kind: "first-iterations-segmentation", Thread: "https://github.com/pytorch/pytorch/issues/1509",
		Told: "On 12 GB the first iterations have 2934, 4413, 4433, 4537 MB and all others the same; " +
			"with cuDNN 1686 and then 1791 MB.",
		Assumed: "1 to 4 s for these iterations, runs of 20 to 60 min, by turns.",
		Ending:  WasNone,
		build:   firstIterations,
	},
	{
		Kind: "skeleton-evaluation-epoch", Thread: "https://github.com/open-mmlab/mmskeleton/issues/94",
		Told:    "2697 MiB in each epoch until the first evaluation, every tenth epoch, and 2845 MiB after it.",
		Assumed: "12 GiB, epochs of 5 to 12 min; no more than that comes later.",
		Ending:  WasNone,
		build:   skeletonEvaluation,
	},
	{
		Kind: "point-cloud-varies", Thread: "https://github.com/ayushjain1144/odin/issues/17",
		Told: "59464 MB in the first 150 iterations and 63285 MB later: the number of points varies. " +
			"The cache is emptied after each step.",
		Assumed: "80 GiB, the highest is reached within some hours.",
		Ending:  WasNone,
		build:   pointCloud,
	},
	{
		Kind: "speech-reserved-constant", Thread: "https://github.com/rwth-i6/returnn/issues/1478",
		Told:    "20.4 GB are reserved at all times while 2.7 to 18.8 GB are allocated, as sequences differ in length.",
		Assumed: "24 GiB, the highest within the first hour.",
		Ending:  WasNone,
		build:   speechReserved,
	},
	{
		Kind: "detector-mosaic-creep", Thread: "https://github.com/Intellindust-AI-Lab/DEIMv2/issues/131",
		Told:    "Training on RTX 4090 creeps from 6 to 9 GB, as augmented images have more boxes, and never runs out.",
		Assumed: "Half of it in 1.5 to 3 h, ever more slowly; other tenants.",
		Ending:  WasNone,
		build:   detectorMosaic,
	},
	{
		Kind: "maskformer-8-to-16-gb", Thread: "https://github.com/open-mmlab/mmdetection/issues/8640",
		Told:    "The log of a training begins with 8 GB and ends with 16 GB: images are resized at random.",
		Assumed: "32 GiB, 38 h of which the last ones are flat; then it ends.",
		Ending:  WasNone,
		build:   maskformerResize,
	},
	{
		Kind: "yolo-instances", Thread: "https://github.com/ultralytics/ultralytics/issues/730",
		Told:    "2.8 GB in epochs 2 to 5 and 3.92 GB in epoch 58 on an RTX 3090: it depends on the objects in a batch.",
		Assumed: "Epochs of 1 to 3 min, 150 to 200 in all, other tenants.",
		Ending:  WasNone,
		build:   yoloInstances,
	},
	{
		Kind: "yolo-first-epoch", Thread: "https://github.com/WongKinYiu/yolov7/issues/1354",
		Told:    "7.49 GB in the first epoch and 5.66 to 5.93 GB in all that follow.",
		Assumed: "12 GiB, epochs of 3 to 8 min; started twice.",
		Ending:  WasNone,
		build:   yoloFirstEpoch,
	},
	{
		Kind: "splatter-rasterizer", Thread: "https://github.com/szymanowiczs/splatter-image/issues/59",
		Told: "9 GB at the beginning and 13 to 14 GB later, by where the rasterizer finds the shapes; " +
			"it trains stably for long.",
		Assumed: "24 GiB, most of it in the first 3 to 5 h.",
		Ending:  WasNone,
		build:   splatterRasterizer,
	},
	{
		Kind: "lora-epoch-spike", Thread: "https://github.com/Nerogar/OneTrainer/issues/928",
		Told:    "10 GB; after each epoch but the first 14 GB for 10 to 20 steps, and then 10 GB again.",
		Assumed: "16 GiB, 5 to 10 s a step, epochs of 10 to 25 min.",
		Ending:  WasNone,
		build:   loraSpike,
	},
	{
		Kind: "jax-import-60-gb", Thread: "https://github.com/MichaelTMatthews/Craftax/issues/28",
		Told:    "An import takes 60 GB of an H100: JAX takes three quarters of a GPU when it begins.",
		Assumed: "Runs of 1 to 3 h one after another.",
		Ending:  WasNone,
		build:   jaxImport,
	},
	{
		Kind: "jax-notebook-prealloc", Thread: "https://github.com/jax-ml/jax/issues/7046",
		Told:    "One cell takes an RTX 2070 with a desktop from 1250 to 7523 MB within 2 s, and it stays there.",
		Assumed: "Cells now and then for hours, kernel ended and started again twice.",
		Ending:  WasNone,
		build:   jaxNotebook,
	},
	{
		Kind: "tensorflow-until-exit", Thread: "https://github.com/tensorflow/tensorflow/issues/1578",
		Told:    "Sessions of a moment, with 20 s of sleep between them, keep 5843 of 6143 MiB until the program exits.",
		Assumed: "Programs of 1 to 3 h.",
		Ending:  WasNone,
		build:   tensorflowExit,
	},
	{
		Kind: "catboost-idle-kernels", Thread: "https://github.com/catboost/catboost/issues/619",
		Told:    "After a fit on an RTX 2080 Ti each notebook keeps 200 MiB until its kernel is shut down.",
		Assumed: "Four to six kernels opened one after another, fits with 0.4 to 1.2 GiB now and then.",
		Ending:  WasNone,
		build:   catboostKernels,
	},
	{
		Kind: "fastai-notebook-kept", Thread: "https://github.com/fastai/fastai/issues/770",
		Told:    "After a fit in a notebook 6745 of 7618 MiB of an M60 stay with the learner.",
		Assumed: "A fit of 1 to 2 h, a break, then other cells in the same kernel.",
		Ending:  WasNone,
		build:   fastaiKept,
	},
	{
		Kind: "cupy-pool", Thread: "https://github.com/cupy/cupy/issues/8478",
		Told:    "An array of 4 GB is deleted and its memory stays with the process: the pool keeps it for the next.",
		Assumed: "12 GiB, such cells now and then for hours; the pool is emptied once.",
		Ending:  WasNone,
		build:   cupyPool,
	},
	{
		Kind: "compositor-capped", Thread: "https://github.com/WayfireWM/wayfire/issues/2396",
		Told: "Resizing windows on an RTX 3090 drives the memory of the compositor up fast, to 2500 MB and no further; " +
			"after a while it is sometimes given back.",
		Assumed: "A spell of it every 20 to 90 min.",
		Ending:  WasNone,
		build:   compositorCapped,
	},
}

// onForDays is on for stories of more than a day: they are sampled every 10 or 15 s.
func (n *node) onForDays(gibibytes, hours float64) {
	n.dt = n.Pick([]float64{10, 15})
	n.labels.Interval = span(n.dt)
	n.last = -n.labels.Interval
	n.on(gibibytes, hours)
}

// toldTrainer is a training whose size is told: it differs from it by some percent only.
func (n *node) toldTrainer(size float64) program {
	g := n.trainer(size)
	room := g.work.need * (1 + 2.5*g.work.spread)
	g.work.spread = n.Between(0.002, 0.01)
	g.work.need = room / (1 + 2.5*g.work.spread)
	return g
}

// canLose is what a program of this size can lose until memory is short, in MiB.
func (n *node) canLose(g *program) float64 { return n.budget + 100 - g.size() }

// withTenants puts tenants beside something that needs so much.
func (n *node) withTenants(size float64) {
	n.budget -= size + 200
	n.some()
}

// userRuns starts a program soon, and again some time after each end, as its user
// does, so many times, or without end for 0. ready gets the number of the run.
func (n *node) userRuns(times int, g program, what string, pause float64, ready func(p *process, run int)) {
	run := 0
	group := n.name(what)
	var start func()
	start = func() {
		if times > 0 && run >= times {
			return
		}
		number := run
		run++
		p := n.launch(g, group, 0, func(p *process) { ready(p, number) })
		p.onEnd = func() { n.after(span(n.About(pause/2, 2*pause)), start) }
	}
	n.after(min(n.within(0.005, 0.03), 20*time.Minute), start)
}

// losesBySteps lets a process lose at a constant rate in MiB/s, so many MiB at a time.
func (n *node) losesBySteps(p *process, rate, lump float64) {
	x := n.leak(p, rate, lump)
	x.born(true)
	x.judge()
}

// losesByEpoch lets a process train by a plan and keep some MiB of each epoch.
func (n *node) losesByEpoch(p *process, l plan, keeps func(epoch int) float64) {
	x := n.leak(p, 0, 0)
	x.born(false)
	epoch := 0
	l.done = func(*process) {
		epoch++
		if more := keeps(epoch); more > 0 {
			x.add(more, n.now)
		}
	}
	p.train(l)
}

// aboutSame keeps about the same of each epoch.
func (n *node) aboutSame(mebibytes float64) func(int) float64 {
	return func(int) float64 { return mebibytes * n.Between(0.9, 1.1) }
}

// repeats does something again and again while a process lives.
func (p *process) repeats(seconds float64, do func()) {
	p.after(seconds*p.node.Between(0.95, 1.05), func() {
		do()
		p.repeats(seconds, do)
	})
}

// needsMore lets a process need more MiB for good.
func (p *process) needsMore(mebibytes, seconds float64) {
	p.size += mebibytes
	p.to(p.goal+mebibytes, seconds)
}

// endsIn ends a process, as its user does or its work.
func (p *process) endsIn(seconds float64) { p.after(seconds, func() { p.node.end(p) }) }

// drawer is a display server or what else draws.
func (n *node) drawer(name string, size float64) program {
	g := n.server(size, n.steadyLoad())
	g.context, g.weights, g.most = 20, 0.85*size-20, 0
	g.caching, g.work.spread = false, 0.02
	g.work.need = 0.15 * size / (1 + 2.5*g.work.spread)
	g.work.sm, g.work.rate = n.Between(0.02, 0.15), n.About(0.5, 30)
	g.prep, g.loading, g.name = 1, 2, name
	return g
}

// nowAndThen lets a program run for some time now and then.
func (n *node) nowAndThen(g program, shortest, longest, pause float64) {
	var start func()
	start = func() {
		p := n.launch(g, n.name(g.name), 0, nil)
		p.onEnd = func() { n.after(span(n.About(pause/2, 2*pause)), start) }
		p.endsIn(n.About(shortest, longest))
	}
	n.after(span(n.Between(0.1, 1)*pause), start)
}

// inVain starts a program for which there is no room so many times, and then
// goes on with next.
func (n *node) inVain(times int, g program, what string, next func()) {
	if times == 0 {
		next()
		return
	}
	g.prep, g.loading = n.Between(5, 15), n.Between(5, 15)
	p := n.launch(g, n.name(what), 0, nil)
	p.onEnd = func() { n.after(span(n.About(20, 400)), func() { n.inVain(times-1, g, what, next) }) }
	n.after(span(g.prep+g.loading+n.Between(5, 15)), func() { n.end(p) })
}

// The builders follow in the order of the table, which says what each tells.

func forecasterEpochs(n *node) {
	n.on(24, 20)
	g := n.toldTrainer(n.Between(5000, 11000))
	l := plan{epoch: 858 / 2.53, evaluation: n.Between(8, 20), checkpoint: n.Between(1, 4), wants: n.Between(0.3, 0.9)}
	rate := n.canLose(&g) / n.Between(7.4, 8.6) / 3600
	n.userRuns(0, g, "train", 5400, func(p *process, _ int) {
		n.losesBySteps(p, rate, rate/2.53)
		p.train(l)
	})
}

func lightningPercent(n *node) {
	n.on(n.Pick([]float64{16, 24, 32}), 9)
	capacity := float64(n.labels.Capacity) / mib
	g := n.toldTrainer(0.22*capacity - n.driver)
	step := n.Between(2, 6)
	rate := 0.46 * capacity / 900 / step
	n.userRuns(4, g, "train", 2400, func(p *process, _ int) {
		n.losesBySteps(p, rate, rate*step)
		p.endsIn(step * n.Between(900, 1050))
	})
}

func metricsBootstrap(n *node) {
	n.on(45.5, 23)
	g := n.toldTrainer(n.Between(4000, 10000))
	l := plan{epoch: n.Between(170, 400), checkpoint: n.Between(2, 8), wants: n.Between(0.3, 0.8)}
	l.evaluation = l.epoch * n.Between(0.1, 0.25)
	rate := n.canLose(&g) / (125 * n.Between(0.95, 1.05)) / l.evaluation
	n.userRuns(0, g, "train", 3600, func(p *process, _ int) {
		x := n.leak(p, 0, rate*5)
		x.born(false)
		p.trainLosing(x, l, rate)
	})
}

func evaluationForward(n *node) {
	n.on(24, 8)
	g := n.toldTrainer(n.Between(2000, 4500))
	g.name = "eval"
	speed := n.Between(1, 4)
	lump := n.canLose(&g) / (7700 * n.Between(0.95, 1.05))
	n.userRuns(3, g, "eval", 1500, func(p *process, _ int) { n.losesBySteps(p, lump*speed, lump) })
}

func superresolutionEpochs(n *node) {
	n.on(16, 11)
	g := n.toldTrainer(n.Between(3000, 6000))
	g.name = "notebook"
	l := plan{epoch: n.Between(400, 850), evaluation: n.Between(15, 40), checkpoint: n.Between(1, 4), wants: 0.5}
	each := n.canLose(&g) / 16.5
	n.userRuns(0, g, "notebook", 2400, func(p *process, _ int) { n.losesByEpoch(p, l, n.aboutSame(each)) })
}

func accumulatedLoss(n *node) {
	n.on(11, 20)
	g := n.toldTrainer(n.Between(5000, 7000))
	rate := n.canLose(&g) / (2 * n.Between(2, 4)) / 3600
	n.userRuns(0, g, "train", 4000, func(p *process, _ int) { n.losesBySteps(p, rate, rate*n.Between(0.5, 2)) })
}

func wavesEpochs(n *node) {
	n.on(40, 20)
	g := n.toldTrainer(n.Between(8000, 16000))
	l := plan{epoch: n.Between(160, 400), evaluation: n.Between(5, 20), checkpoint: n.Between(1, 4), wants: 0.5}
	rate := 95.4 * n.Between(0.9, 1.1) / (l.epoch + l.evaluation)
	lost := n.Between(0.5, 0.7) * n.canLose(&g)
	n.withTenants(g.size() + lost)
	n.userRuns(1, g, "train", 3600, func(p *process, _ int) {
		n.losesBySteps(p, rate, rate*n.Between(0.2, 5))
		p.train(l)
		p.endsIn(lost / rate)
	})
}

func fullStateSave(n *node) {
	n.on(80, 16)
	g := n.toldTrainer(49258 - n.driver)
	l := plan{epoch: n.Between(2400, 5200), checkpoint: n.Between(60, 180)}
	saves := []float64{12300, 14566, 14000, 14000}
	n.userRuns(0, g, "train", 3600, func(p *process, _ int) {
		n.losesByEpoch(p, l, func(epoch int) float64 { return saves[min(epoch, len(saves))-1] * n.Between(0.98, 1.02) })
	})
}

func hsdpCheckpoints(n *node) {
	n.on(80, 11)
	g := n.toldTrainer(n.Between(24000, 30000))
	l := plan{epoch: 5 * n.Between(8, 16), checkpoint: n.Between(10, 30)}
	n.userRuns(0, g, "train", 2400, func(p *process, _ int) { n.losesByEpoch(p, l, n.aboutSame(9537.0/20)) })
}

// radianceGAN runs in a good environment from the second time on.
func radianceGAN(n *node) {
	n.on(12, 10)
	g := n.toldTrainer(8400 - n.driver)
	rate := n.canLose(&g) / (7990 * 1.099 * n.Between(0.95, 1.05))
	n.userRuns(2, g, "train", 5400, func(p *process, run int) {
		if run == 0 {
			n.losesBySteps(p, rate, 2)
		}
	})
}

func unetFineTune(n *node) {
	n.on(n.Pick([]float64{8, 11, 24}), 8)
	n.withTenants(2700)
	l := plan{epoch: n.Between(36, 80), evaluation: n.Between(3, 9), checkpoint: 1, wants: 0.6, epochs: 50}
	n.userRuns(4, n.toldTrainer(2065), "notebook", 1200, func(p *process, _ int) {
		n.losesByEpoch(p, l, func(epoch int) float64 {
			if epoch%15 > 0 {
				return 0
			}
			return 170 * n.Between(0.9, 1.1)
		})
	})
}

func vocoderEpoch(n *node) {
	n.on(22.5, 8)
	g := n.toldTrainer(n.Between(0.4, 0.48) * n.budget)
	seconds := 2375 * n.Between(0.9, 1.8) * n.Between(0.92, 1)
	rate := n.canLose(&g) / seconds
	n.userRuns(0, g, "train", 1800, func(p *process, _ int) {
		x := n.leak(p, rate, rate*2)
		// The integral of it over the epoch is 1.
		x.shape = func(age float64) float64 {
			if age < 0.6*seconds {
				return 0.15
			}
			return 2.275
		}
		x.born(true)
	})
}

func verlSteps(n *node) {
	n.on(80, 18)
	g := n.toldTrainer(n.Between(60, 64) * 1024)
	step := n.Between(240, 420)
	l := plan{epoch: 0.6 * step, evaluation: 0.35 * step, checkpoint: 0.04 * step, wants: 1}
	each := n.canLose(&g) / n.Between(51, 59)
	n.userRuns(0, g, "ppo", 3600, func(p *process, _ int) { n.losesByEpoch(p, l, n.aboutSame(each)) })
}

func disabledGC(n *node) {
	n.on(80, 14)
	g := n.toldTrainer(n.Between(8, 14)*1024 + 1020)
	iteration := n.Between(10, 25)
	bad := 3 + n.IntN(3)
	n.userRuns(0, g, "ppo", 900, func(p *process, run int) {
		if run >= bad {
			return
		}
		x := n.leak(p, 0, 0)
		x.born(true)
		p.repeats(iteration, func() { x.add(3252*n.Between(0.97, 1.03), n.now) })
	})
}

func stopAndPlay(n *node) {
	n.on(8, 10)
	n.bare = true
	g := n.toldTrainer(1536)
	g.work.idle, g.caching, g.name = 0.05, false, "sim"
	g.weights += g.work.need - 60
	g.work.need = 60
	n.userRuns(0, g, "", 2400, func(p *process, _ int) {
		x := n.leak(p, 0, 0)
		x.born(false)
		cycles := 0
		p.cells(0, func(p *process, _ float64) {
			x.add(102*n.Between(0.9, 1.1), n.now)
			if cycles++; cycles == 20 {
				p.endsIn(n.About(60, 1200))
			}
		})
	})
}

// umapLoop has a garbage collector that comes now and then, and finds most.
func umapLoop(n *node) {
	n.on(16, 5)
	high := n.Between(500, 1500)
	g := n.toldTrainer(n.Between(1500, 3000) + high)
	g.caching, g.name = false, "notebook"
	rate := n.canLose(&g) / (20 * 60 * n.Between(0.9, 1.1))
	n.userRuns(4, g, "notebook", 1500, func(p *process, _ int) {
		x := n.leak(p, rate, rate*1200/641)
		x.born(true)
		top := p.goal
		var climb func()
		climb = func() {
			p.to(top-high, 0.5)
			p.after(1, func() {
				seconds := n.Between(15, 40)
				p.to(top-n.Between(0, 0.3)*high, seconds)
				p.after(seconds, climb)
			})
		}
		climb()
	})
}

func forecastingTrials(n *node) {
	n.on(32, 18)
	g := n.toldTrainer(n.Between(2000, 5000))
	l := plan{epoch: n.Between(150, 330), evaluation: n.Between(5, 20), checkpoint: n.Between(1, 6), wants: 0.6}
	each := n.canLose(&g) / n.Between(70, 98)
	n.userRuns(0, g, "search", 5400, func(p *process, _ int) {
		n.losesByEpoch(p, l, func(int) float64 { return each * n.Between(0.5, 1.5) })
	})
}

func searchKeepsModels(n *node) {
	n.on(15.2, 17)
	g := n.toldTrainer(n.Between(2700, 3600))
	l := plan{epoch: n.Between(1100, 2700), evaluation: n.Between(60, 200), checkpoint: n.Between(5, 20), wants: 0.6}
	each := n.canLose(&g) / 8.2
	n.userRuns(0, g, "search", 5400, func(p *process, _ int) {
		n.losesByEpoch(p, l, func(int) float64 { return each * n.Between(0.95, 1.02) })
	})
}

func xorgSteam(n *node) {
	n.onForDays(12, 72)
	n.bare = true
	rate := n.Between(2400, 4300) / 60 / 3600
	begin := n.Between(1, 4) * 3600
	n.serve(n.drawer("Xorg", n.Between(250, 600)), "", n.aged(), func(p *process) {
		p.after(begin, func() {
			x := n.leak(p, rate, n.Between(1, 6))
			x.judge()
		})
	})
	n.serve(n.drawer("steam", n.Between(100, 300)), "", n.aged(), nil)
	n.serve(n.drawer("browser", n.Between(200, 500)), "", n.aged(), nil)
	n.nowAndThen(n.drawer("game", n.Between(2900, 4800)), 2400, 9000, 4*3600)
}

// videoGhost gives back what no process is listed with when the browser ends.
func videoGhost(n *node) {
	n.on(8, 12)
	n.bare = true
	n.serve(n.drawer("Xorg", n.Between(150, 400)), "", n.aged(), nil)
	g := n.drawer("browser", n.Between(250, 500))
	n.userRuns(0, g, "", 3000, func(p *process, _ int) {
		x := n.leak(nil, 0, 0)
		leave := func() {
			if !x.open {
				return
			}
			x.stop(n)
			n.used -= x.bytes - quantum(n.driver)
			n.residual = 0
			n.end(p)
		}
		x.mend = leave
		restarts := 25 + n.IntN(36)
		var again func()
		again = func() {
			if restarts--; restarts < 0 {
				leave()
				return
			}
			x.add(67*n.Between(0.85, 1.15), n.now)
			p.after(n.About(120, 480), again)
		}
		p.after(n.About(120, 480), again)
	})
}

func compositorWindows(n *node) {
	n.on(16, 24)
	n.bare = true
	p := n.launch(n.drawer("niri", n.Between(150, 300)), "", n.aged(), nil)
	x := n.leak(p, 0, 0)
	x.born(false)
	var open func()
	open = func() {
		x.add(67*n.Between(0.9, 1.1), n.now)
		w := n.launch(n.drawer("browser", n.Between(150, 450)), "", 0, nil)
		w.endsIn(n.About(120, 5400))
		p.after(n.About(600, 2400), open)
	}
	p.after(n.About(300, 2400), open)
}

func robotArm(n *node) {
	n.on(24, 7)
	g := n.toldTrainer(n.Between(9000, 14000))
	iteration := n.Between(3, 6)
	rate := n.canLose(&g) / (iteration * n.Between(400, 700))
	n.userRuns(0, g, "train", 1800, func(p *process, _ int) {
		p.after(200*iteration, func() {
			x := n.leak(p, rate, rate*iteration)
			x.judge()
		})
	})
}

func boostingFits(n *node) {
	n.on(16, 8)
	g := n.notebook(n.Between(2000, 3000))
	kept := n.Between(0.7, 0.85) * n.canLose(&g)
	n.userRuns(0, g, "notebook", 1800, func(p *process, _ int) {
		x := n.leak(p, 0, 0)
		x.born(false)
		p.cells(0, func(*process, float64) { x.add(kept*n.Between(0.98, 1.02), n.now) })
	})
}

func dynamicsContexts(n *node) {
	n.onForDays(11, 60)
	g := n.toldTrainer(n.Between(600, 1200))
	g.caching, g.name = false, "dynamics"
	l := plan{epoch: n.Between(1200, 3000), checkpoint: n.Between(20, 90)}
	each := n.canLose(&g) * (l.epoch + l.checkpoint) / 3600 / n.Between(27, 44)
	n.serve(g, n.name("compute"), 0, func(p *process) {
		n.losesByEpoch(p, l, func(int) float64 { return each * n.Between(0.7, 1.3) })
	})
}

// drivingInterrupted is a rank that Ctrl-C has not reached.
func drivingInterrupted(n *node) {
	n.on(24, 8)
	n.bare = true
	g := n.toldTrainer(17323 - n.driver)
	l := plan{epoch: n.Between(600, 1500), evaluation: n.Between(60, 200), checkpoint: 10, wants: 0.5}
	p := n.launch(g, "", 0, func(p *process) { p.train(l) })
	n.after(span(n.Between(900, 3600)), func() {
		p.freeze(Orphaned, n.drips())
		n.after(span(n.Between(20, 300)), func() {
			n.inVain(2, g, "", func() {
				n.after(span(n.About(1800, 9000)), func() {
					n.end(p)
					n.after(span(n.About(20, 300)), func() { n.launch(g, "", 0, func(p *process) { p.train(l) }) })
				})
			})
		})
	})
}

func mxnetZombie(n *node) {
	n.on(12, 15)
	g := n.toldTrainer(5371)
	n.budget -= g.size() + 100
	l := n.plan()
	p := n.launch(g, n.name("train"), n.aged(), func(p *process) { p.train(l) })
	n.after(n.within(0.1, 0.5), func() { p.freeze(Gone, 0) })
	n.queue(n.take(0.5), "job", 900, 9000)
	n.queue(n.take(0.7), "job", 900, 9000)
}

func ddpUnkillable(n *node) {
	n.on(16, 17)
	g := n.toldTrainer(n.Between(8000, 13000))
	l := n.plan()
	p := n.launch(g, n.name("ddp"), 0, func(p *process) { p.train(l) })
	n.after(span(n.Between(1, 4)*3600), func() {
		p.freeze(Unkillable, 0)
		n.after(span(n.Between(2, 7)*3600), func() {
			n.reset()
			n.after(span(n.About(600, 5400)), func() { n.launch(g, n.name("ddp"), 0, func(p *process) { p.train(l) }) })
		})
	})
}

// imagenetDefunct has one kill in some that goes wrong.
func imagenetDefunct(n *node) {
	n.on(12, 22)
	bad, run := 1+n.IntN(4), 0
	l := n.plan()
	var start func()
	start = func() {
		g := n.toldTrainer(n.Between(3500, 5000))
		p := n.launch(g, n.name("train"), 0, func(p *process) { p.train(l) })
		run++
		wrong := run == bad
		n.after(span(n.Between(1, 2.5)*3600), func() {
			if !wrong {
				n.end(p)
			} else {
				p.freeze(Gone, 0)
				n.after(span(n.Between(3, 9)*3600), n.reset)
			}
			n.after(span(n.About(120, 4000)), start)
		})
	}
	start()
}

func noSuchProcess(n *node) {
	n.on(80, 11)
	p := n.launch(n.toldTrainer(n.Between(70, 76)*1024), n.name("edit"), 0, nil)
	smaller := n.toldTrainer(n.Between(40, 56) * 1024)
	n.after(span(n.Between(900, 5400)), func() {
		p.leaves = 10151 / (float64(p.Used+p.hidden) / mib)
		n.end(p)
		n.after(span(n.About(900, 5400)), func() { n.nowAndThen(smaller, 3600, 9000, 1800) })
	})
}

func sweepAgent(n *node) {
	n.on(24, 16)
	bad := map[int]bool{3 + n.IntN(8): true}
	if n.Chance(0.5) {
		bad[11+n.IntN(6)] = true
	}
	trial := 0
	var start func()
	start = func() {
		p := n.launch(n.toldTrainer(n.Between(4000, 7000)), n.name("sweep"), 0, nil)
		trial++
		wrong := bad[trial]
		n.after(span(n.About(600, 3600)), func() {
			if wrong {
				p.leaves = n.Between(0.6, 1)
			}
			n.end(p)
			n.after(span(n.About(3, 60)), start)
		})
	}
	n.after(span(n.Between(60, 900)), start)
}

func notebookCut(n *node) {
	n.on(11, 14)
	g := n.toldTrainer(8525 - n.driver)
	g.name = "notebook"
	p := n.launch(g, n.name("notebook"), 0, nil)
	n.after(span(n.Between(1, 3)*3600), func() {
		p.leaves, p.staysFor = 1, span(n.Between(4, 8)*3600)
		n.end(p)
	})
}

func rayActor(n *node) {
	n.on(11, 14)
	g := n.toldTrainer(2338 - n.driver + n.Between(100, 300))
	g.name = "actor"
	share := (2338 - n.driver) / g.size()
	var start func()
	start = func() {
		p := n.launch(g, n.name("ray"), 0, nil)
		n.after(span(n.Between(1800, 4800)), func() {
			p.leaves, p.staysFor = share, span(n.Between(1, 4)*3600)
			n.end(p)
			n.after(p.staysFor+span(n.About(300, 3600)), start)
		})
	}
	n.after(span(n.Between(60, 900)), start)
}

func rayDriverExit(n *node) {
	n.on(11.9, 16)
	g := n.tensorflow(min(11283-n.driver, n.budget))
	var start func()
	start = func() {
		p := n.launch(g, n.name("ray"), 0, nil)
		n.after(span(n.Between(1, 2)*3600), func() {
			p.freeze(Alive, n.drips())
			n.after(span(n.About(120, 1800)), func() {
				n.inVain(2, g, "ray", func() {
					n.after(span(n.Between(1, 4)*3600), func() {
						n.end(p)
						n.after(span(n.About(60, 1800)), start)
					})
				})
			})
		})
	}
	n.after(span(n.Between(60, 900)), start)
}

func cancelledLoaders(n *node) {
	n.on(80, 20)
	g := n.toldTrainer(39 * 1024 * n.Between(0.98, 1.02))
	g.name = "rank"
	next := n.toldTrainer(n.Between(26, 34) * 1024)
	p := n.launch(g, n.name("ddp"), 0, nil)
	n.after(span(n.Between(2, 4)*3600), func() {
		p.freeze(Gone, 0)
		if n.Chance(0.5) {
			n.after(span(n.Between(4, 10)*3600), func() { n.end(p) })
		}
		n.nowAndThen(next, 2*3600, 4*3600, 2400)
	})
}

func rolloutOrphan(n *node) {
	n.on(184.9, 9)
	trainer := n.toldTrainer(n.Between(20, 35) * 1024)
	group := n.name("rl")
	beside := n.launch(trainer, group, 0, nil)
	g := n.engine(114.95*1024, n.steadyLoad())
	p := n.launch(g, group, 0, nil)
	n.after(span(n.Between(1, 3)*3600), func() {
		state := Alive
		if n.bare {
			state = Orphaned
		}
		p.freeze(state, n.drips())
		tries := 0
		var try func()
		try = func() {
			if tries++; tries > 5 {
				return
			}
			again := g
			again.prep, again.loading = n.Between(8, 15), n.Between(10, 20)
			w := n.launch(again, group, 0, nil)
			n.after(span(n.Between(45, 60)), func() {
				n.end(w)
				n.after(span(n.Between(15, 25)), try)
			})
		}
		n.after(span(n.Between(5, 20)), try)
		n.after(span(n.Between(1, 4)*3600), func() {
			n.end(p)
			n.end(beside)
		})
	})
}

func ranksEverywhere(n *node) {
	n.on(32, 12)
	group := n.name("ddp")
	rank := n.toldTrainer(24409)
	l := n.plan()
	var start func()
	start = func() {
		all := []*process{n.launch(rank, group, 0, func(p *process) { p.train(l) })}
		for range 7 {
			g := n.bystander()
			g.context, g.name = 933, "rank"
			all = append(all, n.launch(g, group, 0, nil))
		}
		n.after(span(n.Between(3, 5)*3600), func() {
			for _, p := range all {
				n.end(p)
			}
			n.after(span(n.About(300, 3600)), start)
		})
	}
	n.after(span(n.Between(60, 1200)), start)
}

func secondIteration(n *node) {
	n.on(n.Pick([]float64{8, 12, 24}), 9)
	n.withTenants(2900)
	iteration := n.Between(120, 600)
	n.userRuns(0, n.toldTrainer(2289), "train", 1200, func(p *process, _ int) {
		p.after(iteration, func() { p.needsMore(381, 1) })
		p.endsIn(n.Between(1, 3) * 3600)
	})
}

func firstIterations(n *node) {
	n.on(12, 6)
	sizes := [][]float64{{2934, 4413, 4433, 4537}, {1686, 1791}}
	run := n.IntN(2)
	var start func()
	start = func() {
		steps := sizes[run%2]
		run++
		g := n.toldTrainer(steps[0])
		// It has what an iteration needs at all times, as its allocator keeps it.
		g.weights += g.work.need
		g.work.need, g.work.spread, g.caching = 0, 0, false
		p := n.launch(g, n.name("train"), 0, func(p *process) {
			at := 0.0
			for i := 1; i < len(steps); i++ {
				at += n.Between(1, 4)
				p.after(at, func() { p.needsMore(steps[i]-steps[i-1], 0.3) })
			}
			p.endsIn(n.Between(1200, 3600))
		})
		p.onEnd = func() { n.after(span(n.About(30, 900)), start) }
	}
	start()
}

func skeletonEvaluation(n *node) {
	n.on(12, 12)
	l := plan{epoch: n.Between(300, 700), checkpoint: n.Between(2, 10)}
	epoch := 0
	n.userRuns(1, n.toldTrainer(2697), "train", 3600, func(p *process, _ int) {
		l.done = func(p *process) {
			if epoch++; epoch == 10 {
				p.needsMore(148, 2)
			}
		}
		p.train(l)
	})
}

func pointCloud(n *node) {
	n.on(80, 16)
	g := n.trainer(64600)
	g.caching, g.chunk = false, 2
	rest := g.size() - g.context
	g.work.spread = n.Between(0.05, 0.08)
	g.work.need = 0.5 * rest / (1 + 2.5*g.work.spread)
	g.weights = 0.5 * rest
	g.memory = n.About(30, 300)
	n.userRuns(1, g, "train", 3600, func(*process, int) {})
}

func speechReserved(n *node) {
	n.on(24, 13)
	g := n.trainer(20.4 * 1024)
	rest := g.size() - g.context
	g.work.spread = n.Between(0.25, 0.4)
	g.weights = 0.12 * rest
	g.work.need = 0.88 * rest / (1 + 2.5*g.work.spread)
	g.memory, g.chunk = n.About(15, 60), 20
	l := n.plan()
	n.userRuns(1, g, "asr", 3600, func(p *process, _ int) { p.train(l) })
}

// creepingTrainer is a training whose largest batch so far becomes larger ever more
// rarely: nearly all of it within so many hours.
func (n *node) creepingTrainer(low, high, hours float64) program {
	g := n.toldTrainer(low)
	g.most, g.pace = high-low, 3/(hours*3600)
	return g
}

func detectorMosaic(n *node) {
	n.on(24, 22)
	n.withTenants(9400)
	l := plan{epoch: n.Between(500, 1200), evaluation: n.Between(30, 90), checkpoint: n.Between(2, 8), wants: 0.4}
	g := n.creepingTrainer(6144, 9216, n.Between(6.5, 13))
	n.userRuns(1, g, "detect", 3600, func(p *process, _ int) { p.train(l) })
}

func maskformerResize(n *node) {
	n.onForDays(32, 44)
	l := plan{epoch: n.Between(1500, 1900), evaluation: n.Between(60, 150), checkpoint: n.Between(5, 20), wants: 0.4}
	g := n.creepingTrainer(8192, 16384, n.Between(26, 32))
	n.userRuns(1, g, "detect", 3600, func(p *process, _ int) {
		p.train(l)
		p.endsIn(38 * 3600)
	})
}

func yoloInstances(n *node) {
	n.on(24, 10)
	n.withTenants(4300)
	l := plan{epoch: n.Between(60, 170), evaluation: n.Between(3, 9), checkpoint: 1, wants: 0.7, epochs: 150 + n.IntN(51)}
	// 58 epochs until it has what it will have.
	g := n.creepingTrainer(2867, 4014, 58*(l.epoch+l.evaluation+1)/3600)
	n.userRuns(1, g, "yolo", 3600, func(p *process, _ int) { p.train(l) })
}

func yoloFirstEpoch(n *node) {
	n.on(12, 14)
	g := n.toldTrainer(7.49 * 1024)
	g.caching = false
	drop := (7.49 - 5.9) * 1024
	l := plan{epoch: n.Between(180, 480), checkpoint: n.Between(2, 6)}
	n.userRuns(2, g, "yolo", 3600, func(p *process, _ int) {
		base := p.goal
		l.done = func(p *process) {
			p.to(base-drop-n.Between(0, 0.1)*1024, 2)
		}
		p.train(l)
		p.endsIn(n.Between(4, 6) * 3600)
	})
}

func splatterRasterizer(n *node) {
	n.on(24, 14)
	l := n.plan()
	g := n.creepingTrainer(9216, n.Between(13.2, 13.9)*1024, n.Between(3, 5))
	n.userRuns(1, g, "splat", 3600, func(p *process, _ int) { p.train(l) })
}

func loraSpike(n *node) {
	n.on(16, 11)
	g := n.toldTrainer(10 * 1024)
	g.caching = false
	g.weights += g.work.need - 300
	g.work.need = 300
	step := n.Between(5, 10)
	l := plan{epoch: n.Between(600, 1500), checkpoint: n.Between(2, 8)}
	n.userRuns(2, g, "lora", 3600, func(p *process, _ int) {
		base := p.goal
		p.size += 4096
		l.done = func(p *process) {
			p.to(base+4096*n.Between(0.9, 1), 3)
			p.after(step*n.Between(10, 20), func() { p.to(base, 3) })
		}
		p.train(l)
		p.endsIn(n.Between(3, 5) * 3600)
	})
}

func jaxImport(n *node) {
	n.on(80, 11)
	g := n.tensorflow(60 * 1024 * n.Between(0.98, 1.02))
	g.name = "jax"
	g.prep, g.loading = n.Between(3, 10), n.Between(1, 4)
	n.userRuns(0, g, "rl", 1200, func(p *process, _ int) { p.endsIn(n.Between(1, 3) * 3600) })
}

func jaxNotebook(n *node) {
	n.on(8.3, 10)
	n.bare = true
	desktop := 1250 - n.driver
	n.serve(n.drawer("Xorg", 0.55*desktop), "", n.aged(), nil)
	n.serve(n.drawer("browser", 0.4*desktop), "", n.aged(), nil)
	g := n.tensorflow(6270)
	g.name, g.prep, g.loading = "notebook", n.Between(2, 8), 0.5
	g.work.rate, g.work.idle = n.Between(0.5, 5), 0.003
	n.userRuns(3, g, "", 1800, func(p *process, _ int) {
		p.cells(5400, nil)
		p.endsIn(n.Between(2, 3.5) * 3600)
	})
}

func tensorflowExit(n *node) {
	n.on(6.6, 9)
	n.bare = true
	screen := n.Between(100, 200)
	n.serve(n.drawer("Xorg", screen), "", n.aged(), nil)
	g := n.tensorflow(5843 - n.driver - screen)
	// A moment of work every 20 s.
	g.work.rate, g.work.sm, g.work.idle = 0.05, n.Between(0.02, 0.1), 0.01
	g.prep, g.loading = n.Between(1, 4), 1
	n.userRuns(0, g, "", 1500, func(p *process, _ int) { p.endsIn(n.Between(1, 3) * 3600) })
}

func catboostKernels(n *node) {
	n.on(11, 12)
	n.bare = true
	n.serve(n.drawer("Xorg", n.Between(200, 500)), "", n.aged(), nil)
	for i := range 4 + n.IntN(3) {
		g := n.notebook(n.Between(600, 1400))
		g.context, g.weights, g.caching = n.Between(190, 210), 0, false
		g.work.spread = 0.02
		g.work.need = n.Between(400, 1200)
		at := float64(i)*n.Between(1200, 3600) + n.Between(60, 900)
		n.after(span(at), func() {
			n.launch(g, "", 0, func(p *process) {
				p.cells(10800, nil)
				p.endsIn(n.Between(4, 11) * 3600)
			})
		})
	}
}

func fastaiKept(n *node) {
	n.on(8, 11)
	g := n.toldTrainer(6745 - n.driver)
	g.name, g.work.idle = "notebook", 0.004
	n.userRuns(1, g, "notebook", 3600, func(p *process, _ int) {
		work := p.act
		p.after(n.Between(1, 2)*3600, func() {
			p.act = activity{idle: work.idle}
			p.after(n.Between(1200, 5400), func() {
				p.act = work
				p.cells(5400, nil)
			})
		})
	})
}

// cupyPool has the caching allocator of PyTorch instead of a pool that is alike.
func cupyPool(n *node) {
	n.on(12, 10)
	g := n.notebook(n.Between(4300, 4500))
	g.context = n.Between(150, 350)
	g.weights, g.work.need, g.work.spread = 0, 3815, 0.003
	g.caching, g.chunk = true, 2
	empty := n.within(0.4, 0.7)
	n.userRuns(1, g, "notebook", 3600, func(p *process, _ int) {
		p.cells(7200, nil)
		p.after((empty - n.now).Seconds(), func() {
			if p.SM == 0 {
				p.reserved = p.fixed
			}
		})
	})
}

func compositorCapped(n *node) {
	n.on(24, 13)
	n.bare = true
	g := n.drawer("wayfire", n.Between(350, 600))
	p := n.launch(g, "", n.aged(), nil)
	base := p.goal
	p.size = 2400
	top := 2380 - (g.size() - base)
	n.serve(n.drawer("browser", n.Between(300, 700)), "", n.aged(), nil)
	n.serve(n.drawer("konsole", n.Between(50, 120)), "", n.aged(), nil)
	var spell func()
	spell = func() {
		p.to(min(top, p.goal+n.Between(300, 1500)), n.About(20, 240))
		p.after(n.About(300, 1800), func() {
			if n.Chance(0.35) {
				p.to(base+n.Between(0, 0.4)*(p.goal-base), 3)
			}
			p.after(n.About(900, 3600), spell)
		})
	}
	p.after(n.Between(300, 1800), spell)
}
