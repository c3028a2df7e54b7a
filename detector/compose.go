// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// sum is the verdict on several parts of a memory together.
type sum struct {
	Verdict
	fastest float64    // the highest rate of a part, whose pattern the sum has
	trend   stat.Trend // of the parts that leak; N is the fewest points of one, and Variance that of the rate to come
}

// The rate of a leak changes until the memory is full. rateError is the relative change of a leak that is as even as can be. For
// another one it is the square root of the relative standard error: so the errors of forecasts grew on generated series, from a
// rate that was known to 0.5 % to one known to 30 %.
const rateError = 0.05

// add adds a part whose leak has that trend.
func (s *sum) add(part *Verdict, t *stat.Trend) {
	s.Confidence = max(s.Confidence, part.Confidence)
	s.ShortenWait(part)
	if !part.Leak {
		return
	}
	if !s.Leak || part.Since < s.Since {
		s.Since = part.Since
	}
	if !s.Leak || t.N < s.trend.N {
		s.trend.N = t.N
	}
	if part.Rate.V > s.fastest {
		s.fastest, s.Pattern = part.Rate.V, part.Pattern
	}
	s.Leak = true
	s.Rate, s.Leaked = Of(s.Rate.V+part.Rate.V), Of(s.Leaked.V+part.Leaked.V)
	s.trend.Rate += t.Rate
	s.trend.Variance += t.Rate * (math.Sqrt(t.Variance) + rateError*rateError*t.Rate)
	s.trend.Wander += t.Wander
}

// addSeries adds a part that has a series of its own.
func (s *sum) addSeries(part *Verdict, of *series.Series) { s.add(part, &of.Leak.Trend) }

// Judgement returns the judgement after the last frame. It belongs to the
// Domain and is valid until the next call of any of its methods.
func (d *Domain[K]) Judgement() *Judgement[K] {
	d.out.T, d.out.Resets = d.past.Last, d.past.Resets
	d.total, d.judged = sum{}, true
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
		if in.member != nil && in.known {
			d.judgeMember(in, &d.out.Members[i])
		}
	}
}

func (d *Domain[K]) judgeMember(in *listing[K], out *MemberVerdict[K]) {
	m, g, v := in.member, in.group, &out.Verdict
	by := m.judge(v)
	if v.Judged {
		out.Grows = m.grows()
	}
	out.Peak = Of(float64(m.Peak))
	switch {
	case !v.Judged || v.Leak:
	case d.zombie(m):
		v.Pattern = PatternZombie
	case m.Pieces:
		v.Pattern = PatternFragmentation
	}
	if g != nil {
		g.sum.addSeries(v, by)
		if v.Leak && g.frame.heir == m && g.looping() { // all lives are one leak of the GPU
			same := *v
			same.Pattern, same.Since = PatternCrashLoop, g.Loop.Since
			v = &same
		}
	}
	d.total.addSeries(v, by)
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
	summed := d.out.Groups[:0]
	for _, out := range d.out.Groups {
		name := groupName{Name: out.Group}
		g := d.groups[name]
		g.verdict(&out.Verdict)
		if g.sum.Leak || !g.summed() && d.leaks(name) { // its members are in the total
			d.total.Confidence = max(d.total.Confidence, out.Confidence)
		} else {
			d.total.add(&out.Verdict, &g.Loop.Trend)
		}
		if g.summed() {
			summed = append(summed, out)
		}
	}
	d.out.Groups = summed
}

// judgeProgram adds the crash loop of a program that is in no pod or job. If one process alone can be the
// present life, it gets the verdict.
func (d *Domain[K]) judgeProgram(name groupName, g *group[K]) {
	if g.sum.Leak || g.frame.members == 0 && d.leaks(name) {
		return
	}
	var v Verdict
	g.loop(&v)
	d.total.add(&v, &g.Loop.Trend)
	var present *Verdict
	for i := range d.present {
		m := d.present[i].member
		if m == nil || d.present[i].group != g || !g.Loop.follows(m.First) || float64(m.Used) < loadedShare*float64(g.Loop.Base) {
			continue
		}
		if present != nil {
			return
		}
		present = &d.out.Members[i].Verdict
	}
	if present != nil && present.Judged {
		present.CopyLeak(&v)
		present.Pattern = v.Pattern
	}
}

// leaks reports whether a member of that group leaked when it was last seen.
func (d *Domain[K]) leaks(group groupName) bool {
	for _, m := range d.members {
		if m.Group == group && m.Leaks() && !m.Config().Mute {
			return true
		}
	}
	return false
}

// judgeDevice judges the memory as a whole: through its parts where the list of members is complete, and by its raw series
// otherwise.
func (d *Domain[K]) judgeDevice() {
	v := &d.out.Device
	*v, d.out.Residual = Verdict{}, Verdict{}
	if d.known {
		d.used.Judge(v)
		d.judgeResidual()
	}
	d.out.Attributed = d.past.attributed()
	switch {
	case !d.known:
	case d.out.Attributed:
		d.compose()
	case v.Leak: // the members are part of it
		d.total = sum{}
		d.total.addSeries(v, d.used)
	case d.total.Leak && v.Judged: // what leaks is hidden by what shrinks
		own := v.Confidence
		v.CopyWait(&Verdict{})
		d.combine()
		v.Confidence = max(v.Confidence, own)
	}
}

// judgeResidual judges the residual. If this frame brings no complete list, the verdicts of the last one still count
// for process.Absence.
func (d *Domain[K]) judgeResidual() {
	p := &d.past
	switch {
	case d.listed:
		d.residual.Judge(&d.out.Residual)
		d.total.addSeries(&d.out.Residual, d.residual)
	case p.attributed():
		for _, m := range d.members {
			if m.Last != p.Last {
				var v Verdict
				by := m.judge(&v)
				d.total.addSeries(&v, by)
			}
		}
		var v Verdict
		d.residual.Judge(&v)
		d.total.addSeries(&v, d.residual)
	}
}

// compose replaces the judgement of the raw series by that of its parts: a job that arrives is no leak of the GPU. The reason to
// wait is that of the part which waits for the shortest time: see Judgement.Device.
func (d *Domain[K]) compose() {
	v := &d.out.Device
	if !v.Judged {
		return
	}
	if v.Pattern.Leaks() {
		v.Pattern = d.growing()
	}
	d.combine()
	v.CopyWait(&Verdict{})
	if v.Leak {
		return
	}
	v.ShortenWait(&d.out.Residual)
	for i := range d.out.Members {
		v.ShortenWait(&d.out.Members[i].Verdict)
	}
}

// combine makes the leak of the device that of the total.
func (d *Domain[K]) combine() {
	v := &d.out.Device
	v.CopyLeak(&d.total.Verdict)
	if d.total.fastest > 0 {
		v.Pattern = d.total.Pattern
	}
}

// growing returns the pattern of the part that grows fastest; a plateau if none grows.
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

// judgeResting adds the series of the resting members, unless one of them leaks by itself. Its leak also counts for the pod
// or job that holds most of it.
func (d *Domain[K]) judgeResting() {
	if d.resting == nil || !d.listed || !d.known {
		return
	}
	var v Verdict
	d.resting.Judge(&v)
	if !v.Leak {
		return
	}
	held, largest := map[*group[K]]stat.Bytes{}, (*group[K])(nil)
	for i := range d.present {
		m, g := d.present[i].member, d.present[i].group
		if m == nil || !m.Idle {
			continue
		}
		if m.Leaks() {
			return
		}
		if held[g] += m.Used; g != nil && (largest == nil || held[g] > held[largest]) {
			largest = g
		}
	}
	d.total.addSeries(&v, d.resting)
	if largest != nil {
		largest.sum.addSeries(&v, d.resting)
	}
}

// judgeUnreleased lists the memory that stayed, and gives its pattern to the residual and the device. Without a complete list
// memory without an owner is nothing unusual.
func (d *Domain[K]) judgeUnreleased() {
	d.out.Unreleased = d.out.Unreleased[:0]
	if !d.out.Attributed || d.residual == nil || d.residual.Config().Mute {
		return
	}
	left := d.exits.Remaining()
	for i := range d.exits.List {
		if e := &d.exits.List[i]; e.Stays {
			d.out.Unreleased = append(d.out.Unreleased, Unreleased[K]{e.Key, float64(e.Held) * left, e.Since})
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
