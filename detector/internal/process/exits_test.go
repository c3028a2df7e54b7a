// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// rest is what nobody accounts for before anyone ends, and gone the second in which who ends is gone.
const (
	rest = 512 * mib
	gone = 600
)

// plot is a memory over time.
type plot struct {
	left map[int]stat.Bytes         // who is gone at second gone, and what they held
	at   func(s int) stat.Bytes     // the residual
	pace float64                    // bytes per second
	act  func(p *Exits[int], s int) // before the frame, nil nothing
}

// watch returns what is unreleased and when, of a memory that is seen every so many seconds: "660-2000
// 1:6" is 6 GiB of process 1.
func watch(p *Exits[int], to, step int, c plot) string {
	var b strings.Builder
	before, since := "", 0
	for s := 0; s <= to; s += step {
		if c.act != nil {
			c.act(p, s)
		}
		interval := time.Duration(step) * time.Second
		for key := range 100 {
			if used, ok := c.left[key]; ok && s >= gone && s < gone+step {
				p.Add(key, seconds(s), interval, used, defaults())
			}
		}
		p.Observe(seconds(s), interval, c.at(s), c.pace, defaults())
		var held strings.Builder
		for _, e := range p.List {
			if e.Stays {
				fmt.Fprintf(&held, " %d:%.3g", e.Key, float64(e.Held)*p.Remaining()/float64(gib))
			}
		}
		if now := held.String(); now != before || s+step > to {
			if before != "" {
				fmt.Fprintf(&b, ", %d-%d%s", since, s, before)
			}
			before, since = now, s
		}
	}
	return strings.TrimPrefix(b.String(), ", ")
}

// held is the residual of which so many GiB stay from second gone on, and others from later seconds on: second, GiB, and so on.
func held(gibs stat.Bytes, later ...int) func(s int) stat.Bytes {
	return func(s int) stat.Bytes {
		if s < gone {
			return rest
		}
		now := gibs
		for i := 0; i < len(later) && s >= later[i]; i += 2 {
			now = stat.Bytes(later[i+1])
		}
		return rest + now*gib
	}
}

func TestUnreleasedMemory(t *testing.T) {
	const gone2 = gone + 400
	one := map[int]stat.Bytes{1: 8 * gib}
	after := func(held func(s int) stat.Bytes) func(s int) stat.Bytes {
		return func(s int) stat.Bytes {
			if s < gone {
				return rest
			}
			return rest + held(s)
		}
	}
	freeing := func(in int) func(s int) stat.Bytes {
		return after(func(s int) stat.Bytes { return max(0, 8*gib*stat.Bytes(gone+in-s)/stat.Bytes(in)) })
	}
	leave := func(at int) func(p *Exits[int], s int) { // process 2 of 3 GiB
		return func(p *Exits[int], s int) {
			if s == at {
				p.Add(2, seconds(s), time.Second, 3*gib, defaults())
			}
		}
	}
	named := gone + int(defaults().UnreleasedAfter.Seconds())
	for _, c := range []struct {
		name string
		plot plot
		want string
	}{
		{"all of it stays", plot{left: one, at: held(8)}, fmt.Sprintf("%d-2000 1:8", named)},
		{"half of it", plot{left: one, at: held(4)}, "660-2000 1:4"},
		{"more than it held", plot{left: one, at: held(20)}, "660-2000 1:8"},
		{"nothing", plot{left: one, at: held(0)}, ""},
		{"the driver needs a while", plot{left: one, at: freeing(int(ReleaseGrace.Seconds()) - 1)}, ""},
		{"or longer", plot{left: one, at: freeing(50)}, ""},
		{"slowly freed, and yet not all", plot{left: one, at: after(func(s int) stat.Bytes { return max(2*gib, 8*gib-stat.Bytes(s-gone)*gib) })}, "660-2000 1:2"},
		{"less than counts", plot{left: one, at: after(func(int) stat.Bytes { return stat.Bytes(defaults().MinHeld) - 1 })}, ""},
		{"as much as counts", plot{left: one, at: after(func(int) stat.Bytes { return stat.Bytes(defaults().MinHeld) })}, "660-2000 1:0.0625"},
		{"a process too small to count", plot{left: map[int]stat.Bytes{1: 60 * mib}, at: held(1)}, ""},
		{"it comes later, of somebody else", plot{left: one, at: held(0, gone+20, 8)}, ""},
		{"it goes at last", plot{left: one, at: held(8, 1500, 0)}, "660-1501 1:8"},
		{"it shrinks, and half of it is its end", plot{left: one, at: held(8, 1000, 5, 1500, 4)}, "660-1001 1:8, 1001-1501 1:5"},
		{"others come on top, and it goes", plot{left: one, at: held(8, 1000, 30, 1500, 22)}, "660-1501 1:8"},
		{"three that end together share it", plot{left: map[int]stat.Bytes{1: 3 * gib, 2: 8 * gib, 3: 5 * gib}, at: held(8)}, "660-2000 2:4 3:2.5 1:1.5"},
		{"the other one ends soon after", plot{left: map[int]stat.Bytes{1: 9 * gib}, at: held(8), act: leave(gone + 10)}, "670-2000 1:6 2:2"},
		{"too late to share", plot{left: map[int]stat.Bytes{1: 9 * gib}, at: held(8), act: leave(gone + 11)}, "660-2000 1:8"},
		{"it goes as it would be named", plot{left: one, at: held(8, named, 0)}, ""},
		{"two end one after the other, and the first one goes", plot{left: map[int]stat.Bytes{1: 9 * gib}, at: held(9, gone2, 12, 1500, 3), act: leave(gone2)}, "660-1060 1:9, 1060-1501 1:9 2:3, 1501-2000 2:3"},
		{"both go at once", plot{left: map[int]stat.Bytes{1: 9 * gib}, at: held(9, gone2, 12, 1500, 0), act: leave(gone2)}, "660-1060 1:9, 1060-1501 1:9 2:3"},
		{"the first one has shrunk before the other one ends", plot{left: map[int]stat.Bytes{1: 9 * gib}, at: held(9, 900, 7, gone2, 10), act: leave(gone2)}, "660-901 1:9, 901-1000 1:7, 1000-1060 1:9, 1060-2000 1:7 2:3"}, // while it is not known whose the rise is, it counts
		{"it is in the list again", plot{left: one, at: held(8), act: func(p *Exits[int], s int) {
			if s == 1000 {
				p.Remove(1)
			}
		}}, "660-1000 1:8"},
		{"it was only missing", plot{left: one, at: held(8), act: func(p *Exits[int], s int) {
			if s == gone+5 {
				p.Remove(1)
			}
		}}, ""},
		{"what leaks beside it is not left by it", plot{left: one, pace: float64(32 * mib), at: func(s int) stat.Bytes { return rest + stat.Bytes(s)*32*mib }}, ""},
		{"that goes on beside what is", plot{left: one, pace: float64(mib), at: func(s int) stat.Bytes { return held(8)(s) + stat.Bytes(s)*mib }}, "660-2000 1:8"},
		{"the same, if that is not known", plot{left: one, at: func(s int) stat.Bytes { return rest + stat.Bytes(s)*32*mib }}, "660-2000 1:0.0938"},
		{"lists that are read a moment late", plot{left: one, at: func(s int) stat.Bytes {
			v := held(8)(s)
			if s%7 == 0 {
				v -= 10 * gib // of which a process has let go in between
			}
			return v
		}}, "660-2000 1:8"},
	} {
		var p Exits[int]
		testkit.Equal(t, watch(&p, 2000, 1, c.plot), c.want, "%s", c.name)
	}
}

// Where frames are seldom it takes three of them, and nothing that is freed is blamed.
func TestUnreleasedSeldomSeen(t *testing.T) {
	one := map[int]stat.Bytes{1: 8 * gib}
	for step, want := range map[int]string{15: "660-1200 1:8", 60: "720-1200 1:8"} {
		var p Exits[int]
		testkit.Equal(t, watch(&p, 1200, step, plot{left: one, at: held(8)}), want, "every %d s", step)
		p = Exits[int]{}
		if got := watch(&p, 1200, step, plot{left: one, at: held(0)}); got != "" || len(p.List) > 0 {
			t.Errorf("every %d s, and freed: %q", step, got)
		}
	}
}

// Nothing can be said of an exit before which the residual was not known, and what was watched when it was
// lost for long is forgotten. What stays by then goes on to.
func TestUnreleasedNeedsTheResidual(t *testing.T) {
	for _, c := range []struct {
		ago, interval time.Duration
		known         bool
	}{
		{stale, time.Second, true},
		{stale + 1, time.Second, false},
		{15 * time.Minute, 5 * time.Minute, true},
		{15*time.Minute + 1, 5 * time.Minute, false},
	} {
		for name, act := range map[string]func(p *Exits[int]){
			"exit": func(p *Exits[int]) { p.Add(1, start+c.ago, c.interval, gib, defaults()) },
			"frame": func(p *Exits[int]) {
				p.List = []Exit[int]{{Key: 1, Used: gib, Held: gib}}
				p.Observe(start+c.ago, c.interval, rest+gib, 0, defaults())
			},
		} {
			var p Exits[int]
			p.Observe(start, c.interval, rest, 0, defaults())
			if act(&p); len(p.List) == 1 != c.known || name == "frame" && len(p.Recent) == 2 != c.known {
				t.Errorf("%s after %s: %d exits are watched, %d residuals", name, c.ago, len(p.List), len(p.Recent))
			}
		}
	}
	var p Exits[int]
	if p.Add(1, seconds(100), time.Second, gib, defaults()); len(p.List) > 0 {
		t.Error("an exit is watched without any residual")
	}
	p.Observe(seconds(100), time.Second, rest, 0, defaults())
	p.Add(1, seconds(101), time.Second, gib, defaults())
	p.List = append(p.List, Exit[int]{Key: 2, Held: gib, Stays: true})
	p.Observe(seconds(100)+stale+1, time.Second, rest+gib, 0, defaults())
	if len(p.List) != 1 || p.List[0].Key != 2 {
		t.Errorf("%+v", p.List)
	}
}

// The residual before an exit is the middle one of the last: a frame that was off does not count.
func TestResidualBeforeAnExit(t *testing.T) {
	for _, c := range []struct {
		name   string
		before []stat.Bytes // GiB
		want   stat.Bytes
	}{
		{"one", []stat.Bytes{3}, 3},
		{"even", []stat.Bytes{3, 3, 3, 3}, 3},
		{"a frame that was off", []stat.Bytes{3, 3, 3, 9}, 3},
		{"two frames ago", []stat.Bytes{3, 3, 9, 3}, 3},
		{"it grows: the lower one of the last two", []stat.Bytes{1, 2, 3, 4, 5, 6, 7, 8, 9}, 8},
		{"it falls", []stat.Bytes{9, 8, 7, 6, 5, 4, 3, 2, 1}, 5},
		{"only the last ones count", append(make([]stat.Bytes, 20), 5, 5, 5, 5, 5, 5, 5, 5, 5), 5},
	} {
		var p Exits[int]
		for i, v := range c.before {
			p.Observe(seconds(i), time.Second, v*gib, 0, defaults())
		}
		testkit.Equal(t, p.before(), c.want*gib, "%s", c.name)
	}
}

// Of a crowd the largest are named, whatever the order, and as many at most. Who comes later is not
// named as long as all of them stay.
func TestUnreleasedIsBounded(t *testing.T) {
	const crowd = maxExits + 8
	for _, rising := range []bool{true, false} {
		var p Exits[int]
		left, key := map[int]stat.Bytes{}, func(i int) int { return i } // the i-th smallest
		if !rising {
			key = func(i int) int { return crowd - 1 - i }
		}
		for i := range crowd {
			left[key(i)] = stat.Bytes(i+1) * 64 * mib
		}
		watch(&p, 1000, 1, plot{left: left, at: held(60), act: func(p *Exits[int], _ int) {
			if len(p.List) > maxExits {
				t.Fatalf("%d exits are watched", len(p.List))
			}
		}})
		if len(p.List) != MaxUnreleased {
			t.Fatalf("%d are named", len(p.List))
		}
		for i, e := range p.List {
			testkit.Equal(t, e.Key, key(crowd-1-i), "process at %d", i)
		}
	}
	var p Exits[int]
	watch(&p, 2500, 1, plot{at: func(s int) stat.Bytes { return rest + stat.Bytes(s/100)*gib }, act: func(p *Exits[int], s int) {
		if s > 0 && s%100 == 0 {
			p.Add(s/100, seconds(s), time.Second, gib, defaults())
		}
	}})
	if n := p.staying(); n != MaxUnreleased || p.List[n-1].Key != MaxUnreleased {
		t.Errorf("%d are named of those that came one after the other", n)
	}
}

const (
	mib = stat.Bytes(1 << 20)
	gib = stat.Bytes(1 << 30)
	// start is when tests begin: 0 would mean "never" in many a field.
	start = 1000 * time.Hour
)

func defaults() *series.Config {
	cfg := series.DefaultConfig()
	return &cfg
}

func seconds(n int) time.Duration { return start + time.Duration(n)*time.Second }
