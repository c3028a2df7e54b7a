// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"
	"time"
)

// packed are rows of numbers, each written as its difference from the row before, without loss. They take half of the
// room of plain structs. The first row is not in it.
type packed []byte

// rowRoom is more than a row takes.
const rowRoom = 128

// add adds a row at the end.
func (p *packed) add(row []byte) {
	if need := len(*p) + len(row); need > cap(*p) {
		// It grows by an eighth: append would leave more room free.
		*p = append(slices.Grow(packed(nil), need+need/8), *p...)
	}
	*p = append(*p, row...)
}

// cut removes all rows before the rest.
func (p *packed) cut(rest packed) {
	if *p = (*p)[:copy(*p, rest)]; len(*p) == 0 {
		*p = nil // as it is restored
	}
}

var errRows = errors.New("no rows of numbers")

// The numbers in the rows of points and blocks.
const (
	pointNumbers = 2
	blockNumbers = 9
)

// A row has half a byte for each of its numbers, then the numbers. The half is the size of the number in bytes, up to 8; with
// paged added, the number is divided by page: most amounts of memory are multiples of it.
const (
	page  = 4096
	paged = 8
)

// appendRow appends a row of these numbers.
func appendRow(b []byte, numbers []uint64) []byte {
	head := len(b)
	b = append(b, make([]byte, (len(numbers)+1)/2)...)
	for i, v := range numbers {
		half := byte(0)
		if v > 0 && v%page == 0 {
			v, half = v/page, paged
		}
		half += byte(bits.Len64(v)+7) / 8
		b[head+i/2] |= half << (i % 2 * 4)
		for ; v > 0; v >>= 8 {
			b = append(b, byte(v))
		}
	}
	return b
}

// sizeOf returns the size of a number that has that half, in bytes.
func sizeOf(half int) int {
	if half == 0 {
		return 0
	}
	return (half-1)&7 + 1 // of 1 to 8 and 9 to 15
}

// whole reports whether b begins with a whole row of so many numbers.
func whole(b []byte, numbers int) bool {
	size := (numbers + 1) / 2
	if len(b) < size {
		return false
	}
	for i := range numbers {
		size += sizeOf(int(b[i/2] >> (i % 2 * 4) & 15))
	}
	return len(b) >= size
}

// readRow reads a whole row of so many numbers, and returns the bytes after it.
func readRow(b []byte, numbers []uint64) []byte {
	head, b := b, b[(len(numbers)+1)/2:]
	for i := range numbers {
		half := int(head[i/2] >> (i % 2 * 4) & 15)
		size := sizeOf(half)
		var v uint64
		switch {
		case half == 0:
		case len(b) >= 8:
			v = binary.LittleEndian.Uint64(b) & (math.MaxUint64 >> (64 - 8*size))
		default:
			for j := range size {
				v |= uint64(b[j]) << (8 * j)
			}
		}
		if half > paged {
			v *= page
		}
		numbers[i], b = v, b[size:]
	}
	return b
}

// zigzag makes a small number of a small one of either sign.
func zigzag(d int64) uint64   { return uint64(d)<<1 ^ uint64(d>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// differing returns the bits in which two numbers differ: near ones share the upper bits.
func differing(v, before float64) uint64 { return math.Float64bits(v) ^ math.Float64bits(before) }

// alike returns the number that differs in these bits.
func alike(u uint64, before float64) float64 {
	return math.Float64frombits(u ^ math.Float64bits(before))
}

func (p *Point) pack(b []byte, before *Point) []byte {
	return appendRow(b, []uint64{zigzag(int64(p.At - before.At)), zigzag(int64(p.V - before.V))})
}

// unpack reads the point after another one, and returns the bytes after it.
func (p *Point) unpack(b []byte, before *Point) []byte {
	var n [pointNumbers]uint64
	b = readRow(b, n[:])
	p.At, p.V = before.At+time.Duration(unzigzag(n[0])), before.V+Bytes(unzigzag(n[1]))
	return b
}

// pack appends the block of a window whose blocks have that width.
func (b *Block) pack(to []byte, before *Block, width time.Duration) []byte {
	return appendRow(to, []uint64{
		zigzag(int64(b.From - before.From - width)), zigzag(b.N - before.N), zigzag(b.Spikes - before.Spikes), // next to always 0
		differing(b.X, before.X), differing(b.Y, before.Y),
		differing(b.XX, before.XX), differing(b.XY, before.XY), differing(b.YY, before.YY),
		zigzag(int64(b.Covered - width)),
	})
}

// unpack reads the block after another one, and returns the bytes after it.
func (b *Block) unpack(from []byte, before *Block, width time.Duration) []byte {
	var n [blockNumbers]uint64
	from = readRow(from, n[:])
	b.From, b.N, b.Spikes = before.From+width+time.Duration(unzigzag(n[0])), before.N+unzigzag(n[1]), before.Spikes+unzigzag(n[2])
	b.X, b.Y = alike(n[3], before.X), alike(n[4], before.Y)
	b.XX, b.XY, b.YY = alike(n[5], before.XX), alike(n[6], before.XY), alike(n[7], before.YY)
	b.Covered = width + time.Duration(unzigzag(n[8]))
	return from
}
