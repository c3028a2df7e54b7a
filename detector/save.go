// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// stateVersion is that of the layout which Save writes: each code method below
// lists the fields of its type, in order. The version before it is read, too: an upgrade
// loses no leak that is active. A release of before it starts without history.
const (
	stateVersion  = 13
	stateVersion0 = 12 // without the resting series and the height reached
)

// errState says that what Restore was given is not what Save wrote.
var errState = errors.New("not a state of the detector")

// Save appends the history of the domain to b: Restore continues as if the
// domain had never been away. key appends the name of a member.
func (d *Domain[K]) Save(b []byte, key func([]byte, K) []byte) []byte {
	c := codec{b: append(b, stateVersion), writing: true, version: stateVersion}
	return d.saved(&c, key)
}

// saved appends the history in the layout of the codec's version.
func (d *Domain[K]) saved(c *codec, key func([]byte, K) []byte) []byte {
	d.code(c)
	d.used.save(c)
	d.residual.save(c)
	if c.version > stateVersion0 {
		d.resting.save(c)
	}
	c.count(len(d.members))
	for k, m := range d.members {
		c.bytes(key(nil, k))
		m.code(c)
	}
	c.count(len(d.missing))
	for i := range d.missing {
		x := &d.missing[i]
		c.bytes(key(nil, x.key))
		x.member.code(c)
		x.code(c)
	}
	c.count(len(d.groups))
	for name, g := range d.groups {
		name.code(c)
		g.codeOwn(c)
		c.flag(g.single)
		if g.single {
			c.bytes(key(nil, g.last))
		}
		c.flag(g.accused)
		if g.accused {
			c.bytes(key(nil, g.culprit))
		}
		g.save(c) // of its series
	}
	c.count(len(d.partings.list))
	for i := range d.partings.list {
		e := &d.partings.list[i]
		c.bytes(key(nil, e.key))
		e.code(c)
	}
	return c.b
}

// save appends the series, if there is one.
func (s *series) save(c *codec) {
	if c.flag(s != nil) {
		s.code(c)
	}
}

// Restore replaces the history by one that Save wrote. key reads the name of a
// member and reports false for one that is not to be restored, as after a reboot,
// when its number may be another's. On an error the domain is as new. Windows that
// are configured otherwise now start empty.
func (d *Domain[K]) Restore(b []byte, key func([]byte) (K, bool)) error {
	d.clear()
	d.last = 0
	if err := d.restore(b, key); err != nil {
		d.clear()
		d.last = 0
		return fmt.Errorf("restoring the detector: %w", err)
	}
	return nil
}

func (d *Domain[K]) restore(b []byte, key func([]byte) (K, bool)) error {
	if len(b) == 0 || b[0] != stateVersion && b[0] != stateVersion0 {
		return fmt.Errorf("%w of version %d or %d", errState, stateVersion0, stateVersion)
	}
	c := codec{b: b[1:], version: b[0]}
	d.code(&c)
	if c.flag(false) {
		d.used = d.restoreSeries(&c, Subject[K]{Kind: KindDevice})
	}
	if c.flag(false) {
		d.residual = d.restoreSeries(&c, Subject[K]{Kind: KindResidual})
	}
	if c.version > stateVersion0 && c.flag(false) {
		d.resting = d.restoreSeries(&c, Subject[K]{Kind: KindResidual})
	}
	for range c.countUpTo(MaxMembers) {
		k, known := key(c.bytes(nil))
		m := &member{series: d.restoreSeries(&c, Subject[K]{Kind: KindMember, Key: k})}
		m.codeOwn(&c)
		if known {
			d.members[k] = m
		}
	}
	for range c.countUpTo(maxMissing) {
		k, known := key(c.bytes(nil))
		x := missing[K]{key: k, member: &member{series: d.restoreSeries(&c, Subject[K]{Kind: KindMember, Key: k})}}
		x.codeOwn(&c)
		if x.code(&c); known {
			d.missing = append(d.missing, x)
		}
	}
	for range c.countUpTo(MaxGroups) {
		name, g := groupName{}, &group[K]{}
		name.code(&c)
		g.codeOwn(&c)
		if c.flag(false) {
			g.last, g.single = key(c.bytes(nil))
		}
		if c.flag(false) {
			g.culprit, g.accused = key(c.bytes(nil))
		}
		if g.key = g.last; c.flag(false) {
			g.series = d.restoreSeries(&c, g.subject(name))
		}
		d.groups[name] = g
	}
	for range c.countUpTo(maxPartings) {
		k, known := key(c.bytes(nil))
		e := parting[K]{key: k}
		e.code(&c)
		if known {
			d.partings.list = append(d.partings.list, e)
		}
	}
	if d.partings.staying() > MaxUnreleased || d.attributed && d.residual == nil {
		c.fail()
	}
	if c.err == nil && len(c.b) > 0 {
		c.fail()
	}
	return c.err
}

func (d *Domain[K]) restoreSeries(c *codec, subject Subject[K]) *series {
	s := d.newSeries(subject)
	s.whole = d.used
	s.code(c)
	return s
}

// codec writes fields to b, or reads them from it, so that one list of fields
// serves both. After an error it reads zeros.
type codec struct {
	b       []byte
	writing bool
	version byte
	err     error
	last    int64 // time of the last frame, ns
}

func (c *codec) fail() {
	if c.err == nil {
		c.err = errState
	}
	c.b = nil
}

func (c *codec) int(v *int64) {
	if c.writing {
		c.b = binary.AppendVarint(c.b, *v)
		return
	}
	x, n := binary.Varint(c.b)
	if n <= 0 {
		c.fail()
		*v = 0
		return
	}
	*v, c.b = x, c.b[n:]
}

// within codes an integer that must lie in [low, high].
func (c *codec) within(v *int, low, high int) {
	x := int64(*v)
	c.int(&x)
	if !c.writing && (x < int64(low) || x > int64(high)) {
		c.fail()
		x = int64(low)
	}
	*v = int(x)
}

func (c *codec) int32(v *int32) {
	x := int(*v)
	c.within(&x, math.MinInt32, math.MaxInt32)
	*v = int32(x)
}

// scale codes one of the scales of a series.
func (c *codec) scale(v *int8) {
	x := int(*v)
	c.within(&x, 0, numScales-1)
	*v = int8(x)
}

// natural codes a number that is not negative.
func (c *codec) natural(v *int64) {
	c.int(v)
	if !c.writing && *v < 0 {
		c.fail()
		*v = 0
	}
}

// time codes a moment in ns; the reader refuses one after that of the last frame.
func (c *codec) time(v *int64) {
	c.natural(v)
	if !c.writing && *v > c.last {
		c.fail()
		*v = 0
	}
}

// amount codes a number of bytes.
func (c *codec) amount(v *int64) {
	c.int(v)
	if !c.writing && (*v < 0 || *v > MaxBytes) {
		c.fail()
		*v = 0
	}
}

// units codes an amount of memory in units.
func (c *codec) units(v *uint32) {
	x := int(*v)
	c.within(&x, 0, math.MaxUint32)
	*v = uint32(x)
}

func (c *codec) wide(v *int128) {
	c.int(&v.hi)
	lo := int64(v.lo)
	c.int(&lo)
	v.lo = uint64(lo)
}

func (c *codec) float(v *float64) {
	bits := int64(math.Float64bits(*v))
	if c.writing {
		c.b = binary.BigEndian.AppendUint64(c.b, uint64(bits))
		return
	}
	if len(c.b) < 8 {
		c.fail()
		*v = 0
		return
	}
	*v = math.Float64frombits(binary.BigEndian.Uint64(c.b))
	c.b = c.b[8:]
	if math.IsNaN(*v) {
		c.fail()
		*v = 0
	}
}

// positive codes a number that must lie in [0, most].
func (c *codec) positive(v *float64, most float64) {
	c.float(v)
	if !c.writing && !(*v >= 0 && *v <= most) {
		c.fail()
		*v = 0
	}
}

// signed codes a number that must lie in [-most, most].
func (c *codec) signed(v *float64, most float64) {
	size := math.Abs(*v)
	down := c.flag(*v < 0)
	c.positive(&size, most)
	*v = size
	if down {
		*v = -size
	}
}

// within32 codes a float32 that must lie in [low, high].
func (c *codec) within32(v *float32, low, high float32) {
	x := float64(*v)
	c.float(&x)
	if !c.writing && !(x >= float64(low) && x <= float64(high)) {
		c.fail()
		x = float64(low)
	}
	*v = float32(x)
}

// flag codes a bool; reading, v is ignored.
func (c *codec) flag(v bool) bool {
	x := 0
	if v {
		x = 1
	}
	c.within(&x, 0, 1)
	return x == 1
}

func (c *codec) bool(v *bool) { *v = c.flag(*v) }

// held codes an amount of memory that may not be known.
func (c *codec) held(v *Value) {
	c.bool(&v.OK)
	c.positive(&v.V, MaxBytes)
}

func (c *codec) count(n int) { c.within(&n, 0, math.MaxInt32) }

func (c *codec) countUpTo(most int) int {
	n := 0
	c.within(&n, 0, most)
	return n
}

// bytes codes a string of bytes; reading, v is ignored.
func (c *codec) bytes(v []byte) []byte {
	if c.writing {
		c.count(len(v))
		c.b = append(c.b, v...)
		return v
	}
	n := c.countUpTo(len(c.b))
	if n > len(c.b) {
		c.fail()
		return nil
	}
	v, c.b = c.b[:n], c.b[n:]
	return v
}

func (d *Domain[K]) code(c *codec) {
	c.natural(&d.last)
	c.last = d.last
	c.within(&d.frames, 0, math.MaxInt)
	for i := range d.deltas {
		c.natural(&d.deltas[i])
	}
	c.bool(&d.attributed)
	c.time(&d.attributedAt)
	c.amount(&d.top)
	c.within(&d.crest.head, 0, crestSlots-1)
	c.within(&d.crest.len, 0, crestSlots)
	for i := range d.crest.slots {
		c.time(&d.crest.slots[i].start)
		c.amount(&d.crest.slots[i].max)
	}
	if c.version > stateVersion0 {
		c.amount(&d.reached)
		c.time(&d.reaching)
	}
	c.time(&d.leftAt)
	d.fullness.code(c)
	d.partings.code(c)
	c.within(&d.crowd, 0, math.MaxInt32)
	for i := range d.out.Resets {
		n := int64(d.out.Resets[i])
		c.natural(&n)
		d.out.Resets[i] = uint64(n)
	}
}

func (m *member) code(c *codec) {
	m.series.code(c)
	m.codeOwn(c)
}

// codeOwn codes what a member has beside its series.
func (m *member) codeOwn(c *codec) {
	c.time(&m.seen)
	c.within(&m.place, 0, math.MaxInt32)
	m.group.code(c)
	m.program = string(c.bytes([]byte(m.program)))
	c.held(&m.used)
	c.bool(&m.full)
	c.held(&m.room)
	c.positive(&m.company, MaxBytes)
	m.activity.code(c)
	m.flushing.code(c)
}

func (n *groupName) code(c *codec) {
	n.name = string(c.bytes([]byte(n.name)))
	c.bool(&n.program)
}

// codeOwn codes what a group has beside its series and the key of its last member.
func (g *group[K]) codeOwn(c *codec) {
	c.time(&g.seen)
	g.ended.code(c)
	g.pool.code(c)
	g.restarts.code(c)
	c.within(&g.most, 0, math.MaxInt32)
	c.within(&g.busiest, 0, math.MaxInt32)
	c.bool(&g.vacant)
	c.positive(&g.largest, MaxBytes)
	c.positive(&g.second, g.largest)
}

func (s *series) code(c *codec) {
	s.codeWindows(c)
	s.spikes.code(c)
	total := int64(s.total)
	c.natural(&total)
	s.total = uint64(total)
	for i := range s.ladder {
		s.ladder[i].code(c)
		s.growths[i].code(c)
	}
	s.cycles.code(c)
	s.levels.code(c)
	if s.levels.n == 0 && s.ladder[levelScale].n > 0 {
		c.fail()
	}
	s.leak.code(c)
	pattern := int(s.shape.pattern)
	c.within(&pattern, 0, int(numPatterns)-1)
	s.shape.pattern = Pattern(pattern)
	c.time(&s.shape.since)
	c.bool(&s.seen)
	c.natural(&s.samples)
	for _, v := range []*int64{&s.began, &s.first, &s.last, &s.idleAt, &s.busyAt, &s.workedAt, &s.gap.from} {
		c.time(v)
	}
	c.int32(&s.anew)
	if s.anew < 0 || s.anew > ticks(s.last-s.first) {
		c.fail()
	}
	c.time(&s.doubted)
	c.natural(&s.gap.length)
	c.amount(&s.used)
	c.positive(&s.capacity, MaxBytes)
	c.bool(&s.idle)
	c.bool(&s.effort.known)
	c.bool(&s.effort.busy)
	c.positive(&s.effort.resting, math.MaxFloat64)
	c.positive(&s.effort.working, math.MaxFloat64)
}

func (l *leak) code(c *codec) {
	c.bool(&l.on)
	c.bool(&l.plain)
	c.positive(&l.confidence, 1)
	c.scale(&l.best)
	for _, v := range []*int64{&l.above, &l.since, &l.grown} {
		c.time(v)
	}
	c.amount(&l.base)
	c.amount(&l.high)
	c.amount(&l.kept)
	c.bool(&l.level)
	l.trend.code(c)
	c.scale(&l.scale)
	c.natural(&l.closed)
	c.bool(&l.over)
	c.units(&l.rest.level)
	c.int32(&l.rest.since)
	c.int32(&l.rest.longest)
	if l.rest.since < 0 || l.rest.longest < 0 || l.on && l.over {
		c.fail()
	}
}

// codeWindows reads windows of the configured lengths and drops others.
func (s *series) codeWindows(c *codec) {
	n := len(s.windows)
	c.within(&n, 0, MaxWindows)
	for i := range n {
		var span int64
		if c.writing {
			span = s.windows[i].span
		}
		c.natural(&span)
		if c.writing {
			s.windows[i].code(c)
			continue
		}
		if span > int64(MaxWindow) {
			c.fail()
		}
		w := window{span: span}
		w.code(c)
		if at := slices.Index(s.cfg.Windows, time.Duration(span)); at >= 0 && c.err == nil {
			s.windows[at] = w
		}
	}
}

// code codes the blocks; the sums follow from them.
func (w *window) code(c *codec) {
	c.within(&w.len, 0, windowBlocks)
	sums := window{span: w.span, len: w.len}
	for i := range w.len {
		b := &w.blocks[(w.head+i)%windowBlocks]
		b.m.code(c)
		c.int32(&b.covered)
		c.int32(&b.spikes)
		if b.covered < 0 || b.spikes < 0 || int64(b.spikes) > b.m.n {
			c.fail()
		}
		if i == 0 {
			sums.closed = moments{x0: b.m.x0, y0: b.m.y0}
		} else if previous := &w.blocks[(w.head+i-1)%windowBlocks]; b.start() <= previous.start() {
			c.fail()
		}
		if b.start()-sums.closed.x0 > w.span {
			c.fail()
		}
		if i < w.len-1 {
			sums.close(b)
		}
	}
	if !c.writing {
		w.closed, w.covered, w.spikes = sums.closed, sums.covered, sums.spikes
		w.oldest = w.blocks[w.head].start()
	}
}

func (m *moments) code(c *codec) {
	c.natural(&m.n)
	c.time(&m.x0)
	c.amount(&m.y0)
	for _, v := range []*int128{&m.sx, &m.sy, &m.sxx, &m.sxy, &m.syy} {
		c.wide(v)
	}
	// No sum of n numbers within the bounds of moments is larger.
	most := float64(m.n) * (1 << 48)
	if m.n > maxBlockSamples || math.Abs(m.sx.float()) > most || math.Abs(m.sy.float()) > most {
		c.fail()
		*m = moments{}
	}
}

func (s *spikeCounter) code(c *codec) {
	c.within(&s.next, 0, spikeSlots-1)
	c.within(&s.len, 0, spikeSlots)
	for i := range s.slots {
		c.time(&s.slots[i].start)
		c.amount(&s.slots[i].min)
	}
	c.bool(&s.active)
	c.amount(&s.base)
	c.amount(&s.peak)
	c.time(&s.since)
	c.time(&s.last)
	c.positive(&s.duty, 1)
	if !c.writing {
		s.lowFrom = math.MinInt64 // what was noted of the slots follows from them
	}
}

func (e *scale) code(c *codec) {
	c.natural(&e.width)
	c.positive(&e.share, 1)
	c.within(&e.least, 1, blockSamples)
	c.time(&e.start)
	c.time(&e.until)
	c.within(&e.n, 0, math.MaxInt)
	c.amount(&e.min)
	c.within(&e.len, 0, scaleBlocks)
	if !c.writing {
		e.head = 0
	}
	for i := range e.len {
		p := &e.ring[(e.head+i)%scaleBlocks]
		p.code(c)
		if i > 0 && p.at < e.ring[(e.head+i-1)%scaleBlocks].at {
			c.fail()
		}
	}
	c.natural(&e.closed)
	c.natural(&e.moves)
	c.units(&e.level)
	c.int32(&e.movedAt)
	c.natural(&e.movedBlock)
	e.run.code(c)
	c.natural(&e.runs)
	c.positive(&e.walk.base, 2)
	c.positive(&e.walk.ups, mostWealth)
	c.positive(&e.walk.turns, mostWealth)
	last := int(e.walk.last)
	c.within(&last, -1, 1)
	e.walk.last = int8(last)
	c.positive(&e.high.fortune, mostWealth)
	c.positive(&e.high.blocks, math.MaxFloat64)
	c.positive(&e.high.maxima, math.MaxFloat64)
	c.positive(&e.given, math.MaxUint32)
	c.positive(&e.noise, math.MaxUint32)
	c.signed(&e.change, math.MaxUint32)
	if !c.writing && (e.closed > 0) != (e.len > 0) {
		c.fail()
	}
}

func (p *point) code(c *codec) {
	c.int32(&p.at)
	c.units(&p.v)
}

func (r *run) code(c *codec) {
	c.bool(&r.falling)
	for _, v := range []*uint32{&r.low, &r.high} {
		c.units(v)
	}
	for _, v := range []*int32{&r.lowAt, &r.ups, &r.onset, &r.popped, &r.downs} {
		c.int32(v)
	}
	if r.high < r.low || r.ups < 0 || r.popped < 0 {
		c.fail()
	}
}

func (c *cycles) code(with *codec) {
	with.bool(&c.falling)
	c.low.code(with)
	with.units(&c.high)
	with.positive(&c.size, math.MaxUint32)
	with.int32(&c.fell)
	with.int32(&c.last)
	with.positive(&c.length, math.MaxInt32)
	with.positive(&c.varies, math.MaxInt32)
	if c.falling && c.high < c.low.v {
		with.fail()
	}
}

func (l *levels) code(c *codec) {
	l.season.code(c)
	c.bool(&l.inSeason)
	c.within(&l.n, 0, levelValues)
	for i := range l.n {
		c.units(&l.values[i])
	}
}

func (s *season) code(c *codec) {
	c.int32(&s.part)
	c.int32(&s.begun)
	c.within(&s.cycles, 0, math.MaxInt32)
	if s.part < 0 || s.begun < 0 || s.part == 0 && s.cycles > 0 {
		c.fail()
	}
	if s.part == 0 {
		return
	}
	c.positive(&s.foot, math.MaxUint32)
	c.positive(&s.off, math.MaxUint32)
	for i := range s.shape {
		c.within32(&s.shape[i], unknownPart, math.MaxUint32)
		n := int(s.n[i])
		c.within(&n, 0, math.MaxUint16)
		s.n[i] = uint16(n)
		if n > 0 {
			c.within32(&s.sum[i], 0, math.MaxFloat32)
		}
	}
}

func (g *growth) code(c *codec) {
	c.within(&g.levels, 0, scaleBlocks)
	for _, v := range []*float64{&g.confidence, &g.recency, &g.pace, &g.spread, &g.steadiness, &g.reversal, &g.start, &g.flat} {
		c.positive(v, 1)
	}
	c.float(&g.evidence)
	c.amount(&g.retained)
	c.amount(&g.base)
	c.positive(&g.step, MaxBytes)
	c.time(&g.since)
	c.time(&g.end)
	c.natural(&g.gap)
	c.within(&g.points, 0, scaleBlocks)
	c.bool(&g.fitted)
	c.bool(&g.plain)
}

func (t *trend) code(c *codec) {
	c.float(&t.rate)
	for _, v := range []*float64{&t.bend, &t.variance, &t.wander} {
		c.positive(v, math.MaxFloat64)
	}
	c.within(&t.n, 0, scaleBlocks)
}
