// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"math"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/ablate"
)

// Growth must reject a driftless random walk, in which a move is as likely up as down whatever
// its size and whatever was before. That is a bet against it which is fair under the null and pays
// under a leak. By Ville's inequality such a bet, begun with 1, ever reaches 1/α with a probability
// of at most α: the level holds for the life of a series, at every look, and not for one look
// (Ramdas, Grünwald, Vovk and Shafer, Game-theoretic statistics and safe anytime-valid inference,
// Statistical Science 38, 2023). The mean of such bets is one, too: each scale bets with an equal
// share of the 1, and what they own together counts.

const (
	// stake is the share of a fortune that is staked on the next move being upwards: it is
	// multiplied by 1 + stake then and by 1 − stake otherwise. Any share below 1 is fair; this one was
	// fitted by hand on generated series.
	stake = 0.85
	// mostWealth bounds a bet, so that it stays finite.
	mostWealth = 1e60
)

// Bet is a bet against a driftless random walk.
type Bet struct {
	Wealth float64
	Runs   int64 // begun so far
}

// begin starts a run: what is left of the bet before, 1 at most, and what is allotted to the n-th
// run, 1/(n·(n+1)), are bet anew. Over all runs these sum up to 1.
func (b *Bet) begin() {
	b.Runs++
	n := float64(b.Runs)
	b.Wealth = min(1, b.Wealth) + 1/(n*(n+1))
}

// move settles the bet on a move.
func (b *Bet) move(up bool) {
	if up {
		b.Wealth = min(b.Wealth*(1+stake), mostWealth)
		return
	}
	b.Wealth *= 1 - stake
}

// evidence returns how far what the scales own together is on its way to 1/α, on a logarithmic
// scale: 1 there.
func (s *Series) evidence() float64 {
	if ablate.Off(ablate.Evidence) {
		return 1 / enough
	}
	sum := 0.0
	for i := range s.Scales {
		if e := &s.Scales[i]; !e.Run.Falling {
			sum += e.Bet.Wealth / numScales
		}
	}
	return max(0, -math.Log10(max(sum, 1e-9))/math.Log10(s.cfg.FalseAlarm))
}
