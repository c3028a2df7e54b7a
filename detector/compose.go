// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/process"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// grower is a leaking contributor of the frame.
type grower struct {
	trend   *stat.Trend
	pattern Pattern
	since   time.Duration
	leaked  float64
}

// Judgement returns what is to be said after the last frame. It belongs to the
// Domain and is valid until the next call of any of its methods.
func (d *Domain[K]) Judgement() *Judgement[K] {
	d.out.T, d.out.Resets = d.past.Last, d.past.Resets
	d.grown, d.held, d.told = d.grown[:0], 0, true
	d.judgeMembers()
	d.judgeResting()
	d.judgeGroups()
	d.judgeDevice()
	d.judgeUnreleased()
	d.forecast()
	return &d.out
}

func (d *Domain[K]) judgeMembers() {
	d.out.Members = d.out.Members[:0]
	for _, g := range d.groups {
		g.sum = sum{}
	}
	for i := range d.present {
		in := &d.present[i]
		d.out.Members = append(d.out.Members, MemberVerdict[K]{Key: in.key})
		if in.member == nil || !in.known {
			continue
		}
		out := &d.out.Members[i]
		in.member.judge(&out.Verdict)
		if out.Judged {
			out.Grows = in.member.grows()
		}
		out.Peak = Of(float64(in.member.Peak))
		if out.Judged && !out.Leak {
			d.name(in, &out.Verdict)
		}
		d.grow(in.member.decisive(), &out.Verdict)
		g := in.group
		if g == nil {
			continue
		}
		g.sum.add(&out.Verdict)
		if out.Leak && g.frame.heir == in.member && g.looping() { // it is the same leak in each life, for its GPU as for its pod
			c := &d.grown[len(d.grown)-1]
			c.pattern, c.since = PatternCrashLoop, g.Loop.Since
		}
	}
}

// name gives a member that does not leak the pattern that its memory alone does
// not show.
func (d *Domain[K]) name(in *listing[K], v *Verdict) {
	switch {
	case d.zombie(in):
		v.Pattern = PatternZombie
	case in.member.Pieces:
		v.Pattern = PatternFragmentation
	}
}

func (d *Domain[K]) judgeGroups() {
	d.out.Groups, d.programs = d.out.Groups[:0], d.programs[:0]
	for name, g := range d.groups {
		switch {
		case name.Program:
			if g.looping() {
				d.programs = append(d.programs, name)
			}
		case g.summed() || g.looping():
			d.out.Groups = append(d.out.Groups, GroupVerdict{Group: name.Name, Used: float64(g.frame.sum)})
		}
	}
	slices.SortFunc(d.programs, func(a, b groupName) int { return cmp.Compare(a.Name, b.Name) })
	for _, name := range d.programs {
		d.judgeProgram(name, d.groups[name])
	}
	slices.SortFunc(d.out.Groups, func(a, b GroupVerdict) int { return cmp.Compare(a.Group, b.Group) })
	told := d.out.Groups[:0]
	for _, out := range d.out.Groups {
		g := d.groups[groupName{Name: out.Group}]
		g.verdict(&out.Verdict)
		switch {
		case g.sum.leaks || !g.summed() && d.leaks(groupName{Name: out.Group}):
		case out.Leak:
			d.grown = append(d.grown, grower{trend: &g.Loop.Trend, pattern: out.Pattern, since: g.Loop.Since, leaked: out.Leaked.V})
		}
		d.held = max(d.held, out.Confidence) // a crash loop, or a sum that is not known
		if g.summed() {
			told = append(told, out)
		}
	}
	d.out.Groups = told
}

// judgeProgram tells of the crash loop of a program that is in no pod or job. The process that
// runs now bears the verdict, if there is one.
func (d *Domain[K]) judgeProgram(name groupName, g *group[K]) {
	if g.sum.leaks || g.frame.members == 0 && d.leaks(name) {
		return
	}
	var v Verdict
	g.loop(&v)
	d.grown = append(d.grown, grower{trend: &g.Loop.Trend, pattern: v.Pattern, since: g.Loop.Since, leaked: v.Leaked.V})
	d.held = max(d.held, v.Confidence)
	bears := -1
	for i := range d.present {
		m := d.present[i].member
		if m == nil || d.present[i].group != g || !g.Loop.Follows(m.First) || float64(m.Used) < process.LoadedShare*float64(g.Loop.Base) {
			continue
		}
		if bears >= 0 {
			return // nobody knows which of them it is
		}
		bears = i
	}
	if bears < 0 {
		return
	}
	if out := &d.out.Members[bears].Verdict; out.Judged {
		out.Confidence, out.Leak, out.Pattern, out.Since, out.Rate, out.Leaked = v.Confidence, true, v.Pattern, v.Since, v.Rate, v.Leaked
	}
}

// leaks reports whether a member of that group leaked when it was last seen.
func (d *Domain[K]) leaks(group groupName) bool {
	for _, m := range d.members {
		if m.group == group && m.Leaks() && !m.Config().Mute {
			return true
		}
	}
	return false
}

// judgeDevice composes the verdict on the device.
func (d *Domain[K]) judgeDevice() {
	d.out.Device, d.out.Residual = Verdict{}, Verdict{}
	if !d.known {
		d.out.Attributed = d.past.Attributed
		return
	}
	d.used.Judge(&d.out.Device)
	if d.listed {
		d.residual.Judge(&d.out.Residual)
		d.grow(d.residual, &d.out.Residual)
	} else {
		d.withoutList()
	}
	d.out.Attributed = d.past.Attributed
	if d.past.Attributed {
		d.compose()
		return
	}
	// The members are part of the raw series. Where it leaks, its growth counts;
	// where only some of them do, and others shrink, theirs does.
	if d.out.Device.Leak {
		d.grown = d.grown[:0]
		d.grow(d.used, &d.out.Device)
	} else if len(d.grown) > 0 {
		d.combine()
	}
}

// grow notes a series that leaks as a contributor to the domain's leak.
func (d *Domain[K]) grow(s *series.Series, v *Verdict) {
	if v.Leak {
		d.grown = append(d.grown, grower{trend: &s.Leak.Trend, pattern: v.Pattern, since: s.Leak.Since, leaked: v.Leaked.V})
	}
}

// withoutList stands in for a complete list that this frame does not bring: for
// a while, what leaked when it was last seen still does.
func (d *Domain[K]) withoutList() {
	if !d.past.Attributed {
		return
	}
	if d.past.Last-d.past.AttributedAt >= process.Absence {
		d.past.Attributed = false
		return
	}
	for _, m := range d.members {
		if m.Last != d.past.Last {
			d.growUnseen(m)
		}
	}
	var v Verdict
	d.residual.Judge(&v)
	d.held = max(d.held, v.Confidence)
	d.grow(d.residual, &v)
}

// growUnseen notes a member that leaked when it was last seen.
func (d *Domain[K]) growUnseen(m *member) {
	var v Verdict
	m.judge(&v)
	d.held = max(d.held, v.Confidence)
	d.grow(m.decisive(), &v)
}

// compose replaces the judgement of the raw series by that of the members, the
// groups and the residual: a job that arrives is no leak of the GPU.
func (d *Domain[K]) compose() {
	v := &d.out.Device
	if !v.Judged {
		return
	}
	v.Confidence, v.Leak, v.Since = d.out.Residual.Confidence, false, 0
	v.Rate, v.Leaked = Value{}, Value{}
	if v.Pattern.Leaks() {
		v.Pattern = d.growing()
	}
	d.combine()
	d.withhold()
}

// withhold gives the device the reason of whichever of its parts is told soonest; none once a part
// of it leaks. The surest part, whose confidence combine takes, may be another one: see Judgement.
func (d *Domain[K]) withhold() {
	v := &d.out.Device
	v.Withheld, v.WithheldFor, v.Lasted = WithheldNone, 0, 0
	if v.Leak {
		return
	}
	soonest(v, &d.out.Residual)
	for i := range d.out.Members {
		soonest(v, &d.out.Members[i].Verdict)
	}
}

// soonest gives v the reason to wait of a part of it, if that is told sooner than the reason that v has.
func soonest(v, part *Verdict) {
	if part.Withheld != WithheldNone && (v.Withheld == WithheldNone || part.WithheldFor < v.WithheldFor) {
		v.Withheld, v.WithheldFor, v.Lasted = part.Withheld, part.WithheldFor, part.Lasted
	}
}

// sum is what the members of a group say together.
type sum struct {
	v       Verdict
	leaks   bool
	largest float64
}

// add adds a member.
func (s *sum) add(m *Verdict) {
	v := &s.v
	v.Confidence = max(v.Confidence, m.Confidence)
	soonest(v, m)
	if !m.Leak {
		return
	}
	if !s.leaks || m.Since < v.Since {
		v.Since = m.Since
	}
	if m.Rate.V > s.largest {
		s.largest, v.Pattern = m.Rate.V, m.Pattern
	}
	s.leaks = true
	v.Rate, v.Leaked = Of(v.Rate.V+m.Rate.V), Of(v.Leaked.V+m.Leaked.V)
}

// into makes a verdict on the sum that of its members; its statistics stay.
func (s *sum) into(v *Verdict) {
	v.Confidence, v.Leak, v.Since, v.Rate, v.Leaked = s.v.Confidence, s.leaks, s.v.Since, s.v.Rate, s.v.Leaked
	v.Withheld, v.WithheldFor, v.Lasted = WithheldNone, 0, 0
	switch {
	case s.leaks:
		v.Pattern = s.v.Pattern
	case v.Pattern.Leaks():
		v.Pattern = PatternPlateau
	}
	if !s.leaks {
		soonest(v, &s.v)
	}
}

// growing returns the pattern of what grows most of a memory whose sum grows though no part of
// it leaks; a plateau if nothing does.
func (d *Domain[K]) growing() Pattern {
	p, most := PatternPlateau, 0.0
	note := func(v *Verdict) {
		if slope := v.Windows[0].Slope; v.Judged && slope.OK && slope.V > most {
			p, most = v.Pattern, slope.V
		}
	}
	for i := range d.out.Members {
		note(&d.out.Members[i].Verdict)
	}
	note(&d.out.Residual)
	return p
}

// combine adds what leaks to the verdict on the device.
func (d *Domain[K]) combine() {
	v := &d.out.Device
	if !v.Judged {
		return
	}
	v.Confidence = max(v.Confidence, d.held)
	for i := range d.out.Members {
		v.Confidence = max(v.Confidence, d.out.Members[i].Confidence)
	}
	if len(d.grown) > 0 {
		v.Withheld, v.WithheldFor, v.Lasted = WithheldNone, 0, 0
	}
	var largest float64
	for i := range d.grown {
		c := &d.grown[i]
		if !v.Leak || c.since < v.Since {
			v.Since = c.since
		}
		v.Leak = true
		v.Rate = Of(v.Rate.V + c.trend.Rate)
		v.Leaked = Of(v.Leaked.V + c.leaked)
		if c.trend.Rate > largest {
			largest, v.Pattern = c.trend.Rate, c.pattern
		}
	}
}

// judgeResting adds what rests to the leaks of the device, unless one that rests leaks by itself, and to
// those of the pod or job that most of it belongs to.
func (d *Domain[K]) judgeResting() {
	if d.resting == nil || !d.resting.Config().With(series.Resting) || !d.listed || !d.known {
		return
	}
	var v Verdict
	d.resting.Judge(&v)
	if !v.Leak {
		return
	}
	held, of := map[*group[K]]stat.Bytes{}, (*group[K])(nil)
	for i := range d.present {
		m, g := d.present[i].member, d.present[i].group
		if m == nil || !m.Idle {
			continue
		}
		if m.Leaks() {
			return
		}
		if held[g] += m.Used; g != nil && (of == nil || held[g] > held[of]) {
			of = g
		}
	}
	d.grow(d.resting, &v)
	d.held = max(d.held, v.Confidence)
	if of != nil {
		of.sum.add(&v)
	}
}

// judgeUnreleased tells what stays: only where the members and the residual are
// judged, because elsewhere memory that nobody is known to own is nothing unusual.
// It names the pattern of the residual and of the memory as a whole.
func (d *Domain[K]) judgeUnreleased() {
	d.out.Unreleased = d.out.Unreleased[:0]
	if !d.past.Attributed || d.residual == nil || d.residual.Config().Mute {
		return
	}
	left := d.exits.Remaining()
	for i := range d.exits.List {
		if e := &d.exits.List[i]; e.Stays {
			d.out.Unreleased = append(d.out.Unreleased, Unreleased[K]{
				Key: e.Key, Used: float64(e.Held) * left, Since: e.Since,
			})
		}
	}
	if len(d.out.Unreleased) == 0 {
		return
	}
	for _, v := range []*Verdict{&d.out.Device, &d.out.Residual} {
		if v.Judged && !v.Leak {
			v.Pattern = PatternUnreleased
		}
	}
}
