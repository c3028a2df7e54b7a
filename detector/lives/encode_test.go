// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package lives

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

// whole is a life of which everything is known.
func whole(d int) Life {
	var c Curve
	for i := range 10 {
		c.Note(time.Duration(i)*time.Hour, float64(10+i))
	}
	l := Life{
		Ended: SecondsOf(time.Duration(d) * day), Lasted: 36000, Loaded: 60, Load: 10, Height: 18, Peak: 19, Rate: 0.5, RateError: 0.1,
		End: EndStopped, Growing: true, Full: true,
	}
	l.SetCurve(&c)
	return l
}

// full is a book at its bounds, with names as long as those of images are.
func full() *Book {
	b := NewBook()
	for i := range MaxPrograms {
		id := ID{
			Exact: Key(i + 1), Kin: Key(i + 2), Basis: BasisProgram | BasisImage, Program: fmt.Sprintf("train-%d.py", i),
			Image: fmt.Sprintf("registry.example.org/team/trainer-%d@sha256:%064d", i, i),
		}
		for d := range MaxLives {
			l := whole(d + i%7)
			b.Add(id, &l, someday)
		}
	}
	return b
}

func encoded(t testing.TB, b *Book) []byte {
	t.Helper()
	to, err := b.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func TestEncoding(t *testing.T) {
	small := book(ID{Exact: 7, Kin: 8, Basis: BasisProgram | BasisGPU, Program: "train.py", Image: "registry/llm@sha256:1"}, whole(3), whole(1), ran(2, 100))
	other := ran(9, 50)
	small.Add(ID{Exact: math.MaxUint64}, &other, someday)
	for name, b := range map[string]*Book{"empty": NewBook(), "small": small, "full": full()} {
		from, again := encoded(t, b), NewBook()
		if err := again.UnmarshalBinary(from); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(again.Programs(), b.Programs()) || !bytes.Equal(encoded(t, again), from) {
			t.Errorf("%s: it is another one when it is read", name)
		}
		select {
		case <-again.Changed():
		default:
			t.Errorf("%s: nothing has changed", name)
		}
	}
	if n := len(encoded(t, full())); n > 2<<20 {
		t.Errorf("a full book takes %d bytes", n)
	}
}

// What nobody wrote is refused, and leaves what is known as it is.
func TestWrongEncoding(t *testing.T) {
	b := book(ID{Exact: 7, Kin: 8, Basis: BasisProgram, Program: "train.py"}, whole(1), whole(2))
	good := encoded(t, b)
	const first = 5 + idSize + len("train.py") // of the lives
	for name, change := range map[string]func([]byte) []byte{
		"nothing":           func([]byte) []byte { return nil },
		"another version":   func(b []byte) []byte { b[0] = encoding + 1; return b },
		"cut":               func(b []byte) []byte { return b[:len(b)-1] },
		"more":              func(b []byte) []byte { return append(b, 0) },
		"too many programs": func(b []byte) []byte { binary.BigEndian.PutUint32(b[1:], MaxPrograms+1); return b },
		"no key":            func(b []byte) []byte { clear(b[5:13]); return b },
		"an unknown basis":  func(b []byte) []byte { b[21] = 1 << len(basisNames); return b },
		"a name of no text": func(b []byte) []byte { b[24] = 0xff; return b },
		"no lives":          func(b []byte) []byte { b[first-1] = 0; return b },
		"too many lives":    func(b []byte) []byte { b[first-1] = MaxLives + 1; return b },
		"NaN":               func(b []byte) []byte { binary.BigEndian.PutUint32(b[first+16:], 0x7fc00000); return b },
		"negative":          func(b []byte) []byte { b[first+20] |= 0x80; return b },
		"infinite":          func(b []byte) []byte { binary.BigEndian.PutUint32(b[first+24:], 0x7f800000); return b },
		"an unknown end":    func(b []byte) []byte { b[first+lifeSize-2] = byte(numEnds); return b },
		"an unknown flag":   func(b []byte) []byte { b[first+lifeSize-1] = 8; return b },
		"the newest first":  func(b []byte) []byte { b[first] = 0xff; return b },
		"a key twice": func(b []byte) []byte {
			binary.BigEndian.PutUint32(b[1:], 2)
			return append(b, b[5:]...)
		},
	} {
		kept := book(ID{Exact: 1}, ran(1, 100))
		before := encoded(t, kept)
		if err := kept.UnmarshalBinary(change(bytes.Clone(good))); err == nil || !strings.Contains(err.Error(), "not a book of lives") {
			t.Errorf("%s: error %v", name, err)
		}
		if !bytes.Equal(encoded(t, kept), before) {
			t.Errorf("%s: what is known has changed", name)
		}
	}
}

// What cannot be read again is not written: it would cost all other lives.
func TestTidy(t *testing.T) {
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		id   ID
		life Life
		want Program
	}{
		"impossible numbers": {
			ID{Exact: 1},
			Life{Load: Bytes(nan), Height: -1, Peak: Bytes(math.Inf(1)), Rate: -5, RateError: maxBytes * 2, End: numEnds},
			Program{ID{Exact: 1}, []Life{{}}},
		},
		"a name without end": {
			ID{Exact: 1, Program: strings.Repeat("ä", maxName), Image: "a\xff"},
			ran(1, 5),
			Program{ID{Exact: 1, Program: strings.Repeat("ä", maxName/2), Image: "a?"}, []Life{ran(1, 5)}},
		},
		"a rune at the bound": {
			ID{Exact: 1, Program: "a" + strings.Repeat("ä", maxName)},
			ran(1, 5),
			Program{ID{Exact: 1, Program: "a" + strings.Repeat("ä", maxName/2-1)}, []Life{ran(1, 5)}},
		},
	} {
		b := book(c.id, c.life)
		if got := b.Programs(); !reflect.DeepEqual(got, []Program{c.want}) {
			t.Errorf("%s: %+v", name, got)
		}
		if err := NewBook().UnmarshalBinary(encoded(t, b)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	b := book(ID{Exact: 7, Kin: 8, Basis: BasisProgram, Program: "train.py"}, whole(1), whole(2))
	other := ran(3, 100)
	b.Add(ID{Exact: 9, Image: "registry/llm@sha256:1"}, &other, someday)
	f.Add(encoded(f, b))
	f.Add(encoded(f, NewBook()))
	f.Add([]byte{encoding, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, from []byte) {
		b := NewBook()
		if b.UnmarshalBinary(from) == nil && !bytes.Equal(encoded(t, b), from) {
			t.Errorf("%q is another book when it is written", from)
		}
		for _, p := range b.Programs() {
			b.Prior(p.ID, p.Lives[len(p.Lives)-1].Ended.Duration())
		}
	})
}

// A book at its bounds takes 2.5 MiB at most, the names included.
func TestMemory(t *testing.T) {
	held := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for name, fill := range map[string]func() *Book{
		"added": full,
		"read": func() *Book {
			b := NewBook()
			if err := b.UnmarshalBinary(encoded(t, full())); err != nil {
				t.Fatal(err)
			}
			return b
		},
	} {
		before := held()
		b := fill()
		took := float64(held()-before) / (1 << 20)
		runtime.KeepAlive(b)
		t.Logf("%s: %.2f MiB", name, took)
		if took > 2.5 {
			t.Errorf("%s: %.2f MiB", name, took)
		}
	}
}

// Sampling does not allocate to look up what is known, nor to be told that it has nothing to say.
func TestPriorDoesNotAllocate(t *testing.T) {
	b := full()
	now := time.Duration(MaxLives+9) * day
	for name, id := range map[string]ID{"known": {Exact: 500, Kin: 501}, "kin": {Exact: 5000, Kin: 501}, "unknown": {Exact: 5000, Kin: 5000}} {
		if n := testing.AllocsPerRun(10, func() { b.Prior(id, now) }); n > 0 {
			t.Errorf("%s: %g allocations", name, n)
		}
	}
}

func BenchmarkPrior(b *testing.B) {
	book := full()
	for name, id := range map[string]ID{"known": {Exact: 500, Kin: 501}, "unknown": {Exact: 5000, Kin: 5000}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				book.Prior(id, 40*day)
			}
		})
	}
}

func BenchmarkMarshal(b *testing.B) {
	book := full()
	b.SetBytes(int64(len(encoded(b, book))))
	for b.Loop() {
		encoded(b, book)
	}
}
