// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// summary returns holders as device, pid, start and name.
func summary(holders []Holder) (s []string) {
	for _, h := range holders {
		p := h.Process
		s = append(s, fmt.Sprintf("%s %d/%d %c %s", h.Device, p.ID.PID, p.ID.Start, p.State, p.Owner.Process))
	}
	return s
}

func TestHolders(t *testing.T) {
	tr := newTree(t)
	plain := filepath.Join(t.TempDir(), "dev/nvidia7")
	if err := os.MkdirAll(filepath.Dir(plain), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	tr.add(20, process{comm: "b", start: 2, exe: "/bin/b", fds: []string{
		"/dev/null", "/dev/nvidia10", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia9", "/dev/nvidia9", "socket:[7]",
	}})
	tr.add(3, process{comm: "a", start: 1, exe: "/bin/a", fds: []string{"pipe:[1]", "/dev/nvidia9 (deleted)"}})
	tr.add(30, process{comm: "driver", start: 3, exe: "/bin/persistenced", fds: []string{"/run/nvidia/driver/dev/nvidia10"}})
	tr.add(40, process{comm: "no GPU", start: 4, exe: "/bin/c", fds: []string{
		"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-modeset", "/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-caps/nvidia1",
		"/dev/nvidia", "/dev/nvidia0x", "/dev/nvidia1234", "/home/a/nvidia0", "nvidia0",
	}})
	tr.add(41, process{comm: "file", start: 4, exe: "/bin/c", fds: []string{plain}})
	tr.add(2, process{comm: "kthreadd", start: 0, flags: kernelThread})
	r := tr.resolver(Config{})
	holders, err := r.Holders(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/dev/nvidia9 3/1 S a", "/dev/nvidia9 20/2 S b", "/dev/nvidia10 20/2 S b", "/dev/nvidia10 30/3 S persistenced"}
	if got := summary(holders); !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if n := r.Unreadable(); n != 0 {
		t.Errorf("%d unreadable", n)
	}
	if o, _ := r.Owner(gpu.ProcessID{PID: 20, Start: 2}); o != holders[1].Process.Owner {
		t.Error("the owner is not the one that Owner returns")
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
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if pid != 14 { // not a directory: an error that root meets, too
			tr.write(fmt.Sprintf("%d/fd", pid), "")
		}
	}
	r := tr.resolver(Config{})
	holders, err := r.Holders(t.Context())
	if got := summary(holders); err != nil || len(got) != 1 || got[0] != "/dev/nvidia0 13/1 S p" {
		t.Errorf("%q, %v", got, err)
	}
	if n := r.Unreadable(); n != 2 {
		t.Errorf("%d unreadable, want 2", n)
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

func TestHoldersObeyTheContext(t *testing.T) {
	tr := newTree(t)
	tr.add(10, process{comm: "p", start: 1, exe: "/bin/p", fds: []string{"/dev/nvidia0"}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if holders, err := tr.resolver(Config{}).Holders(ctx); !errors.Is(err, context.Canceled) || holders != nil {
		t.Errorf("%v, %v", holders, err)
	}
}

func TestHoldersWithoutProcFS(t *testing.T) {
	tr := newTree(t)
	r := tr.resolver(Config{})
	if err := os.RemoveAll(tr.root); err != nil {
		t.Fatal(err)
	}
	if holders, err := r.Holders(t.Context()); err == nil {
		t.Errorf("%v", holders)
	}
}

// The number goes to another process between the look at its files and the look at
// its start, or after that.
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

// On this machine: where there is a GPU this test opens it and finds itself, by
// the real links of the kernel; otherwise it finds nobody of its own.
func TestHoldersHere(t *testing.T) {
	r, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(t.TempDir(), "dev")
	if err := os.Mkdir(plain, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(plain, "nvidia0"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var want []string
	devices, err := filepath.Glob("/dev/nvidia[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		// O_PATH opens the file without asking the driver.
		const oPath = 0x200000
		if fd, err := syscall.Open(d, oPath|syscall.O_CLOEXEC, 0); err == nil {
			defer syscall.Close(fd)
			want = append(want, d)
		}
	}
	holders, err := r.Holders(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range holders {
		if h.Process.ID.PID == uint32(os.Getpid()) {
			got = append(got, h.Device)
			if !strings.HasSuffix(h.Process.Owner.Process, ".test") {
				t.Errorf("this is %+v", h.Process.Owner)
			}
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("this process holds %q, has opened %q", got, want)
	}
	t.Logf("%d holders, %d processes unreadable", len(holders), r.Unreadable())
}

// TestHoldersAreFoundInTime has processes open a device at different ages, and tells after how many calls each is seen.
func TestHoldersAreFoundInTime(t *testing.T) {
	for name, tc := range map[string]struct {
		there      bool // before the first call
		opensAfter int  // calls that it was there
		most       int  // calls until it is seen
	}{
		"it holds it from its start":  {false, 0, 1},
		"it holds it from the first":  {true, 0, 1},
		"a new one that loads first":  {false, youngCalls - 1, 1},
		"an old one":                  {false, 3 * oldEvery, oldEvery},
		"one that was there before":   {true, 3, oldEvery},
		"one that was there for long": {true, 5 * oldEvery, oldEvery},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t)
			r := tr.resolver(Config{})
			see := func() bool {
				holders, err := r.Holders(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return len(holders) > 0
			}
			tr.add(10, process{comm: "other", start: 1, exe: "/bin/o"})
			if !tc.there {
				see()
			}
			put := func(fds ...string) {
				tr.remove(11)
				tr.add(11, process{comm: "p", start: 1, exe: "/bin/p", fds: fds})
			}
			if put(); tc.opensAfter > 0 {
				for range tc.opensAfter {
					if see() {
						t.Fatal("it is seen before it has opened anything")
					}
				}
			}
			put("/dev/nvidia0")
			calls := 1
			for ; !see(); calls++ {
				if calls > tc.most {
					t.Fatalf("it is not seen in %d calls", tc.most)
				}
			}
			// It is looked at each time from then on, and what it closes is seen at once.
			if !see() {
				t.Error("it is not seen any more")
			}
			if put(); see() {
				t.Error("it has closed the device and is still seen")
			}
		})
	}
}

// The others are looked at once in oldEvery calls, and what could not be read then counts until the next time.
func TestHoldersLooksAtFew(t *testing.T) {
	tr := newTree(t)
	for pid := range uint32(10 * oldEvery) {
		tr.add(pid+10, process{comm: "p", start: 1, exe: "/bin/p"})
	}
	dir := tr.root + "/10/fd"
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	tr.write("10/fd", "")
	r := tr.resolver(Config{})
	for call := range 2 * oldEvery {
		if _, err := r.Holders(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := r.Unreadable(); n != 1 {
			t.Fatalf("call %d: %d unreadable, want 1", call, n)
		}
		due := 0
		for pid := range r.walks.known {
			if r.walks.due(pid) {
				due++
			}
		}
		if due < 10 || due > 11 { // the tree has a process of its own
			t.Fatalf("call %d: %d of %d are due again, want a twentieth", call, due, 10*oldEvery)
		}
	}
}

func BenchmarkHolders(b *testing.B) {
	tr := newTree(b)
	fds := slices.Repeat([]string{"/dev/null", "socket:[4711]", "/var/log/x"}, 5)
	for pid := range uint32(2000) {
		p := process{comm: "p", start: 1, exe: "/bin/p", fds: fds}
		switch {
		case pid%2 == 1:
			p = process{comm: "kworker/1:0", start: 1, flags: kernelThread}
		case pid%100 == 0:
			p.fds = append(slices.Clone(fds), "/dev/nvidia0", "/dev/nvidia0", "/dev/nvidiactl")
		}
		tr.add(pid+10, p)
	}
	r := tr.resolver(Config{})
	b.ReportAllocs()
	for b.Loop() {
		if holders, err := r.Holders(b.Context()); err != nil || len(holders) != 20 {
			b.Fatalf("%d holders, %v", len(holders), err)
		}
	}
}
