// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// start is where the clock of the series stands at their start.
const start = 1_790_000_000 * time.Second

// ours is the detector of the exporter with its defaults, on the used memory of
// a device and nothing else.
type ours struct {
	domain *detector.Domain[int]
	frame  detector.Frame[int]
	last   detector.Verdict // when it was asked last
	err    error            // the first one
}

func newOurs(cfg detector.Config) (*ours, error) {
	d, err := detector.NewDomain(func(detector.Subject[int]) detector.Config { return cfg })
	if err != nil {
		return nil, fmt.Errorf("make a detector: %w", err)
	}
	return &ours{domain: d}, nil
}

// Observe implements rivals.Rule.
func (o *ours) Observe(t time.Duration, used, capacity int64) {
	o.frame.T = start + t
	o.frame.Used = detector.Of(float64(used))
	o.frame.Capacity = detector.Of(float64(capacity))
	if err := o.domain.Observe(&o.frame); err != nil && o.err == nil {
		o.err = err
	}
}

// Verdict implements rivals.Rule.
func (o *ours) Verdict() (leak bool, eta, lower, upper float64) {
	o.last = o.domain.Judgement().Device
	v := &o.last
	if !v.Judged {
		return false, math.NaN(), math.NaN(), math.NaN()
	}
	return v.Leak, number(v.SecondsToOOM), number(v.Lower), number(v.Upper)
}

// number returns v, NaN where it is absent.
func number(v detector.Value) float64 {
	if !v.OK {
		return math.NaN()
	}
	return v.V
}

// confidence returns that of the last verdict, 0 while nothing is judged.
func (o *ours) confidence() float64 {
	if !o.last.Judged {
		return 0
	}
	return o.last.Confidence
}
