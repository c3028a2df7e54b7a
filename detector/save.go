// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/process"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/state"
)

// stateVersion is that of the layout which Save writes: that of the exported fields of past, memberPast,
// groupPast and what these and a series are made of. A release that finds another one starts without
// history.
const stateVersion = 1

// codec writes what a domain is made of, or reads it.
type codec[K comparable] struct {
	state.Codec
	d      *Domain[K]
	append func([]byte, K) []byte
	key    func([]byte) (K, bool)
}

// name codes the name of a member and reports whether it is known.
func (c *codec[K]) name(k *K) (known bool) {
	s := ""
	if c.Writing {
		s = string(c.append(nil, *k))
	}
	if c.Code(&s); c.Writing {
		return true
	}
	*k, known = c.key([]byte(s))
	return known
}

// optional codes a name that may not be there. Who is unknown is not.
func (c *codec[K]) optional(is *bool, k *K) {
	if c.Code(is); *is {
		*is = c.name(k)
	}
}

// count codes how many there are, most at the most, and calls f for each of them.
func (c *codec[K]) count(n, most int, f func(i int)) {
	if c.Code(&n); n < 0 || n > most {
		c.Fail()
	}
	for i := 0; i < n && c.Err == nil; i++ {
		f(i)
	}
}

// series codes a series that may not be there.
func (c *codec[K]) series(s **series.Series, subject Subject[K]) {
	is := *s != nil
	if c.Code(&is); !is {
		return
	}
	if !c.Writing {
		*s = &series.Series{}
	}
	c.Code(*s)
	c.configure(*s, subject)
}

func (c *codec[K]) member(k *K, m **member) (known bool) {
	if known = c.name(k); !c.Writing {
		*m = &member{Series: &series.Series{}}
	}
	x := *m
	c.Code(&x.group, x.Series, &x.memberPast)
	c.configure(x.Series, Subject[K]{Kind: KindMember, Key: *k, Group: x.group.pod()})
	return known
}

// configure gives a series that was read the configuration of its subject.
func (c *codec[K]) configure(s *series.Series, subject Subject[K]) {
	if !c.Writing {
		s.Configure(c.d.configOf(subject))
	}
}

// Save appends the history of the domain to b: Restore continues as if the
// domain had never been away. key appends the name of a member.
func (d *Domain[K]) Save(b []byte, key func([]byte, K) []byte) []byte {
	c := codec[K]{Codec: state.Codec{B: append(b, stateVersion), Writing: true}, d: d, append: key}
	d.code(&c)
	return c.B
}

// Restore replaces the history by one that Save wrote. key reads the name of a
// member and reports false for one that is not to be restored, as after a reboot,
// when its number may be another's. On an error the domain is as new. Windows that
// are configured otherwise now start empty.
func (d *Domain[K]) Restore(b []byte, key func([]byte) (K, bool)) error {
	d.clear()
	c := codec[K]{Codec: state.Codec{Last: math.MaxInt64}, d: d, key: key}
	if len(b) > 0 && b[0] == stateVersion {
		c.B = b[1:]
		d.code(&c)
	} else {
		c.Fail()
	}
	if d.past.Attributed && d.residual == nil || len(c.B) > 0 {
		c.Fail()
	}
	if c.Err == nil {
		d.lookUp()
		return nil
	}
	d.past.Resets = [NumReasons]uint64{}
	d.clear()
	return fmt.Errorf("restoring the detector: %w of version %d", c.Err, stateVersion)
}

// code codes the history.
func (d *Domain[K]) code(c *codec[K]) {
	c.Code(&d.past, &d.exits)
	c.Last = d.past.Last
	c.series(&d.used, Subject[K]{Kind: KindDevice})
	c.series(&d.residual, Subject[K]{Kind: KindResidual})
	c.series(&d.resting, Subject[K]{Kind: KindResidual})
	keys := slices.Collect(maps.Keys(d.members))
	c.count(len(keys), MaxMembers, func(i int) {
		var k K
		if c.Writing {
			k = keys[i]
		}
		m := d.members[k]
		if c.member(&k, &m) {
			d.members[k] = m
		}
	})
	c.count(len(d.missing), maxMissing, func(i int) {
		var x missing[K]
		if c.Writing {
			x = d.missing[i]
		}
		known := c.member(&x.key, &x.member)
		if c.Code(&x.since, &x.rest); known && !c.Writing {
			d.missing = append(d.missing, x)
		}
	})
	c.groups()
	c.exits()
	c.insides()
}

func (c *codec[K]) groups() {
	names := slices.Collect(maps.Keys(c.d.groups))
	c.count(len(names), MaxGroups, func(i int) {
		var name groupName
		if c.Writing {
			name = names[i]
		}
		c.Code(&name)
		if !c.Writing {
			c.d.groups[name] = &group[K]{}
		}
		g := c.d.groups[name]
		c.Code(&g.groupPast)
		c.optional(&g.single, &g.last)
		c.optional(&g.accused, &g.culprit)
		if !c.Writing {
			g.key = g.last
		}
		c.series(&g.Series, g.subject(name))
	})
}

func (c *codec[K]) exits() {
	p, staying := &c.d.exits, 0
	c.count(len(p.List), process.MaxExits, func(i int) {
		var e process.Exit[K]
		if c.Writing {
			e = p.List[i]
		}
		known := c.name(&e.Key)
		if c.Code(&e); e.Stays {
			staying++
		}
		if known && !c.Writing {
			p.List = append(p.List, e)
		}
	})
	if staying > MaxUnreleased {
		c.Fail()
	}
}

// Check reports whether the past can be one: see state.Checker.
func (p *past) Check(time.Duration) bool {
	for _, delta := range p.Deltas {
		if delta < 0 || delta > math.MaxInt64/4 {
			return false
		}
	}
	return p.Last >= 0 && p.Last < math.MaxInt64/2 && p.Frames >= 0 && p.Frames < math.MaxInt64/2 && p.AttributedAt <= p.Last
}

// Check is the same for what a member has beside its series.
func (p *memberPast) Check(time.Duration) bool { return p.Held.V >= 0 && p.Held.V <= MaxBytes }
