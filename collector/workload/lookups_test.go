// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// pythonProcess is a process whose arguments have to be read.
func pythonProcess() process {
	return process{comm: "python3", start: 1, exe: "/usr/bin/python3", args: []string{"python3", "train.py"}}
}

// block replaces a file by a FIFO: to open it blocks until it is opened for writing.
func (t tree) block(name string) (path string) {
	t.Helper()
	path = filepath.Join(t.root, name)
	must(t, os.Remove(path))
	must(t, syscall.Mkfifo(path, 0o644))
	return path
}

// A process whose arguments block their reader blocks neither Owner nor Holders, and no lookup of another process. It has
// its name once they can be read.
func TestStuckProcess(t *testing.T) {
	tr := newTree(t)
	stuck := pythonProcess()
	stuck.fds = []string{"/dev/nvidia0"}
	id := tr.add(5, stuck)
	fine := tr.add(6, pythonProcess())
	cmdline := tr.block("5/cmdline")
	r := tr.resolver(Config{})
	if o, done := r.Owner(id); *o != (gpu.Owner{}) || done {
		t.Errorf("%+v, done %t", o, done)
	}
	if o, _ := r.Await(t.Context(), fine); o.Process != "train.py" {
		t.Errorf("another process is %+v", o)
	}
	holders, err := r.Holders(t.Context())
	if err != nil || len(holders) != 1 || *holders[0].Process.Owner != (gpu.Owner{}) {
		t.Errorf("holders %+v, %v", holders, err)
	}
	done := r.lookups.want(id)
	writer, err := os.OpenFile(cmdline, os.O_WRONLY, 0)
	must(t, err)
	_, err = writer.WriteString("python3\x00serve.py\x00")
	must(t, err)
	writer.Close()
	<-done
	if o, done := r.Owner(id); o.Process != "serve.py" || !done {
		t.Errorf("at last it is %+v, done %t", o, done)
	}
}

// maxReaders threads block at most. A stuck process is returned once, all waiting ones are counted, and all are looked up
// in the end.
func TestManyStuckProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTree(t)
		const processes = 3 * maxReaders
		var ids []gpu.ProcessID
		for pid := range uint32(processes) {
			ids = append(ids, tr.add(pid+10, pythonProcess()))
		}
		r := tr.resolver(Config{})
		reading, let := make(chan struct{}, processes), make(chan struct{})
		r.hook(func(name string) error {
			if name == "cmdline" {
				reading <- struct{}{}
				<-let
			}
			return nil
		})
		ask := func() {
			for _, id := range ids {
				r.Owner(id)
			}
		}
		ask()
		time.Sleep(overdueAfter - time.Nanosecond)
		if n, stuck := r.lookups.overdue(); n != 0 || stuck != nil {
			t.Errorf("%d, %v are overdue too early", n, stuck)
		}
		time.Sleep(time.Nanosecond)
		ask()
		for call, want := range []int{maxReaders, 0} {
			if n, stuck := r.lookups.overdue(); n != processes || len(stuck) != want {
				t.Errorf("call %d: %d overdue, %v stuck", call, n, stuck)
			}
		}
		equal(t, len(reading), maxReaders, "read at a time")
		close(let)
		synctest.Wait()
		for _, id := range ids {
			if o, done := r.Owner(id); o.Process != "train.py" || !done {
				t.Errorf("%d is %+v, done %t", id.PID, o, done)
			}
		}
		if n, stuck := r.lookups.overdue(); n != 0 || stuck != nil || r.lookups.readers != 0 {
			t.Errorf("%d, %v are overdue, %d readers are left", n, stuck, r.lookups.readers)
		}
	})
}

// The children of a stuck parent block one reader, and are known without it. Other processes are known as usual.
func TestStuckParent(t *testing.T) {
	tr := newTree(t)
	parent := tr.add(5, pythonProcess())
	cmdline := tr.block("5/cmdline")
	child := pythonProcess()
	child.parent, child.start = parent.PID, 2
	child.args = []string{"python3", "-c", "from multiprocessing.spawn import spawn_main", "--multiprocessing-fork"}
	r := tr.resolver(Config{Secret: []byte("secret")})
	var children []gpu.ProcessID
	for pid := range uint32(2 * maxReaders) {
		id := tr.add(pid+10, child)
		children = append(children, id)
		r.Owner(id)
	}
	if o, _ := r.Await(t.Context(), tr.add(6, pythonProcess())); o.Process != "train.py" {
		t.Errorf("another process is %+v", o)
	}
	pipe := filepath.Join(tr.root, "pipe")
	must(t, os.Rename(cmdline, pipe))
	tr.write("5/cmdline", "python3\x00train.py\x00")
	writer, err := os.OpenFile(pipe, os.O_WRONLY, 0) // its reader goes on
	must(t, err)
	writer.Close()
	for _, id := range children {
		if o, done := r.Await(t.Context(), id); o.Process != "python3" || !done {
			t.Errorf("%d is %+v, done %t", id.PID, o, done)
		}
	}
}

func TestLookupsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTree(t)
		r := tr.resolver(Config{})
		r.lookups.most = 10
		let := make(chan struct{})
		r.hook(func(string) error { <-let; return nil })
		for i := range 100 {
			id := tr.add(uint32(i+10), process{comm: strconv.Itoa(i), start: 1})
			if done := r.lookups.want(id); (done != nil) != (i < 10) {
				t.Errorf("process %d: waits %t", i, done != nil)
			}
		}
		close(let)
		synctest.Wait()
	})
}
