// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"math/bits"
)

// int128 is a signed integer of 128 bits in two's complement. Its arithmetic
// wraps like Go's; moments.go shows that its sums cannot get that far.
type int128 struct {
	Hi int64
	Lo uint64
}

func int128Of(a int64) int128 { return int128{Hi: a >> 63, Lo: uint64(a)} }

// mul64 returns a·b, exactly.
func mul64(a, b int64) int128 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	// bits.Mul64 took a negative a for a+2^64; take the surplus back.
	return int128{Hi: int64(hi) - (a>>63)&b - (b>>63)&a, Lo: lo}
}

func (a int128) add(b int128) int128 {
	lo, carry := bits.Add64(a.Lo, b.Lo, 0)
	hi, _ := bits.Add64(uint64(a.Hi), uint64(b.Hi), carry)
	return int128{Hi: int64(hi), Lo: lo}
}

func (a int128) sub(b int128) int128 {
	lo, borrow := bits.Sub64(a.Lo, b.Lo, 0)
	hi, _ := bits.Sub64(uint64(a.Hi), uint64(b.Hi), borrow)
	return int128{Hi: int64(hi), Lo: lo}
}

// mul returns a·b modulo 2^128.
func (a int128) mul(b int64) int128 {
	hi, lo := bits.Mul64(a.Lo, uint64(b))
	return int128{Hi: int64(hi) + a.Hi*b - int64(a.Lo)&(b>>63), Lo: lo}
}

// floorDiv returns the largest integer not above a/n. n is positive and the
// result must fit 64 bits.
func (a int128) floorDiv(n int64) int64 {
	if a.Hi >= 0 {
		q, _ := bits.Div64(uint64(a.Hi), a.Lo, uint64(n))
		return int64(q)
	}
	b := int128{}.sub(a)
	q, r := bits.Div64(uint64(b.Hi), b.Lo, uint64(n))
	if r != 0 {
		q++
	}
	return -int64(q)
}

// float returns a with a relative error of at most 2^-52.
func (a int128) float() float64 {
	if a.Hi < 0 {
		return -int128{}.sub(a).float()
	}
	return math.FMA(float64(a.Hi), 1<<64, float64(a.Lo))
}
