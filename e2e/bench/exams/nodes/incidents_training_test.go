// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// trainingEnd is what a report tells of how it ended.
type trainingEnd int

const (
	goesOn  trainingEnd = iota // memory is lost, and nothing is told of an end
	isFull                     // memory is lost until there is none
	isHeld                     // memory is held after the work has ended
	wasNone                    // it was no leak
)

// trainingEnds says of each incident what its report tells.
var trainingEnds = map[string]trainingEnd{
	"lightning-forecaster-80-epochs": isFull,
	"lightning-22-to-68-percent":     goesOn,
	"metrics-bootstrap-validation":   isFull,
	"evaluation-forward-graph":       isFull,
	"superresolution-17-epochs":      isFull,
	"accumulated-loss-tensors":       isFull,
	"waves-100-mb-an-epoch":          goesOn,
	"fsdp-full-state-save":           isFull,
	"hsdp-frequent-checkpoints":      isFull,
	"radiance-gan-2-mib-steps":       isFull,
	"fastai-unet-fine-tune":          goesOn,
	"vocoder-end-of-epoch":           isFull,
	"verl-rollouts-55-steps":         isFull,
	"simulator-disabled-gc":          isFull,
	"simulation-stop-and-play":       goesOn,
	"umap-in-a-loop":                 isFull,
	"forecasting-optuna-trials":      isFull,
	"bart-search-eighth-trial":       isFull,
	"xorg-steam-client":              goesOn,
	"video-decoder-ghost":            goesOn,
	"compositor-70-mb-a-window":      goesOn,
	"robot-arm-after-200-iterations": isFull,
	"boosting-fit-again":             isFull,
	"dynamics-contexts":              isFull,
	"driving-interrupted":            isHeld,
	"mxnet-unknown-error":            isHeld,
	"ddp-uninterruptible":            isHeld,
	"imagenet-defunct":               isHeld,
	"editing-no-such-process":        isHeld,
	"sweep-agent-kill":               isHeld,
	"notebook-network-cut":           isHeld,
	"ray-actor-finished":             isHeld,
	"ray-driver-exit":                isHeld,
	"slurm-cancelled-loaders":        isHeld,
	"rollout-shard-orphan":           isHeld,
	"ranks-on-every-gpu":             wasNone,
	"second-iteration-optimizer":     wasNone,
	"first-iterations-segmentation":  wasNone,
	"skeleton-evaluation-epoch":      wasNone,
	"point-cloud-varies":             wasNone,
	"speech-reserved-constant":       wasNone,
	"detector-mosaic-creep":          wasNone,
	"maskformer-8-to-16-gb":          wasNone,
	"yolo-instances":                 wasNone,
	"yolo-first-epoch":               wasNone,
	"splatter-rasterizer":            wasNone,
	"lora-epoch-spike":               wasNone,
	"jax-import-60-gb":               wasNone,
	"jax-notebook-prealloc":          wasNone,
	"tensorflow-until-exit":          wasNone,
	"catboost-idle-kernels":          wasNone,
	"fastai-notebook-kept":           wasNone,
	"cupy-pool":                      wasNone,
	"compositor-capped":              wasNone,
}

func TestTrainingTable(t *testing.T) {
	seen := map[string]bool{}
	projects := map[string]int{}
	for _, one := range training {
		if seen[one.Kind] || one.Kind == "" {
			t.Errorf("two incidents are called %q", one.Kind)
		}
		seen[one.Kind] = true
		if _, ok := trainingEnds[one.Kind]; !ok {
			t.Errorf("of %s the test does not know what is told", one.Kind)
		}
		if one.Told == "" || one.Assumed == "" || one.build == nil {
			t.Errorf("%s is not complete", one.Kind)
		}
		parts := strings.Split(one.Thread, "/")
		if !strings.HasPrefix(one.Thread, "https://") || len(parts) < 5 {
			t.Errorf("%s has the address %q", one.Kind, one.Thread)
			continue
		}
		if project := strings.Join(parts[2:5], "/"); projects[project] == 3 {
			t.Errorf("more than three incidents of %s", project)
		} else {
			projects[project]++
		}
	}
	if len(trainingEnds) != len(training) {
		t.Errorf("%d incidents, and the test knows %d", len(training), len(trainingEnds))
	}
}

func TestTraining(t *testing.T) {
	for index, one := range incidents {
		if !slices.ContainsFunc(training, func(other Incident) bool { return other.Kind == one.Kind }) {
			continue
		}
		t.Run(one.Kind, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= seeds; seed++ {
				s := NewIncident(seed, index)
				lives := watchTraining(t, s)
				checkTrainingLabels(t, s, lives)
				checkTrainingEnd(t, s, trainingEnds[one.Kind])
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// watchTraining reads a story to its end.
func watchTraining(t *testing.T, s *Story) map[int]*life {
	t.Helper()
	lives := map[int]*life{}
	next := time.Duration(0)
	var f Frame
	for s.Next(&f) {
		if f.T != next {
			t.Fatalf("frame at %v, want %v", f.T, next)
		}
		next += s.Interval
		checkFrame(t, s, &f, lives)
		if t.Failed() {
			t.Fatalf("at %v", f.T)
		}
	}
	if next != s.Length+s.Interval {
		t.Errorf("the last frame is at %v, want %v", next-s.Interval, s.Length)
	}
	return lives
}

// checkTrainingLabels checks that labels lie within the story and name processes that
// can be seen. Which labels there should be, checkLabels knows by the family only.
func checkTrainingLabels(t *testing.T, s *Story, lives map[int]*life) {
	t.Helper()
	// For that long the list of processes can be unreadable.
	const unseen = 15 * time.Minute
	check := func(what string, id int, from, to time.Duration, inside bool) {
		t.Helper()
		if from < 0 || from >= to || to > s.Length {
			t.Errorf("%s from %v to %v in a story of %v", what, from, to, s.Length)
		}
		if id == 0 {
			return
		}
		l := lives[id]
		if l == nil || inside && (l.first > from+unseen || l.last < to-unseen) {
			t.Errorf("%s of process %d from %v to %v, which is seen at %v", what, id, from, to, l)
		}
	}
	for _, l := range s.Leaks {
		check("leak", l.ID, l.From, l.To, true)
		if l.Rate <= 0 {
			t.Errorf("leak with a rate of %v", l.Rate)
		}
	}
	for _, z := range s.Zombies {
		check("zombie", z.ID, z.From, z.To, true)
	}
	for _, u := range s.Unreleased {
		check("memory", u.ID, u.From, u.To, false)
	}
	if !slices.IsSorted(s.OOMs) {
		t.Errorf("OOMs at %v", s.OOMs)
	}
}

// checkTrainingEnd checks that a story is of the sort that its report tells.
func checkTrainingEnd(t *testing.T, s *Story, as trainingEnd) {
	t.Helper()
	stuck := len(s.Zombies) + len(s.Unreleased)
	if (len(s.Leaks) > 0) != (as == goesOn || as == isFull) {
		t.Errorf("%d leaks", len(s.Leaks))
	}
	if as == isFull && len(s.OOMs) == 0 || (as == isHeld || as == wasNone) && len(s.OOMs) > 0 {
		t.Errorf("out of memory at %v", s.OOMs)
	}
	if (stuck > 0) != (as == isHeld) {
		t.Errorf("%d labels of what is held", stuck)
	}
	if s.Length > 72*time.Hour || s.Length > 24*time.Hour && s.Interval < 10*time.Second {
		t.Errorf("%v, sampled every %v", s.Length, s.Interval)
	}
}
