// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package incidents

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// crew are the processes of one life of a program.
type crew struct {
	s      *story
	p      *Program
	group  string
	all    []*process
	living int
	lives  int
}

// start starts a program: after its time, or after so many seconds where that is not negative.
func (s *story) start(p *Program, after float64) {
	c := &crew{s: s, p: p}
	// Those of one name are in one pod.
	if !s.bare && s.pods[p.Name] == "" {
		s.pods[p.Name] = fmt.Sprintf("%s-%05x", strings.ToLower(p.Name), s.r.IntN(1<<20))
	}
	c.group = s.pods[p.Name]
	switch {
	case p.Since:
		c.launch()
		return
	case p.At != "":
		after = s.draw(p.At, 0)
	case after < 0:
		after = s.between(60, 900)
	}
	s.after(after, c.launch)
}

// launch starts the processes.
func (c *crew) launch() {
	s := c.s
	c.lives++
	c.all, c.living = nil, max(c.p.Count, 1)
	manner := s.newManner(c.p)
	for range c.living {
		s.pids += 1 + uint32(s.r.IntN(60))
		p := &process{manner: manner, s: s, crew: c, driver: c.p.Is == "driver", started: s.now, state: "S", leak: -1, speed: 1}
		p.owner = &gpu.Owner{Process: c.p.Name, Runs: (&gpu.Program{Name: c.p.Name}).Hash(nil)}
		if c.group != "" {
			p.owner.Namespace, p.owner.Pod = "default", c.group
		}
		manner.need = s.draw(c.p.Need, 0)
		p.base = s.draw(c.p.Held, s.limit-s.used)
		c.all, s.procs = append(c.all, p), append(s.procs, p)
		load := s.about(3, 60)
		if c.p.Load != "" {
			load = s.draw(c.p.Load, 0)
		}
		if c.p.Since && c.lives == 1 || p.driver {
			load = 0
			p.started = s.now - s.about(600, 20*86400)
			p.cpu = 0.3 * (s.now - p.started)
			p.fixed = p.base
		}
		p.id = gpu.ProcessID{PID: s.pids, Start: uint64(p.started*100 + 3e9)}
		p.to(p.base, 0.8*load)
		p.after(load, func() {
			p.busy, p.space = true, p.room()
			p.do(c.p.Do)
		})
	}
}

// ended counts one that has, and after the last one starts the program anew.
func (c *crew) ended() {
	if c.living--; c.living == 0 && c.p.Pause != "" && (c.p.Times == 0 || c.lives < c.p.Times) {
		c.s.after(c.s.draw(c.p.Pause, 0), c.launch)
	}
}

// after plans something that does not happen once the process has ended.
func (p *process) after(seconds float64, do func()) {
	p.s.after(seconds, func() {
		if !p.dead {
			do()
		}
	})
}

// do does the steps, then those of the loop, and then the last ones.
func (p *process) do(steps []string) {
	turns, program := -1, p.crew.p
	if program.Turns != "" {
		turns = int(p.s.draw(program.Turns, 0))
	}
	last := false
	var next func()
	next = func() {
		for !p.dead {
			switch {
			case len(steps) > 0:
			case turns != 0 && len(program.Loop) > 0:
				turns--
				steps = program.Loop
			case !last:
				last, steps = true, program.Last
			}
			if len(steps) == 0 {
				return
			}
			step := steps[0]
			steps = steps[1:]
			if seconds := p.act(strings.Fields(step)); seconds > 0 {
				p.after(seconds, next)
				return
			}
		}
	}
	next()
}

// act does one step and returns how long it takes.
func (p *process) act(words []string) (seconds float64) {
	s := p.s
	arg := func(i int) float64 {
		if i >= len(words) {
			return 0
		}
		return s.draw(strings.TrimPrefix(words[i], "+"), p.space)
	}
	switch words[0] {
	case "work", "idle":
		p.busy, p.more = words[0] == "work", arg(2)
		return max(arg(1), 0.01)
	case "wait":
		return max(arg(1), 0.01)
	case "hang":
		p.freeze(words[1], arg(2))
	case "then":
		for i := range p.crew.p.Then {
			s.start(&p.crew.p.Then[i], 0)
		}
	case "leave":
		p.leave(arg(1), arg(2))
	case "reset":
		for _, other := range s.procs {
			other.end()
		}
	case "end":
		p.end()
	default:
		p.takes(words, arg)
	}
	return 0
}

// takes does one step that changes how much memory the process holds.
func (p *process) takes(words []string, arg func(i int) float64) {
	switch words[0] {
	case "keep":
		// At once, so that what is lost is never there twice.
		p.more = 0
		p.lose(arg(1))
	case "leak":
		p.rate, p.begun, p.lump, p.shape = arg(2), p.s.now, p.s.about(2, 20), ""
		if words[1] == "in" {
			p.rate, p.span = p.room()/p.rate, p.rate
		}
		if len(words) > 3 {
			if p.shape = words[3]; p.shape != "exp" && p.shape != "late" {
				p.lump = arg(3)
			}
		}
	case "stop":
		p.rate = 0
	case "grow":
		p.to(p.goal+arg(1), arg(2))
	case "fill":
		p.most += arg(1)
		p.pace = 3 / arg(2)
	case "to":
		p.to(p.base+arg(1), arg(2))
	default:
		panic("a program does not " + words[0])
	}
}

// draw returns a quantity; the comment of the package says how it is written.
func (s *story) draw(text string, free float64) float64 {
	if text == "" {
		return 0
	}
	if rest, ok := strings.CutPrefix(text, "free"); ok && rest != "" {
		x := s.draw(rest[1:], 0)
		switch rest[0] {
		case '/':
			return free / x
		case '*':
			return free * x
		}
		return free - x
	}
	unit := text[len(text)-1]
	for _, between := range []string{"..", "~", "-"} {
		from, to, ok := strings.Cut(text, between)
		if !ok {
			continue
		}
		if old, known := s.drawn[text]; known {
			return old * s.between(0.95, 1.05)
		}
		low, high := s.number(from, unit), s.number(to, unit)
		if between == "~" {
			return s.about(low, high)
		}
		x := s.between(low, high)
		if between == "-" {
			s.drawn[text] = x
		}
		return x
	}
	return s.number(text, unit)
}

// number reads one, of that unit if it has none of its own, and returns it in seconds or MiB.
func (s *story) number(text string, unit byte) float64 {
	bare := strings.TrimRight(text, "smhcg")
	if bare != text {
		unit = text[len(text)-1]
	}
	x, err := strconv.ParseFloat(bare, 64)
	if err != nil {
		panic(err)
	}
	switch unit {
	case 'm':
		return 60 * x
	case 'h':
		return 3600 * x
	case 'c':
		return x * float64(s.capacity) / mib
	case 'g':
		return x - s.driver
	}
	return x
}
