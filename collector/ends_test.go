// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
)

// containerEnds answers how containers have ended.
type containerEnds struct {
	owners
	mu      sync.Mutex
	answers []lives.End // one after the other, the last one for ever; EndUnknown is not known yet
	asked   int
}

func (*containerEnds) Owner(id gpu.ProcessID) (*gpu.Owner, bool) {
	return &gpu.Owner{Process: "train.py", ContainerID: "c1", Lives: lives.ID{Exact: lives.Key(id.PID), Program: "train.py"}}, true
}

func (c *containerEnds) Await(_ context.Context, id gpu.ProcessID) (*gpu.Owner, bool) {
	return c.Owner(id)
}

func (c *containerEnds) Ended(context.Context, string) (lives.End, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := c.answers[min(c.asked, len(c.answers)-1)]
	c.asked++
	return end, end != lives.EndUnknown
}

func TestEnds(t *testing.T) {
	id := lives.ID{Exact: 7}
	owner := &gpu.Owner{ContainerID: "c1", Lives: id}
	for _, c := range []struct {
		name    string
		owner   *gpu.Owner
		answers []lives.End
		taught  bool
		asked   int
	}{
		{"at once", owner, []lives.End{lives.EndCompleted}, true, 1},
		{"later", owner, []lives.End{lives.EndUnknown, lives.EndUnknown, lives.EndCompleted}, true, 3},
		{"stopped", owner, []lives.End{lives.EndStopped}, false, 1},
		{"never", owner, []lives.End{lives.EndUnknown}, false, 7},
		{"in no container", &gpu.Owner{Lives: id}, []lives.End{lives.EndCompleted}, false, 0},
		{"of no name", &gpu.Owner{ContainerID: "c1"}, []lives.End{lives.EndCompleted}, false, 0},
		{"another program", &gpu.Owner{ContainerID: "c1", Lives: lives.ID{Exact: 8}}, []lives.End{lives.EndCompleted}, false, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const at = 100 * time.Hour
				book, owners := lives.NewBook(), &containerEnds{answers: c.answers}
				book.Add(id, &lives.Life{Ended: lives.SecondsOf(at), Height: 1, Growing: true}, 1<<62) // teaches once it has completed
				e := newEnds(book, owners)
				ctx, cancel := context.WithCancel(t.Context())
				ended := inBackground(ctx, e.run)
				e.add(c.owner, "", at)
				after(5 * time.Minute)
				if taught := book.Prior(id, at+time.Hour).Lives > 0; taught != c.taught || owners.asked != c.asked {
					t.Errorf("taught %t after %d questions; want %t, %d", taught, owners.asked, c.taught, c.asked)
				}
				cancel()
				<-ended
			})
		})
	}
}

// A node may lose many processes at once. What is too much stays unknown, and blocks nobody.
func TestEndsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := &containerEnds{answers: []lives.End{lives.EndCompleted}}
		e := newEnds(lives.NewBook(), owners)
		gone := func(i int) {
			e.add(&gpu.Owner{ContainerID: strconv.Itoa(i), Lives: lives.ID{Exact: 1}}, "", 0)
		}
		for i := range 3 * maxEnds {
			gone(i)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := inBackground(ctx, e.run)
		synctest.Wait()
		for i := range 3 * maxEnds {
			gone(i)
		}
		after(firstAsked + time.Second)
		if owners.asked != maxEnds {
			t.Errorf("%d containers were asked for", owners.asked)
		}
		cancel()
		<-ended
	})
	owner := &gpu.Owner{ContainerID: "c1", Lives: lives.ID{Exact: 1}}
	e := newEnds(lives.NewBook(), &containerEnds{})
	if n := testing.AllocsPerRun(1000, func() { e.add(owner, "NVIDIA H200", 1) }); n > 0 {
		t.Errorf("%g allocations", n)
	}
	if e := newEnds(nil, &containerEnds{}); e != nil {
		t.Error("asks though nobody remembers lives")
	}
	if e := newEnds(lives.NewBook(), nil); e != nil {
		t.Error("asks though nobody knows containers")
	}
}

// TestEndOfAProcess has a process leave its GPU.
func TestEndOfAProcess(t *testing.T) {
	const lasts = 300
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		if second > lasts {
			return flat(1 << 30)(second)
		}
		return flat(5<<30, process(1, 4<<30))(second)
	})
	d.info.Name = "NVIDIA H200"
	book, owners := lives.NewBook(), &containerEnds{answers: []lives.End{lives.EndUnknown, lives.EndFailed}}
	id := lives.ID{Exact: 1}.On(d.info.Name)
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, func(c *SamplerConfig) { c.Owners, c.Lives = owners, book }, func(*Sampler, *lines) {
		at := scriptStart + lasts*time.Second
		after((lasts + 3) * time.Second)
		if n := book.Prior(id, at+time.Minute).Lives; n != 1 {
			t.Fatalf("%d lives are noted", n)
		}
		after(30 * time.Second)
		if owners.asked != 2 {
			t.Errorf("asked %d times", owners.asked)
		}
		if book.Ended(id, at, lives.EndStopped) {
			t.Error("how it has ended was not noted")
		}
	})
}
