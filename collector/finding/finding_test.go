// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

var (
	a   = Who{Process: "a.py"}
	b   = Who{Process: "b.py", Namespace: "ml", Pod: "b-0"}
	pod = Who{Namespace: "ml", Pod: "b-0", Whole: true}
)

var must = testkit.Must

// start is the time of the first frame.
const start = 1000 * time.Hour

// grows is the verdict on a series that takes part in what fills a memory of which so many seconds are left.
func grows(rate float64, leak bool) *detector.Verdict {
	v := &detector.Verdict{Judged: true, Leak: leak, SecondsToOOM: detector.Of(600)}
	if v.Windows[0].Slope = detector.Of(rate); leak {
		v.Rate = detector.Of(rate)
	}
	return v
}

// memory is a frame at a time after the start.
func memory(at time.Duration) *Sample {
	s := &Sample{Judgement: &detector.Judgement[gpu.ProcessID]{T: start + at}, FillsWithin: 15 * time.Minute}
	s.Judgement.Device = detector.Verdict{Judged: true, SecondsToOOM: detector.Of(math.Inf(1)), Upper: detector.Of(math.Inf(1))}
	return s
}

// foretold is one whose end is foretold.
func foretold(by detector.Evidence, seconds float64, page bool, parts ...Part) *Sample {
	s := memory(0)
	j := s.Judgement
	j.Evidence, j.Page, j.Device.SecondsToOOM, j.Device.Upper = by, page, detector.Of(seconds), detector.Of(2*seconds)
	if by == detector.EvidenceLeak {
		j.Device.Leak, j.Device.Rate = true, detector.Of(7)
	}
	s.Processes = parts
	return s
}

// due is what alerts would say.
func due(m *Memory, s *Sample) (list []Finding) {
	for _, f := range m.Judge(s) {
		if !f.OOMDue {
			f.OOM, f.Evidence = detector.Value{}, detector.EvidenceNone
		}
		if !f.LeakDue {
			f.Leaking = detector.Value{}
		}
		if f.OOMDue, f.LeakDue = false, false; f != (Finding{Who: f.Who}) {
			list = append(list, f)
		}
	}
	return list
}

// lasting is what is said of a sample that has lasted for all waits.
func lasting(m *Memory, s *Sample) (list []Finding) {
	s.Judgement.T = max(start, m.Seen+time.Minute)
	for end := s.Judgement.T + LeakWait; s.Judgement.T <= end; s.Judgement.T += time.Minute {
		list = due(m, s)
	}
	return list
}

// TestCulprit has several grow: who is to blame stays until it takes part no more or another grows twice as fast.
func TestCulprit(t *testing.T) {
	leaks := func(w Who, rate float64) Part { return Part{Who: w, Verdict: grows(rate, true)} }
	whole := func(parts ...Part) *Sample {
		s := foretold(detector.EvidenceLeak, 600, true, parts...)
		s.Workloads = []Part{leaks(pod, 5)}
		return s
	}
	orphaned := foretold(detector.EvidenceLeak, 600, true)
	orphaned.Judgement.Residual = detector.Verdict{Judged: true, Leak: true}
	allotted := foretold(detector.EvidenceLeak, 600, true)
	allotted.Owner = b
	leak := func(parts ...Part) *Sample { return foretold(detector.EvidenceLeak, 600, true, parts...) }
	for name, c := range map[string]struct {
		samples []*Sample
		want    []Who
	}{
		"the fastest":                   {[]*Sample{leak(leaks(a, 1), leaks(b, 2))}, []Who{b}},
		"it stays":                      {[]*Sample{leak(leaks(a, 2), leaks(b, 1)), leak(leaks(a, 2), leaks(b, 3.9))}, []Who{a, a}},
		"twice as fast":                 {[]*Sample{leak(leaks(a, 2), leaks(b, 1)), leak(leaks(a, 2), leaks(b, 4))}, []Who{a, b}},
		"it ends":                       {[]*Sample{leak(leaks(a, 2), leaks(b, 1)), leak(leaks(b, 1))}, []Who{a, b}},
		"it takes part no more":         {[]*Sample{leak(leaks(a, 2), leaks(b, 1)), leak(Part{Who: a, Verdict: &detector.Verdict{Judged: true}}, leaks(b, 1))}, []Who{a, b}},
		"several of one name are one":   {[]*Sample{leak(leaks(a, 2), leaks(b, 3), leaks(a, 2))}, []Who{a}},
		"between two lives":             {[]*Sample{leak(leaks(a, 2)), leak(), leak(leaks(a, 1))}, []Who{a, a, a}},
		"memory that nobody owns":       {[]*Sample{leak(leaks(a, 2)), orphaned}, []Who{a, {}}},
		"nobody, and whose the GPU is":  {[]*Sample{allotted}, []Who{b}},
		"a pod as a whole":              {[]*Sample{whole(leaks(a, 1))}, []Who{pod}},
		"not where its process leaks":   {[]*Sample{whole(leaks(b, 1))}, []Who{b}},
		"a pod stays until twice":       {[]*Sample{whole(), whole(leaks(b, 5)), whole(leaks(b, 10))}, []Who{pod, pod, b}},
		"a new leak has a new culprit":  {[]*Sample{leak(leaks(a, 2), leaks(b, 1)), memory(0), leak(leaks(a, 2), leaks(b, 3))}, []Who{a, {}, b}},
		"who loads does not leak":       {[]*Sample{leak(leaks(a, 1)), leak(leaks(a, 1), Part{Who: b, Verdict: grows(5, false)})}, []Who{a, a}},
		"what does not leak takes part": {[]*Sample{foretold(detector.EvidenceFilling, 600, true, Part{Who: a, Verdict: grows(5, false)}, leaks(b, 1))}, []Who{a}},
	} {
		t.Run(name, func(t *testing.T) {
			var m Memory
			for i, s := range c.samples {
				var got Who
				for _, f := range lasting(&m, s) {
					if f.OOM.OK {
						got = f.Who
					}
				}
				testkit.Equal(t, got, c.want[i], "frame %d", i)
				m = reloaded(t, m)
			}
		})
	}
}

// TestLeakOfAPod has a pod leak in a crash loop, and the process of its present life fill the memory: that is one finding, of the pod.
// What another pod fills is another one.
func TestLeakOfAPod(t *testing.T) {
	for of, want := range map[Who]int{b: 1, a: 2} {
		var m Memory
		for n := range 2 {
			s := foretold(detector.EvidenceFilling, 600, true, Part{Who: of, Verdict: grows(30, false)})
			if n == 0 {
				s = memory(0)
			}
			s.Judgement.Device.Leak, s.Judgement.Device.Rate = true, detector.Of(7)
			s.Workloads = []Part{{Who: pod, Verdict: grows(5, true)}}
			got := m.Judge(s)
			if leak := got[0]; leak.Who != pod || !leak.Leaking.OK || n == 1 && (len(got) != want || leak.OOM.OK != (want == 1)) {
				t.Errorf("sample %d with %v: %+v", n, of, got)
			}
		}
	}
	m := Memory{Seen: start, Judged: start, Evidence: detector.EvidenceFilling, Page: blame{Since: 1}, OOM: blame{1, b}} // there is a page
	s := foretold(detector.EvidenceFilling, 600, true, Part{Who: b, Verdict: grows(3, false)})
	s.Judgement.Device.Leak, s.Workloads = true, []Part{{Who: pod, Verdict: grows(5, true)}}
	if got := m.Judge(s); len(got) != 2 || !got[1].OOMDue || got[1].Who != b {
		t.Errorf("the culprit of a page changes: %+v", got)
	}
}

// reloaded is what the state file makes of it.
func reloaded(t *testing.T, m Memory) (again Memory) {
	t.Helper()
	text, err := json.Marshal(m)
	if err == nil {
		err = json.Unmarshal(text, &again)
	}
	must(t, err)
	return again
}

// TestEvidence has it stay while there is a page.
func TestEvidence(t *testing.T) {
	const none, leak, filling = detector.EvidenceNone, detector.EvidenceLeak, detector.EvidenceFilling
	open := foretold(filling, 600, false)
	open.Judgement.Device.Upper = detector.Of(math.Inf(1))
	for name, c := range map[string]struct {
		samples []*Sample
		want    []detector.Evidence
	}{
		"nothing":                       {[]*Sample{memory(0)}, []detector.Evidence{none}},
		"growth that may end before":    {[]*Sample{open}, []detector.Evidence{none}},
		"a page stays one":              {[]*Sample{foretold(filling, 600, true), foretold(leak, 700, true), foretold(leak, 800, false)}, []detector.Evidence{filling, filling, leak}},
		"not where it would be none":    {[]*Sample{foretold(filling, 600, true), foretold(leak, 900, true)}, []detector.Evidence{filling, leak}},
		"of a leak that was taken back": {[]*Sample{foretold(leak, 600, true), foretold(filling, 600, true), foretold(filling, 950, false)}, []detector.Evidence{leak, leak, none}},
		"without a page it is a leak":   {[]*Sample{foretold(filling, 5000, false), foretold(leak, 5000, false)}, []detector.Evidence{none, leak}},
	} {
		t.Run(name, func(t *testing.T) {
			var m Memory
			for i, s := range c.samples {
				got := none
				for _, f := range lasting(&m, s) {
					if f.OOM.OK {
						if got = f.Evidence; f.OOM != s.Judgement.Device.SecondsToOOM {
							t.Errorf("frame %d: %v", i, f.OOM)
						}
					}
				}
				testkit.Equal(t, got, c.want[i], "frame %d", i)
			}
		})
	}
}

// TestStates has each state last until it is said, and end at once.
func TestStates(t *testing.T) {
	in := func(p detector.Pattern) *detector.Verdict { return &detector.Verdict{Judged: true, Pattern: p} }
	full := func(pattern detector.Pattern) func(*Sample) {
		return func(s *Sample) {
			s.Memory = gpu.Memory{Total: gpu.Some(uint64(100)), Used: gpu.Some(uint64(96))}
			s.Processes = []Part{{Who: a, Used: 80, Verdict: in(pattern)}, {Who: b, Used: 10, Verdict: in(detector.PatternSawtooth)}}
		}
	}
	oom := func(by detector.Evidence, page bool) func(*Sample) {
		return func(s *Sample) {
			t := s.Judgement.T
			*s = *foretold(by, 600, page, Part{Who: a, Verdict: grows(5, true)})
			s.Judgement.T, s.Judgement.Device.Leak = t, false
		}
	}
	for name, c := range map[string]struct {
		set  func(*Sample)
		wait time.Duration // less than 0: never
		want Finding
	}{
		"nothing": {func(*Sample) {}, -1, Finding{}},
		"a zombie": {func(s *Sample) {
			s.Processes = []Part{{Who: a, Used: 5, Verdict: in(detector.PatternZombie)}, {Who: b, Used: 7, Verdict: in(detector.PatternZombie)}, {Used: 90, Verdict: in(detector.PatternIdle)}}
		}, 15 * time.Minute, Finding{Who: b, Zombie: detector.Of(12)}},
		"unreleased":  {func(s *Sample) { s.Unreleased = []Part{{Who: a, Used: 9}, {Used: 1}} }, 15 * time.Minute, Finding{Who: a, Unreleased: detector.Of(10)}},
		"nearly full": {full(detector.PatternSawtooth), 10 * time.Minute, Finding{Who: a, NearlyFull: true}},
		"on purpose":  {full(detector.PatternPlateau), -1, Finding{}},
		"full of what leaks": {func(s *Sample) {
			full(detector.PatternSawtooth)(s)
			s.Judgement.Device.Leak, s.Judgement.Device.Rate = true, detector.Of(3)
		}, 30 * time.Minute, Finding{Leaking: detector.Of(3)}},
		"a leak that is a page":       {oom(detector.EvidenceLeak, true), 3 * time.Minute, Finding{Who: a, OOM: detector.Of(600), Evidence: detector.EvidenceLeak}},
		"a leak that is none":         {oom(detector.EvidenceLeak, false), 30 * time.Minute, Finding{Who: a, OOM: detector.Of(600), Evidence: detector.EvidenceLeak}},
		"filling that is a page":      {oom(detector.EvidenceFilling, true), 3 * time.Minute, Finding{Who: a, OOM: detector.Of(600), Evidence: detector.EvidenceFilling}},
		"filling that may end before": {oom(detector.EvidenceFilling, false), -1, Finding{}},
	} {
		t.Run(name, func(t *testing.T) {
			var m Memory
			for at := time.Duration(0); at <= time.Hour; at += time.Second {
				s := memory(at)
				c.set(s)
				got := due(&m, s)
				switch said := len(got) > 0; {
				case said != (c.wait >= 0 && at >= c.wait):
					t.Fatalf("after %s: %+v", at, got)
				case said && got[0] != c.want:
					t.Fatalf("%+v, want %+v", got[0], c.want)
				}
				if at%time.Minute == 0 {
					m = reloaded(t, m)
				}
			}
			testkit.Equal(t, due(&m, memory(time.Hour+1)), nil, "after its end")
		})
	}
}

// TestPage has a page begin while there is a ticket: it waits, too. An interruption restarts the wait, and so does a gap of 10
// minutes, which is no reason to blame another.
func TestPage(t *testing.T) {
	var m Memory
	at, frame := time.Duration(0), 0
	for _, c := range []struct {
		minutes int
		page    bool
		gap     time.Duration // before
		want    int           // in how many it is said
	}{
		{31, false, 0, 1},                // from minute 30 on
		{4, true, 0, 1},                  // in the last of them
		{1, false, 0, 1},                 // the ticket goes on
		{1, true, 0, 1},                  // a page that was interrupted goes on at once
		{3, false, 0, 3},                 // and after three minutes
		{3, true, 0, 0},                  // it waits again
		{2, true, 9 * time.Minute, 2},    // an exporter that was away has missed nothing
		{4, true, 10 * time.Minute, 1},   // nobody knows what was meanwhile
		{31, false, 10 * time.Minute, 1}, // the same of a ticket
	} {
		said := 0
		for i := range c.minutes {
			if at += time.Minute; i == 0 {
				at += max(0, c.gap-time.Minute)
			}
			// At first a leaks more than b, and then less.
			s := foretold(detector.EvidenceLeak, 600, c.page, Part{Who: a, Verdict: grows(3, true)}, Part{Who: b, Verdict: grows(float64(2+2*min(frame, 1)), true)})
			s.Judgement.T = start + at
			for _, f := range due(&m, s) {
				if f.Who != a {
					t.Fatalf("%+v: who is to blame is another one", f)
				}
				if f.OOM.OK {
					said++
				}
			}
			m, frame = reloaded(t, m), frame+1
		}
		testkit.Equal(t, said, c.want, "how often it is said, %+v", c)
	}
}

// TestForeseen has the most urgent alert that there was at the last frame, and when it came.
func TestForeseen(t *testing.T) {
	at := func(minutes int) time.Duration { return start + time.Duration(minutes)*time.Minute }
	since := func(minutes int) blame { return blame{Since: at(minutes)} }
	for name, c := range map[string]struct {
		memory    Memory
		severity  Severity
		at, since time.Duration
	}{
		"nothing":                    {Memory{}, Note, 0, 0},
		"growth whose alerts wait":   {Memory{Leak: since(71), OOM: since(80), Page: since(98)}, Note, 0, at(71)},
		"a leak":                     {Memory{Leak: since(70)}, Ticket, at(100), at(70)},
		"a page":                     {Memory{Leak: since(20), OOM: since(10), Page: since(90), Paged: at(100)}, Page, at(93), at(10)},
		"a page that did not wait":   {Memory{OOM: since(99), Page: since(99), Paged: at(100)}, Page, at(99), at(99)},
		"a page that is over":        {Memory{OOM: since(80), Paged: at(99)}, Note, 0, at(80)},
		"it is over, a ticket stays": {Memory{Leak: since(60), Paged: at(99)}, Ticket, at(90), at(60)},
		"full":                       {Memory{Full: since(89)}, Ticket, at(99), 0},
		"not full for long":          {Memory{Full: since(91)}, Note, 0, 0},
		"a crash loop":               {Memory{Loop: since(100)}, Ticket, at(100), 0},
		"the first of the tickets":   {Memory{Leak: since(50), Full: since(60), Loop: since(90)}, Ticket, at(70), at(50)},
		"a zombie is no growth":      {Memory{Zombie: since(10), Unreleased: since(10)}, Note, 0, 0},
	} {
		c.memory.Seen = at(100)
		severity, came, grown := c.memory.Foreseen()
		testkit.Equal(t, came, c.at, "%s: when it came", name)
		testkit.Equal(t, grown, c.since, "%s: since when it grows", name)
		if came != 0 {
			testkit.Equal(t, severity, c.severity, "%s: severity", name)
		}
	}
}

// What was not watched does not count, nor what cannot be in a state file; and what is remembered is bounded.
func TestMemoryIsChecked(t *testing.T) {
	full := func(at time.Duration) *Sample {
		s := memory(at)
		s.Memory = gpu.Memory{Total: gpu.Some(uint64(100)), Used: gpu.Some(uint64(96))}
		return s
	}
	var m Memory
	due(&m, full(0))
	testkit.Equal(t, due(&m, full(8*time.Hour)), nil, "full after a gap")
	m = Memory{Seen: start, Full: blame{Since: math.MinInt64}}
	for i := range 100 {
		m.Ends = append(m.Ends, End{Who: a, At: time.Duration(math.MinInt64 + i)}, End{Who: a, At: start - time.Duration(100-i)}, End{Who: a, At: math.MaxInt64})
	}
	if got := due(&m, full(0)); len(m.Ends) != mostEnds || len(got) == 0 || !got[0].CrashLoop && !got[len(got)-1].CrashLoop {
		t.Errorf("%d ends, %+v", len(m.Ends), got)
	}
	if got := due(&m, full(2*time.Hour)); got != nil || len(m.Ends) != 0 {
		t.Errorf("%+v, %+v", m.Ends, got)
	}
}

// TestCrashLoop counts processes that end one after the other in a full memory. Those that end together end once.
func TestCrashLoop(t *testing.T) {
	life := func(w Who, from, to int) End {
		return End{Who: w, Began: start + time.Duration(from)*time.Minute, At: start + time.Duration(to)*time.Minute}
	}
	for name, c := range map[string]struct {
		ends []End
		want []Who // at the 30th, 60th and 90th minute
	}{
		"two":                      {[]End{life(a, 0, 10), life(a, 11, 20)}, []Who{{}, {}, {}}},
		"three, for an hour":       {[]End{life(a, 0, 10), life(b, 11, 20), life(a, 21, 29)}, []Who{a, a, {}}},
		"the ranks of a job":       {[]End{life(a, 0, 10), life(a, 0, 10), life(a, 1, 11), life(a, 12, 20)}, []Who{{}, {}, {}}},
		"once in half an hour":     {[]End{life(a, 0, 25), life(a, 26, 55), life(a, 56, 86)}, []Who{{}, {}, {}}},
		"others do not take turns": {[]End{life(a, 0, 5), life(a, 6, 10), life(a, 11, 15), life(b, 16, 40), life(b, 41, 50), life(b, 51, 55), life(b, 56, 59)}, []Who{a, a, b}},
	} {
		t.Run(name, func(t *testing.T) {
			var m Memory
			var got []Who
			for minute := 0; minute <= 90; minute++ {
				s := memory(time.Duration(minute) * time.Minute)
				for _, e := range c.ends {
					if e.At == s.Judgement.T {
						s.Ends = append(s.Ends, e)
					}
				}
				list := due(&m, s)
				if minute > 0 && minute%30 == 0 {
					who := Who{}
					if len(list) > 0 && list[0].CrashLoop {
						who = list[0].Who
					}
					got = append(got, who)
				}
				m = reloaded(t, m)
			}
			testkit.Equal(t, got, c.want, "who ended")
		})
	}
}

// TestLeakOfBefore has a leak with the first verdict, because a history was read: the waits are as old as the growth.
func TestLeakOfBefore(t *testing.T) {
	for before, want := range map[time.Duration]bool{LeakWait - time.Minute: false, LeakWait + time.Minute: true} {
		for _, page := range []bool{false, true} {
			s := foretold(detector.EvidenceLeak, 600, page, Part{Who: a, Verdict: grows(5, true)})
			s.Judgement.Device.Since = start - before
			got := new(Memory).Judge(s)
			if len(got) != 1 || got[0].LeakDue != want || got[0].OOMDue != (want || page) {
				t.Errorf("after %s, a page %t: %+v", before, page, got)
			}
		}
	}
}

// TestReadingsThatFail has a GPU of whose memory nothing is read for a minute, which restarts no wait; for ten, which does; and
// one that never tells how much is used, whose processes are judged.
func TestReadingsThatFail(t *testing.T) {
	leak := func(at time.Duration) *Sample {
		s := foretold(detector.EvidenceLeak, 600, false, Part{Who: a, Verdict: grows(5, true)})
		s.Judgement.T = start + at
		return s
	}
	for name, c := range map[string]struct {
		from, to time.Duration // nothing is read
		members  bool
		want     bool
	}{
		"a minute":         {15 * time.Minute, 16 * time.Minute, false, true},
		"ten minutes":      {15 * time.Minute, 26 * time.Minute, false, false},
		"by processes":     {0, time.Hour, true, true},
		"the memory alone": {15 * time.Minute, 16 * time.Minute, true, true},
		"nothing is read":  {0, time.Hour, false, false},
	} {
		var m Memory
		var got []Finding
		for at := time.Duration(0); at <= LeakWait; at += time.Minute {
			s := leak(at)
			if at >= c.from && at < c.to {
				s.Judgement.Device, s.Judgement.Evidence = detector.Verdict{}, detector.EvidenceNone
				if !c.members {
					s.Processes = nil
				}
			}
			got = due(&m, s)
		}
		if said := len(got) > 0 && got[0].Leaking.V > 0; said != c.want || said && c.from > 0 && !got[0].OOM.OK {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
