// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"cmp"
	"math"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

const (
	// waitTold is how long growth must have lasted before the log says that it is withheld. Most
	// programs have loaded by then: a lower value gives a line for each start of a program.
	waitTold = 10 * time.Minute
	// waitSpacing is the least time between two such lines of a GPU.
	waitSpacing = time.Hour
	// waitPause is how long growth may not be suspected, and its wait goes on.
	waitPause = 10 * time.Minute
	// waitFresh is how long before the end of a process its growth was withheld if that matters.
	waitFresh = time.Minute
)

// waitLog follows growth on a GPU that is suspected and withheld. It answers what is asked
// afterwards: why a leak was reported so late, and why nothing was reported before a process
// ended with the memory full. Each kind of line is written once an hour and GPU at most.
type waitLog struct {
	waits map[leakKey]*wait
	ended []processKey // since the last state, with the memory nearly full
	// When growth and the end of a process were last told of.
	toldGrowth, toldEnd time.Time
}

// wait is growth that is withheld.
type wait struct {
	first, last  time.Time // when it was withheld
	why          detector.Withheld
	lasted, more time.Duration
	confidence   float64
	names        []any // of the process
	told         bool
}

// pairs say what is withheld, for the log.
func (x *wait) pairs() []any {
	pairs := []any{"withheld", x.why, "confidence", math.Floor(100*x.confidence) / 100, "lasted_seconds", int64(x.lasted.Seconds())}
	if s := detector.WithheldSeconds(x.more).Finite(); s != nil {
		pairs = append(pairs, "withheld_seconds", int64(*s))
	}
	return pairs
}

// note takes a verdict that withholds growth.
func (w *waitLog) note(k leakKey, at time.Time, v *detector.Verdict, names ...any) {
	if v.Withheld == detector.WithheldNone {
		return
	}
	x := w.waits[k]
	if x == nil {
		if w.waits == nil {
			w.waits = map[leakKey]*wait{}
		}
		x = &wait{first: at}
		w.waits[k] = x
	}
	x.last, x.why, x.lasted, x.more, x.confidence, x.names = at, v.Withheld, v.Lasted, v.WithheldFor, v.Confidence, names
}

// waiting reports whether growth of a process or workload of an instance is withheld now.
func (w *waitLog) waiting(instance gpu.Opt[uint32], at time.Time) bool {
	for k, x := range w.waits {
		if k.instance == instance && k != (leakKey{instance: instance}) && x.last.Equal(at) {
			return true
		}
	}
	return false
}

// over ends the wait of a leak that is reported now. It returns why the leak was withheld and for
// how long, for the log; nothing if it began after that.
func (w *waitLog) over(k leakKey, v *detector.Verdict) []any {
	x := w.waits[k]
	delete(w.waits, k)
	if x == nil || time.Unix(0, int64(v.Since)).After(x.last) {
		return nil
	}
	return []any{"was_withheld", x.why, "was_withheld_seconds", int64(x.last.Sub(x.first).Seconds())}
}

// update writes what there is to say at that time, and forgets what is over.
func (w *waitLog) update(logger log.Logger, at time.Time) {
	w.tellEnd(logger, at)
	var surest leakKey
	var next *wait
	for k, x := range w.waits {
		if d := at.Sub(x.last); d < 0 || d > waitPause {
			delete(w.waits, k)
			continue
		}
		if !x.told && x.last.Equal(at) && x.lasted >= max(waitTold, x.more) &&
			(next == nil || cmp.Or(cmp.Compare(x.confidence, next.confidence), cmp.Compare(k.process.id.PID, surest.process.id.PID)) > 0) {
			surest, next = k, x
		}
	}
	if next == nil || recent(w.toldGrowth, at) {
		return
	}
	next.told, w.toldGrowth = true, at
	level.Info(log.With(logger, append(surest.labels(), next.names...)...)).Log(append([]any{"msg", "memory grows, and is not called a leak yet"}, next.pairs()...)...)
}

// tellEnd says that a process has ended with the memory nearly full before its growth could be
// reported.
func (w *waitLog) tellEnd(logger log.Logger, at time.Time) {
	for _, key := range w.ended {
		k := leakKey{process: key, instance: key.instance}
		x := w.waits[k]
		if x == nil || at.Sub(x.last) > waitFresh || recent(w.toldEnd, at) {
			continue
		}
		delete(w.waits, k)
		w.toldEnd = at
		level.Warn(log.With(logger, append(k.labels(), x.names...)...)).Log(append([]any{"msg", "a process has ended with the memory nearly full, before its growth was called a leak"}, x.pairs()...)...)
	}
	w.ended = w.ended[:0]
}

// recent reports whether a line of that time forbids another one at that time. A clock that was
// set back forbids nothing.
func recent(line, at time.Time) bool {
	d := at.Sub(line)
	return !line.IsZero() && d >= 0 && d < waitSpacing
}
