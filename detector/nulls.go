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

// climbs are the drawdowns, in units, that the bets on a climb allow for: 16 MiB
// times a power of two.
const (
	climbBets  = 12
	leastClimb = 16 * oneMiB
)

// oneMiB is a MiB in units.
const oneMiB = 1 << 20 / unit

// small is the share of the typical move below which a move is not bet on: jitter.
const small = 0.125

// mostWealth bounds a bet, so that it stays finite.
const (
	mostWealth = 1e60
	mostClimb  = 1e30 // of a float32
)

// allotted is the part of the initial 1 that the n-th run of a scale (from 1 on)
// begins with: 1/(n·(n+1)), which sum up to 1 over all runs.
func allotted(n int64) float64 { return 1 / (float64(n) * float64(n+1)) }

// walkBet is a bet against a driftless random walk, in which a move is as likely up
// as down whatever its size and whatever was before. Two thirds are bet on the signs
// of the moves, one on climbs.
type walkBet struct {
	base    float64 // what the run began with
	signs   float64
	typical float64 // size of the moves that were bet on, units
	climbs  [climbBets]climb
}

// climb is a bet that the walk will not fall by some drawdown h below its highest
// level. It holds such a share of the walk that its fortune is the part 1 − below
// of exp(highest/h): the martingale of Azéma and Yor (Une solution simple au
// problème de Skorokhod, Séminaire de Probabilités XIII, 1979), by which a walk
// climbs k·h without a drawdown of h with the probability exp(−k). So it grows on a
// slow trend under noise, which signs alone do not show.
type climb struct {
	fortune float32
	below   float32 // the present drawdown as a share of h
}

// move settles the bet on a move by d, as a share of h. Moves of more than a half
// count as a half, so that no move takes more than there is.
func (c *climb) move(d float64) {
	part := float32(max(min(d, 0.5), -0.5))
	share := min(1/(1-c.below), 2)
	c.fortune = min(c.fortune*(1+share*part), mostClimb)
	c.below = min(max(c.below-part, 0), 1)
}

// begin starts a run: what is left of the bets before, 1 at most, and what is
// allotted to it, are bet anew.
func (b *walkBet) begin(allotted float64) {
	*b = walkBet{base: min(1, b.wealth()) + allotted, signs: 1}
	for i := range b.climbs {
		b.climbs[i].fortune = 1
	}
}

// move settles the bet on a move by d units.
func (b *walkBet) move(d float64) {
	h := float64(leastClimb)
	for i := range b.climbs {
		b.climbs[i].move(d / h)
		h *= 2
	}
	size, typical := math.Abs(d), b.typical
	if typical == 0 {
		typical = size
	}
	b.typical = math.Sqrt(math.Sqrt(size * typical * typical * typical))
	if size < small*typical {
		return
	}
	if d > 0 {
		b.signs = min(b.signs*(1+stake), mostWealth)
	} else {
		b.signs *= 1 - stake
	}
}

// wealth is the present fortune.
func (b *walkBet) wealth() float64 {
	climbs := 0.0
	for i := range b.climbs {
		climbs += float64(b.climbs[i].fortune) / climbBets
	}
	return b.base * (2*b.signs + climbs) / 3
}

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
