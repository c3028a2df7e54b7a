// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import "math"

// Two nulls must be rejected before growth can be a leak, each by a bet against
// it that is fair under the null and that pays under a leak. By Ville's inequality
// such a bet, begun with 1, ever reaches 1/α with a probability of at most α: the
// level holds for the life of a series, at every look, and not for one look
// (Ramdas, Grünwald, Vovk and Shafer, Game-theoretic statistics and safe anytime-
// valid inference, Statistical Science 38, 2023).

// stake is the share of a fortune that is staked on the next move being upwards:
// it is multiplied by 1 + stake then and by 1 − stake otherwise.
const stake = 0.85

// turnStake is the share that is staked on the next move being opposite to the last
// one, while growth has made less than trendMoves moves.
const (
	turnStake  = 0.5
	trendMoves = 2
)

// oneMiB is a MiB in units.
const oneMiB = 1 << 20 / unit

// mostWealth bounds a bet, so that it stays finite.
const mostWealth = 1e60

// allotted is the part of the initial 1 that the n-th run of a scale (from 1 on)
// begins with: 1/(n·(n+1)), which sum up to 1 over all runs.
func allotted(n int64) float64 { return 1 / (float64(n) * float64(n+1)) }

// walkBet is a bet against a driftless random walk, in which a move is as likely up
// as down whatever its size and whatever was before. One half is bet on moves upwards
// only. The other half is bet on turns while nothing grows, and on moves upwards while
// something does: memory under noise turns at nearly each move, so that this half gains
// from the noise what the first one loses by it, and growth finds a fortune to begin with.
type walkBet struct {
	base float64 // what the run began with
	// The fortunes of the two halves, of 1 each at the begin.
	ups, turns float64
	last       int8 // sign of the last move; 0 before the first one
}

// begin starts a run: what is left of the bets before, 1 at most, and what is
// allotted to it, are bet anew.
func (b *walkBet) begin(allotted float64) {
	*b = walkBet{base: min(1, b.wealth()) + allotted, ups: 1, turns: 1, last: b.last}
}

// move settles the bet on a move. rising is how many moves upwards the growth had
// made before it.
func (b *walkBet) move(up bool, rising int32) {
	onUp := -turnStake * float64(b.last)
	if rising >= trendMoves {
		onUp = stake
	}
	b.last = -1
	if up {
		b.last = 1
	}
	b.ups = min(b.ups*(1+stake*float64(b.last)), mostWealth)
	b.turns = min(b.turns*(1+onUp*float64(b.last)), mostWealth)
}

// wealth is the present fortune.
func (b *walkBet) wealth() float64 { return b.base * (b.ups + b.turns) / 2 }

// highWaterBet is a bet against a process whose memory is the maximum of a
// stationary demand, as a caching allocator's is. Records of independent demands
// fall at a rate of 1/age; an allocator with several pools is granted rate times
// as many, so that from one age to the next there is one with the probability
// 1 − (age/next)^rate. The bet is on a new maximum in each block.
type highWaterBet struct {
	fortune float64
	blocks  float64 // that were bet on
	maxima  float64 // in them
}

// begin starts a run as that of walkBet does.
func (b *highWaterBet) begin(allotted float64) {
	*b = highWaterBet{fortune: min(1, b.fortune) + allotted}
}

// block settles the bet on a block between two ages (any unit), in which there was
// a new maximum or none. What is staked follows from how often there was one so
// far, as Kelly has it.
func (b *highWaterBet) block(maximum bool, rate, age, next float64) {
	granted := 1 - math.Pow(age/next, rate)
	often := min((b.maxima+0.5)/(b.blocks+1), 0.95)
	stake := max(0, (often-granted)/(1-granted))
	b.blocks++
	if maximum {
		b.maxima++
		b.fortune = min(b.fortune*(1+stake*(1/granted-1)), mostWealth)
		return
	}
	b.fortune *= 1 - stake
}
