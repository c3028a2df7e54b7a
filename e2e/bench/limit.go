// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// How much can a judge know ten minutes after a program began, if it has a probe? --limit has one learn the answers: a logistic
// regression over all that a probe told in that time. It is no detector, as it judges each program once, and knows which programs
// the fleet has. It shows what there is to be told.

const (
	limitSpan  = 10 * time.Minute
	limitBlock = 30 * time.Second // the longest interval of a scenario
	// beginsWithin is how soon after its program a leak begins that counts as beginning with it.
	beginsWithin = 2 * time.Minute
	// fastRate is 50 MiB a minute, in bytes per second.
	fastRate = 50 << 20 / 60.
	// mostOfGPU bounds the programs of one GPU that are taken: some start hundreds.
	mostOfGPU = 5
	// limitParts is how often the families for tuning are split by seed: who is judged was not learnt from.
	limitParts = 4
	// shrinkage and learnSteps are those of the regression. Other values give much the same.
	shrinkage  = 0.01
	learnSteps = 2000
)

// beginning is what a probe told of a program in its first ten minutes.
type beginning struct {
	first     time.Duration
	last      int // block
	low, high [limitSpan / limitBlock]float64
	used      [limitSpan / limitBlock]float64 // as the driver has it
}

// add takes a sample, all in MiB.
func (b *beginning) add(t time.Duration, allocated, used float64) {
	i := int((t - b.first) / limitBlock)
	if b.last = i; i >= len(b.low) {
		return
	}
	if b.low[i] == 0 || allocated < b.low[i] {
		b.low[i] = allocated
	}
	b.high[i], b.used[i] = max(b.high[i], allocated), used
}

// complete reports whether the program lived for so long, with a sample in each block.
func (b *beginning) complete() bool { return b.last >= len(b.low) && !slices.Contains(b.used[:], 0) }

// features are what is learnt from: troughs, crests and memory by the minute, their growth, and how straight it is. All are on a
// logarithmic scale.
func (b *beginning) features() []float64 {
	const perMinute = int(time.Minute / limitBlock)
	var low, high, used, f []float64
	for i := 0; i < len(b.low); i += perMinute {
		low = append(low, slices.Min(b.low[i:i+perMinute]))
		high = append(high, slices.Max(b.high[i:i+perMinute]))
		used = append(used, slices.Max(b.used[i:i+perMinute]))
	}
	for i := range low {
		f = append(f, low[i], high[i], used[i])
		if i > 0 {
			f = append(f, low[i]-low[i-1], high[i]-high[i-1], used[i]-used[i-1])
		}
	}
	rises, steps, largest := 0.0, 0.0, 0.0
	for i := 3; i < len(low); i++ {
		if low[i] > low[i-1] {
			rises++
		}
	}
	for i := 1; i < len(b.low); i++ {
		step := b.low[i] - b.low[i-1]
		if largest = max(largest, step); step > 8 {
			steps++
		}
	}
	early, late := low[5]-low[2], low[9]-low[6]
	for _, from := range []int{2, 4} {
		slope, r2 := straightness(low[from:])
		f = append(f, slope, r2)
	}
	f = append(f, early, late, late/(math.Abs(early)+1), rises, steps, largest)
	for i, x := range f {
		f[i] = math.Copysign(math.Log1p(math.Abs(x)), x)
	}
	return f
}

// straightness returns the slope of the least-squares line through y, and its R².
func straightness(y []float64) (slope, r2 float64) {
	n, mean := float64(len(y)), 0.0
	for _, v := range y {
		mean += v / n
	}
	var xx, xy, yy float64
	for i, v := range y {
		x := float64(i) - (n-1)/2
		xx, xy, yy = xx+x*x, xy+x*(v-mean), yy+(v-mean)*(v-mean)
	}
	if yy == 0 {
		return 0, 0
	}
	return xy / xx, xy * xy / (xx * yy)
}

// program is one with a probe that began while somebody watched, and the right answer.
type program struct {
	family *fleet.Family
	seed   uint64
	leaks  bool // at fastRate at least, from its beginning on; else its family is healthy
	x      []float64
}

// beginnings returns the programs of a scenario that have an answer.
func beginnings(f *fleet.Family, seed uint64) []program {
	sc := f.Draw(seed)
	seen, before := map[gpu.ProcessID]*beginning{}, map[gpu.ProcessID]bool{}
	var order []gpu.ProcessID
	var s gpu.Sample
	for begun := false; sc.Next(&s); begun = true {
		for i := range s.Processes {
			p := &s.Processes[i]
			if !begun {
				before[p.ID] = true
			}
			if before[p.ID] || p.Allocator == nil || !p.Allocator.Allocated.OK {
				continue
			}
			if seen[p.ID] == nil {
				seen[p.ID] = &beginning{first: s.T}
				order = append(order, p.ID)
			}
			seen[p.ID].add(s.T, float64(p.Allocator.Allocated.V)/(1<<20), float64(p.Used.V)/(1<<20))
		}
	}
	var list []program
	for _, id := range order {
		b := seen[id]
		leaks := slices.ContainsFunc(sc.Truth.Leaks, func(l fleet.LeakTruth) bool {
			return l.Rate >= fastRate && l.From <= b.first+beginsWithin && slices.Contains(l.Processes, id)
		})
		if b.complete() && (leaks || f.Class == fleet.Healthy) && len(list) < mostOfGPU {
			list = append(list, program{f, seed, leaks, b.features()})
		}
	}
	return list
}

// regression is a logistic one over standardized features. The zero regression has learnt nothing.
type regression struct{ mean, scale, weight []float64 }

// learn fits the regression by gradient descent with momentum. Both answers weigh the same.
func (r *regression) learn(list []program) {
	d := len(list[0].x)
	r.mean, r.scale, r.weight = make([]float64, d), make([]float64, d), make([]float64, d+1)
	leaks := 0.0
	for _, p := range list {
		if p.leaks {
			leaks++
		}
		for i, x := range p.x {
			r.mean[i] += x / float64(len(list))
		}
	}
	for _, p := range list {
		for i, x := range p.x {
			r.scale[i] += (x - r.mean[i]) * (x - r.mean[i]) / float64(len(list))
		}
	}
	for i, v := range r.scale {
		r.scale[i] = math.Sqrt(v) + 1e-9
	}
	velocity, gradient := make([]float64, d+1), make([]float64, d+1)
	for range learnSteps {
		for i, w := range r.weight {
			gradient[i] = shrinkage * w
		}
		for _, p := range list {
			share, answer := 0.5/(float64(len(list))-leaks), 0.0
			if p.leaks {
				share, answer = 0.5/leaks, 1
			}
			off := (1/(1+math.Exp(-r.score(p.x))) - answer) * share
			for i, x := range p.x {
				gradient[i] += off * (x - r.mean[i]) / r.scale[i]
			}
			gradient[d] += off
		}
		for i := range r.weight {
			velocity[i] = 0.9*velocity[i] - 0.1*gradient[i]
			r.weight[i] += velocity[i]
		}
	}
}

func (r *regression) score(x []float64) float64 {
	sum := r.weight[len(x)]
	for i, v := range x {
		sum += r.weight[i] * (v - r.mean[i]) / r.scale[i]
	}
	return sum
}

// scored is the highest score of the programs of one GPU that have the same answer.
type scored struct {
	gpu   string
	leaks bool
	score float64
}

// highest returns what the GPUs of the programs are told by.
func highest(list []program, score func(p program) float64) []scored {
	best := map[string]*scored{}
	for _, p := range list {
		s := scored{fmt.Sprintf("%s/%d", p.family.Name, p.seed), p.leaks, score(p)}
		key := fmt.Sprint(s.gpu, s.leaks)
		if known := best[key]; known == nil || s.score > known.score {
			best[key] = &s
		}
	}
	var all []scored
	for _, s := range best {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	return all
}

// limitLevels are the shares of the healthy GPUs that may alarm.
var limitLevels = []float64{0.01, 0.03, 0.05, 0.1, 0.2}

// found returns how many leaks score above all healthy GPUs but such a share, for each level. all is in order.
func found(all []scored, healthy int) (counts []int) {
	for _, level := range limitLevels {
		n, left := 0, int(level*float64(healthy))
		for _, s := range all {
			switch {
			case s.leaks:
				n++
			case left == 0:
				goto next
			default:
				left--
			}
		}
	next:
		counts = append(counts, n)
	}
	return counts
}

// benchLimit writes what share of the leaks that begin with their program could be told in ten minutes.
func benchLimit(w *strings.Builder, opt options) error {
	lists := parallel(opt.seeds.count()*len(opt.list), func(i int) []program {
		return beginnings(&opt.list[i%len(opt.list)], opt.seeds.first+uint64(i/len(opt.list)))
	})
	var tuning, held []program
	for _, p := range slices.Concat(lists...) {
		if p.family.Held {
			held = append(held, p)
		} else {
			tuning = append(tuning, p)
		}
	}
	part := func(p program, k int) bool { return p.seed%limitParts == uint64(k) }
	var judges [limitParts]regression
	for k := range judges {
		rest := slices.DeleteFunc(slices.Clone(tuning), func(p program) bool { return part(p, k) })
		if !answersBoth(rest) {
			return fmt.Errorf("seeds %d to %d have too few programs to learn from", opt.seeds.first, opt.seeds.last)
		}
		judges[k].learn(rest)
	}
	var all regression
	all.learn(tuning)
	writeIntro(w, opt, "limit")
	t := &table{title: fmt.Sprintf("Programs with a probe, seeds %d to %d", opt.seeds.first, opt.seeds.last), header: []string{"judged", "healthy GPUs", "GPUs with a leak"}}
	for _, level := range limitLevels {
		t.header = append(t.header, fmt.Sprintf("told, if %g %% of the healthy may alarm", 100*level))
	}
	row := func(name string, list []program, score func(p program) float64) {
		told := highest(list, score)
		leaks := 0
		for _, s := range told {
			if s.leaks {
				leaks++
			}
		}
		cells := []string{name, strconv.Itoa(len(told) - leaks), strconv.Itoa(leaks)}
		for _, n := range found(told, len(told)-leaks) {
			cells = append(cells, share(n, leaks))
		}
		t.rows = append(t.rows, cells)
	}
	row("families for tuning, which it has learnt from, with other seeds", tuning, func(p program) float64 { return judges[p.seed%limitParts].score(p.x) })
	row("families held out", held, func(p program) float64 { return all.score(p.x) })
	t.write(w, opt.marked)
	return nil
}

// answersBoth reports whether there are leaks and healthy programs.
func answersBoth(list []program) bool {
	leaks := func(p program) bool { return p.leaks }
	return slices.ContainsFunc(list, leaks) && slices.ContainsFunc(list, func(p program) bool { return !p.leaks })
}
