// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

// summary returns holders as device, pid, start and name, in order.
func summary(holders []Holder) (s []string) {
	for _, h := range holders {
		p := h.Process
		s = append(s, fmt.Sprintf("%s %d/%d %s %s", h.Device, p.ID.PID, p.ID.Start, p.State, p.Owner.Process))
	}
	slices.Sort(s)
	return s
}

func TestHolders(t *testing.T) {
	tr := newTree(t)
	dir := filepath.Join(t.TempDir(), "dev") // any file may have the name of a device
	plain, fifo := filepath.Join(dir, "nvidia7"), filepath.Join(dir, "nvidia8")
	must(t, os.Mkdir(dir, 0o755))
	must(t, errors.Join(os.WriteFile(plain, nil, 0o644), syscall.Mkfifo(fifo, 0o644)))
	tr.add(20, process{comm: "b", start: 2, exe: "/bin/b", fds: []string{
		"/dev/null", "/dev/nvidia10", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia9", "/dev/nvidia9", "socket:[7]",
	}})
	tr.add(3, process{comm: "a", start: 1, exe: "/bin/a", fds: []string{"pipe:[1]", "/dev/nvidia9 (deleted)"}})
	tr.add(30, process{comm: "driver", start: 3, exe: "/bin/persistenced", fds: []string{"/run/nvidia/driver/dev/nvidia10"}})
	tr.add(40, process{comm: "no GPU", start: 4, exe: "/bin/c", fds: []string{
		"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-modeset", "/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-caps/nvidia1",
		"/dev/nvidia", "/dev/nvidia0x", "/dev/nvidia1234", "/home/a/nvidia0", "nvidia0",
	}})
	tr.add(41, process{comm: "file", start: 4, exe: "/bin/c", fds: []string{plain, fifo}})
	tr.add(2, process{comm: "kthreadd", start: 0, flags: kernelThread})
	r := tr.resolver(Config{})
	holders, err := r.Holders(t.Context())
	must(t, err)
	want := []string{"/dev/nvidia10 20/2 S b", "/dev/nvidia10 30/3 S persistenced", "/dev/nvidia9 20/2 S b", "/dev/nvidia9 3/1 S a"}
	equal(t, summary(holders), want, "holders")
	equal(t, r.Unseen().Why, nil, "unreadable")
	if o, _ := r.Owner(gpu.ProcessID{PID: 20, Start: 2}); o != holders[1].Process.Owner {
		t.Error("the owner is not the one that Owner returns")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if holders, err := r.Holders(ctx); !errors.Is(err, context.Canceled) || holders != nil {
		t.Errorf("after the end: %v, %v", holders, err)
	}
	must(t, os.RemoveAll(tr.root))
	if holders, err := r.Holders(t.Context()); err == nil {
		t.Errorf("without procfs: %v", holders)
	}
}

// A directory of open files that cannot be listed counts, but not that of a thread
// of the kernel or of a process that has ended.
func TestHoldersUnreadable(t *testing.T) {
	tr := newTree(t)
	for pid, flags := range map[uint32]uint64{10: 0, 11: 0, 12: kernelThread, 13: 0, 14: 0} {
		tr.add(pid, process{comm: "p", start: 1, exe: "/bin/p", flags: flags, fds: []string{"/dev/nvidia0"}})
		dir := fmt.Sprintf("%s/%d/fd", tr.root, pid)
		if pid == 13 {
			continue
		}
		must(t, os.RemoveAll(dir))
		if pid != 14 { // not a directory: an error that root meets, too
			tr.write(fmt.Sprintf("%d/fd", pid), "")
		}
	}
	r := tr.resolver(Config{})
	holders, err := r.Holders(t.Context())
	if got := summary(holders); err != nil || len(got) != 1 || got[0] != "/dev/nvidia0 13/1 S p" {
		t.Errorf("%q, %v", got, err)
	}
	if u := r.Unseen(); u.Unreadable != 10 || !errors.Is(u.Why, syscall.ENOTDIR) {
		t.Errorf("unreadable: %d, %v, want the first of the two", u.Unreadable, u.Why)
	}
}

func TestHoldersAreBounded(t *testing.T) {
	tr := newTree(t)
	fds := []string{"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2"}
	for pid := range uint32(100) {
		tr.add(pid+10, process{comm: "p", start: 1, exe: "/bin/p", fds: fds})
	}
	holders, err := tr.resolver(Config{}).Holders(t.Context())
	if err != nil || len(holders) != maxHolders {
		t.Fatalf("%d holders, %v", len(holders), err)
	}
	for _, h := range holders {
		if h.Process.ID.PID > 10+maxHolders/3 {
			t.Errorf("%+v is not among the first", h)
		}
	}
}

// The number goes to another process between the look at its files and the look at its start, or after that.
func TestHoldersOfReusedPID(t *testing.T) {
	for _, reuse := range []int{1, 2} { // ahead of which look at the start
		tr := newTree(t)
		tr.add(10, process{comm: "one", start: 1, exe: "/bin/one", fds: []string{"/dev/nvidia0"}})
		r := tr.resolver(Config{})
		open, looks := r.open, 0
		r.open = func(pid uint32) (procDir, error) {
			if looks++; looks == reuse {
				tr.remove(10)
				tr.add(10, process{comm: "two", start: 2, exe: "/bin/two"})
			}
			return open(pid)
		}
		if holders, err := r.Holders(t.Context()); err != nil || len(holders) != 0 {
			t.Errorf("reused ahead of look %d: %q, %v", reuse, summary(holders), err)
		}
	}
}

// A process that opens a device is seen in time, at any age and for any pause between two calls.
func TestHoldersAreFoundInTime(t *testing.T) {
	for name, tc := range map[string]struct {
		pause      time.Duration
		there      bool          // before the first call
		opensAfter time.Duration // that it was there
		most       time.Duration // until it is seen
	}{
		"it holds it from its start":  {15 * time.Second, false, 0, 0},
		"it holds it from the first":  {15 * time.Second, true, 0, 0},
		"a new one that loads first":  {15 * time.Second, false, 105 * time.Second, lookEvery},
		"one that was there before":   {time.Second, true, 15 * time.Minute, lookEvery},
		"a call in 4 min":             {4 * time.Minute, false, time.Hour, 8 * time.Minute},
		"a call an hour":              {time.Hour, false, 10 * time.Hour, 0},
		"a call an hour, from before": {time.Hour, true, 3 * time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { foundInTime(t, tc.pause, tc.opensAfter, tc.most, tc.there) })
		})
	}
}

func foundInTime(t *testing.T, pause, opensAfter, most time.Duration, there bool) {
	tr := newTree(t)
	r := tr.resolver(Config{})
	see := func() bool {
		holders, err := r.Holders(t.Context())
		must(t, err)
		time.Sleep(pause)
		return len(holders) > 0
	}
	tr.add(10, process{comm: "other", start: 1, exe: "/bin/o"})
	if !there {
		see()
	}
	put := func(fds ...string) {
		tr.remove(11)
		tr.add(11, process{comm: "p", start: 1, exe: "/bin/p", fds: fds})
	}
	if put(); opensAfter > 0 {
		for began := time.Now(); time.Since(began) < opensAfter; {
			if see() {
				t.Fatal("it is seen before it has opened anything")
			}
		}
	}
	put("/dev/nvidia0")
	for began := time.Now(); !see(); {
		if time.Since(began) > most {
			t.Fatalf("it is not seen in %v", most)
		}
	}
	// It is looked at each time from then on, and what it closes is seen at once.
	if !see() {
		t.Error("it is not seen any more")
	}
	if put(); see() {
		t.Error("it has closed the device and is still seen")
	}
}

// A process that the driver lists is looked at each time, as the sampler asks for its owner.
func TestHoldersThatTheDriverLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTree(t)
		r := tr.resolver(Config{})
		tr.add(11, process{comm: "p", start: 1, exe: "/bin/p"})
		for call := range 2 {
			if holders, err := r.Holders(t.Context()); err != nil || len(holders) != call {
				t.Errorf("call %d: %q, %v", call, summary(holders), err)
			}
			tr.remove(11)
			tr.add(11, process{comm: "p", start: 1, exe: "/bin/p", fds: []string{"/dev/nvidia0"}})
			r.Owner(gpu.ProcessID{PID: 11, Start: 1})
			time.Sleep(time.Second)
		}
	})
}

// An unreadable process counts until it was read, which is when its turn comes, and not before.
func TestHoldersThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTree(t)
		tr.add(11, process{comm: "p", start: 1, exe: "/bin/p"})
		must(t, os.RemoveAll(tr.root+"/11/fd"))
		tr.write("11/fd", "")
		r := tr.resolver(Config{})
		unreadable := func() error {
			_, err := r.Holders(t.Context())
			must(t, err)
			time.Sleep(15 * time.Second)
			return r.Unseen().Why
		}
		for call := range 90 {
			if unreadable() == nil {
				t.Fatalf("call %d: it is readable", call)
			}
		}
		tr.remove(11)
		tr.add(11, process{comm: "p", start: 1, exe: "/bin/p"})
		began := time.Now()
		for unreadable() != nil {
			if time.Since(began) > lookEvery {
				t.Fatalf("it is unreadable %v after it could be read", time.Since(began))
			}
		}
		if time.Since(began) < time.Minute {
			t.Errorf("it was looked at %v after it could be read: too often", time.Since(began))
		}
	})
}

// With many files in many processes, only the budget's links are read, the longest unseen process first. A holder that has
// to wait stays a holder.
func TestHoldersOnABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTree(t)
		const many, links, perSecond, pause = 100, 60, 5, 30 * time.Second
		for pid := range uint32(many) {
			tr.add(pid+10, process{comm: "many", start: 1, exe: "/bin/many", fds: slices.Repeat([]string{"/dev/null"}, links)})
		}
		r := tr.resolver(Config{})
		r.walks.budget = hostfs.NewBudget(perSecond)
		looked := func() (n int) {
			for _, k := range r.walks.known {
				if time.Since(k.looked) == pause {
					n++
				}
			}
			return n
		}
		call := func() []Holder {
			holders, err := r.Holders(t.Context())
			must(t, err)
			time.Sleep(pause)
			return holders
		}
		call()
		tr.add(5, process{comm: "p", start: 1, exe: "/bin/p", fds: []string{"/dev/nvidia0"}})
		calls, total, first := 0, looked(), 0
		for ; total < 2*many; total += looked() {
			holders := call()
			calls++
			switch {
			case len(holders) > 0 && first == 0:
				first = calls
			case len(holders) == 0 && first > 0:
				t.Fatalf("call %d: the holder is no longer seen", calls)
			}
		}
		// A call has time for 150 links, two or three processes; a round of all takes forty.
		// A few of the last processes of a call were begun with a link left.
		if least := 2 * (many - 5) * links / (perSecond * int(pause/time.Second)); calls < least {
			t.Errorf("%d calls have looked at all twice, want %d or more", calls, least)
		}
		if first == 0 || first > 42 {
			t.Errorf("the holder was seen after %d calls, want one round", first)
		}
	})
}
