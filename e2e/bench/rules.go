// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/gpuleak/gpu_leak_exporter/e2e/bench/rivals"

// rivalRules are the rules that ours is measured against: those of other systems,
// and what the study that this project began with had come to.
var rivalRules = []struct {
	name string
	make func() rivals.Rule
}{
	{"gpulse", rivals.NewGpulse},
	{"gpumemprof", rivals.NewGpumemprof},
	{"predict_linear", rivals.NewPredictLinear},
	{"Mann-Kendall", rivals.NewMannKendall},
	{"prototype", rivals.NewPrototype},
}
