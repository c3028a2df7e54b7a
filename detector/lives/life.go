// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package lives

import (
	"math"
	"time"
)

// ages are the ages at which it is kept what a life held.
var ages = [...]time.Duration{
	time.Minute, 3 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
	4 * time.Hour, 8 * time.Hour, 16 * time.Hour, 32 * time.Hour, 64 * time.Hour,
}

// End says how a life ended.
type End uint8

// How a life may end. Only one that ended by itself shows that its growth would have ended.
const (
	EndUnknown   End = iota
	EndCompleted     // by itself, without an error
	EndFailed        // by itself, with one
	EndStopped       // something else ended it: a deploy, an eviction
	numEnds
)

// endNames are those that people and programs read.
var endNames = [numEnds]string{"unknown", "completed", "failed", "stopped"}

// String returns how it ended, such as "stopped".
func (e End) String() string {
	if e >= numEnds {
		e = EndUnknown
	}
	return endNames[e]
}

// Seconds is a time in whole seconds: a Duration of half the size.
type Seconds uint32

// Duration returns it as a Duration.
func (s Seconds) Duration() time.Duration { return time.Duration(s) * time.Second }

// SecondsOf returns d in whole seconds.
func SecondsOf(d time.Duration) Seconds {
	return Seconds(min(max(0, d/time.Second), 1<<32-1))
}

// Bytes is an amount of memory to seven digits.
type Bytes float32

// Curve is the most that was held until each of the ages since the one before; 0 where the life was
// over by then.
type Curve [len(ages)]Bytes

// Note adds what is held at that age, and returns the position of the age; -1 beyond the last one.
func (c *Curve) Note(age time.Duration, held float64) {
	for i, a := range ages {
		if age <= a {
			c[i] = max(c[i], Bytes(held))
			return
		}
	}
}

// shares is a Curve in shares of a peak: half the size.
type shares [len(ages)]uint16

// Rise is when a life last rose to a new height, but for a little.
type Rise struct {
	Height Bytes
	Age    Seconds
}

// Note adds the height that is reached at an age.
func (r *Rise) Note(age time.Duration, height float64) {
	switch h := Bytes(height); {
	case r.Height == 0: // nobody saw it rise to that
		r.Height = h
	case h > margin*r.Height:
		r.Height, r.Age = h, SecondsOf(age)
	}
}

// Life is what is kept of one life of a program: 64 bytes.
type Life struct {
	Ended  Seconds // since the Unix epoch
	Lasted Seconds
	// Loaded is after how long it first computed, and Load what it held then; 0 where that is not known.
	Loaded Seconds
	Load   Bytes
	Risen  Seconds // after how long it held its height, but for a little
	// Height is the highest level that it held for a minute, and Peak the highest sample.
	Height, Peak Bytes
	// Rate is that of the growth at its end in bytes per second, with its standard error; 0 without.
	Rate, RateError Bytes
	curve           shares
	End             End
	Growing         bool // to a new height until its end
	Leaked          bool // it was leaking at its end
	Full            bool // the memory was full at its end
}

// began returns when the life began.
func (l *Life) began() Seconds { return l.Ended - min(l.Lasted, l.Ended) }

// held returns the most that the life held, but for spikes.
func (l *Life) held() Bytes { return min(l.Peak, spiky*l.Height) }

// Teaches reports whether the life shows what a healthy one holds: it completed, or its growth had ended
// before it did. How high growth would have gone that something else ended is not known.
func (l *Life) Teaches() bool {
	return !l.Leaked && !l.Full && l.Height > 0 && (l.End == EndCompleted || l.settled())
}

// settled reports whether the life stayed at its height in the end.
func (l *Life) settled() bool {
	return !l.Growing && settledPart*(l.Lasted-min(l.Risen, l.Lasted)) >= l.Lasted
}

// SetCurve notes what was held at each age. Peak must be known.
func (l *Life) SetCurve(c *Curve) {
	for i, held := range c {
		if held > 0 {
			l.curve[i] = uint16(max(1, min(held/l.Peak, 1)*math.MaxUint16))
		}
	}
}

// Curve returns what was held at each age.
func (l *Life) Curve() (c Curve) {
	for i, share := range l.curve {
		c[i] = l.Peak * Bytes(share) / math.MaxUint16
	}
	return c
}
