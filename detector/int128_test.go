// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func (a int128) big() *big.Int {
	x := new(big.Int).Lsh(big.NewInt(a.hi), 64)
	return x.Add(x, new(big.Int).SetUint64(a.lo))
}

func TestInt128AgainstBigInt(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	number := func() int64 {
		switch rng.IntN(8) {
		case 0:
			return []int64{0, 1, -1, math.MaxInt64, math.MinInt64, 1 << 32, -1 << 32}[rng.IntN(7)]
		case 1:
			return int64(rng.Uint64())
		}
		return int64(rng.Uint64()) >> (16 + rng.IntN(40))
	}
	wrap := func(x *big.Int) *big.Int { // modulo 2^128, signed
		m := new(big.Int).Lsh(big.NewInt(1), 128)
		x = new(big.Int).Mod(x, m)
		if x.Bit(127) == 1 {
			x.Sub(x, m)
		}
		return x
	}
	for range 200_000 {
		a, b, c := number(), number(), number()
		ab := mul64(a, b)
		want := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		if ab.big().Cmp(want) != 0 {
			t.Fatalf("%d·%d = %s, want %s", a, b, ab.big(), want)
		}
		sum := ab.add(int128Of(c))
		if want := wrap(new(big.Int).Add(want, big.NewInt(c))); sum.big().Cmp(want) != 0 {
			t.Fatalf("%d·%d + %d = %s, want %s", a, b, c, sum.big(), want)
		}
		if back := sum.sub(int128Of(c)); back != ab {
			t.Fatalf("(%s + %d) − %d = %s", ab.big(), c, c, back.big())
		}
		if want := wrap(new(big.Int).Mul(ab.big(), big.NewInt(c))); ab.mul(c).big().Cmp(want) != 0 {
			t.Fatalf("%s·%d = %s, want %s", ab.big(), c, ab.mul(c).big(), want)
		}
		exact, _ := new(big.Float).SetInt(ab.big()).Float64()
		if got := ab.float(); math.Abs(got-exact) > math.Abs(exact)*0x1p-52 {
			t.Fatalf("float of %s = %g, want %g", ab.big(), got, exact)
		}
	}
}

func TestInt128FloorDiv(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		q, n := int64(rng.Uint64())>>(16+rng.IntN(40)), 1+rng.Int64N(maxSamples)
		r := rng.Int64N(n)
		if got := mul64(q, n).add(int128Of(r)).floorDiv(n); got != q {
			t.Fatalf("floor((%d·%d + %d) / %d) = %d", q, n, r, n, got)
		}
	}
}
