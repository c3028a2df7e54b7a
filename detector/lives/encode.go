// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package lives

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// encoding is the version of what AppendBinary writes. Other ages need another one.
	encoding = 1
	// maxName bounds the name of a program or an image, in bytes.
	maxName = 512
	// maxBytes is more memory than there can be: that of the detector.
	maxBytes = 1 << 48
	// idSize and lifeSize are what a program without its names and a life take in bytes.
	idSize   = 8 + 8 + 1 + 2 + 2 + 1
	lifeSize = 9*4 + 2*len(ages) + 2
)

// errEncoding says that bytes are not what AppendBinary wrote.
var errEncoding = errors.New("not a book of lives")

// tidy returns the name with what can be read again: texts that are not too long.
func (id ID) tidy() ID {
	id.Program, id.Image = tidyName(id.Program), tidyName(id.Image)
	return id
}

func tidyName(s string) string {
	for len(s) > maxName {
		_, last := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-last]
	}
	return strings.ToValidUTF8(s, "?")
}

// tidy returns the life without numbers that cannot be.
func (l *Life) tidy() Life {
	t := *l
	for _, v := range []*Bytes{&t.Load, &t.Height, &t.Peak, &t.Rate, &t.RateError} {
		if !(*v >= 0 && *v <= maxBytes) {
			*v = 0
		}
	}
	if t.End >= numEnds {
		t.End = EndUnknown
	}
	return t
}

// MarshalBinary returns the book as bytes: see AppendBinary.
func (b *Book) MarshalBinary() ([]byte, error) { return b.AppendBinary(nil) }

// AppendBinary appends the book to to, in the order of the keys: the same lives are the same bytes. There
// is no error. Who adds a life meanwhile waits for a millisecond or two.
func (b *Book) AppendBinary(to []byte) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	size := 5
	for _, p := range b.programs {
		size += idSize + len(p.id.Program) + len(p.id.Image) + lifeSize*len(p.lives)
	}
	to = append(slices.Grow(to, size), encoding)
	to = binary.BigEndian.AppendUint32(to, uint32(len(b.programs)))
	for _, key := range slices.Sorted(maps.Keys(b.programs)) {
		p := b.programs[key]
		to = binary.BigEndian.AppendUint64(to, uint64(p.id.Exact))
		to = binary.BigEndian.AppendUint64(to, uint64(p.id.Kin))
		to = append(to, byte(p.id.Basis))
		for _, name := range []string{p.id.Program, p.id.Image} {
			to = append(binary.BigEndian.AppendUint16(to, uint16(len(name))), name...)
		}
		to = append(to, byte(len(p.lives)))
		for i := range p.lives {
			to = p.lives[i].append(to)
		}
	}
	return to, nil
}

func (l *Life) append(to []byte) []byte {
	for _, t := range [...]Seconds{l.Ended, l.Lasted, l.Loaded, l.Risen} {
		to = binary.BigEndian.AppendUint32(to, uint32(t))
	}
	for _, v := range [...]Bytes{l.Load, l.Height, l.Peak, l.Rate, l.RateError} {
		to = binary.BigEndian.AppendUint32(to, math.Float32bits(float32(v)))
	}
	for _, share := range l.curve {
		to = binary.BigEndian.AppendUint16(to, share)
	}
	flags := byte(0)
	for i, is := range [...]bool{l.Growing, l.Leaked, l.Full} {
		if is {
			flags |= 1 << i
		}
	}
	return append(to, byte(l.End), flags)
}

// UnmarshalBinary puts what AppendBinary wrote in the place of what the book holds. It refuses what no
// book can hold, and leaves it as it is then.
func (b *Book) UnmarshalBinary(from []byte) error {
	if len(from) > 0 && from[0] != encoding {
		return fmt.Errorf("%w of version %d", errEncoding, encoding)
	}
	r := reader{b: from}
	r.take(1)
	n := int(binary.BigEndian.Uint32(r.take(4)))
	if n > MaxPrograms {
		return fmt.Errorf("%w: %d programs are more than %d", errEncoding, n, MaxPrograms)
	}
	programs := make(map[Key]*program)
	last := Key(0)
	for i := 0; i < n && !r.failed; i++ {
		p := r.program()
		r.failed = r.failed || p.id.Exact <= last
		programs[p.id.Exact], last = p, p.id.Exact
	}
	if r.failed || len(r.b) > 0 {
		return errEncoding
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.programs = programs
	b.change()
	return nil
}

// reader reads bytes until it has failed.
type reader struct {
	b      []byte
	failed bool
}

// take returns the next n bytes; zeros where there are not so many.
func (r *reader) take(n int) []byte {
	if r.failed = r.failed || n > len(r.b); r.failed {
		return make([]byte, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) name() string {
	n := int(binary.BigEndian.Uint16(r.take(2)))
	s := string(r.take(n))
	r.failed = r.failed || s != tidyName(s)
	return s
}

func (r *reader) program() *program {
	p := &program{id: ID{
		Exact: Key(binary.BigEndian.Uint64(r.take(8))),
		Kin:   Key(binary.BigEndian.Uint64(r.take(8))),
		Basis: Basis(r.take(1)[0]),
	}}
	p.id.Program, p.id.Image = r.name(), r.name()
	n := int(r.take(1)[0])
	if p.id.Basis>>len(basisNames) != 0 || n == 0 || n > MaxLives || n*lifeSize > len(r.b) {
		r.failed = true
		return p
	}
	p.lives = make([]Life, n)
	last := Seconds(0)
	for i := range p.lives {
		l := &p.lives[i]
		r.life(l)
		r.failed = r.failed || l.Ended < last
		last = l.Ended
	}
	return p
}

func (r *reader) life(l *Life) {
	for _, t := range [...]*Seconds{&l.Ended, &l.Lasted, &l.Loaded, &l.Risen} {
		*t = Seconds(binary.BigEndian.Uint32(r.take(4)))
	}
	for _, v := range [...]*Bytes{&l.Load, &l.Height, &l.Peak, &l.Rate, &l.RateError} {
		*v = Bytes(math.Float32frombits(binary.BigEndian.Uint32(r.take(4))))
	}
	for i := range l.curve {
		l.curve[i] = binary.BigEndian.Uint16(r.take(2))
	}
	end, flags := r.take(1)[0], r.take(1)[0]
	l.End, l.Growing, l.Leaked, l.Full = End(end), flags&1 != 0, flags&2 != 0, flags&4 != 0
	r.failed = r.failed || flags > 7 || l.tidy() != *l
}
