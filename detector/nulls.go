// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import "math"

// highWater is the number of new maxima per e-fold of age that a healthy
// process is granted. Long-running jobs in public nvidia-smi logs show 0.7 on
// average and 2.4 at the high end.
const highWater = 3

// walkTail returns the probability that a driftless random walk of n moves, of
// any continuous symmetric law, stands after them on at least levels suffix
// minima (its starting level counted), which by reversal of time is the number
// of its records:
//
//	P(R ≥ K) = Σ_{j=K}^{n+1} C(2n−j+1, n) 2^−(2n−j+1)
//
// (Majumdar and Ziff, Universal record statistics of random walks and Lévy
// flights, Phys. Rev. Lett. 101, 050601, 2008).
func walkTail(n, levels int) float64 {
	if levels <= 1 {
		return 1
	}
	// From the smallest term, j = n+1, where it is 2^−n, up to j = levels: the
	// ratio of neighbours is term(j−1)/term(j) = (2n−j+2) / (2(n−j+2)).
	term := math.Ldexp(1, -n)
	sum := 0.0
	for j := n + 1; j >= levels; j-- {
		sum += term
		term *= float64(2*n-j+2) / float64(2*(n-j+2))
	}
	return min(1, sum)
}

// highWaterTail returns the probability that a process whose memory is the
// maximum of a stationary demand, as a caching allocator's is, reaches at least
// k new maxima between the ages from and to (any unit): records of independent
// demands fall at rate 1/age, so their number is Poisson with mean
// highWater·ln(to/from).
func highWaterTail(k int, from, to float64) float64 {
	if k <= 0 {
		return 1
	}
	mean := highWater * math.Log(to/from)
	if !(mean > 0) {
		mean = 0
	}
	// Σ_{i≥k} e^−mean mean^i / i!, the large terms first.
	if mean == 0 {
		return 0
	}
	lg, _ := math.Lgamma(float64(k + 1))
	term := math.Exp(float64(k)*math.Log(mean) - mean - lg)
	sum := term
	for i := k + 1; i < k+1000; i++ {
		term *= mean / float64(i)
		sum += term
		if float64(i) > mean && term < sum*1e-12 {
			break
		}
	}
	return min(1, sum)
}
