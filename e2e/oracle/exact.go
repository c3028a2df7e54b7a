// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package oracle holds the figures of the detector against two others that owe
// it nothing: exact rational arithmetic, and the engine of Prometheus.
package oracle

import (
	"math/big"
	"time"
)

// Point is a sample: an amount of memory in bytes at a time.
type Point struct {
	T time.Duration
	Y int64
}

// Line returns the slope of the least-squares line through the points, in bytes
// per second, and its coefficient of determination, both exact:
//
//	slope = (n·Σxy − Σx·Σy) / (n·Σx² − (Σx)²)
//	r²    = (n·Σxy − Σx·Σy)² / ((n·Σx² − (Σx)²)·(n·Σy² − (Σy)²))
//
// R² of a constant series is 0, as the metric defines it. ok is false for fewer
// than two points in time.
func Line(points []Point) (slope, r2 *big.Rat, ok bool) {
	var sx, sy, sxx, sxy, syy, p big.Int
	for _, pt := range points {
		x, y := big.NewInt(int64(pt.T)), big.NewInt(pt.Y)
		sx.Add(&sx, x)
		sy.Add(&sy, y)
		sxx.Add(&sxx, p.Mul(x, x))
		sxy.Add(&sxy, p.Mul(x, y))
		syy.Add(&syy, p.Mul(y, y))
	}
	n := big.NewInt(int64(len(points)))
	cov, varX, varY := central(n, &sxy, &sx, &sy), central(n, &sxx, &sx, &sx), central(n, &syy, &sy, &sy)
	if varX.Sign() == 0 {
		return nil, nil, false
	}
	slope = new(big.Rat).SetFrac(new(big.Int).Mul(cov, big.NewInt(int64(time.Second))), varX)
	if varY.Sign() == 0 {
		return slope, new(big.Rat), true
	}
	r2 = new(big.Rat).SetFrac(new(big.Int).Mul(cov, cov), varX.Mul(varX, varY))
	return slope, r2, true
}

// central returns n·sab − sa·sb.
func central(n, sab, sa, sb *big.Int) *big.Int {
	c := new(big.Int).Mul(n, sab)
	return c.Sub(c, new(big.Int).Mul(sa, sb))
}
