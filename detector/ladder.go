// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"time"
)

// The ladder of block widths over which troughs are taken: 10 s to 2560 s, each
// seen over scaleBlocks of them: 15 minutes to 63 hours. A fast leak shows at the
// narrow end; one under a sawtooth only where a block is as long as the sawtooth.
const (
	ladderScales = 7
	// cycleScale is the one beside them whose blocks are the cycles of the series.
	cycleScale = ladderScales
	// levelScale is one as wide as the scale levelWidth, whose blocks hold the median of
	// the narrowest troughs, less the shape of the cycles.
	levelScale  = cycleScale + 1
	levelWidth  = 1
	numScales   = levelScale + 1
	ladderBase  = 10 * int64(time.Second)
	ladderTop   = 2560 * int64(time.Second)
	scaleBlocks = 88
	// cycleShare is the share of the probability of a false alarm that the cycles
	// have, and levelShare that of the level scale. The rest is for the other scales, as a
	// bell over the logarithm of the width: it is highest at urgentWidth and falls by 1/√e
	// at each urgentSpread e-folds. In the minutes that a leak must last at least, narrower
	// blocks show more moves than they need, and wider ones belong to leaks that have the
	// time to show.
	cycleShare   = 0.15
	levelShare   = 0.15
	urgentWidth  = int64(time.Minute)
	urgentSpread = 1.6
	// blockSamples is how many samples a block needs before its lowest one is a
	// trough, or as many as come in blockTime, if that is less: growth that takes
	// minutes must show in some blocks. Where samples are so far apart that this
	// takes longer than ladderBase, the ladder starts there, and its steps are
	// smaller, but coarsest at least.
	blockSamples = 3
	blockTime    = int64(time.Minute)
	coarsest     = 1.5
)

// urgency weighs a scale of blocks of that width, ns, against the others.
func urgency(width int64) float64 {
	off := math.Log(float64(width)/float64(urgentWidth)) / urgentSpread
	return math.Exp(-off * off / 2)
}

// quantum is the least change of a trough in bytes that counts: NVML gives
// process memory in units of 2 MiB.
const quantum = 2 << 20

const (
	// unit is the resolution of the troughs that are kept, in bytes: a 32nd of a
	// quantum.
	unit = 64 << 10
	// tick is that of their times, in ns: an int32 of them lasts for 6.8 years.
	tick = int64(100 * time.Millisecond)
	// moveUnits is the quantum in units.
	moveUnits = quantum / unit
)

const (
	// retrace is the share of a rise that must be given back for the rise to have
	// ended, and of a fall that must be regained for the fall to have.
	retrace = 0.25
	// toothMoves is from how many upward moves on a rise counts as gradual: only
	// what grew gradually and was given back tells that growth is no leak. A job
	// that comes in a few steps and goes does not.
	toothMoves = 4
	// youngest is the age in ticks from which on new maxima are bet on: at an age of
	// zero they are expected without end.
	youngest = int32(300)
	// pauseBlocks is after how many blocks without a move growth has ended.
	pauseBlocks = 8
	// unsettledTop is how long, in ns, the memory that was there at first may have
	// stayed for its fall to tell that it was no job's.
	unsettledTop = int64(10 * time.Minute)
	// toothHold is how long, in multiples of the time that a rise took, the top of
	// a tooth may last: memory that stays for longer and then goes is that of a job
	// that ended.
	toothHold = 2
	// forgetting is the share by which the largest give-back decays a block.
	forgetting = 0.0005
	// noiseTimes is how many times the typical change that the next block takes back
	// a change of the level must be, and noiseMemory the weight of the last one in that.
	noiseTimes  = 3
	noiseMemory = 0.05
)

// point is the trough of a block: its lowest value, in units, at the block's
// end, in ticks since the series began.
type point struct {
	at int32
	v  uint32
}

// scale follows the troughs of a series at one width of blocks.
type scale struct {
	width int64   // ns
	least int     // samples in a block
	share float64 // of the probability of a false alarm

	start int64 // of the open block, ns
	until int64 // its last sample, ns
	min   int64 // of the open block, bytes
	n     int   // samples in it

	ring [scaleBlocks]point // the last troughs
	head int                // oldest
	len  int

	closed  int64  // blocks closed so far
	moves   int64  // changes of the level by a quantum so far
	level   uint32 // the trough at the last move
	movedAt int32  // when
	// movedBlock is how many blocks were closed then.
	movedBlock int64

	run  run
	runs int64 // begun so far
	walk walkBet
	high highWaterBet
	// given is the largest gradual rise that was given back, in units, decaying.
	given float64
	// noise is the typical change from trough to trough that the next one takes back,
	// and change the last change, units.
	noise, change float64
}

// run is growth that goes on, or a fall. Growth begins where the level was low
// for the last time; it ends with a fall that takes back more than retrace of its height,
// or toothMoves of its levels and half of what the last scaleBlocks/2 gained, or when the level
// has stayed for pauseBlocks.
type run struct {
	falling bool
	// The lowest and the highest level, and when the lowest was last reached. ups
	// counts the moves upwards since then.
	low, high uint32
	lowAt     int32
	ups       int32
	// onset is when the growth got under way; see onset().
	onset int32
	// Of a fall: how many levels it took back, and how many moves it took.
	popped, downs int32
}

// nature is what a scale must know of the owner of the memory.
type nature struct {
	began int32   // when it started, ticks since the series began
	rate  float64 // Config.HighWaterRate
	// When the memory has been full lately, ticks since the series began, -1 never: what
	// began to grow before that may have filled it.
	fullSince, fullUntil int32
}

// cycles finds the troughs of the cycles of a series, such as the steps, epochs or
// requests of a program: one a cycle, where a block would hold several or none.
type cycles struct {
	falling bool
	low     point
	high    uint32
	size    float64 // typical height of a cycle, units
	fell    int32   // when the last fall was seen
	last    int32   // when the cycle before ended
	length  float64 // typical length, ticks
	varies  float64 // by how much one typically differs from it, ticks
}

const (
	// minCycle is the least height of a cycle, in units.
	minCycle = 8 * moveUnits
	// half a typical cycle must be taken back for one to end, and cycleTurn of what
	// was taken back must be regained for the next one to begin.
	cycleTurn = 0.25
	// cycleMemory is the weight of the last cycle in what is typical.
	cycleMemory = 0.2
	// noiseCycle is how many times as high as a typical cycle one is that shows that
	// the cycles before were noise.
	noiseCycle = 3
)

// add takes the value v in units at the time at and reports whether a trough was
// passed, and which.
func (c *cycles) add(at int32, v uint32) (trough point, passed bool) {
	if !c.falling {
		c.high = max(c.high, v)
		if float64(c.high)-float64(v) >= max(minCycle, c.size/2) {
			c.falling, c.low, c.fell = true, point{at, v}, at
		}
		return point{}, false
	}
	if v <= c.low.v {
		c.low = point{at, v}
	}
	height := float64(c.high - c.low.v)
	if float64(v-c.low.v) < max(minCycle, cycleTurn*height) {
		return point{}, false
	}
	c.falling, c.high = false, v
	if c.size == 0 || height > noiseCycle*c.size {
		c.size, c.last, c.length, c.varies = height, 0, 0, 0
	}
	c.size += cycleMemory * (height - c.size)
	if c.last > 0 {
		length := float64(c.low.at - c.last)
		if c.length == 0 {
			c.length = length
		}
		c.varies += cycleMemory * (math.Abs(length-c.length) - c.varies)
		c.length += cycleMemory * (length - c.length)
	}
	c.last = c.low.at
	return c.low, true
}

// trough is the lowest value of a block, in bytes, and when the block ended, in ns.
type trough struct{ at, bytes int64 }

// add takes the sample y at the time t, or the narrower trough that ended then, and
// reports whether a block closed before it, and with which trough. t and y count as
// in observation. epoch is when the series began, in ns. A block ends where it is as
// wide as it should be, or with its last sample, and not with the next one: that may
// come a long time after.
func (e *scale) add(t, y, epoch int64, n nature) (low trough, closed bool) {
	if closed = e.full(t); closed {
		low = trough{at: max(e.start+e.width, e.until), bytes: e.min}
		e.close(point{at: ticks(low.at - epoch), v: units(low.bytes)}, n)
		e.n = 0
	}
	if e.n == 0 {
		e.start, e.min = t, y
	}
	e.n++
	e.until = t
	e.min = min(e.min, y)
	return low, closed
}

// full reports whether a sample at the time t, ns, ends the open block.
func (e *scale) full(t int64) bool { return e.n >= e.least && t-e.start >= e.width }

// close takes the trough of a block.
func (e *scale) close(p point, n nature) {
	e.closed++
	e.given -= e.given * forgetting
	r, least := &e.run, e.leastMove()
	if age := e.age(n); r.ups > 0 && !r.falling && age >= youngest {
		e.high.block(int64(p.v) >= int64(r.high)+least, n.rate, float64(age), float64(max(p.at-n.began, age+1)))
	}
	switch d := int64(p.v) - int64(e.level); {
	case e.closed == 1:
		e.level, e.movedAt = p.v, p.at
		e.begin(p)
	case d >= least:
		e.moves++
		e.walk.move(d > 0, r.rising())
		r.up(p)
		e.level, e.movedAt = p.v, p.at
	case -d >= least:
		e.moves++
		e.walk.move(d > 0, r.rising())
		e.fall(p, n)
		e.level, e.movedAt = p.v, p.at
	case (r.ups > 0 || r.falling) && e.closed-e.movedBlock >= pauseBlocks:
		e.begin(point{at: p.at, v: e.level})
	case r.ups == 0:
		r.lowAt, r.onset = p.at, p.at // still as low
	}
	if e.movedAt == p.at {
		e.movedBlock = e.closed
	}
	if e.len > 0 {
		e.listen(p.v)
	}
	e.push(p)
}

// leastMove returns the least change of the level that is a move, units: a quantum, or
// several times the noise.
func (e *scale) leastMove() int64 { return max(moveUnits, int64(noiseTimes*e.noise)) }

// listen takes the change to the next trough into the noise: what of the change before it
// takes back. A trend has none, however fast. It counts from the next trough on, so that
// the next move is as likely up as down of a walk.
func (e *scale) listen(v uint32) {
	change := float64(v) - float64(e.back(1).v)
	back := 0.0
	if change*e.change < 0 {
		back = min(math.Abs(change), math.Abs(e.change))
	}
	e.noise += noiseMemory * (back - e.noise)
	e.change = change
}

// rising returns how many moves upwards the growth has made; 0 in a fall.
func (r *run) rising() int32 {
	if r.falling {
		return 0
	}
	return r.ups
}

// age returns the age of the owner at the last trough, in ticks.
func (e *scale) age(n nature) int32 {
	if e.len == 0 {
		return 0
	}
	return e.ring[(e.head+e.len-1)%scaleBlocks].at - n.began
}

// begin starts a run at p.
func (e *scale) begin(p point) {
	e.runs++
	e.walk.begin(allotted(e.runs))
	e.high.begin(allotted(e.runs))
	e.run = run{low: p.v, high: p.v, lowAt: p.at, onset: p.at}
}

// up follows a move upwards to p.
func (r *run) up(p point) {
	r.ups++
	if r.falling && float64(p.v-r.low) < retrace*float64(r.high-r.low) {
		return // a fall is over when a quarter of it is regained
	}
	r.popped, r.downs = 0, 0
	if r.falling || p.v > r.high {
		r.falling, r.high = false, p.v
	}
}

// fall follows a move downwards to p and notes how much gradual growth it takes
// back, unless that has filled the memory: there an allocator empties its cache
// before it fails, and fills it again. Where in its block the memory fell is not known.
func (e *scale) fall(p point, n nature) {
	r := &e.run
	lately := n.fullUntil >= 0 && int64(p.at-n.fullUntil)*tick <= fullBefore+e.width
	// What leaks cannot be flushed: where next to nothing of the rise stays, it was no leak.
	stays := float64(p.v)-float64(r.low) >= retrace*(float64(r.high)-float64(r.low))
	full := lately && n.fullSince > r.onset && stays
	popped, height, gradual := e.pop(p)
	r.popped += popped
	r.downs++
	if gradual && !full {
		e.given = max(e.given, height)
	}
	// What falls gradually rose at some time, seen or not; and how the memory rose
	// that was there at first, and does not stay, is not known: it may have filled it.
	first := e.runs == 1 && int64(p.at-e.movedAt)*tick < min(pauseBlocks*e.width, unsettledTop)
	if first && !lately || r.falling && r.downs >= toothMoves && !full {
		e.given = max(e.given, float64(r.high)-float64(p.v))
	}
	if !r.falling && (float64(r.high)-float64(p.v) > retrace*float64(r.high-r.low) ||
		r.popped >= toothMoves && float64(r.high)-float64(p.v) > 0.5*(float64(r.high)-float64(e.back(scaleBlocks/2).v))) {
		top, downs := r.high, r.downs
		e.begin(p)
		r.falling, r.high, r.downs = true, top, downs
	}
	if p.v < r.low {
		r.low, r.lowAt, r.onset, r.ups = p.v, p.at, p.at, 0
	}
}

// back returns the trough of n blocks ago, or the oldest one that is kept.
func (e *scale) back(n int) point {
	return e.ring[(e.head+max(e.len-n, 0))%scaleBlocks]
}

// pop counts the levels above p that the series had reached and kept until now,
// and tells their height, and whether they are a gradual growth that did not last.
func (e *scale) pop(p point) (levels int32, height float64, gradual bool) {
	lowest, newest := uint32(math.MaxUint32), point{}
	oldest := newest
	for i := e.len - 1; i >= 0; i-- {
		q := e.ring[(e.head+i)%scaleBlocks]
		if q.v <= p.v {
			break
		}
		if q.v+moveUnits <= lowest {
			lowest = q.v
			levels++
			oldest = q
			if levels == 1 {
				newest = q
			}
		} else if levels == 1 {
			newest.at = q.at // the top was reached then
		}
	}
	height = float64(newest.v) - float64(oldest.v)
	if e.closed == int64(e.len)+1 && levels > 0 && e.ring[e.head].v > p.v && oldest == e.ring[e.head] {
		height = float64(newest.v) - float64(p.v) // it rose from lower before it was first seen
	}
	rise, hold := newest.at-oldest.at, p.at-newest.at
	gradual = levels >= toothMoves && int64(hold) <= toothHold*int64(rise)+blockSamples*e.width/tick
	return levels, height, gradual
}

// push adds a trough to the ring.
func (e *scale) push(p point) {
	if e.len == scaleBlocks {
		e.head = (e.head + 1) % scaleBlocks
		e.len--
	}
	e.ring[(e.head+e.len)%scaleBlocks] = p
	e.len++
}

// points copies the troughs that are kept to out, oldest first.
func (e *scale) points(out *[scaleBlocks]point) []point {
	n := copy(out[:], e.ring[e.head:min(e.head+e.len, scaleBlocks)])
	copy(out[n:], e.ring[:e.len-n])
	return out[:e.len]
}

// envelope returns the lower envelope now, in bytes.
func (e *scale) envelope() (int64, bool) {
	if e.closed == 0 {
		return 0, false
	}
	level := e.ring[(e.head+e.len-1)%scaleBlocks].bytes()
	if e.n > 0 {
		level = min(level, e.min)
	}
	return level, true
}

func (p point) bytes() int64 { return int64(p.v) * unit }

// units rounds an amount of memory down to units.
func units(bytes int64) uint32 { return uint32(min(bytes/unit, math.MaxUint32)) }

// ticks rounds a time in ns since the series began to ticks.
func ticks(ns int64) int32 { return int32(min(ns/tick, math.MaxInt32)) }
