// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package incidents

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

var update = flag.Bool("update", false, "write the table of TestIncidents into README.md")

// quiet is how long all is well before something happens.
const quiet = 15 * time.Minute

// incident is a play, and what it should make of the on-call.
type incident struct {
	name string
	play play
	ends time.Duration // the memory is full, or it is over; 0: it never is
	// pages and tickets are how many messages that something is wrong each should get.
	pages, tickets int
	// within is by when the first of them has to come, after quiet.
	within time.Duration
	// gap says why it is not as asked; "" where it is.
	gap string
}

// The leaks: on a GPU of which this much is free.
const room = 8 * gib

// base is what leaves room.
const base = cardBytes - driverBytes - room

// leak is a program that leaks from an age on until the memory is full or it is told to end.
func leak(pod string, pid uint32, start, after time.Duration, perMinute float64) *program {
	return inPod(pod, pid, program{start: start, end: start + after + lasts(room, perMinute), used: leaking(base, after, perMinute, 0)})
}

// grown is one that has run for an hour when it begins to leak.
func grown(pod string, pid uint32, perMinute float64) *program {
	return leak(pod, pid, quiet-time.Hour, time.Hour, perMinute)
}

func gpus(programs ...[]*program) [][]*program { return programs }

func on(programs ...*program) []*program { return programs }

// holds is a program that holds a part of its GPU for good.
func holds(pod string, pid uint32, bytes float64) *program {
	return inPod(pod, pid, program{start: -9 * time.Hour, used: flat(bytes)})
}

// away reports whether something is away from quiet on, for so long.
func away(at, lasts time.Duration) bool { return at >= quiet && at < quiet+lasts }

// failing is a driver that answers with an error meanwhile.
func failing(lasts time.Duration, err error) func(at time.Duration) error {
	return func(at time.Duration) error {
		if away(at, lasts) {
			return err
		}
		return nil
	}
}

func leaks() []incident {
	full := lasts(room, 300*mib)
	stops := inPod("train-0", 77, program{start: quiet - time.Hour, used: leaking(base, time.Hour, 300*mib, time.Hour+14*time.Minute)})
	again := grown("train-0", 77, 300*mib)
	again.end = quiet + 15*time.Minute
	next := inPod("train-0", 78, program{start: again.end + 30*time.Second, used: flat(base)})
	half := inPod("train-0", 77, program{start: -time.Hour, end: quiet + full, used: leaking(base/2, time.Hour+quiet, 150*mib, 0)})
	other := inPod("train-1", 78, program{start: -time.Hour, end: quiet + full, used: leaking(base/2, time.Hour+quiet, 150*mib, 0)})
	return []incident{
		{
			name: "a leak of 300 MiB a minute that begins with its program", ends: full, pages: 1, within: full,
			play: play{gpus: gpus(on(leak("train-0", 77, quiet, 0, 300*mib)))},
		},
		{
			name: "a leak of 300 MiB a minute that begins after an hour", ends: full, pages: 1, within: full,
			play: play{gpus: gpus(on(grown("train-0", 77, 300*mib)))},
		},
		{
			name: "one of 1,200 MiB a minute", ends: lasts(room, 1200*mib), pages: 1, within: lasts(room, 1200*mib),
			gap:  "growth is judged after 5 minutes and a page waits for 3 more: it is full before",
			play: play{gpus: gpus(on(grown("train-0", 77, 1200*mib)))},
		},
		{
			name: "one of 60 MiB a minute, full after more than two hours", ends: lasts(room, 60*mib), pages: 1, tickets: 1, within: 45 * time.Minute,
			play: play{gpus: gpus(on(grown("train-0", 77, 60*mib))), lasts: 3 * time.Hour},
		},
		{
			name: "two programs leak on two GPUs", ends: full, pages: 2, within: full,
			play: play{gpus: gpus(on(grown("train-0", 77, 300*mib)), on(grown("train-1", 78, 300*mib)))},
		},
		{
			name: "one pod leaks on two GPUs", ends: full, pages: 1, within: full,
			play: play{gpus: gpus(on(grown("train-0", 77, 300*mib)), on(grown("train-0", 78, 300*mib)))},
		},
		{
			name: "two programs leak on one GPU", ends: full, pages: 1, within: full,
			play: play{gpus: gpus(on(half, other))},
		},
		{
			name: "a leak that stops by itself after 14 minutes, with 95 % in use", pages: 1, tickets: 1, within: full,
			play: play{gpus: gpus(on(stops))},
		},
		{
			name: "a program that leaks is started again after 15 minutes", pages: 1, within: full,
			play: play{gpus: gpus(on(again, next))},
		},
		{
			name: "600 MiB a minute from its start: no leak yet, and full in 14 minutes", ends: lasts(room, 600*mib), pages: 1, within: lasts(room, 600*mib),
			play: play{gpus: gpus(on(leak("train-0", 77, quiet, 0, 600*mib)))},
		},
	}
}

func losses() []incident {
	const back, five = 20 * time.Minute, 6 * time.Minute
	one := func() [][]*program { return gpus(on(holds("llm-0", 7, 20*gib)), on(holds("llm-1", 8, 20*gib))) }
	paged := grown("train-0", 77, 300*mib)
	paged.end = quiet + 12*time.Minute
	return []incident{
		{name: "a GPU falls off the bus", pages: 1, within: five, play: play{gpus: one(), lost: quiet}},
		{name: "the driver is gone for 20 minutes", pages: 1, within: five, play: play{gpus: one(), driver: failing(back, notLoaded())}},
		{name: "the exporter is down for 20 minutes", tickets: 1, within: 8 * time.Minute, play: play{gpus: one(), answers: func(at time.Duration) bool { return !away(at, back) }}},
		{name: "the node is down for 20 minutes", tickets: 1, within: 8 * time.Minute, play: play{
			gpus: one(), answers: func(at time.Duration) bool { return !away(at, back) },
			driver: failing(back+time.Minute, notLoaded()),
		}},
		{name: "the node dies 12 minutes into a leak of 300 MiB a minute, after its page, for 20 minutes", pages: 1, tickets: 1, within: 10 * time.Minute, play: play{
			gpus: gpus(on(paged)), answers: func(at time.Duration) bool { return at < paged.end || at >= paged.end+back },
		}},
		{name: "the driver is upgraded: the exporter says so", pages: 1, within: five, play: play{gpus: one(), driver: failing(back, mismatch())}},
		{name: "the driver is upgraded: an exporter that is started again every 5 s, with one lucky scrape", tickets: 1, within: 8 * time.Minute, play: play{
			gpus: one(), answers: func(at time.Duration) bool { return !away(at, back) || at == quiet+3*time.Minute },
			driver: failing(back, mismatch()),
		}},
		{name: "a node starts: 90 s without an exporter, a minute without a driver", play: play{
			gpus: gpus(on(inPod("llm-0", 7, program{start: quiet + 4*time.Minute, used: load(60*gib, 2*time.Minute), loads: 2 * time.Minute}))), target: quiet,
			answers: func(at time.Duration) bool { return at >= quiet+90*time.Second },
			driver: func(at time.Duration) error {
				if at < quiet+150*time.Second {
					return notLoaded()
				}
				return nil
			},
		}},
		{name: "a node is started again within 4 minutes", play: play{gpus: one(), answers: func(at time.Duration) bool { return !away(at, 4*time.Minute) }}},
	}
}

func holders() []incident {
	zombie := inPod("train-0", 77, program{start: quiet, used: flat(17 * gib), idle: true, orphaned: true})
	var dying []*program // dies when its memory is full, and is started again half a minute later
	for i := range 10 {
		start := quiet
		if i > 0 {
			start = dying[i-1].end + 30*time.Second
		}
		dying = append(dying, leak("train-0", 77+uint32(i), start, 0, 600*mib))
	}
	crash := func(n int) []*program {
		var all []*program
		for i := range n {
			start := quiet + time.Duration(i)*5*time.Minute
			all = append(all, inPod("train-0", 77+uint32(i), program{start: start, end: start + 90*time.Second, used: load(cardBytes-driverBytes, time.Minute), loads: time.Minute}))
		}
		return all
	}
	return []incident{
		{
			name: "a program leaks 600 MiB a minute from its start, dies of it, and is started again, for hours", pages: 1, tickets: 1, within: lasts(room, 600*mib),
			ends: lasts(room, 600*mib), gap: "each life is a page of its own: it is over before the next one fills the memory",
			play: play{gpus: gpus(dying), lasts: 2 * time.Hour},
		},
		{name: "a program that does not fit is started again every 5 minutes", tickets: 1, within: 20 * time.Minute, play: play{gpus: gpus(crash(12))}},
		{name: "a zombie holds 17 GiB", tickets: 1, within: time.Hour, play: play{gpus: gpus(on(zombie))}},
	}
}

func healthy() []incident {
	pre := inPod("llm-0", 7, program{start: quiet, used: load(0.93*cardBytes, 90*time.Second), loads: 90 * time.Second})
	const run, pause = 100 * time.Minute, 10 * time.Minute
	runs := func(pid uint32, start time.Duration) *program {
		return inPod("train-0", pid, program{start: start, end: start + run, used: leaking(62*gib, 30*time.Minute, 300*mib, time.Hour)})
	}
	weights := inPod("llm-0", 7, program{start: quiet, used: load(64*gib, 7*time.Minute), loads: 7 * time.Minute})
	return []incident{
		{name: "a server preallocates 93 % of its GPU", play: play{gpus: gpus(on(pre))}},
		{name: "a server loads 64 GiB of weights in 7 minutes", play: play{gpus: gpus(on(weights))}},
		{name: "training: warm-up, evaluations, checkpoints", play: play{gpus: gpus(on(inPod("train-0", 7, program{start: quiet, used: training})), on(inPod("train-0", 8, program{start: quiet, used: training}))), lasts: 2 * time.Hour}},
		{
			name: "a program grows by 9 GiB, and so does its next run, after a restart of the exporter: no second page", pages: 1, within: 45 * time.Minute,
			play: play{
				gpus: gpus(on(runs(7, quiet), runs(8, quiet+run+pause))), lasts: 4 * time.Hour,
				answers: func(at time.Duration) bool { return at < quiet+run+pause/2 || at >= quiet+run+pause*3/5 },
			},
		},
		{name: "a cache that is given back every 10 minutes", gap: "its first rise, by 4 GiB a minute, cannot be told from a leak", play: play{gpus: gpus(on(inPod("train-0", 7, program{start: quiet, used: saw})))}},
		{name: "a cache that fills to 64 GiB, slower and slower", play: play{gpus: gpus(on(inPod("llm-0", 7, program{start: quiet, used: filling})))}},
	}
}

// told is what the on-call was told in a play.
type told struct {
	pager, tickets tally
}

// tally counts the messages of one receiver.
type tally struct {
	firing, again, resolved int           // again: all in it was told before, and goes on
	first                   time.Duration // after quiet; of the first that something is wrong
	names                   []string      // the alerts in them
	known                   map[string]bool
}

func (y *tally) add(m *message) {
	if y.known == nil {
		y.known = map[string]bool{}
	}
	news := false
	for _, a := range m.Alerts {
		news = news || (a.Status == "firing" && !y.known[a.Fingerprint]) || a.Status == "resolved"
		y.known[a.Fingerprint] = a.Status == "firing"
	}
	switch {
	case m.Status == "resolved":
		y.resolved++
		return
	case !news:
		y.again++
		return
	}
	if y.firing++; y.firing == 1 {
		y.first = m.at - quiet
	}
	for _, name := range m.names("firing") {
		if !slices.Contains(y.names, name) {
			y.names = append(y.names, name)
		}
	}
}

func tell(messages []message) told {
	var all told
	for i := range messages {
		m := &messages[i]
		if m.Receiver == "pager" {
			all.pager.add(m)
		} else {
			all.tickets.add(m)
		}
	}
	return all
}

// count is a cell of the table: how many messages, of which alerts.
func (y *tally) count() string {
	if y.firing == 0 {
		return "none"
	}
	again := ""
	if y.again > 0 {
		again = fmt.Sprintf(", again: %d", y.again)
	}
	return fmt.Sprintf("%d%s, over: %d; %s", y.firing, again, y.resolved, strings.Join(y.names, ", "))
}

func clock(d time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// asked says in words what an incident asks for.
func (in *incident) asked() string {
	var parts []string
	for _, of := range []struct {
		n    int
		what string
	}{{in.pages, "page"}, {in.tickets, "ticket"}} {
		switch {
		case of.n == 1:
			parts = append(parts, "1 "+of.what)
		case of.n > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", of.n, of.what))
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ") + " within " + clock(in.within)
}

// row is what the table says of an incident.
func (in *incident) row(as told) string {
	after, before := "–", "–"
	firsts := []time.Duration{}
	for _, y := range []*tally{&as.pager, &as.tickets} {
		if y.firing > 0 {
			firsts = append(firsts, y.first)
		}
	}
	if len(firsts) > 0 {
		first := slices.Min(firsts)
		if after = clock(first); in.ends > first {
			before = clock(in.ends - first)
		}
	}
	got := "as asked"
	if as.pager.firing != in.pages || as.tickets.firing != in.tickets || (len(firsts) > 0 && slices.Min(firsts) > in.within) {
		got = "**not**: " + in.gap
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s |\n", in.name, in.asked(), as.pager.count(), as.tickets.count(), after, before, got)
}

// TestIncidents plays all incidents and holds the table of them. Each is as it is asked, or says why it is not.
func TestIncidents(t *testing.T) {
	all := slices.Concat(leaks(), losses(), holders(), healthy())
	rows := make([]string, len(all))
	t.Run("play", func(t *testing.T) {
		for i := range all {
			in := &all[i]
			t.Run(in.name, func(t *testing.T) {
				t.Parallel()
				if in.play.lasts == 0 {
					in.play.lasts = quiet + time.Hour
				}
				messages := in.play.run(t)
				for _, m := range messages {
					t.Log((m.at - quiet).Truncate(time.Second), m.Receiver, m.Status, m.names("firing"), m.names("resolved"), m.Alerts[0].Annotations["description"])
				}
				rows[i] = in.row(tell(messages))
				if missed := strings.Contains(rows[i], "**not**"); missed != (in.gap != "") {
					t.Errorf("a gap is stated: %t; %s", in.gap != "", rows[i])
				}
			})
		}
	})
	harness.HoldTable(t, "e2e/incidents/README.md", "| what happens | asked | pages | tickets | first after | before the end | |\n"+
		"|---|---|---|---|---|---|---|\n"+strings.Join(rows, ""), *update)
}
