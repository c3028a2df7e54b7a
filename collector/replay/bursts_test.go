// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"math/rand/v2"
	"testing"
	"time"
)

// rounds returns the stamps of rounds of so many GPUs, which are so far apart.
func rounds(n, gpus int, interval, apart time.Duration) []time.Duration {
	var list []time.Duration
	for i := range n {
		for g := range gpus {
			list = append(list, time.Duration(i)*interval+time.Duration(g)*apart)
		}
	}
	return list
}

// jittered returns stamps with a pause now and then; each lies up to jitter later than
// the interval says.
func jittered(interval, jitter time.Duration, pauseEvery int, pause time.Duration) []time.Duration {
	random := rand.New(rand.NewPCG(3, uint64(interval)))
	var list []time.Duration
	t := time.Duration(0)
	for range 50_000 {
		list = append(list, t)
		t += interval + time.Duration(random.Int64N(int64(jitter)+1))
		if pauseEvery > 0 && random.IntN(pauseEvery) == 0 {
			t += pause
		}
	}
	return list
}

func TestBursts(t *testing.T) {
	const ms = time.Millisecond
	late := rounds(6, 4, time.Second, 20*ms)
	late[1], late[6] = late[2]-ms, late[6]+15*ms // the rows of a round are not steady
	for _, tc := range []struct {
		name   string
		stamps []time.Duration
		want   bool
	}{
		{"two GPUs", rounds(4, 2, time.Second, 3*ms), true},
		{"three rounds", rounds(3, 2, time.Second, 3*ms), false},
		{"eight GPUs", rounds(4, 8, time.Second, 9*ms), true},
		{"in the same millisecond", rounds(4, 8, time.Second, 0), true},
		{"once a minute", rounds(4, 16, time.Minute, 60*ms), true},
		{"a round that is not steady", late, true},
		{"after a restart", append(rounds(1, 4, time.Second, 5*ms), func() []time.Duration {
			list := rounds(4, 4, time.Second, 5*ms)
			for i := range list {
				list[i] += time.Hour
			}
			return list
		}()...), true},
		{"one GPU", jittered(time.Second, 20*ms, 0, 0), false},
		{"one GPU with gaps", jittered(time.Second, 20*ms, 50, time.Hour), false},
		{"each minute", jittered(time.Minute, 0, 0, 0), false},
		{"fast", jittered(10*ms, 2*ms, 0, 0), false},
		{"fast with gaps", jittered(10*ms, 2*ms, 100, time.Hour), false},
		{"fast with many gaps", jittered(50*ms, 5*ms, 20, 2*time.Second), false},
		{"very fast", jittered(ms, ms, 0, 0), false},
		{"faster than the stamps tell, after a delay", append([]time.Duration{-117 * ms, -17 * ms, -2 * ms}, rounds(10, 2, ms, 0)...), false},
		{"restarts that overlap", func() []time.Duration {
			list := rounds(400, 1, time.Second, 0)
			for i := 50; i < len(list); i += 50 { // a row soon after that of the run before
				list[i] = list[i-1] + 30*ms
			}
			return list
		}(), false},
		{"the clock is set back", append(rounds(50, 1, time.Second, 0), rounds(50, 1, time.Second, 0)...), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b bursts
			got := false
			for i, s := range tc.stamps {
				if got = b.add(time.Hour+s.Truncate(ms), float64(100+50*(i%2))); got {
					t.Log("found in row", i)
					break
				}
			}
			equal(t, got, tc.want, "several GPUs")
		})
	}
}
